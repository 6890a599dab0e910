#!/usr/bin/env bash
# The bucket goes away under a mount and comes back: what is here can be read, writes go on until
# the tier is full, fsync says EIO, and nothing is lost.
# time-limit: 400
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-crash.sh"
need python3 jq curl

busy_settings bucket_timeout_ms=3000 flush_start_bytes=8388608 free_floor_bytes=1048576 read_ahead_bytes=0

# What a call on the mount says, within a time that is far more than it may take.
errno_of() { # PYTHON EXPRESSION
    timeout 60 python3 - "$1" <<'PY'
import errno, os, sys
def write(path, size, sync=False):
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    try:
        part = os.urandom(1 << 20)
        done = 0
        while done < size:
            done += os.write(fd, part[: size - done])
        if sync:
            os.fsync(fd)
    finally:
        print("written", done, file=sys.stderr)
        os.close(fd)
try:
    eval(sys.argv[1])
    print("ok")
except OSError as error:
    print(errno.errorcode[error.errno])
PY
}

gone_away() { case $kind in file) mv "$BUCKET" "$BUCKET.away" ;; s3) s3_stop ;; esac; }
come_back() {
    case $kind in
        file) mv "$BUCKET.away" "$BUCKET" ;;
        s3) s3_start "$S3_PORT" ;;
    esac
}

# The status of an answer, which goes to $T/asked.
asked() { # PATH
    curl -s -o "$T/asked" -w '%{http_code}' --unix-socket "$(ls "$WEIR_RUN_DIR"/*.sock)" "http://weir$1"
}

for kind in file s3; do
    echo "== $kind"
    [ $kind = s3 ] && s3_start
    fmt_mount --config "$T/settings.json"
    dd if=/dev/urandom of="$MNT/resident" bs=1M count=6 status=none
    dd if=/dev/urandom of="$MNT/released" bs=1M count=4 status=none
    cp "$MNT/resident" "$MNT/released" "$T/" # what they should be
    cold
    cmp "$MNT/resident" "$T/resident" || fail "wrong from the bucket"

    gone_away
    drop_caches
    cmp "$MNT/resident" "$T/resident" || fail "resident data cannot be read without the bucket"
    same "$(errno_of 'open("'"$MNT"'/released", "rb").read()')" EIO "read of released data"
    same "$(errno_of 'write("'"$MNT"'/synced", 100000, True)')" EIO "fsync without the bucket"
    same "$(errno_of 'write("'"$MNT"'/more", 20 << 20)')" ok "a write into the tier"
    cp "$MNT/more" "$T/more"
    mkdir "$MNT/dir" && mv "$MNT/more" "$MNT/dir/moved" || fail "names cannot be changed"
    same "$(errno_of 'write("'"$MNT"'/full", 80 << 20)')" EIO "a write into a full tier"
    mountpoint -q "$MNT" || fail "the mount is gone"
    same "$(asked /healthz)" 200 "a mount lives without its bucket"
    same "$(asked /readyz)" 503 "a mount without its bucket is to be looked at"
    grep -q "a flush failed" "$T/asked" || fail "why: $(cat "$T/asked")"
    if [ $kind = s3 ]; then
        "$WEIR" status "$MNT" >"$T/status"
        grep -q "BUCKET FAILS *data PUT: .* attempts failed since" "$T/status" || fail "status is silent: $(cat "$T/status")"
        same "$(status '[.troubles[] | select(.lasting and .kind == "put")] | length > 0')" true "troubles"
        grep -q "WARN.*the bucket fails" "$LOG" || fail "the log does not warn"
    fi
    # Clean pages were let go to make room; what is nowhere else is here.
    cmp "$MNT/dir/moved" "$T/more" || fail "dirty data cannot be read with a full tier"
    cp "$MNT/full" "$T/full"

    come_back
    poll 60 sync "$MNT/synced" || fail "fsync does not work again"
    ready() { [ "$(asked /readyz)" = 200 ]; }
    poll 60 ready || fail "still to be looked at: $(cat "$T/asked")"
    same "$(stat -c %s "$MNT/synced")" 100000 "the file whose fsync failed"
    same "$(errno_of 'write("'"$MNT"'/after", 30 << 20, True)')" ok "writing after the bucket is back"
    for name in resident released full; do
        cmp "$MNT/$name" "$T/$name" || fail "$name is wrong after the bucket is back"
    done
    cmp "$MNT/dir/moved" "$T/more" || fail "moved is wrong after the bucket is back"
    cold
    for name in resident released full; do
        cmp "$MNT/$name" "$T/$name" || fail "$name is wrong from the bucket"
    done
    cmp "$MNT/dir/moved" "$T/more" || fail "moved is wrong from the bucket"
    fsck_clean

    # Away at the unmount: it says so, ends, and the next mount goes on with what the tier has.
    mount_volume
    dd if=/dev/urandom of="$MNT/late" bs=100k count=1 status=none
    cp "$MNT/late" "$T/late"
    pid=$(daemon_pid)
    gone_away
    "$WEIR" umount "$MNT" 2>"$T/umount.err" && fail "umount says all is well without the bucket"
    grep -q "tier" "$T/umount.err" || fail "umount does not say where the data is: $(cat "$T/umount.err")"
    poll 30 gone "$pid" || fail "the daemon stays"
    mountpoint -q "$MNT" && fail "still mounted"
    come_back
    mount_volume
    cmp "$MNT/late" "$T/late" || fail "what could not leave at the unmount is lost"
    fsck_clean
    rm -rf "$TIER" && mkdir "$TIER"
done
s3_stop
