#!/usr/bin/env bash
# docker/closure.sh PROGRAM FOLDER - a root file system that holds one program and what it needs to run.
#
# Into FOLDER, which must not exist yet, go: the program without its debug information, the shared
# objects that it is linked with and their loader, the user 10001, the certificates of public
# authorities, and of every package that a file came from the licence, name and version (the two
# where scanners for vulnerabilities look). No shell, no package manager, nothing that is setuid.
# For Debian; needs binutils.
set -euo pipefail

fail() {
    echo "docker/closure.sh: $*" >&2
    exit 1
}

[ $# -eq 2 ] || fail 'expected PROGRAM FOLDER'
program=$1
folder=$2
[ -x "$program" ] || fail "$program is not a program"
[ ! -e "$folder" ] || fail "$folder is there already"
certificates=/etc/ssl/certs/ca-certificates.crt

# The paths that the loader would take, and the loader. vdso has no file.
shared_objects() {
    local lines
    lines=$(ldd "$1") || fail "$1 is not linked with anything"
    ! grep 'not found' <<<"$lines" || fail "the lines above are missing for $1"
    awk '$2 == "=>" { print $3; next } $1 ~ "^/" { print $1 }' <<<"$lines" | sort -u
}

# The package of a file. Where /lib is a link to /usr/lib, packages know a file by either path.
package_of() {
    local found path
    for path in "$1" "/usr$1" "$(readlink -f "$1")"; do
        if found=$(dpkg-query -S "$path" 2>/dev/null); then
            head -n 1 <<<"$found" | sed 's/: .*//'
            return
        fi
    done
    fail "no package owns $1"
}

install -D -m 0755 "$program" "$folder/usr/bin/tradewake"
strip "$folder/usr/bin/tradewake"

packages=(ca-certificates)
while read -r file; do
    install -D -m 0755 "$(readlink -f "$file")" "$folder$file"
    packages+=("$(package_of "$file")")
done < <(shared_objects "$program")
[ ${#packages[@]} -gt 1 ] || fail "nothing was found that $program is linked with"

install -D -m 0644 "$certificates" "$folder$certificates"
mkdir -p "$folder/var/lib/dpkg/status.d"
while read -r package; do
    name=${package%%:*}
    dpkg-query -s "$package" >"$folder/var/lib/dpkg/status.d/$name"
    install -D -m 0644 "/usr/share/doc/$name/copyright" "$folder/usr/share/doc/$name/copyright"
done < <(printf '%s\n' "${packages[@]}" | sort -u)
cp -rL /usr/share/common-licenses "$folder/usr/share/" # the copyright files point there

# The user, who has no way to log in.
install -d -m 0755 "$folder/etc"
echo 'tradewake:x:10001:10001::/var/lib/tradewake:/nonexistent' >"$folder/etc/passwd"
echo 'tradewake:x:10001:' >"$folder/etc/group"
install -d -m 1777 "$folder/tmp"
