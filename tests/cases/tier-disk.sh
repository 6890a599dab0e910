#!/usr/bin/env bash
# The tier's own disk fails: its file system is unmounted below a killed daemon and mounted again in
# the same boot, or the kernel cannot bring to the disk what it took. What was fsynced is there, what
# was not is set aside, and no byte is another.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
own_mounts
begin
need mkfs.ext4 mkfs.xfs losetup mount umount python3 jq

DISK=$T/disk
mkdir "$DISK"
echo '{"free_floor_bytes": 0, "tier_bytes": 104857600}' >"$T/settings.json"

noise() { # SEED BYTES
    python3 -c 'import random, sys
sys.stdout.buffer.write(random.Random(sys.argv[1]).randbytes(int(sys.argv[2])))' "$1" "$2"
}

attach() {
    LOOP=$(losetup -f --show "$IMG") || fail "losetup"
    mount "$LOOP" "$DISK" || fail "mount $LOOP"
}

mounted_anew() {
    poll 30 umount "$DISK" || fail "umount $DISK"
    losetup -d "$LOOP"
    attach
}

aside() { "$WEIR" status --json "$MNT" | jq -r '.mount.set_aside.files // 0'; }

begin_on() { # KIND IMAGE BYTES
    IMG=$2
    truncate -s "$3" "$IMG"
    "mkfs.$1" -q "$IMG" || fail "mkfs.$1"
    attach
    TIER=$DISK/tier BUCKET=$T/bucket/$1-$4 URL=file://$T/bucket/$1-$4
    mkdir -p "$TIER" "$BUCKET"
    fmt_mount --config "$T/settings.json"
    noise synced 1000000 >"$MNT/a" && sync "$MNT/a" || fail "write and fsync"
}

only_what_was_synced() { # KIND [FILES SET ASIDE]
    cmp "$MNT/a" <(noise synced 1000000) || fail "$1: what was fsynced is not there"
    [ ! -s "$MNT/b" ] || fail "$1: $(stat -c %s "$MNT/b") bytes in doubt are served"
    [ -z "${2:-}" ] || same "$(aside)" "$2" "$1: files set aside"
    fsck_clean
    umount "$DISK"
    losetup -d "$LOOP"
}

for kind in ext4 xfs; do
    begin_on $kind "$T/$kind.img" 400M anew
    noise later 5000000 >"$MNT/b"
    kill9
    mounted_anew
    mount_volume
    only_what_was_synced $kind 1
done

# A disk that promises more than it has: the kernel takes 20 MB, and can write none of them.
mkdir "$T/thin"
mount -t tmpfs -o size=80m none "$T/thin" || fail "tmpfs"
begin_on ext4 "$T/thin/ext4.img" 400M lost
sync
dd if=/dev/zero of="$T/thin/fill" bs=1M 2>/dev/null
noise later 20000000 >"$MNT/b"
drop_caches
cmp "$MNT/b" <(noise later 20000000 2>/dev/null) 2>/dev/null && fail "nothing was lost: the case does not test"
cat "$MNT/b" >/dev/null 2>&1 && fail "lost bytes read as something"
sync "$MNT/b" 2>/dev/null && fail "an fsync of lost bytes succeeds"
grep -q "lost bytes that it had taken" "$LOG" || fail "the log does not say what happened"
pid=$(daemon_pid)
"$WEIR" umount "$MNT" 2>"$T/umount.log" && fail "an unmount says that all is safe"
poll 60 gone "$pid" || fail "the daemon does not end"
rm "$T/thin/fill"
mounted_anew
mount_volume
# The file system may have stopped at the error, and then knows nothing of the file.
only_what_was_synced lost
umount "$T/thin"
