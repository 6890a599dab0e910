#!/usr/bin/env bash
# A Debian with nothing installed: what `make build`, `bench`, `test` and `dist` install there is
# all that the scripts and cases call. Rust and Go, which this takes from elsewhere, and what is built
# from source (the S3 server, POSIX suites, the virtual machine's kernel and OpenZFS) are not tried, nor is
# any case run there.
#
# The bare root is made once from the machine's own package sources, and kept with what was installed
# in it below the cache, until a script needs something else: seconds then, minutes else.
# time-limit: 1500
source "$(dirname "$0")/../lib.sh"
begin
need mmdebstrap mount unshare

SOURCES=/etc/apt/sources.list.d/debian.sources
[ -e "$SOURCES" ] || SOURCES=/etc/apt/sources.list
[ -s "$SOURCES" ] || fail "no package sources in /etc/apt: this needs Debian"
FRESH=$WEIR_CACHE/fresh
TREE=$(realpath "$TESTS/..")
NEEDS=$TREE/scripts/needs.sh

# Wherever they lie.
key() { cat "$@" | sha256sum | head -c 16; }
base=$FRESH/base-$(key "$SOURCES")
made=$FRESH/made-$(key "$SOURCES" "$TREE/scripts/install-tools.sh" "$TREE/scripts/programs" \
    <("$NEEDS" of build) <("$NEEDS" of bench) <("$NEEDS" of test) <("$NEEDS" of dist))
mkdir -p "$FRESH/archives/partial"

if ! [ -d "$base" ]; then
    echo "== a bare root"
    rm -rf "$FRESH"/base-*
    # shellcheck source=/dev/null # the machine's
    mmdebstrap --quiet --variant=minbase --mode=root "$(. /etc/os-release && echo "$VERSION_CODENAME")" \
        "$base.new" "$SOURCES" >"$T/mmdebstrap.log" 2>&1 || fail "mmdebstrap"
    apt-config dump Acquire >"$base.new/etc/apt/apt.conf.d/90machine"
    printf '#!/bin/sh\nexit 101\n' >"$base.new/usr/sbin/policy-rc.d" # no service starts
    chmod +x "$base.new/usr/sbin/policy-rc.d"
    # Kept between runs, in a directory of the machine.
    echo 'APT::Sandbox::User "root";' >"$base.new/etc/apt/apt.conf.d/91fresh"
    mv "$base.new" "$base"
fi

# All mounts are in a mount namespace that goes with the process.
inside() { # SCRIPT ARGS...: in the root over $base, whose changes are in $made.new
    unshare --mount --propagation private bash -euc "$DROP_COPIES"'
        base=$1 made=$2 archives=$3 tree=$4 script=$5
        root=$made/root
        mkdir -p "$made"/{upper,work,root}
        mount -t overlay overlay -o "lowerdir=$base,upperdir=$made/upper,workdir=$made/work" "$root"
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount --bind "$archives" "$root/var/cache/apt/archives"
        mkdir -p "$root/tree"
        mount --bind -o ro "$tree" "$root/tree"
        cp /etc/resolv.conf /etc/hosts "$root/etc/"
        shift 5
        exec chroot "$root" /usr/bin/env -i HOME=/root WEIR_CACHE=/tmp/cache \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -euc "$script" inside "$@"
    ' outside "$base" "$made.new" "$FRESH/archives" "$TREE" "$@"
}

# Those of these programs that are not there, but for what comes from elsewhere.
# shellcheck disable=SC2016 # for the inside
MISSING='for program in "$@"; do
    case $(/tree/scripts/needs.sh packages "$program") in - | cache) continue ;; esac
    command -v "$program" >/dev/null || [ -e "$program" ] || echo "$program"
done'

if ! [ -d "$made" ]; then
    rm -rf "$FRESH"/made-*
    for layer in build bench test dist; do
        echo "== what $layer installs"
        inside '/tree/scripts/install-tools.sh packages "$@"' "$layer" >"$T/$layer.log" 2>&1 ||
            fail "cannot install what $layer needs"
        # shellcheck disable=SC2046 # words
        missing=$(inside "$MISSING" $("$NEEDS" of "$layer")) || fail "look for what $layer needs"
        [ -z "$missing" ] || fail "after $layer there is no" $missing
    done
    mv "$made.new" "$made"
fi

echo "== programs that scripts call, that are here, and that would not be there"
"$NEEDS" called "$TREE"/{tests,tests/cases,tests/s3,scripts,packaging,perf}/*.sh | awk '{print $2}' | sort -u >"$T/called"
sed -nE 's/^ *([A-Za-z0-9_-]+)\(\) .*/\1/p' "$TREE"/{tests,tests/cases,tests/s3,scripts,packaging,perf}/*.sh |
    sort -u >"$T/functions"
unknown=()
while read -r program; do
    type -P "$program" >/dev/null || continue
    found=$(find "$base"/usr/{,local/}{bin,sbin} "$made/upper"/usr/{bin,sbin} -name "$program" -print -quit)
    [ -z "$found" ] || continue
    [[ $("$NEEDS" packages "$program" 2>/dev/null) = [-c]* ]] || unknown+=("$program")
done < <(comm -23 "$T/called" "$T/functions")
[ ${#unknown[@]} -eq 0 ] || fail "no entry in scripts/programs: ${unknown[*]}"
echo "$("$NEEDS" of build | cat - <("$NEEDS" of bench) <("$NEEDS" of test) <("$NEEDS" of dist) | sort -u | wc -l) programs and files"
