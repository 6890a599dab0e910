# Roots of a Debian, for cases that install and boot things: source it after lib.sh.
# shellcheck shell=bash disable=SC2034 # what it sets is used by the cases
#
# A root is made once from the machine's own package sources and kept below the cache; cases change a
# layer over it.
need mmdebstrap mount unshare

# Sets ROOT: the machine's own release with these packages.
debian_root() { # PACKAGE...
    local sources=/etc/apt/sources.list.d/debian.sources
    [ -e "$sources" ] || sources=/etc/apt/sources.list
    [ -s "$sources" ] || fail "no package sources in /etc/apt: this needs Debian"
    # shellcheck source=/dev/null # the machine's
    release_root "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$sources" "$@"
}

# Sets ROOT: a release with these packages, of a file of package sources or a line as such a file has.
release_root() { # RELEASE SOURCES PACKAGE...
    local roots=$WEIR_CACHE/roots
    ROOT=$roots/$({ cat "$2" 2>/dev/null || echo "$1 $2"; echo "${*:3}"; } | sha256sum | head -c 16)
    mkdir -p "$roots"
    exec {making}>"$roots/making"
    flock "$making" # two cases may want it at once
    if ! [ -d "$ROOT" ]; then
        echo "== a root of $1 with" "${@:3}"
        rm -rf "$roots"/*.new
        mmdebstrap --quiet --variant=minbase --mode=root --include="$(IFS=,; echo "${*:3}")" \
            "$1" "$ROOT.new" "$2" >"$T/mmdebstrap.log" 2>&1 || fail "mmdebstrap"
        mv "$ROOT.new" "$ROOT"
    fi
    exec {making}>&-
}

# Runs a script in $ROOT below the changes of $LAYER, with /srv on the disk itself if the layer has `srv`. All
# mounts go with the process.
in_root() { # LAYER SCRIPT ARGS...
    # shellcheck disable=SC2016 # for the inside
    unshare --mount --propagation private bash -euc "$DROP_COPIES"'
        root=$2/root
        mkdir -p "$2"/{upper,work,root}
        mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$root"
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        [ ! -d "$2/srv" ] || mount --bind "$2/srv" "$root/srv"
        script=$3
        shift 3
        exec chroot "$root" /usr/bin/env -i HOME=/root LC_ALL=C.UTF-8 \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -euc "$script" inside "$@"
    ' outside "$ROOT" "$@"
}
