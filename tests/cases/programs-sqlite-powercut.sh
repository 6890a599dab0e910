#!/usr/bin/env bash
# SQLite with WAL and synchronous=FULL when the power is cut: what was committed is there, whether
# fsync ends in the bucket or in a journal on the disk that was cut.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
own_mounts
begin
need sqlite3 python3 jq mkfs.xfs xfs_io losetup
source "$TESTS/lib-sqlite.sh"
source "$TESTS/lib-disk.sh"

attach
for variant in bucket journal; do
    TIER=$DISK/tier-$variant BUCKET=$T/bucket/$variant
    URL=file://$BUCKET
    MOUNT_ARGS=(--flush-age 500ms)
    [ $variant = bucket ] || MOUNT_ARGS+=(--journal "$DISK/journal")
    mkdir -p "$TIER" "$BUCKET"
    sync -f "$DISK"
    format_volume
    mount_volume
    db=$MNT/data.db
    : >"$T/committed"
    make_database
    for round in $(seq "$(amount 2 20)"); do
        before=$(wc -l <"$T/committed")
        write_both 1000000
        more() { [ "$(wc -l <"$T/committed")" -gt $((before + 40)) ]; }
        poll 60 more || fail "no 40 transactions in a minute"
        cut
        wait $one && fail "a writer outlived its file system"
        wait $two && fail "a writer outlived its file system"
        reboot
        mount_volume
        check "after power cut $round, $variant"
    done
    umount_volume
done
umount "$DISK"
