#!/bin/sh
# From the built command to locks on five Redis servers of this machine, and a write to PostgreSQL that an older token
# cannot make. Needs redis-server, PostgreSQL and psql; everything is put into a temporary folder, and stopped at the end.
#
#   cargo build --release && FENCEPOST=target/release/fencepost examples/quickstart.sh
set -eu

fencepost=${FENCEPOST:-fencepost}
redis_ports=${REDIS_PORTS:-7301 7302 7303 7304 7305}
postgres_port=${POSTGRES_PORT:-7306}
postgres_bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
PATH=$PATH:$postgres_bin
for program in redis-server initdb postgres psql "$fencepost"; do
    command -v "$program" >/dev/null || {
        echo "quickstart: $program is missing: apt-get install redis-server postgresql, cargo build --release" >&2
        exit 1
    }
done

work=$(mktemp -d)
chmod 755 "$work"
started=
stop() {
    for process in $started; do kill -INT "$process" 2>/dev/null || true; done
    for process in $started; do wait "$process" 2>/dev/null || true; done
    rm -rf "$work"
}
trap stop EXIT
# Some shells do not run it when a signal ends them.
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

echo "== five Redis servers that know nothing of each other"
nodes=
for port in $redis_ports; do
    mkdir "$work/$port"
    redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$work/$port" >"$work/$port/log" 2>&1 &
    started="$started $!"
    nodes="$nodes,127.0.0.1:$port"
done
export FENCEPOST_STORE="redlock://${nodes#,}"
# They are new, and nobody holds a lock there: that is what `init` says. It fails until all of them are up.
tries=0
until "$fencepost" init 2>"$work/init"; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { cat "$work/init" >&2; exit 1; }
    sleep 0.1
done

echo "== is it a good place for locks?"
"$fencepost" doctor

echo "== PostgreSQL, with a row that remembers the newest token it has seen"
mkdir "$work/postgres"
as=
if [ "$(id -u)" = 0 ]; then # which PostgreSQL does not want to be
    chown postgres "$work/postgres"
    as="setpriv --reuid=postgres --regid=postgres --clear-groups"
fi
(cd "$work/postgres" && $as initdb --no-sync --auth=trust --username=postgres --pgdata=data >log)
(cd "$work/postgres" && exec $as postgres -D data -p "$postgres_port" -c listen_addresses=127.0.0.1 \
    -c unix_socket_directories= >>log 2>&1) &
started="$started $!"
export PGHOST=127.0.0.1 PGPORT="$postgres_port" PGUSER=postgres PGDATABASE=postgres
tries=0
until psql -qc 'SELECT 1' >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { cat "$work/postgres/log" >&2; exit 1; }
    sleep 0.1
done
psql -q <<'SQL'
CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL, token bigint NOT NULL DEFAULT 0);
INSERT INTO account VALUES (1, 100);
SQL

# The check at the resource: a write with an older token changes nothing.
cat >"$work/write" <<'SH'
#!/bin/sh
psql -qtA -v token="$1" -v amount="$2" <<'SQL'
UPDATE account SET balance = balance + :amount, token = :token WHERE id = 1 AND token <= :token RETURNING balance;
SQL
SH
chmod +x "$work/write"

echo "== two writes, each under the lock"
"$fencepost" run account -- sh -c "echo \$FENCEPOST_TOKEN >'$work/first'; '$work/write' \$FENCEPOST_TOKEN 5"
"$fencepost" run account -- sh -c "'$work/write' \$FENCEPOST_TOKEN 7"

echo "== the first one again, as after a long pause: its token is old, and nothing is written"
late=$("$work/write" "$(cat "$work/first")" 1000)
balance=$(psql -qtAc 'SELECT balance FROM account')
[ -z "$late" ] && [ "$balance" = 112 ] || { echo "quickstart: a late write came through: $balance" >&2; exit 1; }
echo "balance $balance: right"
