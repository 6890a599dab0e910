#!/usr/bin/env bash
# The node of deploy/node with several instance stores: a stripe of them is made once, found again after a reboot,
# made anew when all are empty, and nothing is done when one of them is.
# busy: it emulates a machine
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-vm.sh"
need blkid blockdev findmnt mdadm mkfs.xfs modprobe

vm_disk one 400M
vm_disk two 400M
FUNCTIONS='
export MDADM_NO_UDEV=1 # there is none here
modprobe raid0 || fail "the kernel of the guest has no raid0"
mkdir -p /etc/weir /stores
for name in one two; do ln -sfn "$(local_disk $name)" /stores/$name; done
printf "NODE=one\nVOLUMES=%s\nSTORES=/stores/*\n" "$URL" >/etc/weir/node.conf
disk() { bash "$TESTS/../deploy/node/weir-node.sh" disk || fail "weir-node disk"; }
undone() { umount /srv/nvme && mdadm --stop --quiet "$(realpath /dev/md/weir)" || fail "cannot stop the array"; }
emptied() { # NAME...: as a stop of the machine does
    local name
    for name; do dd if=/dev/zero of=/stores/$name bs=1M count=32 conv=fsync status=none; done
}
'

echo "== made, once"
guest "$FUNCTIONS" <<'GUEST'
disk
same "$(findmnt -no FSTYPE /srv/nvme)" xfs "the file system"
grep -q 'raid0' /proc/mdstat || fail "it is no stripe: $(cat /proc/mdstat)"
[ "$(blockdev --getsize64 "$(findmnt -no SOURCE /srv/nvme)")" -gt 700000000 ] || fail "it is not made of both disks"
grep -x 'TIER=/srv/nvme/weir' /etc/weir/node.env || fail "no TIER"
echo kept >/srv/nvme/scratch/file
disk
undone
GUEST

echo "== found again, made anew when all is empty"
guest "$FUNCTIONS" <<'GUEST'
disk
same "$(cat /srv/nvme/scratch/file)" kept "after a reboot"
umount /srv/nvme
disk # of an array that the system has put together by itself
same "$(cat /srv/nvme/scratch/file)" kept "of an array that runs"
undone
emptied one two
disk
[ ! -e /srv/nvme/scratch/file ] || fail "the old file is there"
mountpoint -q /srv/nvme || fail "not mounted"
undone
echo "== one of them is empty"
emptied one
bash "$TESTS/../deploy/node/weir-node.sh" disk 2>/run/said && fail "an array of which a half is gone was made anew"
grep -q "two is not blank\|$(realpath /stores/two) is not blank" /run/said || fail "it says: $(cat /run/said)"
mountpoint -q /srv/nvme && fail "something is mounted"
same "$(blkid -p -s TYPE -o value /stores/two)" linux_raid_member "the other half"
GUEST
