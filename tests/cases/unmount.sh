#!/usr/bin/env bash
# The end of a mount, and who waits for it: umount(8) with our helper and without, the next mount,
# systemd's protocol, a forced end; and a log that is moved away while it is written.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
need mount umount unshare nsenter python3 sha256sum ps

# The last flush needs seconds: many PUTs fail, and are tried again.
slow="op=put,p=0.35,seed=7"
dirty() { # FILE MIB
    dd if=/dev/urandom of="$MNT/$1" bs=1M count="$2" status=none || fail "write $1"
    sha256sum <"$MNT/$1" >"$T/$1.sum"
}
kept() { # FILE
    [ "$(sha256sum <"$MNT/$1")" = "$(cat "$T/$1.sum")" ] || fail "$1 is not what was written"
}

echo "== a log that is moved away"
fmt_mount --flush-age 1h
mv "$LOG" "$LOG.1"
pid=$(daemon_pid)
kill -HUP "$pid"
poll 10 grep -q "opened anew" "$LOG" || fail "SIGHUP does not open the log anew: $(cat "$LOG.1")"
same "$(stat -c %a "$LOG")" 600 "the mode of the new log"
same "$(readlink "/proc/$pid/fd/2")" "$LOG" "standard error, where a panic is told"
before=$(stat -c %s "$LOG.1")
mkdir "$T/elsewhere"
mv "$LOG" "$T/elsewhere/" && mkdir "$LOG"
kill -HUP "$pid"
poll 10 grep -q "goes on in the old file" "$T/elsewhere/weir.log" || fail "a log that cannot be opened is lost"
rmdir "$LOG"
kill -HUP "$pid"
poll 10 grep -q "opened anew" "$LOG" || fail "the log is not opened when it can be"
same "$(stat -c %s "$LOG.1")" "$before" "the size of the log that was moved away"
echo alive >"$MNT/alive" || fail "SIGHUP ended it"
umount_volume

echo "== umount(8) waits for the last flush"
# /sbin is replaced for this namespace only.
helped() { # SCRIPT, with the helpers in /sbin
    export -f fail same gone poll dirty kept daemons_below daemon_pid
    export WEIR URL MNT TIER LOG T
    unshare --mount --propagation private bash -uc "$DROP_COPIES"'
        mkdir -p "$T/over/up" "$T/over/work"
        mount -t overlay overlay -o "lowerdir=/usr/sbin,upperdir=$T/over/up,workdir=$T/over/work" /usr/sbin
        ln -sf "$WEIR" /usr/sbin/mount.weir
        ln -sf "$WEIR" /usr/sbin/mount.fuse.weir
        ln -sf "$WEIR" /usr/sbin/umount.fuse.weir
        '"$1" || exit 1
}
# shellcheck disable=SC2016 # for the inner shell
WEIR_BUCKET_FAULTS=$slow helped '
    mount -t weir "$URL" "$MNT" -o "tier=$TIER,flush-age=1h,log-file=$LOG" || fail "mount -t weir"
    dirty a 48
    pid=$(daemon_pid)
    sleep 600 <"$MNT/a" &
    holder=$!
    umount "$MNT" 2>"$T/err" && fail "unmounted under an open file"
    grep -q "process $holder (sleep)" "$T/err" || fail "the holder is not named: $(cat "$T/err")"
    kill $holder
    wait $holder
    sleep 600 >>"$MNT/b" &
    writer=$!
    poll 5 test -e "$MNT/b" || fail "the writer has no file"
    mount -o remount,ro "$MNT" 2>"$T/err" && fail "read-only under a file that is open for writing"
    grep -q "open for writing" "$T/err" || fail "refused with: $(cat "$T/err")"
    kill $writer
    wait $writer
    mount -o remount,ro,noexec "$MNT" || fail "mount -o remount,ro"
    touch "$MNT/c" 2>/dev/null && fail "a read-only mount is written to"
    grep -q " $MNT fuse.weir ro,.*noexec" /proc/self/mounts || fail "not noexec: $(grep "$MNT" /proc/self/mounts)"
    mount -o remount,rw "$MNT" && touch "$MNT/c" || fail "mount -o remount,rw"
    grep -q "TARGET=$MNT .*uhelper=weir" /run/mount/utab || fail "mount(8) knows of no helper"
    grep "TARGET=$MNT " /run/mount/utab | grep -q _netdev && fail "a local bucket needs no network"
    umount "$MNT" || fail "umount ends with $?"
    poll 5 gone "$pid" || fail "umount(8) returned before the daemon had flushed"
    grep -q "everything is in the bucket" "$LOG" || fail "the daemon did not end well: $(tail -3 "$LOG")"
    mount -t weir "$URL" "$MNT" -o "tier=$TIER,log-file=$LOG" || fail "mount -t weir"
    sleep 600 <"$MNT/a" &
    holder=$!
    umount -l "$MNT" || fail "umount -l"
    mountpoint -q "$MNT" && fail "still in the tree after umount -l"
    kill $holder
'
no_daemon() { [ -z "$(daemons_below "$MNT")" ]; }
poll 60 no_daemon || fail "the daemon stays after umount -l"
grep -q " TARGET=$MNT " /run/mount/utab && fail "mount(8) keeps a note of what is gone: $(cat /run/mount/utab)"
lose_tier
mount_volume
kept a

echo "== the next mount waits for the last flush"
MOUNT_ARGS=(--flush-age 1h)
remount
umount_volume
WEIR_BUCKET_FAULTS=$slow mount_volume
dirty b 48
umount -i "$MNT" || fail "plain umount"
"$WEIR" mount "$URL" "$MNT" --tier "$TIER" --log-file "$LOG" 2>"$T/err" || fail "mount: $(cat "$T/err")"
grep -q "still flushes it: waiting" "$T/err" || fail "it does not say what it waits for: $(cat "$T/err")"
same "$(daemons_below "$MNT" | wc -l)" 1 "daemons"
kept b
umount_volume
lose_tier
mount_volume
kept b

echo "== by force"
dirty c 3
pid=$(daemon_pid)
sleep 600 <"$MNT/c" &
holder=$!
remember $holder
"$WEIR" umount --force "$MNT" || fail "umount --force"
mountpoint -q "$MNT" && fail "still mounted after --force"
poll 30 gone "$pid" || fail "the daemon outlives --force"
gone $holder && fail "a process was ended"
kill $holder
lose_tier
mount_volume
kept c
umount_volume

echo "== mounted elsewhere, too"
elsewhere() { # a process with a copy of this case's mounts
    KEEP=$T unshare --mount --propagation private bash -c "$DROP_OTHERS"'; exec sleep 600' &
    holder=$!
    remember $holder
    copied() { [ "$(readlink "/proc/$holder/ns/mnt")" != "$(readlink /proc/self/ns/mnt)" ]; }
    poll 10 copied || fail "no other mount namespace"
}
mount_volume
dirty d 3
pid=$(daemon_pid)
elsewhere
"$WEIR" umount "$MNT" 2>"$T/err" && fail "unmounted, and still mounted elsewhere"
grep -q "mount namespace of process $holder" "$T/err" || fail "it does not say where: $(cat "$T/err")"
grep -q "mount namespace of process $holder" "$LOG" || fail "the log does not say what it waits for: $(tail -3 "$LOG")"
mountpoint -q "$MNT" && fail "it is still mounted here"
gone "$pid" && fail "others lost the volume"
same "$(nsenter -t $holder -m cat "$MNT/d" | sha256sum)" "$(cat "$T/d.sum")" "what others read"
kill $holder
poll 30 gone "$pid" || fail "the daemon outlives the last who could use it"
for how in command signal; do
    mount_volume
    kept d
    pid=$(daemon_pid)
    elsewhere
    case $how in
        command) "$WEIR" umount --force "$MNT" 2>"$T/err" || fail "umount --force: $(cat "$T/err")" ;;
        signal) kill "$pid" ;;
    esac
    poll 30 gone "$pid" || fail "the daemon outlives a $how: $(tail -3 "$LOG")"
    kill $holder
done
lose_tier
mount_volume
kept d
umount_volume

echo "== what a supervisor hears"
cat >"$T/listen.py" <<'PY'
import socket, sys
server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
server.bind(sys.argv[1])
server.settimeout(60)
with open(sys.argv[2], "w", buffering=1) as log:
    while True:
        print(server.recv(4096).decode(), file=log)
PY
python3 "$T/listen.py" "$T/notify" "$T/heard" &
listener=$!
remember $listener
poll 10 test -S "$T/notify" || fail "no listener"
NOTIFY_SOCKET=$T/notify mount_volume
umount_volume
[ ! -s "$T/heard" ] || fail "a mount in the background speaks for the service it is made in: $(cat "$T/heard")"
NOTIFY_SOCKET=$T/notify WATCHDOG_USEC=300000 \
    "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --foreground 2>"$T/foreground.log" &
pid=$!
remember $pid
poll 30 grep -q READY=1 "$T/heard" || fail "it does not say that it is ready"
mountpoint -q "$MNT" || fail "it is ready before it is mounted"
grep -q "STATUS=mounted at $MNT" "$T/heard" || fail "no status: $(cat "$T/heard")"
often() { [ "$(grep -c WATCHDOG=1 "$T/heard")" -ge 5 ]; }
poll 30 often || fail "it does not say that it lives"
grep -q STOPPING "$T/heard" && fail "it ends"
kill -TERM $pid
wait $pid || fail "ends with $?"
poll 5 grep -q STOPPING=1 "$T/heard" || fail "it does not say that it ends: $(cat "$T/heard")"
kill $listener
echo ok
