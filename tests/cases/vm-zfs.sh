#!/usr/bin/env bash
# OpenZFS on two disks of the volume and a special device of the machine's own: filled, scrubbed,
# exported, imported, its power cut.
# busy: it emulates a machine
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-vm.sh"
export VM_ZFS=1
need jq sfdisk sha256sum blockdev

vm_disk local 2G
vm_disk special 1G

# Attaches both disks; $DEVICES has them and the special one.
zfs=$(
    cat <<'GUEST'
attach_all() {
    local name dev
    DEVICES=()
    for name in data0 data1; do
        dev=$(attach "$name" --driver nbd) || exit 1
        # Nobody looks for partitions before somebody opens the device.
        blockdev --getsize64 "$dev" >/dev/null
        DEVICES+=("$dev")
    done
    DEVICES+=("$(local_disk special)") || exit 1
}

import() {
    zpool import -f -d /dev "$@" tank || fail "zpool import"
}

scrub() {
    zpool scrub -w tank || fail "zpool scrub"
    zpool status tank | grep -q "errors: No known data errors" ||
        fail "the scrub finds errors: $(zpool status -v tank)"
    zpool status tank | grep -q "scrub repaired 0B .* with 0 errors" ||
        fail "the scrub repaired something: $(zpool status -v tank)"
}
GUEST
)

guest_cut "$zfs" <<'GUEST'
mount_local
"$WEIR" format "$URL" >/dev/null || fail "format"
serve
for name in data0 data1; do disk create $name --size 4GiB; done
attach_all
for dev in "${DEVICES[@]}"; do
    printf 'label: gpt\n,\n' | sfdisk -q "$dev" || fail "sfdisk $dev"
done
zpool create -o ashift=12 -O recordsize=1M -O special_small_blocks=128K -O mountpoint=$MNT \
    tank "${DEVICES[0]}p1" "${DEVICES[1]}p1" special "${DEVICES[2]}1" || fail "zpool create"
fill $MNT/a 16
zpool sync tank
check_files $MNT/a
"$WEIR" detach data0 2>/dev/null && fail "a device of a pool was detached"
scrub

echo "== exported, detached, attached, imported"
zpool export tank || fail "zpool export"
for name in data0 data1; do detach $name; done
attach_all
import
check_files $MNT/a
[ "$(stored data0)" -gt $((5 << 20)) ] || fail "data0 has $(stored data0) bytes only"

echo "== the power is cut"
fill $MNT/b 6
zpool sync tank
keep_writing $MNT/busy &
sleep 3
power_cut
GUEST

guest "$zfs" <<'GUEST'
mount_local
serve
attach_all
import
check_files $MNT/a
check_files $MNT/b
scrub
zpool export tank || fail "zpool export"
stop_serving
"$WEIR" fsck --data "$URL" 2>/dev/null || fail "fsck finds problems"
GUEST
