#!/usr/bin/env bash
# docker/install-deps.sh [--list] [PART...] - the Debian 12 packages of this project, and the only list of them.
#
#   build     compiler, CMake and the libraries that the service links
#   runtime   what the built program needs to run, without headers and compilers
#   test      what the tests need on top of build
#   bench     what the comparisons need on top of build
#   examples  what the clients in client-examples need
#   browser   what the dashboard's tests need on top of test: a browser
#   container what builds and runs the image without a Docker engine or a registry
#
# Without PART: build test examples. With --list it prints the packages and installs nothing. Needs root.
# Safe to repeat: when everything is there it changes nothing, and asks no mirror.
set -euo pipefail

declare -A packages=(
    # libcriterion-dev is here because every preset builds the tests too.
    [build]="gcc libc6-dev cmake ninja-build pkg-config git ca-certificates libcriterion-dev
             libgrpc-dev libprotobuf-c-dev protobuf-c-compiler protobuf-compiler libprotobuf-dev
             libuv1-dev libyaml-dev libssl-dev libsqlite3-dev libncurses-dev libjansson-dev uthash-dev"
    [runtime]="libgrpc29 libprotobuf-c1 libuv1 libyaml-0-2 libssl3 libsqlite3-0 libncurses6 libtinfo6 libjansson4
               ca-certificates"
    [test]="g++ libquickfix-dev clang libclang-rt-14-dev openssl haproxy prometheus python3 python3-grpcio
            python3-protobuf curl procps tmux zsh fish"
    [bench]="libglib2.0-dev"
    [examples]="ca-certificates python3 python3-grpcio python3-grpc-tools python3-protobuf"
    [browser]="chromium fonts-dejavu-core"
    [container]="buildah podman runc debootstrap netavark aardvark-dns uidmap iptables binutils curl python3 python3-yaml"
)

usage() {
    sed -n '2,/^set/{/^set/!p}' "$0" | sed 's/^# \{0,1\}//' >&2
    exit 2
}

# What a part needs. Node comes from wherever the machine has it; Debian's only where there is none.
needed() {
    local part
    for part; do
        printf '%s\n' ${packages[$part]}
        if [ "$part" = examples ] || [ "$part" = test ] || [ "$part" = browser ]; then
            command -v node >/dev/null || echo nodejs
            command -v npm >/dev/null || echo npm
        fi
    done | sort -u
}

missing() {
    local package
    for package; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
    done
}

list_only=false
parts=()
for argument; do
    case $argument in
        --list) list_only=true ;;
        -*) usage ;;
        *) [ -n "${packages[$argument]:-}" ] || usage
           parts+=("$argument") ;;
    esac
done
[ ${#parts[@]} -gt 0 ] || parts=(build test examples)

mapfile -t wanted < <(needed "${parts[@]}")
if $list_only; then
    printf '%s\n' "${wanted[@]}"
    exit 0
fi
mapfile -t absent < <(missing "${wanted[@]}")
[ ${#absent[@]} -gt 0 ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
    echo "docker/install-deps.sh: needs root to install ${absent[*]}; run it as root" >&2
    exit 1
fi
echo "installing ${absent[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${absent[@]}" >/dev/null
