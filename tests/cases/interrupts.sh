#!/usr/bin/env bash
# The bucket takes requests and answers none: programs that wait for it can be ended by Ctrl-C, a time
# limit and kill -9 at once, the mount goes on, and what was told to be done is done when it answers.
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-crash.sh"

# The bucket's time limit is far away: whoever ends was ended.
busy_settings bucket_timeout_ms=600000 read_ahead_bytes=0 flush_age_ms=3600000
s3_start
fmt_mount --config "$T/settings.json" --no-passthrough
for name in one two three; do
    dd if=/dev/urandom of="$MNT/$name" bs=1M count=2 status=none
    cp "$MNT/$name" "$T/$name"
done
remount --config "$T/settings.json" --no-passthrough
"$WEIR" release -r "$MNT" >/dev/null || fail "release"
stat "$MNT/one" "$MNT/two" "$MNT/three" >"$T/stat" || fail "stat"
drop_caches
echo fresh >"$MNT/fresh"

kill -STOP "$S3_PID"

# Starts something that waits, and ends it: it must be gone within two seconds.
waits() { # SIGNAL COMMAND...
    local signal=$1 pid
    shift
    "$@" >/dev/null 2>&1 &
    pid=$!
    sleep 0.5
    gone "$pid" && fail "it waits for nothing: $*"
    kill "-$signal" "$pid"
    poll 2 gone "$pid" || fail "SIG$signal does not end: $*"
    wait "$pid"
}

# SIGINT and SIGQUIT are ignored by what a shell starts in the background.
for signal in TERM HUP KILL; do
    waits $signal cat "$MNT/one"
    waits $signal dd if="$MNT/one" iflag=direct of=/dev/null bs=64k
    waits $signal dd if=/dev/zero of="$MNT/two" bs=10 count=1 conv=notrunc
    waits $signal sync "$MNT/fresh"
done
echo "who catches Ctrl-C hears of it"
python3 - "$MNT/one" <<'PY' &
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
buffer = __import__("mmap").mmap(-1, 4096)
try:
    os.readv(fd, [buffer])
except KeyboardInterrupt:
    sys.exit(42)
PY
python=$!
sleep 1
kill -INT $python
poll 2 gone $python || fail "Ctrl-C is not heard"
wait $python
same $? 42 "how Python ended"
echo "a time limit"
before=$EPOCHREALTIME
timeout 1 cat "$MNT/three" >/dev/null
same $? 124 "what timeout says"
[ $((${EPOCHREALTIME%.*} - ${before%.*})) -le 3 ] || fail "the time limit took longer"

echo "meanwhile the mount works"
same "$(cat "$MNT/fresh")" fresh "what is here"
echo more >"$MNT/more" || fail "writing a new file"
mountpoint -q "$MNT" || fail "the mount is gone"

kill -CONT "$S3_PID"
for name in one two three; do
    cmp "$MNT/$name" "$T/$name" || fail "$name is wrong: who was killed wrote"
done
sync "$MNT/fresh" || fail "fsync does not work again"
remount --config "$T/settings.json" --no-passthrough
same "$(cat "$MNT/more")" more "what was written meanwhile"
fsck_clean
