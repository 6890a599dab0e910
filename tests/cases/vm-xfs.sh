#!/usr/bin/env bash
# XFS on a disk that the kernel itself has attached: filled, checked, trimmed, snapshotted while it
# is written, its daemon killed, its power cut.
# busy: it emulates a machine
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-vm.sh"
need jq mkfs.xfs xfs_repair fstrim sha256sum blockdev xfs_growfs

vm_disk local 2G

guest_cut <<'GUEST'
mount_local
"$WEIR" format "$URL" >/dev/null || fail "format"
serve
disk create vol --size 2GiB --cache tier
dev=$(attach vol --driver nbd) || exit 1
same "$(cat "/sys/block/${dev##*/}/queue/max_sectors_kb")" 1024 "KiB of a request"
same "$(blockdev --getss "$dev")" 4096 "bytes of a block"
mkfs.xfs -q "$dev" || fail "mkfs.xfs"

echo "== filled, checked, detached, attached again"
mount "$dev" "$MNT" || fail "mount"
fill "$MNT/a" 16
"$WEIR" detach vol 2>/dev/null && fail "a device that is mounted was detached"
umount "$MNT" || fail "umount"
xfs_repair -n "$dev" >/dev/null 2>&1 || fail "xfs_repair finds damage"
detach vol
[ -e "/sys/block/${dev##*/}/pid" ] && fail "$dev is still connected"
dev=$(attach vol --driver nbd) || exit 1
mount -o discard "$dev" "$MNT" || fail "mount"
check_files "$MNT/a"

echo "== trimmed"
"$WEIR" detach vol 2>/dev/null && fail "a device that is mounted was detached"
fill "$MNT/b" 16
sync -f "$MNT"
before=$(stored vol) || exit 1
rm -r "$MNT/b"
sync -f "$MNT"
fstrim "$MNT" || fail "fstrim"
sync -f "$MNT"
after=$(stored vol) || exit 1
[ "$after" -lt $((before - (14 << 20))) ] || fail "trimmed from $before to $after bytes only"

echo "== grown"
disk resize vol --size 3GiB
same "$(blockdev --getsize64 "$dev")" $((3 << 30)) "bytes of the device"
xfs_growfs "$MNT" >/dev/null || fail "xfs_growfs"

echo "== snapshotted and cloned while it is written"
keep_writing "$MNT/busy" &
writer=$!
sleep 2
disk snapshot vol now
disk clone vol@now copy
kill $writer
copy=$(attach copy --driver nbd) || exit 1
mkdir /mnt/copy
mount -o nouuid "$copy" /mnt/copy || fail "mount the clone"
check_files /mnt/copy/a
rm -r /mnt/copy/busy
umount /mnt/copy || fail "umount the clone"
xfs_repair -n "$copy" >/dev/null 2>&1 || fail "xfs_repair finds damage in the clone"
detach copy
snapshot=$(attach vol@now --driver nbd) || exit 1
same "$(blockdev --getro "$snapshot")" 1 "a snapshot's device is read-only"
detach vol@now

echo "== the daemon dies, and another one goes on"
keep_writing "$MNT/busy" &
writer=$!
sleep 1
kill_server
serve
same "$(attach vol --driver nbd)" "$dev" "the device that is taken up again"
fill "$MNT/c" 8
check_files "$MNT/c"

echo "== it is told to end while the device is in use, and another one goes on"
kill_server TERM
serve
same "$(attach vol --driver nbd)" "$dev" "the device that is taken up again"
fill "$MNT/d" 8
check_files "$MNT/c"
check_files "$MNT/d"

echo "== the power is cut"
sync -f "$MNT"
sleep 1
power_cut
GUEST

guest <<'GUEST'
mount_local
serve
dev=$(attach vol --driver nbd) || exit 1
mount "$dev" "$MNT" || fail "mount after the power cut"
check_files "$MNT/a"
check_files "$MNT/c"
check_files "$MNT/d"
umount "$MNT" || fail "umount"
xfs_repair -n "$dev" >/dev/null 2>&1 || fail "xfs_repair finds damage"
stop_serving
[ -e "/sys/block/${dev##*/}/pid" ] && fail "$dev outlives the daemon"
"$WEIR" fsck --data "$URL" 2>/dev/null || fail "fsck finds problems"
GUEST
