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

# Without -f the log is not flushed either: what was not synced is gone.
cut() {
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
