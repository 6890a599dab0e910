# shellcheck shell=bash
# What scripts find inside the guest of lib-vm.sh: a local disk at $LOCAL, the volume at $URL, and
# the commands to serve it.

source "$TESTS/lib.sh"
need blkid jq mkfs.ext4 mount
set -uo pipefail
SHARE=/mnt/share LOCAL=/mnt/local MNT=/mnt/fs
URL=file://$SHARE/bucket/vol
LOG=/run/weir.log
export WEIR_RUN_DIR=/run/weir

mkdir -p "$SHARE" "$LOCAL" "$MNT" && mkdir -p -m 700 "$WEIR_RUN_DIR"
mount -t virtiofs share "$SHARE" || fail "the shared directory is not there"
mkdir -p "$SHARE/bucket/vol"

# shellcheck disable=SC2317 # a trap's
guest_ended() {
    local status=$?
    [ $status -eq 0 ] && return
    [ -s "$LOG" ] && tail -n 40 "$LOG"
    dmesg | tail -n 20
} >&2
trap guest_ended EXIT

# The guest's device of a name that `vm_disk` gave.
local_disk() { # NAME
    local serial
    for serial in /sys/block/vd*/serial; do
        [ "$(cat "$serial")" = "$1" ] || continue
        serial=${serial%/serial}
        echo "/dev/${serial##*/}"
        return
    done
    fail "there is no disk $1"
}

# The local disk, made when it is new, as it was left else.
mount_local() {
    local device
    device=$(local_disk local) || exit 1
    blkid "$device" >/dev/null || mkfs.ext4 -q "$device" || fail "mkfs.ext4 $device"
    mount "$device" "$LOCAL" || fail "mount $device"
}

serve() {
    "$WEIR" serve "$URL" --tier "$LOCAL/tier" --log-file "$LOG" || fail "weir serve"
}

stop_serving() { "$WEIR" stop "$URL" || fail "weir stop"; }

# The daemon ends as by a crash.
kill_server() { # [SIGNAL]
    local pid
    pid=$(daemons_below "$LOCAL/tier")
    [ -n "$pid" ] || fail "no daemon serves"
    kill -"${1:-KILL}" "$pid"
    poll 30 gone "$pid" || fail "the daemon $pid survives its signal"
}

disk() { "$WEIR" disk "$1" "$URL" "${@:2}" >/dev/null || fail "weir disk $*"; }

# Bytes of a disk in the bucket.
stored() { # NAME
    "$WEIR" disk list "$URL" --json | jq -e ".[] | select(.name == \"$1\").stored_bytes" ||
        fail "weir disk list does not have $1"
}

# Attaches a disk, and says which device it is.
attach() { # NAME [ARG...]
    local said
    said=$("$WEIR" attach "$@" --json) || fail "weir attach $*"
    jq -re .device <<<"$said" || fail "weir attach says $said"
}

detach() { "$WEIR" detach "$1" >/dev/null || fail "weir detach $1"; }

# Files of many sizes below a directory, some hundred, and their sums beside it.
fill() { # DIRECTORY MIB
    mkdir -p "$1"
    head -c "${2}M" /dev/urandom >"$1/large" || fail "fill $1"
    mkdir "$1/small" && cp -r /etc/{apt,default,init.d,pam.d,security} "$1/small" || fail "fill $1"
    (cd "$1" && find . -type f -exec sha256sum {} +) >"$1.sums" || fail "sum $1"
}

check_files() { # DIRECTORY
    (cd "$1" && sha256sum --quiet -c) <"$1.sums" || fail "files of $1 are not what was written"
}

# Writes and overwrites files until the guest ends or it is killed.
keep_writing() { # DIRECTORY
    local n
    mkdir -p "$1"
    for ((n = 0; ; n++)); do
        head -c $((RANDOM * 64)) /dev/urandom >"$1/$((n % 20))"
        [ $((n % 7)) -ne 0 ] || sync -f "$1"
    done 2>/dev/null
}

# Nothing is written any more, nobody is told.
power_cut() {
    echo cut >"$SHARE/cut"
    sync "$SHARE/cut"
    echo b >/proc/sysrq-trigger
    sleep 60
}
