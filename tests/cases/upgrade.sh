#!/usr/bin/env bash
# `weir upgrade`: the daemon's binary is replaced while programs use the mount, who see no error; what
# is refused leaves all as it was, and a binary that cannot take over gives way to the one before.
# time-limit: 400
source "$(dirname "$0")/../lib.sh"
begin
need python3 jq sha256sum setpriv fusermount3 qemu-io

work=$TESTS/tools/upgraded.py
upgrade() { # [ARGS...]
    "$WEIR" upgrade "$MNT" "$@" >"$T/upgraded" 2>"$T/upgrade.err" || fail "upgrade: $(cat "$T/upgrade.err")"
    cat "$T/upgraded"
}
refused() { # TEXT ARGS...
    local text=$1 pid
    shift
    pid=$(daemon_pid)
    "$WEIR" upgrade "$MNT" "$@" >"$T/upgraded" 2>"$T/refused" && fail "upgraded, though it should say: $text"
    grep -q -e "$text" "$T/refused" || fail "the refusal does not say '$text': $(cat "$T/refused")"
    same "$(daemon_pid)" "$pid" "the daemon"
    same "$(cat "$MNT/kept")" kept "what is read after a refusal"
    echo more >>"$MNT/grown" || fail "nothing can be written after a refusal"
}

echo "== under load"
format_volume
echo '{"flush_age_ms": 1000}' >"$T/settings.json"
MOUNT_ARGS=(--config "$T/settings.json")
mount_volume
pid=$(daemon_pid)
mkdir "$MNT/work" "$MNT/work/many"
echo kept >"$MNT/kept"
head -c 3000000 /dev/urandom >"$T/known"
(cd "$MNT/work/many" && seq -f entry-%04g 0 1499 | xargs touch) || fail "make entries"
cp "$T/known" "$MNT/work/lent"
"$WEIR" flush "$MNT" || fail "flush"
# The one who reads it looks for what it must be beside the directory.
cp "$T/known" "$MNT/known"
touch "$MNT/locked"
declare -A jobs
for part in writer mapper reader storer appender unlinked lister maker; do
    "$work" "$part" "$MNT/work" "$T/stop" >"$T/$part.out" 2>"$T/$part.err" &
    jobs[$part]=$!
    remember $!
done
"$work" holder "$MNT/locked" "$T/go" >"$T/holder.out" 2>"$T/holder.err" &
holder=$!
poll 10 grep -q held "$T/holder.out" || fail "no lock: $(cat "$T/holder.err")"
"$work" waiter "$MNT/locked" >"$T/waiter.out" 2>"$T/waiter.err" &
waiter=$!
sleep 0.5
opens=$(status .passthrough.opens) || exit 1
cp "$WEIR" "$T/weir-2"
rounds=$(amount 6 30)
for ((round = 1; round <= rounds; round++)); do
    binary=$WEIR
    [ $((round % 2)) -eq 0 ] || binary=$T/weir-2
    upgrade --binary "$binary"
    same "$(daemon_pid)" "$pid" "the process"
    same "$(readlink "/proc/$pid/exe")" "$binary" "what it runs"
    same "$(cat "/proc/$pid/comm")" weir "its name"
    for part in "${!jobs[@]}"; do
        gone "${jobs[$part]}" && fail "$part ended: $(cat "$T/$part.err")"
    done
    [ -s "$T/waiter.out" ] && fail "a lock was given to two"
    sleep 0.4
done
touch "$T/go"
wait $holder || fail "holder: $(cat "$T/holder.err")"
wait $waiter || fail "waiter: $(cat "$T/waiter.err")"
same "$(cat "$T/waiter.out")" granted "who waited for the lock"
touch "$T/stop"
for part in "${!jobs[@]}"; do
    wait "${jobs[$part]}" || fail "$part: $(cat "$T/$part.err")"
    echo "$part: $(cat "$T/$part.out")"
done
[ "$opens" -gt 0 ] || echo "no file was read past the daemon: the kernel does not have it"
(cd "$MNT/work" && sha256sum written mapped lent stored mapped-only log) >"$T/sums"

echo "== refused"
cp /bin/true "$T/true" && cp "$WEIR" "$T/weir-of-another-version" && cp "$WEIR" "$T/weir-others"
printf '#!/bin/sh\necho no\n' >"$T/script" && chmod 755 "$T/script"
cp "$WEIR" "$T/weir-plain" && chmod 644 "$T/weir-plain"
chmod 777 "$T/weir-others"
cp "$WEIR" "$T/weir-of-nobody" && chown 65534 "$T/weir-of-nobody"
cp "$WEIR" "$MNT/weir"
refused "no weir" --binary "$T/true"
refused "no program" --binary "$T/script"
refused "no file that can be executed" --binary "$T/weir-plain"
refused "belongs to another user" --binary "$T/weir-of-nobody"
refused "others may change it" --binary "$T/weir-others"
refused "on the mount" --binary "$MNT/weir"
refused "No such file" --binary "$T/none"
refused "reads other versions" --binary "$T/weir-of-another-version"
mv "$T/settings.json" "$T/settings.away"
refused "settings.json"
mv "$T/settings.away" "$T/settings.json"

echo "== a binary that cannot take over"
cp "$WEIR" "$T/weir-that-fails"
exec {held}<"$MNT/work/lent"
refused "the new binary could not take over" --binary "$T/weir-that-fails"
grep -q "plays one that fails" "$T/refused" || fail "the reason is not told: $(cat "$T/refused")"
cmp - "$T/known" <&$held || fail "a file that was open is another one"
exec {held}<&-
same "$(readlink "/proc/$pid/exe")" "$WEIR" "what goes on"
upgrade

echo "== all is there, here and in the bucket"
(cd "$MNT/work" && sha256sum --quiet -c "$T/sums") || fail "after the upgrades"
fsck_clean
lose_tier
mount_volume
(cd "$MNT/work" && sha256sum --quiet -c "$T/sums") || fail "from the bucket"
same "$(wc -l <"$MNT/grown")" 10 "lines after refusals"
umount_volume

echo "== killed on the way"
for point in daemon::upgrade-executing daemon::upgrade-executed; do
    WEIR_FAILPOINTS=$point=1 mount_volume
    pid=$(daemon_pid)
    echo "$point" >"$MNT/before"
    "$WEIR" upgrade "$MNT" 2>"$T/refused" && fail "upgraded, though it was killed"
    grep -q "the daemon died" "$T/refused" || fail "killed: $(cat "$T/refused")"
    poll 10 gone "$pid" || fail "$point was not reached"
    "$WEIR" umount "$MNT" || fail "the dead mount stays"
    mount_volume
    same "$(cat "$MNT/before")" "$point" "what was written before"
    umount_volume
done

echo "== asked to end in the last moment"
WEIR_FAILPOINTS=daemon::upgrade-executing=term mount_volume
pid=$(daemon_pid)
"$WEIR" upgrade "$MNT" >"$T/upgraded" 2>&1
poll 30 gone "$pid" || fail "a SIGTERM is lost with the old binary: $(cat "$T/upgraded")"
mountpoint -q "$MNT" && fail "it ended without an unmount: $(tail -3 "$LOG")"

echo "== what it reads must not lie on the mount"
cp "$T/settings.json" "$T/moved.json"
MOUNT_ARGS=(--config "$T/moved.json")
HOME=$MNT/home mount_volume
echo kept >"$MNT/kept"
cp "$T/settings.json" "$MNT/on-mount.json"
refused "HOME $MNT/home is on the mount"
umount_volume
mount_volume
ln -sf "$MNT/on-mount.json" "$T/moved.json"
refused "config $T/moved.json is on the mount"
cp --remove-destination "$T/settings.json" "$T/moved.json"
upgrade
umount_volume

echo "== with a journal, a port, a listener for disks, and programs that wait for a limit"
nbd=$(free_port)
MOUNT_ARGS=(--journal "$T/journal" --admin-listen 127.0.0.1:0 --nbd "127.0.0.1:$nbd" --flush-age 1h)
mkdir "$T/journal"
mount_volume
pid=$(daemon_pid)
"$WEIR" disk create "$URL" d --size 8MiB >/dev/null || fail "disk create"
listens() { python3 -c 'import socket, sys; s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5); sys.exit(s.recv(8) != b"NBDMAGIC")' "$nbd"; }
mkfifo "$T/disk.hold"
qemu-io -f raw "nbd://127.0.0.1:$nbd/d" <"$T/disk.hold" >"$T/disk.out" 2>&1 &
client=$!
remember $client
exec {hold}>"$T/disk.hold"
echo "write -P 7 0 4096" >&$hold
clients() { [ "$(status .block.counts.connections)" = "$1" ]; }
poll 10 clients 1 || fail "no client: $(cat "$T/disk.out")"
refused "NBD clients are connected"
exec {hold}>&-
wait $client || fail "the NBD client: $(cat "$T/disk.out")"
poll 10 clients 0 || fail "clients are left"
"$WEIR" throughput "$MNT" --mode provisioned --mibps 1 --credits 0 >/dev/null || fail "a limit"
dd if="$T/known" of="$MNT/limited" bs=500000 oflag=direct 2>"$T/dd" &
writing=$!
sleep 0.5
gone $writing && fail "it waits for no limit: $(cat "$T/dd")"
upgrade
gone $writing && fail "it does not wait any more: $(cat "$T/dd")"
upgrade
"$WEIR" throughput "$MNT" --mode elastic >/dev/null || fail "no limit"
wait $writing || fail "who waited for a limit: $(cat "$T/dd")"
cmp "$MNT/limited" "$T/known" || fail "what was written while it waited"
sync "$MNT/limited" || fail "sync into the journal"
poll 10 listens || fail "nobody listens for disks"
upgrade
same "$(daemon_pid)" "$pid" "the process"
cmp "$MNT/limited" "$T/known" || fail "what the journal had"
qemu-io -f raw -c "read -P 7 0 4096" "nbd://127.0.0.1:$nbd/d" >"$T/disk.out" || fail "the disk: $(cat "$T/disk.out")"
grep -q failed "$T/disk.out" && fail "the disk has other bytes: $(cat "$T/disk.out")"
umount_volume

echo "== a user's own mount"
MINE=$T/mine
mkdir -p "$MINE"/{run,tier,bucket/vol,mnt} && chmod -R 700 "$MINE" && chown -R 65534:65534 "$MINE"
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups env WEIR_RUN_DIR="$MINE/run" HOME="$MINE" "$@"; }
# Where the binary lies others may not even look.
OURS=$T/weir-for-all
install -m 755 "$WEIR" "$OURS"
as_nobody "$OURS" format "file://$MINE/bucket/vol" >/dev/null || fail "format as a user"
as_nobody "$OURS" mount "file://$MINE/bucket/vol" "$MINE/mnt" --tier "$MINE/tier" --log-file "$MINE/tier/log" || fail "mount as a user"
# shellcheck disable=SC2016 # for the inner shell
as_nobody bash -c 'echo mine >"$1/mnt/a" && exec {a}<"$1/mnt/a" && "$2" upgrade "$1/mnt" && [ "$(cat <&$a)" = mine ]' - "$MINE" "$OURS" ||
    fail "upgrade as a user: $(tail -5 "$MINE/tier/log")"
as_nobody "$OURS" umount "$MINE/mnt" || fail "umount as a user"

echo "== a read-only mount, and one over io_uring"
MOUNT_ARGS=(--read-only)
mount_volume
exec {held}<"$MNT/kept"
upgrade
same "$(cat <&$held)" kept "a file that was open"
exec {held}<&-
umount_volume
MOUNT_ARGS=()
if over_uring mount_volume; then
    refused "over io_uring"
    umount_volume
fi
fsck_quick=$("$WEIR" fsck "$URL") || fail "fsck: $fsck_quick"
