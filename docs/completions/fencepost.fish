# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_fencepost_global_optspecs
    string join \n store= config= json q/quiet v/verbose h/help V/version
end

function __fish_fencepost_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_fencepost_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_fencepost_using_subcommand
    set -l cmd (__fish_fencepost_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c fencepost -n "__fish_fencepost_needs_command" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_needs_command" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_needs_command" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_needs_command" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_needs_command" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_needs_command" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_needs_command" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "run" -d 'Run a command while holding a lock'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "once" -d 'Run a command once per window of time in the whole cluster'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "elect" -d 'Run a command only while leading; campaign again when the leadership is lost'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "leader" -d 'Show who leads'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "ls" -d 'List locks'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "show" -d 'Show who holds a lock and who waits for it'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "top" -d 'Watch locks, queues and nodes live, with keys as in htop'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "release" -d 'Release a lock by force, or ask its holder to release it'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "check" -d 'Check whether a token is the newest'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "deadlocks" -d 'Show deadlocks: holders that wait for each other'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "doctor" -d 'Check a deployment: what can go wrong, with evidence and cure'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "bench" -d 'Measure how fast locks are on a store, and compare it with another'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "verify" -d 'Try a deployment with many clients, faults, and a checker of what they saw'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "serve" -d 'Serve locks by HTTP, to programs in any language, with a dashboard at /'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "key" -d 'Make a key for clients of the service, and its entry for `serve --auth-file`'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "audit" -d 'Check the audit log of a service'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "config" -d 'Show each setting and where it comes from'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "init" -d 'Prepare a new store; the nodes of a Redlock cluster must be up and hold no locks'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "reconfigure" -d 'Replace the servers of a Redlock cluster while its clients continue'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "schema" -d 'Print the statements that create tables, for databases where `init` has no right to'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "completions" -d 'Print completions for a shell'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "man" -d 'Write the manual pages into a directory, or print them as one page'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -s w -l wait -d 'Wait for at most this time, connecting included [default: until the lock is free]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l permits -d 'At most P runs at once instead of one, each with a slot of its own; 1 to 256' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l take -d 'Take K of the permits, all or none [default: 1]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l ttl -d 'How long others wait after a crash; renewed at a third of it [default: 30s]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l label -d 'The name of this holder, for display and errors [default: host:pid]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l max-hold -d 'Give the lock up after this time [default: 24h]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l lock-delay -d 'If the lock is not released cleanly, keep it free of holders for this time after the lease [default: none]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l on-lost -d 'What happens to the command when the lock is lost' -r -f -a "term\t'SIGTERM at once, SIGKILL before the lease ends'
kill\t'SIGKILL at once'
ignore\t'Nothing: it runs on, unprotected'"
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l kill-after -d 'Time from SIGTERM to SIGKILL on loss, taken from the end of the lease [default: a tenth of the ttl]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -s E -l conflict-exit-code -d 'Exit with this code if the lock was not obtained' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l report -d 'Write the outcome to this file, as JSON' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -s n -l no-wait -d 'Do not wait'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -s s -l shared -d 'Share the lock with other readers'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l fail-on-deadlock -d 'Fail as if the lock was not obtained, if this wait completes a deadlock'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l unfair -d 'Do not wait in the queue; may overtake and be overtaken'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l at -d 'Due every day at this time, such as 02:00' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l cron -d 'Due at these times: minute, hour, day of month, month and weekday, as in a crontab; \'0 2 * * MON-FRI\'' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l tz -d 'The time zone of --at or --cron, such as America/Los_Angeles [default: UTC]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l every -d 'Due once in each span of this length, counted from 1970-01-01T00:00Z: 10m, 1h, 1d' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l window -d 'Once for this name, such as 2026-11-15T02; the last 100 names of a job are remembered' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l start-within -d 'Skip a window that nobody started within this time after it began [default: run it late]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l at-least -d 'Do not start it again within this time after its start [default: the rest of the window]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l at-most -d 'End the command after this time; it counts as failed [default: 24h]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l ttl -d 'How long after a crash another may run it; renewed at a third of it [default: 30s]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l kill-after -d 'Time from SIGTERM to SIGKILL on loss, taken from the end of the lease [default: a tenth of the ttl]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l records -d 'Where to remember what has run, if the store keeps no records (redlock://); the same on all servers [default: the store]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -s E -l conflict-exit-code -d 'Exit with this code if the command was not run, because the job is not due' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l report -d 'Write the outcome to this file, as JSON' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l status -d 'Show the last run, its outcome, who runs it now, and when it is due next'
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l payload -d 'What others see of the leader, such as its address' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l ttl -d 'How long nobody leads after a crash; renewed at a third of it [default: 30s]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l label -d 'The name of this holder, for display and errors [default: host:pid]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l on-lost -d 'What happens to the command when the leadership is lost' -r -f -a "term\t'SIGTERM at once, SIGKILL before the lease ends'
kill\t'SIGKILL at once'
ignore\t'Nothing: it runs on, unprotected'"
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l kill-after -d 'Time from SIGTERM to SIGKILL on loss, taken from the end of the lease [default: a tenth of the ttl]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -l watch -d 'Print a line now and at every change, until interrupted'
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -l limit -d 'List at most N locks' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -s d -l delay -d 'With --watch: time between two readings; 100ms to 1h' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -s a -l all -d 'List free locks, too: names that the store remembers because of their last token'
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -l watch -d 'Print the present state, then a line for each change, until interrupted'
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -l permits -d 'Show the semaphore of this name: its first P permits, and who waits for one' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -s d -l delay -d 'With --watch: time between two readings; 100ms to 1h' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -l watch -d 'Print the present state, then a line for each change, until interrupted'
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand top" -s d -l delay -d 'Time between two readings; 100ms to 1h' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand top" -l limit -d 'Read at most N locks, in name order' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand top" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand top" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand top" -s a -l all -d 'Show free locks, too; Tab changes it'
complete -c fencepost -n "__fish_fencepost_using_subcommand top" -l read-only -d 'Ignore the keys that release a lock or ask for it'
complete -c fencepost -n "__fish_fencepost_using_subcommand top" -s b -l once -d 'Print the present state as plain text, and exit: for scripts'
complete -c fencepost -n "__fish_fencepost_using_subcommand top" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand top" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand top" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand top" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand top" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -l note -d 'With --ask: a note to the holder' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -l reason -d 'Why, for the logs' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -l force -d 'Take the lock away from its holder'
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -l ask -d 'Ask the holder to release it; the holder is told with its next renewal, and decides'
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand check" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand check" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand check" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand check" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand check" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand check" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand check" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand deadlocks" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand deadlocks" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand deadlocks" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand deadlocks" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand deadlocks" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand deadlocks" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand deadlocks" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand doctor" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand doctor" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand doctor" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand doctor" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand doctor" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand doctor" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand bench" -l vs -d 'Measure a second store in the same rounds, and say how --store compares with it' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand bench" -l for -d 'How long to measure in all; 1s to 1h' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand bench" -l clients -d 'Number of clients where several are measured; 1 to 256' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand bench" -l ttl -d 'The ttl of every lock; its lock is free after this time if a client dies [default: 30s]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand bench" -l html -d 'Write a page with pictures to this file' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand bench" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand bench" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand bench" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand bench" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand bench" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand bench" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand bench" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand verify" -l clients -d 'How many clients, 2 to 64' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand verify" -l for -d 'For how long, 1s to 1h' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand verify" -l locks -d 'How many locks they want, 1 to 16; one that is wanted by many changes hands most' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand verify" -l ttl -d 'The ttl of their locks, 500ms to 30s; faults last about as long' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand verify" -l prefix -d 'What the names of the scratch locks begin with' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand verify" -l faults -d 'Faults to inject, joined by commas [default: none]' -r -f -a "pause\t'Stopped for longer than its ttl'
kill-client\t'Killed, and started anew'
cut\t'Its connections are closed or silent for a while'"
complete -c fencepost -n "__fish_fencepost_using_subcommand verify" -l plant -d 'Give the first client, or the resource, a bug, to see that it is found' -r -f -a "ignores-loss\t'Does not renew, and works on after its lease: two at a time (C1)'
releases-foreign\t'Ends holds that are not its own (C1)'
releases-twice\t'Releases once more when the next one holds, without looking whose it is (C1)'
no-lock\t'Takes no lock, and works under the token that it saw there (C1, C3)'
old-token\t'Shows the token of its last hold again (C2, C3)'
made-up-token\t'Writes under a token that nobody was granted (C4)'
reads-early\t'Reads before it holds, and writes what it made of that: an update is lost (C4)'
no-fence\t'The resource does not look at tokens, and a client writes after its lease (C4)'
leaves-lock\t'Goes away at the end without releasing (C5)'
stays-after-release\t'Says that it has released, and renews on (C11)'"
complete -c fencepost -n "__fish_fencepost_using_subcommand verify" -l html -d 'Write a page with the figures and a picture of who held what' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand verify" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand verify" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand verify" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand verify" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand verify" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c fencepost -n "__fish_fencepost_using_subcommand verify" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l listen -d 'Where to listen' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l auth-file -d 'The keys and certificates of clients, with their rights, as `fencepost key` prints them; read again when it changes' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l tls-cert -d 'The certificate to show (PEM); read again when it changes' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l tls-key -d 'Its private key (PEM)' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l client-ca -d 'The authority that signs certificates of clients (PEM)' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l audit-log -d 'Append each action and its caller to this file, as one JSON line' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l otlp -d 'Send traces to this collector: OTLP over HTTP, such as http://127.0.0.1:4318' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l log -d 'The form of the log on standard error' -r -f -a "text\t'For people'
json\t'One object per line'"
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l max-connections -d 'Connections at a time' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l max-waiters -d 'Requests that wait for one lock' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l max-locks -d 'Locks that one principal has' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l max-rate -d 'Acquisitions of one principal per second, and twice as many at once' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l drain -d 'How long connections have to end after SIGTERM' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l trace-names -d 'Put the names of locks into traces'
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l openapi -d 'Print the interface as OpenAPI 3.1, and end'
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand key" -l allow -d 'A right: acquire, observe or admin, on all names with a prefix; * is every name' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand key" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand key" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand key" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand key" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand key" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand key" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand key" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and not __fish_seen_subcommand_from check help" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and not __fish_seen_subcommand_from check help" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and not __fish_seen_subcommand_from check help" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and not __fish_seen_subcommand_from check help" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and not __fish_seen_subcommand_from check help" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and not __fish_seen_subcommand_from check help" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and not __fish_seen_subcommand_from check help" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and not __fish_seen_subcommand_from check help" -f -a "check" -d 'Whether a log is whole, and whether what it tells may have happened'
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and not __fish_seen_subcommand_from check help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and __fish_seen_subcommand_from check" -l head -d 'An entry that must be in it: the head that an earlier check printed' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and __fish_seen_subcommand_from check" -l after -d 'The head of the file before these, if it is not among them' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and __fish_seen_subcommand_from check" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and __fish_seen_subcommand_from check" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and __fish_seen_subcommand_from check" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and __fish_seen_subcommand_from check" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and __fish_seen_subcommand_from check" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and __fish_seen_subcommand_from check" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and __fish_seen_subcommand_from help" -f -a "check" -d 'Whether a log is whole, and whether what it tells may have happened'
complete -c fencepost -n "__fish_fencepost_using_subcommand audit; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c fencepost -n "__fish_fencepost_using_subcommand config" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand config" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand config" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand config" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand config" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand config" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand config" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand init" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand init" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand init" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand init" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand init" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand init" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand init" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand reconfigure" -l from -d 'The servers that vote now: redlock://A,B,C' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand reconfigure" -l to -d 'The servers that are to vote: redlock://C,D,E' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand reconfigure" -l gone -d 'This server of --from is off for good and need not be told; may be given several times' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand reconfigure" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand reconfigure" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand reconfigure" -l force -d 'Do not wait for clients that still use an old URL: they lose their locks'
complete -c fencepost -n "__fish_fencepost_using_subcommand reconfigure" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand reconfigure" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand reconfigure" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand reconfigure" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand reconfigure" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -l schema -d 'The schema of the tables; of MySQL, the database [default: that of the connection]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -l tables -d 'What the tables\' names begin with' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -l fence -d 'The table of the check at the resource instead of those of the store'
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -l stock -d 'The tables of a stock in your own database instead of those of the store'
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand completions" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand completions" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand completions" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand completions" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand completions" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand completions" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand completions" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand man" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand man" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand man" -l markdown -d 'Print all of them as one page of Markdown instead'
complete -c fencepost -n "__fish_fencepost_using_subcommand man" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand man" -s q -l quiet -d 'Print errors only'
complete -c fencepost -n "__fish_fencepost_using_subcommand man" -s v -l verbose -d 'Say what happens'
complete -c fencepost -n "__fish_fencepost_using_subcommand man" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand man" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "run" -d 'Run a command while holding a lock'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "once" -d 'Run a command once per window of time in the whole cluster'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "elect" -d 'Run a command only while leading; campaign again when the leadership is lost'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "leader" -d 'Show who leads'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "ls" -d 'List locks'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "show" -d 'Show who holds a lock and who waits for it'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "top" -d 'Watch locks, queues and nodes live, with keys as in htop'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "release" -d 'Release a lock by force, or ask its holder to release it'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "check" -d 'Check whether a token is the newest'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "deadlocks" -d 'Show deadlocks: holders that wait for each other'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "doctor" -d 'Check a deployment: what can go wrong, with evidence and cure'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "bench" -d 'Measure how fast locks are on a store, and compare it with another'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "verify" -d 'Try a deployment with many clients, faults, and a checker of what they saw'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "serve" -d 'Serve locks by HTTP, to programs in any language, with a dashboard at /'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "key" -d 'Make a key for clients of the service, and its entry for `serve --auth-file`'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "audit" -d 'Check the audit log of a service'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "config" -d 'Show each setting and where it comes from'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "init" -d 'Prepare a new store; the nodes of a Redlock cluster must be up and hold no locks'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "reconfigure" -d 'Replace the servers of a Redlock cluster while its clients continue'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "schema" -d 'Print the statements that create tables, for databases where `init` has no right to'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "completions" -d 'Print completions for a shell'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "man" -d 'Write the manual pages into a directory, or print them as one page'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show top release check deadlocks doctor bench verify serve key audit config init reconfigure schema completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and __fish_seen_subcommand_from audit" -f -a "check" -d 'Whether a log is whole, and whether what it tells may have happened'
