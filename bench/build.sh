#!/bin/sh
# Measures what a newcomer pays: a build of the command from scratch, and the crates that the library brings along.
# Writes results/build.md.
set -eu
cd "$(dirname "$0")/.."

jobs=2
seconds_goal=180
crates_goal=60

target=$(mktemp -d)
trap 'rm -rf "$target"' EXIT

load_before=$(cut -d' ' -f1-3 /proc/loadavg)
cargo fetch --quiet --locked
began=$(date +%s)
CARGO_TARGET_DIR=$target CARGO_INCREMENTAL=0 cargo build --quiet --locked --jobs "$jobs" -p fencepost-cli
seconds=$(($(date +%s) - began))

# The edges that a program pulls in by depending on the library: no dev-dependencies, each crate once.
crates=$(cargo tree --locked -p fencepost -e normal,build --prefix none --format '{p}' | sed 's/ (.*//' | sort -u | wc -l)

met() {
    if [ "$1" -lt "$2" ]; then echo met; else echo '**missed**'; fi
}

cat > bench/results/build.md <<END
# Build

- date: $(date -u '+%F %R UTC')
- machine: $(grep -c '^processor' /proc/cpuinfo) ×$(sed -n 's/^model name[^:]*://p' /proc/cpuinfo | head -n 1), Linux $(uname -r)
- fencepost: $(git describe --always --dirty)
- versions: $(rustc --version), $(cargo --version)
- load before: $(echo "$load_before" | sed 's/ /, /g')
- command: \`bench/build.sh\`

| what | figure | goal |
|---|---|---|
| debug build of the command from scratch, $jobs jobs, downloads not counted | $seconds s | below $seconds_goal s: $(met "$seconds" "$seconds_goal") |
| crates in the tree of \`fencepost\` with its default store, itself and build scripts included | $crates | below $crates_goal: $(met "$crates" "$crates_goal") |
END
cat bench/results/build.md
