# shellcheck shell=bash
# A disk whose power can be cut: XFS on a loop device. Source it after `begin`; then attach, cut,
# reboot. $DISK is where it is mounted.

need losetup mkfs.xfs mount umount xfs_io
DISK=$T/disk
mkdir "$DISK"
truncate -s 2G "$T/disk.img"
mkfs.xfs -q "$T/disk.img" || fail "mkfs.xfs"

attach() {
    LOOP=$(losetup -f --show "$T/disk.img") || fail "losetup"
    mount "$LOOP" "$DISK" || fail "mount $LOOP"
}

# Without -f the log is not flushed either: what was not synced is gone. After a power cut nobody
# acknowledges anything, so the daemon stops first: an fdatasync that is under way when XFS shuts
# down may be answered as if it were done (without Weir, 2 to 3 in 100 such cuts).
cut() {
    local pid
    for pid in $(daemons_below "$MNT"); do kill -STOP "$pid"; done
    xfs_io -x -c shutdown "$DISK" || fail "cannot cut the power of $DISK"
    kill9
}

reboot() {
    poll 30 umount "$DISK" || fail "umount $DISK"
    losetup -d "$LOOP"
    attach
    boot=$((boot + 1))
    export WEIR_BOOT_ID=boot-$boot
}

boot=1
export WEIR_BOOT_ID=boot-1 WEIR_HARDWARE_ID=hardware-1
