#!/usr/bin/env bash
# XFS on a disk that the kernel has attached by ublk: filled, trimmed, cloned while it is written,
# its power cut.
# busy: it emulates a machine
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-vm.sh"
need jq mkfs.xfs xfs_repair fstrim sha256sum blockdev

vm_disk local 2G

guest_cut <<'GUEST'
mount_local
"$WEIR" format "$URL" >/dev/null || fail "format"
serve
disk create vol --size 2GiB --cache tier
dev=$(attach vol --driver ublk) || exit 1
[[ $dev == /dev/ublkb* ]] || fail "ublk was asked for, but the device is $dev"
same "$(cat "/sys/block/${dev##*/}/queue/write_cache")" "write back" "the device's cache"
same "$(blockdev --getss "$dev")" 4096 "bytes of a block"
mkfs.xfs -q "$dev" || fail "mkfs.xfs"
mount "$dev" "$MNT" || fail "mount"
fill "$MNT/a" 24
"$WEIR" detach vol 2>/dev/null && fail "a device that is mounted was detached"
umount "$MNT" || fail "umount"
xfs_repair -n "$dev" >/dev/null 2>&1 || fail "xfs_repair finds damage"
detach vol
poll 10 test ! -e "$dev" || fail "$dev outlives weir detach"

echo "== attached again, trimmed, cloned while it is written"
dev=$(attach vol --driver ublk) || exit 1
mount "$dev" "$MNT" || fail "mount"
check_files "$MNT/a"
fill "$MNT/b" 32
sync -f "$MNT"
before=$(stored vol) || exit 1
rm -r "$MNT/b"
sync -f "$MNT"
fstrim "$MNT" || fail "fstrim"
sync -f "$MNT"
after=$(stored vol) || exit 1
[ "$after" -lt $((before - (30 << 20))) ] || fail "trimmed from $before to $after bytes only"
keep_writing "$MNT/busy" &
sleep 2
disk clone vol copy
copy=$(attach copy --read-only --driver ublk) || exit 1
mkdir /mnt/copy
mount -o nouuid,ro,norecovery "$copy" /mnt/copy || fail "mount the clone"
check_files /mnt/copy/a
umount /mnt/copy || fail "umount the clone"
detach copy

echo "== the power is cut"
fill "$MNT/c" 8
sync -f "$MNT"
power_cut
GUEST

guest <<'GUEST'
mount_local
serve
dev=$(attach vol --driver ublk) || exit 1
mount "$dev" "$MNT" || fail "mount after the power cut"
check_files "$MNT/a"
check_files "$MNT/c"
umount "$MNT" || fail "umount"
xfs_repair -n "$dev" >/dev/null 2>&1 || fail "xfs_repair finds damage"
stop_serving
[ -e "$dev" ] && fail "$dev outlives the daemon"
"$WEIR" fsck --data "$URL" 2>/dev/null || fail "fsck finds problems"
GUEST
