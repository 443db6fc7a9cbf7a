#!/usr/bin/env bash
# client-examples/quickstart.sh - from a bare Debian 12 with git to a running Tradewake, as root.
#
# Installs what is missing, builds, starts `tradewake dev` (paper broker, master M1, 30 followers at
# about 130 ms), sends a burst of 27 closes through the public API, prints how long our own part of
# each copy took, replays a trade history when there is one, and ends everything that it started.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
program=$root/build/release/tradewake
work=$(mktemp -d)
log=$work/dev.log
server_pid=

say() { printf '\n== %s\n' "$*"; }

fail() {
    printf 'quickstart: %s\n' "$1" >&2
    [ -z "${2:-}" ] || tail -n "${3:-20}" "$2" >&2
    exit 1
}

# Only what we started, by its own pid: a graceful end first, and never without end.
finish() {
    local code=$?
    trap - EXIT INT TERM HUP
    if [ -n "$server_pid" ] && kill -0 "$server_pid" 2>/dev/null; then
        kill -TERM "$server_pid" 2>/dev/null || true
        for _ in $(seq 150); do
            kill -0 "$server_pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$server_pid" 2>/dev/null || true
        wait "$server_pid" 2>/dev/null || true
    fi
    rm -rf --one-file-system "$work" # never through a mount
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

say 'packages'
"$root/docker/install-deps.sh" build examples || fail 'the packages above could not be installed'
echo "all there; $(cmake --version | head -n 1), node $(node --version)"

say 'build: a few minutes, and not a word until it is done'
cd "$root"
if ! cmake --workflow --preset release >"$work/build.log" 2>&1; then
    fail 'the build failed:' "$work/build.log" 40
fi
"$program" version

say 'start: tradewake dev'
listen=127.0.0.1:50051
admin=127.0.0.1:9464
if ! port_is_free 50051 || ! port_is_free 9464; then
    echo 'port 50051 or 9464 is in use here, so free ones are taken'
    listen=127.0.0.1:0
    admin=127.0.0.1:0
fi
"$program" dev --listen "$listen" --admin "$admin" --state-dir "$work/state" >"$log" 2>&1 &
server_pid=$!
server=
for _ in $(seq 300); do
    server=$(sed -n 's/.*server\.listening.*[[:space:]]listen=\([^[:space:]]*\).*/\1/p' "$log" | tail -n 1)
    if [ -n "$server" ] && "$program" health --server "$server" >/dev/null 2>&1; then
        break
    fi
    kill -0 "$server_pid" 2>/dev/null || fail 'the server ended:' "$log"
    server=
    sleep 0.1
done
[ -n "$server" ] || fail 'the server was not healthy within 30 s:' "$log"
"$program" health --server "$server"

say 'burst: 27 positions close at once, 30 followers each'
(cd "$here/burst" && npm ci --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error)
node "$here/burst/burst.mjs" --server "$server" --master M1 || fail 'the burst did not end well; the server said:' "$log"

history=$root/../shared/data/mt4_statement_partials.htm
if [ -r "$history" ]; then
    say "replay: $(basename "$history"), a real trade history, as fast as it goes"
    "$program" replay "$history" --master M1 --speed max --server "$server" ||
        fail 'the replay did not end well; the server said:' "$log"
fi

say 'done; what to try next'
cat <<END
  build/release/tradewake dev                                     # the server with its demo fleet
  build/release/tradewake submit --help                           # one event by hand
  build/release/tradewake watch --count 30                        # each copy's own time, as it happens
  build/release/tradewake copies --help                           # what became of each event at each follower
  node client-examples/burst/burst.mjs                            # this burst again
  tests/run.sh                                                    # what is promised, proved
END
