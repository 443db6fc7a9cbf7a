#!/bin/sh
# docker/bursts.sh [EVERY_S [FLAG...]] - a burst of closes every EVERY_S seconds (5), until SIGTERM or SIGINT.
#
# FLAGs go to client-examples/burst/burst.mjs; the server is TRADEWAKE_SERVER's. A burst that fails
# says why and does not end the row: the next may find the server back.
set -u

every_s=${1:-5}
[ $# -eq 0 ] || shift
burst=$(dirname "$0")/../client-examples/burst/burst.mjs
child=
# A shell acts on a signal only between commands, except in wait.
end() {
    [ -z "$child" ] || kill "$child" 2>/dev/null
    exit 0
}
trap end TERM INT

while :; do
    node "$burst" "$@" &
    child=$!
    wait "$child" || echo "bursts: the burst failed; the next in $every_s s"
    sleep "$every_s" &
    child=$!
    wait "$child"
done
