# Helpers of the end-to-end cases: `source "$(dirname "$0")/../lib.sh"` first.
#
# A case has a directory $T of its own on a real disk, with the mount point $MNT, the tier $TIER and
# the bucket $BUCKET in it. Whatever it mounts, starts or attaches below $T is gone when it ends.
# It fails by ending non-zero, and says what was wrong. It never skips: `need` fails instead.
# shellcheck shell=bash disable=SC2034 # what it sets is used by the cases

TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export WEIR_CACHE=${WEIR_CACHE:-$HOME/.cache/weir}
export PATH=$WEIR_CACHE/bin:$PATH
export WEIR=${WEIR:-${CARGO_TARGET_DIR:-$WEIR_CACHE/target}/debug/weir}
# Tests ask nobody else for prices or keys.
export AWS_EC2_METADATA_DISABLED=true
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# Names what the case or library needs; scripts/programs has the package of each.
need() { # PROGRAM OR FILE...
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || [ -e "$program" ] ||
            fail "$program is not here: run make test-tools"
    done
}

need awk flock jq losetup mount python3 sha256sum tar umount unshare

soaking() { [ "${WEIR_SOAK:-0}" = 1 ]; }

# The number for a short run, or that for a soak.
amount() { if soaking; then echo "$2"; else echo "$1"; fi; }

# Runs a command until it succeeds, for so many seconds at most.
poll() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}

same() { # HAVE WANT WHAT
    [ "$1" = "$2" ] || fail "$3: have '$1', want '$2'"
}

# A command that must fail, and say a word of why.
refused() { # WHAT WORD COMMAND...
    timeout 90 "${@:3}" >"$T/out" 2>&1 && fail "$1 is done: $(cat "$T/out")"
    grep -qi -- "$2" "$T/out" || fail "$1: does not say '$2': $(cat "$T/out")"
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# Pids of the weir daemons whose command line names something below a directory. Asked often: one program looks at all.
daemons_below() { # DIRECTORY
    local entry line program
    { stat -c %N /proc/[0-9]*/exe 2>/dev/null || true; } | while read -r entry _ program; do # '/proc/PID/exe' -> 'PROGRAM'
        [[ $program == */weir* ]] || continue
        entry=${entry//[^0-9]/}
        line=$(tr '\0' '\n' 2>/dev/null <"/proc/$entry/cmdline") || continue
        if [[ $line == *$'\n'@(mount|serve)$'\n'* && $line == *"$1"* ]]; then
            echo "$entry"
        fi
    done
}

# Ends everything below a directory: mounts, daemons, servers, loop devices.
sweep() { # DIRECTORY
    local target pid device round
    for round in 1 2 3; do
        while read -r target; do
            umount -l "$target" 2>/dev/null
        done < <(awk -v d="$1/" 'index($5, d) == 1 && $0 ~ / - fuse/ {print $5}' /proc/self/mountinfo)
        [ "$round" = 1 ] && for pid in $(daemons_below "$1/"); do kill -KILL "$pid" 2>/dev/null; done
        while read -r target; do
            umount -l "$target" 2>/dev/null
        done < <(awk -v d="$1/" 'index($5, d) == 1 {print $5}' /proc/self/mountinfo | tac)
    done
    for pid in $(cat "$1"/*.pid 2>/dev/null); do
        kill -KILL "$pid" 2>/dev/null
    done
    while read -r device; do
        losetup -d "$device"
    done < <(losetup -nO NAME,BACK-FILE 2>/dev/null | awk -v d="$1/" 'index($2, d) == 1 {print $1}')
    return 0
}

# Remembers a process to end with the case.
remember() { echo "$1" >"$T/$1.pid"; }

ended() {
    local status=$? log
    trap - EXIT
    set +e
    if [ $status -ne 0 ]; then
        for log in "$T"/*.log; do
            [ -s "$log" ] && { echo "--- $(basename "$log")"; tail -n 40 "$log"; }
        done >&2
        cp -- "$T"/*.log "$T/.." 2>/dev/null
    fi
    unoffer_uring
    sweep "$T"
    cd / && rm -rf "$T"
    exit $status
}

# Runs the case where no other case's mount namespace sees its mounts: a file system lives on after
# `umount`, with what it has not written yet, as long as such a copy of the mount is there. Nor does
# it keep others' volumes: what was copied of them goes. Called before `begin`.
own_mounts() {
    [ -n "${WEIR_OWN_MOUNTS:-}" ] ||
        WEIR_OWN_MOUNTS=1 exec unshare --mount bash -c "$DROP_COPIES"'; exec bash "$0"' "$0"
}
# First thing in a mount namespace.
DROP_COPIES='{ umount --all --internal-only --lazy --types fuse.weir || true; }'
# The same, but for those below $KEEP, a variable of the environment.
# shellcheck disable=SC2016 # for who runs it
DROP_OTHERS='{ awk "\$3 == \"fuse.weir\" { print \$2 }" /proc/self/mounts | grep -v "^$KEEP/" |
    xargs -r umount --internal-only --lazy || true; }'

# Sets the case up. The runner makes the directory; a case run by hand makes its own.
begin() {
    set -uo pipefail
    [ "$(id -u)" = 0 ] || fail "the cases mount file systems: run them as root"
    [ -c /dev/fuse ] || fail "there is no /dev/fuse"
    [ -x "$WEIR" ] || fail "no binary at $WEIR: make e2e builds it"
    T=$(realpath "${WEIR_TEST_DIR:-$(mktemp -d "${TMPDIR:-/tmp}/weir-test.XXXX")}")
    trap ended EXIT
    trap 'exit 143' TERM INT
    chmod 755 "$T" # other users look at the mount too
    case $(stat -f -c %T "$T") in
        tmpfs | ramfs) fail "$T is in memory: set TMPDIR to a directory on a disk" ;;
    esac
    MNT=$T/mnt TIER=$T/tier BUCKET=$T/bucket URL=file://$T/bucket/vol LOG=$T/weir.log
    export WEIR_RUN_DIR=$T/run
    mkdir -p "$MNT" "$TIER" "$BUCKET/vol" && mkdir -m 700 "$WEIR_RUN_DIR"
    MOUNT_ARGS=()
}

# What a random case starts from. Printed; WEIR_SEED sets it.
seed() {
    SEED=${WEIR_SEED:-$((RANDOM * 32768 + RANDOM))}
    echo "WEIR_SEED=$SEED"
}

# Connection flags, for `format`, `mount` and `fsck`; `s3_start` fills it.
CONNECT=()

format_volume() { # [FORMAT ARGS...]
    "$WEIR" format "$URL" "${CONNECT[@]}" "$@" || fail "format $URL"
}

# Mounts with MOUNT_ARGS, which `fmt_mount` and `remount` set.
mount_volume() {
    "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --log-file "$LOG" "${CONNECT[@]}" "${MOUNT_ARGS[@]}" ||
        fail "mount $URL"
    mountpoint -q "$MNT" || fail "weir mount said yes, but $MNT is not a mount point"
}

# A mount that is refused with this in its message.
refused_mount() { # TEXT
    "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --log-file "$LOG" "${CONNECT[@]}" "${MOUNT_ARGS[@]}" \
        2>"$T/refused" && fail "mounted, though it should say: $1"
    grep -q -e "$1" "$T/refused" || fail "the refusal does not say '$1': $(cat "$T/refused")"
}

# The dead writer of the volume was on a machine that is not known here.
lease_of_another() {
    local lease=${URL#file://}/writer.json
    jq '.host.machine_id = "another" | .host.boot_id = "another" | .host.name = "elsewhere"' "$lease" \
        >"$T/lease" && cp "$T/lease" "$lease" || fail "no lease in $lease"
}

fmt_mount() { # [MOUNT ARGS...]
    MOUNT_ARGS=("$@")
    format_volume
    mount_volume
}

# Unmounts cleanly: everything is in the bucket then, and the daemon gone.
umount_volume() {
    local pid
    pid=$(daemon_pid)
    "$WEIR" umount "$MNT" || fail "umount $MNT"
    mountpoint -q "$MNT" && fail "weir umount said yes, but $MNT is still mounted"
    poll 60 gone "$pid" || fail "the daemon $pid outlives weir umount"
}

remount() { # [OTHER MOUNT ARGS...]
    umount_volume
    [ $# -eq 0 ] || MOUNT_ARGS=("$@")
    mount_volume
}

unoffer_uring() {
    [ ! -e "$T/enable-uring" ] || cat "$T/enable-uring" >/sys/module/fuse/parameters/enable_uring
    rm -f "$T/enable-uring"
}

# Runs a command that mounts with requests over io_uring, which the kernel is made to offer meanwhile.
# False where it has none to offer.
over_uring() { # COMMAND...
    local enable=/sys/module/fuse/parameters/enable_uring lock
    [ -w "$enable" ] || return 1
    exec {lock}>"${TMPDIR:-/tmp}/weir-enable-uring.lock"
    flock "$lock"
    cat "$enable" >"$T/enable-uring"
    echo Y >"$enable"
    # The daemon must not keep others waiting.
    WEIR_TRANSPORT=uring "$@" {lock}>&-
    unoffer_uring
    exec {lock}>&-
    same "$(status .transport.how)" uring "how requests come"
}

# Runs a command that mounts: after each odd round over io_uring where the kernel has it, else not.
by_turns() { # ROUND COMMAND...
    local round=$1
    shift
    if [ $((round % 2)) = 0 ] || ! over_uring "$@"; then "$@"; fi
    echo "round $((round + 1)): requests come over $(status .transport.how)"
}

daemon_pid() {
    local pids
    pids=$(daemons_below "$MNT")
    [ -n "$pids" ] || fail "no daemon serves $MNT"
    head -1 <<<"$pids"
}

# Ends the daemon as a crash does, and takes the dead mount away.
kill9() {
    local pid
    for pid in $(daemons_below "$MNT"); do
        kill -KILL "$pid"
        poll 30 gone "$pid" || fail "the daemon $pid survives kill -9"
    done
    if grep -q " $MNT fuse" /proc/self/mounts; then
        umount -l "$MNT" || fail "cannot take the dead mount away"
    fi
}

# What the loss of an instance store does. The volume must not be mounted.
lose_tier() {
    rm -rf "$TIER" && mkdir -p "$TIER"
}

# Leaves nothing of the files on this machine: what is read next comes from the bucket.
cold() {
    umount_volume
    lose_tier
    drop_caches
    mount_volume
}

drop_caches() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

# The volume must be sound. It is unmounted for it.
fsck_clean() {
    umount_volume
    "$WEIR" fsck --data "$URL" "${CONNECT[@]}" || fail "fsck finds problems in $URL"
}

status() { # JQ EXPRESSION
    "$WEIR" status "$MNT" --json | jq -re "$1" || fail "status has no $1"
}

# Requests since the mount, such as `requests data put`.
requests() { # COMPONENT KIND
    status "[.requests.rows[] | select(.component == \"$1\" and .kind == \"$2\") | .requests] | add // 0"
}

# Bytes that came from the bucket since the mount, such as `received link`.
received() { # COMPONENT
    status "[.requests.rows[] | select(.component == \"$1\" and .kind == \"get\") | .bytes_received] | add // 0"
}

# Serves S3 from $T/s3, where each directory is a bucket, and puts the volume on it.
s3_start() { # [PORT]
    S3_PORT=${1:-$(free_port)}
    export AWS_ACCESS_KEY_ID=weirtest AWS_SECRET_ACCESS_KEY=weirtestsecret AWS_REGION=us-east-1
    mkdir -p "$T/s3/bucket"
    S3_PID=$("$TESTS/s3/versitygw.sh" start "$T/s3" "$S3_PORT") || fail "no S3 server"
    remember "$S3_PID"
    CONNECT=(--endpoint "http://127.0.0.1:$S3_PORT")
    URL=s3://bucket/vol
}

# Another S3 client at work in bucket `lake`, which `lake_start` makes: `lake put KEY <BODY`.
lake() { "$TESTS/tools/objects.py" "http://127.0.0.1:${LAKE_PORT:-$S3_PORT}" lake "$@" || fail "objects.py $*"; }

# How `weir link` finds the bucket `lake`, if it is not on the volume's server.
LAKE_AT=()

# An S3 server with an empty bucket `lake` to link, beside the volume's own; or another server that
# has it.
lake_start() { # [seaweed]
    s3_start
    if [ "${1:-}" != seaweed ]; then
        mkdir "$T/s3/lake"
        return
    fi
    local pid
    LAKE_PORT=$(free_port)
    pid=$("$TESTS/s3/seaweed.sh" start "$T/seaweed" "$LAKE_PORT" lake) || fail "no SeaweedFS"
    remember "$pid"
    LAKE_AT=(--endpoint "http://127.0.0.1:$LAKE_PORT")
}

# What `weir links` says of the link at a directory, such as `link_has .hidden DIR`.
link_has() { # JQ DIR
    "$WEIR" links "$2" --json | jq -rc ".[0] | $1" || fail "weir links $2 has no $1"
}

# Whether a link has this to say.
link_is() { # JQ VALUE DIR
    [ "$(link_has "$1" "$3")" = "$2" ]
}

s3_stop() { "$TESTS/s3/versitygw.sh" stop "$S3_PID"; }

# Below those that the kernel takes for whoever connects, so that a server can be gone for a while and have it again.
free_port() {
    python3 -c 'import random, socket
while True:
    try:
        with socket.socket() as server:
            server.bind(("127.0.0.1", random.randrange(10000, 32000)))
            print(server.getsockname()[1])
            break
    except OSError:
        pass'
}
