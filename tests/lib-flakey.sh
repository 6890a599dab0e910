# shellcheck shell=bash
# Disks of the guest of lib-vm.sh that can be made to fail at any time, through the device mapper.
# Source it in the guest; then flakey_disk, break_writes or break_all, heal, mounted_anew.

need blockdev dmsetup mkfs.ext4 mkfs.xfs modprobe
export DM_DISABLE_UDEV=1 # there is none here
modprobe dm-flakey || fail "the guest's kernel has no dm-flakey"

# What the mapper does with a disk from now on. What was on its way is not waited for.
map() { # NAME TARGET [ARG...]
    local sectors
    sectors=$(blockdev --getsz "$(local_disk "$1")") || exit 1
    dmsetup suspend --nolockfs --noflush "$1" && dmsetup load "$1" --table "0 $sectors ${*:2}" &&
        dmsetup resume "$1" || fail "dmsetup $*"
}

heal() { map "$1" linear "$(local_disk "$1")" 0; }                                # NAME
break_writes() { map "$1" flakey "$(local_disk "$1")" 0 0 60 1 error_writes; } # NAME
break_all() { map "$1" error; }                                                # NAME

# A disk with a file system at /mnt/NAME.
flakey_disk() { # NAME KIND
    local disk
    disk=$(local_disk "$1") || exit 1
    dmsetup create "$1" --table "0 $(blockdev --getsz "$disk") linear $disk 0" || fail "dmsetup create $1"
    "mkfs.$2" -q "/dev/mapper/$1" || fail "mkfs.$2"
    mkdir -p "/mnt/$1"
    mount "/dev/mapper/$1" "/mnt/$1" || fail "mount $1"
}

# As after a repair of the disk: the kernel forgets what it held of it.
mounted_anew() { # NAME
    poll 60 umount "/mnt/$1" || fail "umount $1"
    mount "/dev/mapper/$1" "/mnt/$1" || fail "mount $1"
}
