#compdef fencepost

autoload -U is-at-least

_fencepost() {
    typeset -A opt_args
    typeset -a _arguments_options
    local ret=1

    if is-at-least 5.2; then
        _arguments_options=(-s -S -C)
    else
        _arguments_options=(-s -C)
    fi

    local context curcontext="$curcontext" state line
    _arguments "${_arguments_options[@]}" : \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_fencepost_commands" \
"*::: :->fencepost" \
&& ret=0
    case $state in
    (fencepost)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:fencepost-command-$line[1]:"
        case $line[1] in
            (run)
_arguments "${_arguments_options[@]}" : \
'-w+[Wait for at most this time, connecting included \[default\: until the lock is free\]]:D:_default' \
'--wait=[Wait for at most this time, connecting included \[default\: until the lock is free\]]:D:_default' \
'(-s --shared)--permits=[At most P runs at once instead of one, each with a slot of its own; 1 to 256]:P:_default' \
'--take=[Take K of the permits, all or none \[default\: 1\]]:K:_default' \
'--ttl=[How long others wait after a crash; renewed at a third of it \[default\: 30s\]]:D:_default' \
'--label=[The name of this holder, for display and errors \[default\: host\:pid\]]:TEXT:_default' \
'--max-hold=[Give the lock up after this time \[default\: 24h\]]:D:_default' \
'--lock-delay=[If the lock is not released cleanly, keep it free of holders for this time after the lease \[default\: none\]]:D:_default' \
'--on-lost=[What happens to the command when the lock is lost]:ACTION:((term\:"SIGTERM at once, SIGKILL before the lease ends"
kill\:"SIGKILL at once"
ignore\:"Nothing\: it runs on, unprotected"))' \
'--kill-after=[Time from SIGTERM to SIGKILL on loss, taken from the end of the lease \[default\: a tenth of the ttl\]]:D:_default' \
'-E+[Exit with this code if the lock was not obtained]:CODE:_default' \
'--conflict-exit-code=[Exit with this code if the lock was not obtained]:CODE:_default' \
'--report=[Write the outcome to this file, as JSON]:FILE:_files' \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'(-w --wait)-n[Do not wait]' \
'(-w --wait)--no-wait[Do not wait]' \
'-s[Share the lock with other readers]' \
'--shared[Share the lock with other readers]' \
'--fail-on-deadlock[Fail as if the lock was not obtained, if this wait completes a deadlock]' \
'--unfair[Do not wait in the queue; may overtake and be overtaken]' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
':name -- The lock:_default' \
'*::command -- The command and its arguments; no shell in between:_default' \
&& ret=0
;;
(once)
_arguments "${_arguments_options[@]}" : \
'--at=[Due every day at this time, such as 02\:00]:HH:MM:_default' \
'--cron=[Due at these times\: minute, hour, day of month, month and weekday, as in a crontab; '\''0 2 * * MON-FRI'\'']:FIELDS:_default' \
'--tz=[The time zone of --at or --cron, such as America/Los_Angeles \[default\: UTC\]]:ZONE:_default' \
'--every=[Due once in each span of this length, counted from 1970-01-01T00\:00Z\: 10m, 1h, 1d]:D:_default' \
'--window=[Once for this name, such as 2026-11-15T02; the last 100 names of a job are remembered]:KEY:_default' \
'(--window)--start-within=[Skip a window that nobody started within this time after it began \[default\: run it late\]]:D:_default' \
'--at-least=[Do not start it again within this time after its start \[default\: the rest of the window\]]:D:_default' \
'--at-most=[End the command after this time; it counts as failed \[default\: 24h\]]:D:_default' \
'--ttl=[How long after a crash another may run it; renewed at a third of it \[default\: 30s\]]:D:_default' \
'--kill-after=[Time from SIGTERM to SIGKILL on loss, taken from the end of the lease \[default\: a tenth of the ttl\]]:D:_default' \
'--records=[Where to remember what has run, if the store keeps no records (redlock\://); the same on all servers \[default\: the store\]]:URL:_default' \
'-E+[Exit with this code if the command was not run, because the job is not due]:CODE:_default' \
'--conflict-exit-code=[Exit with this code if the command was not run, because the job is not due]:CODE:_default' \
'--report=[Write the outcome to this file, as JSON]:FILE:_files' \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--status[Show the last run, its outcome, who runs it now, and when it is due next]' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':name -- The job:_default' \
'*::command -- The command and its arguments; no shell in between:_default' \
&& ret=0
;;
(elect)
_arguments "${_arguments_options[@]}" : \
'--payload=[What others see of the leader, such as its address]:TEXT:_default' \
'--ttl=[How long nobody leads after a crash; renewed at a third of it \[default\: 30s\]]:D:_default' \
'--label=[The name of this holder, for display and errors \[default\: host\:pid\]]:TEXT:_default' \
'--on-lost=[What happens to the command when the leadership is lost]:ACTION:((term\:"SIGTERM at once, SIGKILL before the lease ends"
kill\:"SIGKILL at once"
ignore\:"Nothing\: it runs on, unprotected"))' \
'--kill-after=[Time from SIGTERM to SIGKILL on loss, taken from the end of the lease \[default\: a tenth of the ttl\]]:D:_default' \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
':name -- The election:_default' \
'*::command -- The command and its arguments; no shell in between:_default' \
&& ret=0
;;
(leader)
_arguments "${_arguments_options[@]}" : \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--watch[Print a line now and at every change, until interrupted]' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':name -- The election:_default' \
&& ret=0
;;
(ls)
_arguments "${_arguments_options[@]}" : \
'--limit=[List at most N locks]:N:_default' \
'-d+[With --watch\: time between two readings; 100ms to 1h]:D:_default' \
'--delay=[With --watch\: time between two readings; 100ms to 1h]:D:_default' \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'(--watch)-a[List free locks, too\: names that the store remembers because of their last token]' \
'(--watch)--all[List free locks, too\: names that the store remembers because of their last token]' \
'--watch[Print the present state, then a line for each change, until interrupted]' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
'::prefix -- Only locks whose names start with this:_default' \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
'--permits=[Show the semaphore of this name\: its first P permits, and who waits for one]:P:_default' \
'-d+[With --watch\: time between two readings; 100ms to 1h]:D:_default' \
'--delay=[With --watch\: time between two readings; 100ms to 1h]:D:_default' \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--watch[Print the present state, then a line for each change, until interrupted]' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':name -- The lock:_default' \
&& ret=0
;;
(top)
_arguments "${_arguments_options[@]}" : \
'-d+[Time between two readings; 100ms to 1h]:D:_default' \
'--delay=[Time between two readings; 100ms to 1h]:D:_default' \
'--limit=[Read at most N locks, in name order]:N:_default' \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'-a[Show free locks, too; Tab changes it]' \
'--all[Show free locks, too; Tab changes it]' \
'--read-only[Ignore the keys that release a lock or ask for it]' \
'-b[Print the present state as plain text, and exit\: for scripts]' \
'--once[Print the present state as plain text, and exit\: for scripts]' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
'::prefix -- Only locks whose names start with this; others are not read:_default' \
&& ret=0
;;
(release)
_arguments "${_arguments_options[@]}" : \
'(--force)--note=[With --ask\: a note to the holder]:TEXT:_default' \
'--reason=[Why, for the logs]:TEXT:_default' \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'(--ask)--force[Take the lock away from its holder]' \
'--ask[Ask the holder to release it; the holder is told with its next renewal, and decides]' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':name -- The lock:_default' \
&& ret=0
;;
(check)
_arguments "${_arguments_options[@]}" : \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':name -- The lock:_default' \
':token -- The fencing token:_default' \
&& ret=0
;;
(deadlocks)
_arguments "${_arguments_options[@]}" : \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(doctor)
_arguments "${_arguments_options[@]}" : \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(bench)
_arguments "${_arguments_options[@]}" : \
'--vs=[Measure a second store in the same rounds, and say how --store compares with it]:URL:_default' \
'--for=[How long to measure in all; 1s to 1h]:D:_default' \
'--clients=[Number of clients where several are measured; 1 to 256]:N:_default' \
'--ttl=[The ttl of every lock; its lock is free after this time if a client dies \[default\: 30s\]]:D:_default' \
'--html=[Write a page with pictures to this file]:FILE:_files' \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(verify)
_arguments "${_arguments_options[@]}" : \
'--clients=[How many clients, 2 to 64]:N:_default' \
'--for=[For how long, 1s to 1h]:D:_default' \
'--locks=[How many locks they want, 1 to 16; one that is wanted by many changes hands most]:N:_default' \
'--ttl=[The ttl of their locks, 500ms to 30s; faults last about as long]:D:_default' \
'--prefix=[What the names of the scratch locks begin with]:TEXT:_default' \
'*--faults=[Faults to inject, joined by commas \[default\: none\]]:FAULTS:((pause\:"Stopped for longer than its ttl"
kill-client\:"Killed, and started anew"
cut\:"Its connections are closed or silent for a while"))' \
'--plant=[Give the first client, or the resource, a bug, to see that it is found]:BUG:((ignores-loss\:"Does not renew, and works on after its lease\: two at a time (C1)"
releases-foreign\:"Ends holds that are not its own (C1)"
releases-twice\:"Releases once more when the next one holds, without looking whose it is (C1)"
no-lock\:"Takes no lock, and works under the token that it saw there (C1, C3)"
old-token\:"Shows the token of its last hold again (C2, C3)"
made-up-token\:"Writes under a token that nobody was granted (C4)"
reads-early\:"Reads before it holds, and writes what it made of that\: an update is lost (C4)"
no-fence\:"The resource does not look at tokens, and a client writes after its lease (C4)"
leaves-lock\:"Goes away at the end without releasing (C5)"
stays-after-release\:"Says that it has released, and renews on (C11)"))' \
'--html=[Write a page with the figures and a picture of who held what]:FILE:_files' \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(serve)
_arguments "${_arguments_options[@]}" : \
'--listen=[Where to listen]:ADDR:_default' \
'--auth-file=[The keys and certificates of clients, with their rights, as \`fencepost key\` prints them; read again when it changes]:FILE:_files' \
'--tls-cert=[The certificate to show (PEM); read again when it changes]:FILE:_files' \
'--tls-key=[Its private key (PEM)]:FILE:_files' \
'--client-ca=[The authority that signs certificates of clients (PEM)]:FILE:_files' \
'--audit-log=[Append each action and its caller to this file, as one JSON line]:FILE:_files' \
'--otlp=[Send traces to this collector\: OTLP over HTTP, such as http\://127.0.0.1\:4318]:URL:_default' \
'--log=[The form of the log on standard error]:FORM:((text\:"For people"
json\:"One object per line"))' \
'--max-connections=[Connections at a time]:N:_default' \
'--max-waiters=[Requests that wait for one lock]:N:_default' \
'--max-locks=[Locks that one principal has]:N:_default' \
'--max-rate=[Acquisitions of one principal per second, and twice as many at once]:N:_default' \
'--drain=[How long connections have to end after SIGTERM]:DURATION:_default' \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--trace-names[Put the names of locks into traces]' \
'--openapi[Print the interface as OpenAPI 3.1, and end]' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(key)
_arguments "${_arguments_options[@]}" : \
'*--allow=[A right\: acquire, observe or admin, on all names with a prefix; * is every name]:VERB:PREFIX:_default' \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':name -- The name of the client in logs; several keys may have the same name:_default' \
&& ret=0
;;
(audit)
_arguments "${_arguments_options[@]}" : \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_fencepost__subcmd__audit_commands" \
"*::: :->audit" \
&& ret=0

    case $state in
    (audit)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:fencepost-audit-command-$line[1]:"
        case $line[1] in
            (check)
_arguments "${_arguments_options[@]}" : \
'--head=[An entry that must be in it\: the head that an earlier check printed]:HASH:_default' \
'--after=[The head of the file before these, if it is not among them]:HASH:_default' \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
'*::files -- The log; of one that was moved away and went on in a new file, all files, the oldest first:_files' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_fencepost__subcmd__audit__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:fencepost-audit-help-command-$line[1]:"
        case $line[1] in
            (check)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
;;
(config)
_arguments "${_arguments_options[@]}" : \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(init)
_arguments "${_arguments_options[@]}" : \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(reconfigure)
_arguments "${_arguments_options[@]}" : \
'--from=[The servers that vote now\: redlock\://A,B,C]:URL:_default' \
'--to=[The servers that are to vote\: redlock\://C,D,E]:URL:_default' \
'*--gone=[This server of --from is off for good and need not be told; may be given several times]:HOST:PORT:_default' \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--force[Do not wait for clients that still use an old URL\: they lose their locks]' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(schema)
_arguments "${_arguments_options[@]}" : \
'(--fence --stock)--schema=[The schema of the tables; of MySQL, the database \[default\: that of the connection\]]:NAME:_default' \
'(--fence --stock)--tables=[What the tables'\'' names begin with]:NAME:_default' \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--fence[The table of the check at the resource instead of those of the store]' \
'(--fence)--stock[The tables of a stock in your own database instead of those of the store]' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':dialect -- The dialect:(postgres mysql sqlite)' \
&& ret=0
;;
(completions)
_arguments "${_arguments_options[@]}" : \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':shell -- The shell:(bash elvish fish powershell zsh)' \
&& ret=0
;;
(man)
_arguments "${_arguments_options[@]}" : \
'--store=[Where locks live\: sqlite\:PATH, redis\://HOST\:PORT, redlock\://A,B,C, redis+sentinel\://A,B,C/MASTER_NAME, redis+cluster\://A,B,C, etcd\://A,B,C, zk\://A,B,C/NODE, postgres\://USER@HOST/DATABASE, mysql\://USER@HOST/DATABASE, fencepost+http\://HOST\:PORT]:URL:_default' \
'--config=[Read this file instead of searching fencepost.toml]:FILE:_files' \
'()--markdown[Print all of them as one page of Markdown instead]' \
'--json[Answer in JSON]' \
'(-v --verbose)-q[Print errors only]' \
'(-v --verbose)--quiet[Print errors only]' \
'-v[Say what happens]' \
'--verbose[Say what happens]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
'::dir -- The directory:_files' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_fencepost__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:fencepost-help-command-$line[1]:"
        case $line[1] in
            (run)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(once)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(elect)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(leader)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(ls)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(top)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(release)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(check)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(deadlocks)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(doctor)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(bench)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(verify)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(serve)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(key)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(audit)
_arguments "${_arguments_options[@]}" : \
":: :_fencepost__subcmd__help__subcmd__audit_commands" \
"*::: :->audit" \
&& ret=0

    case $state in
    (audit)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:fencepost-help-audit-command-$line[1]:"
        case $line[1] in
            (check)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
(config)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(init)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(reconfigure)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(schema)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(completions)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(man)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
}

(( $+functions[_fencepost_commands] )) ||
_fencepost_commands() {
    local commands; commands=(
'run:Run a command while holding a lock' \
'once:Run a command once per window of time in the whole cluster' \
'elect:Run a command only while leading; campaign again when the leadership is lost' \
'leader:Show who leads' \
'ls:List locks' \
'show:Show who holds a lock and who waits for it' \
'top:Watch locks, queues and nodes live, with keys as in htop' \
'release:Release a lock by force, or ask its holder to release it' \
'check:Check whether a token is the newest' \
'deadlocks:Show deadlocks\: holders that wait for each other' \
'doctor:Check a deployment\: what can go wrong, with evidence and cure' \
'bench:Measure how fast locks are on a store, and compare it with another' \
'verify:Try a deployment with many clients, faults, and a checker of what they saw' \
'serve:Serve locks by HTTP, to programs in any language, with a dashboard at /' \
'key:Make a key for clients of the service, and its entry for \`serve --auth-file\`' \
'audit:Check the audit log of a service' \
'config:Show each setting and where it comes from' \
'init:Prepare a new store; the nodes of a Redlock cluster must be up and hold no locks' \
'reconfigure:Replace the servers of a Redlock cluster while its clients continue' \
'schema:Print the statements that create tables, for databases where \`init\` has no right to' \
'completions:Print completions for a shell' \
'man:Write the manual pages into a directory, or print them as one page' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'fencepost commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__audit_commands] )) ||
_fencepost__subcmd__audit_commands() {
    local commands; commands=(
'check:Whether a log is whole, and whether what it tells may have happened' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'fencepost audit commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__audit__subcmd__check_commands] )) ||
_fencepost__subcmd__audit__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost audit check commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__audit__subcmd__help_commands] )) ||
_fencepost__subcmd__audit__subcmd__help_commands() {
    local commands; commands=(
'check:Whether a log is whole, and whether what it tells may have happened' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'fencepost audit help commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__audit__subcmd__help__subcmd__check_commands] )) ||
_fencepost__subcmd__audit__subcmd__help__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost audit help check commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__audit__subcmd__help__subcmd__help_commands] )) ||
_fencepost__subcmd__audit__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost audit help help commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__bench_commands] )) ||
_fencepost__subcmd__bench_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost bench commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__check_commands] )) ||
_fencepost__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost check commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__completions_commands] )) ||
_fencepost__subcmd__completions_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost completions commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__config_commands] )) ||
_fencepost__subcmd__config_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost config commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__deadlocks_commands] )) ||
_fencepost__subcmd__deadlocks_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost deadlocks commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__doctor_commands] )) ||
_fencepost__subcmd__doctor_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost doctor commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__elect_commands] )) ||
_fencepost__subcmd__elect_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost elect commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help_commands] )) ||
_fencepost__subcmd__help_commands() {
    local commands; commands=(
'run:Run a command while holding a lock' \
'once:Run a command once per window of time in the whole cluster' \
'elect:Run a command only while leading; campaign again when the leadership is lost' \
'leader:Show who leads' \
'ls:List locks' \
'show:Show who holds a lock and who waits for it' \
'top:Watch locks, queues and nodes live, with keys as in htop' \
'release:Release a lock by force, or ask its holder to release it' \
'check:Check whether a token is the newest' \
'deadlocks:Show deadlocks\: holders that wait for each other' \
'doctor:Check a deployment\: what can go wrong, with evidence and cure' \
'bench:Measure how fast locks are on a store, and compare it with another' \
'verify:Try a deployment with many clients, faults, and a checker of what they saw' \
'serve:Serve locks by HTTP, to programs in any language, with a dashboard at /' \
'key:Make a key for clients of the service, and its entry for \`serve --auth-file\`' \
'audit:Check the audit log of a service' \
'config:Show each setting and where it comes from' \
'init:Prepare a new store; the nodes of a Redlock cluster must be up and hold no locks' \
'reconfigure:Replace the servers of a Redlock cluster while its clients continue' \
'schema:Print the statements that create tables, for databases where \`init\` has no right to' \
'completions:Print completions for a shell' \
'man:Write the manual pages into a directory, or print them as one page' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'fencepost help commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__audit_commands] )) ||
_fencepost__subcmd__help__subcmd__audit_commands() {
    local commands; commands=(
'check:Whether a log is whole, and whether what it tells may have happened' \
    )
    _describe -t commands 'fencepost help audit commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__audit__subcmd__check_commands] )) ||
_fencepost__subcmd__help__subcmd__audit__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help audit check commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__bench_commands] )) ||
_fencepost__subcmd__help__subcmd__bench_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help bench commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__check_commands] )) ||
_fencepost__subcmd__help__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help check commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__completions_commands] )) ||
_fencepost__subcmd__help__subcmd__completions_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help completions commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__config_commands] )) ||
_fencepost__subcmd__help__subcmd__config_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help config commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__deadlocks_commands] )) ||
_fencepost__subcmd__help__subcmd__deadlocks_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help deadlocks commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__doctor_commands] )) ||
_fencepost__subcmd__help__subcmd__doctor_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help doctor commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__elect_commands] )) ||
_fencepost__subcmd__help__subcmd__elect_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help elect commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__help_commands] )) ||
_fencepost__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help help commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__init_commands] )) ||
_fencepost__subcmd__help__subcmd__init_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help init commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__key_commands] )) ||
_fencepost__subcmd__help__subcmd__key_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help key commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__leader_commands] )) ||
_fencepost__subcmd__help__subcmd__leader_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help leader commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__ls_commands] )) ||
_fencepost__subcmd__help__subcmd__ls_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help ls commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__man_commands] )) ||
_fencepost__subcmd__help__subcmd__man_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help man commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__once_commands] )) ||
_fencepost__subcmd__help__subcmd__once_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help once commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__reconfigure_commands] )) ||
_fencepost__subcmd__help__subcmd__reconfigure_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help reconfigure commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__release_commands] )) ||
_fencepost__subcmd__help__subcmd__release_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help release commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__run_commands] )) ||
_fencepost__subcmd__help__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help run commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__schema_commands] )) ||
_fencepost__subcmd__help__subcmd__schema_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help schema commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__serve_commands] )) ||
_fencepost__subcmd__help__subcmd__serve_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help serve commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__show_commands] )) ||
_fencepost__subcmd__help__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help show commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__top_commands] )) ||
_fencepost__subcmd__help__subcmd__top_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help top commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__help__subcmd__verify_commands] )) ||
_fencepost__subcmd__help__subcmd__verify_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost help verify commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__init_commands] )) ||
_fencepost__subcmd__init_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost init commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__key_commands] )) ||
_fencepost__subcmd__key_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost key commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__leader_commands] )) ||
_fencepost__subcmd__leader_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost leader commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__ls_commands] )) ||
_fencepost__subcmd__ls_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost ls commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__man_commands] )) ||
_fencepost__subcmd__man_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost man commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__once_commands] )) ||
_fencepost__subcmd__once_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost once commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__reconfigure_commands] )) ||
_fencepost__subcmd__reconfigure_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost reconfigure commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__release_commands] )) ||
_fencepost__subcmd__release_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost release commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__run_commands] )) ||
_fencepost__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost run commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__schema_commands] )) ||
_fencepost__subcmd__schema_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost schema commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__serve_commands] )) ||
_fencepost__subcmd__serve_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost serve commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__show_commands] )) ||
_fencepost__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost show commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__top_commands] )) ||
_fencepost__subcmd__top_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost top commands' commands "$@"
}
(( $+functions[_fencepost__subcmd__verify_commands] )) ||
_fencepost__subcmd__verify_commands() {
    local commands; commands=()
    _describe -t commands 'fencepost verify commands' commands "$@"
}

if [ "$funcstack[1]" = "_fencepost" ]; then
    _fencepost "$@"
else
    compdef _fencepost fencepost
fi
