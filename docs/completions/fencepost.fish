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
complete -c fencepost -n "__fish_fencepost_needs_command" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_needs_command" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_needs_command" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_needs_command" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "run" -d 'Run a command while holding a lock'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "once" -d 'Run a command once per window of time in the whole cluster'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "elect" -d 'Run a command only while leading; campaign again when the leadership is lost'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "leader" -d 'Show who leads'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "ls" -d 'List locks'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "show" -d 'Show who has a lock and who is in line'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "release" -d 'End somebody\'s hold by force, or ask for it'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "check" -d 'Is this token the newest granted?'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "deadlocks" -d 'Show who waits for whom in a circle, with holders, waiters and ages'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "serve" -d 'Serve locks by HTTP, to programs in any language'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "config" -d 'Show each setting and where it comes from'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "init" -d 'Make a new store ready; of a Redlock cluster all nodes must be up, and none may hold a lock'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "schema" -d 'Print the statements that create tables, for databases where `init` may not'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "completions" -d 'Print completions for a shell'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "man" -d 'Write the manual pages into a directory'
complete -c fencepost -n "__fish_fencepost_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -s w -l wait -d 'Wait at most so long [default: until the lock is free]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l permits -d 'At most P runs at once instead of one, each with a slot of its own; 1 to 256' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l take -d 'Take so many of the permits, all or none [default: 1]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l ttl -d 'How long others wait after a crash; renewed at a third of it [default: 30s]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l label -d 'Who we are, for show and for errors [default: host:pid]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l max-hold -d 'Give the lock up after so long [default: 24h]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l lock-delay -d 'If the lock is not released cleanly, nobody has it for so long after its lease ended [default: none]' -r
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
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l fail-on-deadlock -d 'Fail as if not obtained when the wait closes a circle of runs that wait for each other'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l unfair -d 'Take no place in line; may overtake and be overtaken'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c fencepost -n "__fish_fencepost_using_subcommand run" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l every -d 'Once in each such span, counted from 1970 in UTC: 1d, 1h, 10m' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l window -d 'Once for this window, such as 2026-11-15T02; the last hundred of a job are remembered' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l at-least -d 'Nobody starts it again for so long after its start [default: until the window is over]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l at-most -d 'End the command after so long; it counts as failed [default: 24h]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l ttl -d 'How long after a crash another may run it; renewed at a third of it [default: 30s]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l kill-after -d 'Time from SIGTERM to SIGKILL on loss, taken from the end of the lease [default: a tenth of the ttl]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l records -d 'Where to remember what has run, for a store that keeps no records (redlock://); all servers must name the same [default: the store]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -s E -l conflict-exit-code -d 'Exit with this code if somebody else ran it, or runs it' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l report -d 'Write the outcome to this file, as JSON' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l status -d 'Show the last run, its outcome, who runs it now, and when the next window begins'
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand once" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l payload -d 'What others see of the leader, such as its address' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l ttl -d 'How long nobody leads after a crash; renewed at a third of it [default: 30s]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l label -d 'Who we are, for show and for errors [default: host:pid]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l on-lost -d 'What happens to the command when the leadership is lost' -r -f -a "term\t'SIGTERM at once, SIGKILL before the lease ends'
kill\t'SIGKILL at once'
ignore\t'Nothing: it runs on, unprotected'"
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l kill-after -d 'Time from SIGTERM to SIGKILL on loss, taken from the end of the lease [default: a tenth of the ttl]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c fencepost -n "__fish_fencepost_using_subcommand elect" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -l watch -d 'Print a line now and at every change, until interrupted'
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand leader" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -l limit -d 'At most so many' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand ls" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -l permits -d 'Show the semaphore of this name: its first P permits, and who waits for one' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand show" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -l note -d 'What to tell them' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -l reason -d 'Why, for the logs' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -l force -d 'Yes, take it away from whoever has it'
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -l ask -d 'Ask whoever has it to let go; they hear of it with their next renewal, and decide'
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand release" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand check" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand check" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand check" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand check" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_using_subcommand check" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_using_subcommand check" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand check" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand deadlocks" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand deadlocks" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand deadlocks" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand deadlocks" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_using_subcommand deadlocks" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_using_subcommand deadlocks" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand deadlocks" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l listen -d 'Where to listen' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l drain -d 'How long connections have to end after SIGTERM' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l openapi -d 'Print the interface as OpenAPI 3.1, and end'
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand serve" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand config" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand config" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand config" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand config" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_using_subcommand config" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_using_subcommand config" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand config" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand init" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand init" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand init" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand init" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_using_subcommand init" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_using_subcommand init" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand init" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -l schema -d 'The schema of the tables; of MySQL, the database [default: that of the connection]' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -l tables -d 'What the tables\' names begin with' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -l fence -d 'The table of the check at the resource instead of those of the store'
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -l stock -d 'The tables of a stock in your own database instead of those of the store'
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand schema" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand completions" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand completions" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand completions" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand completions" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_using_subcommand completions" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_using_subcommand completions" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand completions" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand man" -l store -d 'Where locks live: sqlite:PATH, redis://HOST:PORT, redlock://A,B,C, redis+sentinel://A,B,C/MASTER_NAME, redis+cluster://A,B,C, etcd://A,B,C, zk://A,B,C/NODE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, fencepost+http://HOST:PORT' -r
complete -c fencepost -n "__fish_fencepost_using_subcommand man" -l config -d 'Read this file instead of searching fencepost.toml' -r -F
complete -c fencepost -n "__fish_fencepost_using_subcommand man" -l json -d 'Answer in JSON'
complete -c fencepost -n "__fish_fencepost_using_subcommand man" -s q -l quiet -d 'Say nothing but errors'
complete -c fencepost -n "__fish_fencepost_using_subcommand man" -s v -l verbose -d 'Say what is done'
complete -c fencepost -n "__fish_fencepost_using_subcommand man" -s h -l help -d 'Print help'
complete -c fencepost -n "__fish_fencepost_using_subcommand man" -s V -l version -d 'Print version'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "run" -d 'Run a command while holding a lock'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "once" -d 'Run a command once per window of time in the whole cluster'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "elect" -d 'Run a command only while leading; campaign again when the leadership is lost'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "leader" -d 'Show who leads'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "ls" -d 'List locks'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "show" -d 'Show who has a lock and who is in line'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "release" -d 'End somebody\'s hold by force, or ask for it'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "check" -d 'Is this token the newest granted?'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "deadlocks" -d 'Show who waits for whom in a circle, with holders, waiters and ages'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "serve" -d 'Serve locks by HTTP, to programs in any language'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "config" -d 'Show each setting and where it comes from'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "init" -d 'Make a new store ready; of a Redlock cluster all nodes must be up, and none may hold a lock'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "schema" -d 'Print the statements that create tables, for databases where `init` may not'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "completions" -d 'Print completions for a shell'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "man" -d 'Write the manual pages into a directory'
complete -c fencepost -n "__fish_fencepost_using_subcommand help; and not __fish_seen_subcommand_from run once elect leader ls show release check deadlocks serve config init schema completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
