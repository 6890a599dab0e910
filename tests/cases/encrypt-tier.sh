#!/usr/bin/env bash
# A tier that its disk shows to nobody (--encrypt-tier): what lies on the disk, who may have the key and for how long, and what
# its surroundings do: file systems that cannot, a second daemon, kill -9, the file system mounted anew, keys rotated.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
own_mounts
begin
need jq python3 losetup mkfs.ext4 mkfs.xfs tune2fs mount umount

IMG=$T/disk.img DISK=$T/disk
mkdir "$DISK"
attach() {
    LOOP=$(losetup -f --show "$IMG") || fail "losetup"
    mount "$LOOP" "$DISK" || fail "mount $LOOP"
}
detach() {
    poll 30 umount "$DISK" || fail "umount $DISK"
    losetup -d "$LOOP"
}
disk() { # KIND ARGS...
    rm -f "$IMG"
    truncate -s 400M "$IMG"
    "mkfs.$1" -q "${@:2}" "$IMG" || fail "mkfs.$1"
    attach
    mkdir -p "$DISK/tier" "$DISK/journal"
}
# Whether the disk has these words, in any file, free block or name.
shows() {
    sync
    sync -f "$DISK"
    grep -qaF -- "$1" "$IMG"
}
words="nobody who has the disk reads this"
TIER=$DISK/tier
echo '{"free_floor_bytes": 0, "tier_bytes": 209715200}' >"$T/settings.json"
"$WEIR" key new "$T/key" >/dev/null || fail "key new"
sealed=(--key-file "$T/key" --config "$T/settings.json" --encrypt-tier)

echo "== who cannot have one"
disk xfs
URL=file://$T/bucket/plain
format_volume
MOUNT_ARGS=(--encrypt-tier)
refused_mount "is not encrypted, so that there is no key"
URL=file://$T/bucket/vol
format_volume --encrypt --key-file "$T/key"
ID=$(jq -r .id "$T/bucket/vol/volume.json")
MOUNT_ARGS=("${sealed[@]}")
refused_mount "cannot encrypt a directory"
detach
disk ext4
refused_mount "tune2fs -O encrypt"
tune2fs -O encrypt "$LOOP" >/dev/null || fail "tune2fs"

echo "== a tier in clear is told, and shows what is in it"
MOUNT_ARGS=(--key-file "$T/key" --config "$T/settings.json")
mount_volume
same "$(status .encrypted_tier)" false "a tier in clear"
yes "$words" | head -c 2000000 >"$MNT/clear"
shows "$words" || fail "the disk does not show what is there in clear: the case does not test"
umount_volume
MOUNT_ARGS=("${sealed[@]}")
refused_mount "is not encrypted: it was used without"
detach

echo "== a tier that is encrypted"
disk ext4 -O encrypt
mount_volume
same "$(status .encrypted_tier)" true "an encrypted tier"
"$WEIR" status "$MNT" | grep -q "the tier on its disk" || fail "status does not say that the tier is encrypted"
yes "$words" | head -c 6000000 >"$MNT/large"
for n in $(seq 50); do echo "$words $n" >"$MNT/small-$n"; done
cmp -s <(yes "$words" | head -c 2000000) "$MNT/clear" || fail "a file of before"
sync "$MNT/large"
shows "$words" && fail "the disk shows what files hold"
shows residency && fail "the disk shows names"
drop_caches
cmp "$MNT/large" <(yes "$words" | head -c 6000000) || fail "a resident file"
[ "$(status .passthrough.opens)" -gt 0 ] || fail "resident files are not read by passthrough"

echo "== a second daemon does not take the key from the first"
mkdir "$T/other"
"$WEIR" mount "$URL" "$T/other" --read-only --tier "$TIER" --log-file "$T/other.log" "${MOUNT_ARGS[@]}" 2>"$T/refused" &&
    fail "two daemons have one tier"
grep -q "in use by another weir" "$T/refused" || fail "the refusal says: $(cat "$T/refused")"
drop_caches
echo more >"$MNT/more" && cmp "$MNT/large" <(yes "$words" | head -c 6000000) || fail "the first one is hurt"

echo "== another binary in its place"
exec 7<"$MNT/small-2"
"$WEIR" upgrade "$MNT" >"$T/out" 2>&1 || fail "upgrade: $(cat "$T/out")"
same "$(cat <&7)" "$words 2" "a file that was open"
exec 7<&-
echo again >"$MNT/again" || fail "a file after an upgrade"

echo "== kill -9 keeps what was written, and a mount needs no word to open it"
echo "$words, unflushed" >"$MNT/unflushed"
kill9
MOUNT_ARGS=(--key-file "$T/key" --config "$T/settings.json")
mount_volume
same "$(status .encrypted_tier)" true "a tier that was encrypted"
same "$(cat "$MNT/unflushed")" "$words, unflushed" "what was not in the bucket"

echo "== after a clean end nobody reads it, with the rights of root either"
umount_volume
same "$(find "$TIER/$ID" -name mirror | wc -l)" 0 "names that show"
touch "$TIER/$ID/new" 2>/dev/null && fail "a file can be made without the key"
find "$TIER/$ID" -type f -exec cat {} + >"$T/read" 2>/dev/null
grep -qa "$words" "$T/read" && fail "files can be read without the key"

echo "== without the volume's key there is no mount; a new key opens what the old one sealed"
MOUNT_ARGS=(--config "$T/settings.json")
refused_mount "volume-locked"
"$WEIR" key rotate "$URL" --key-file "$T/key" >/dev/null || fail "key rotate"
MOUNT_ARGS=("${sealed[@]}")
mount_volume
requests_before=$(requests data get)
cmp "$MNT/large" <(yes "$words" | head -c 6000000) || fail "after a rotation"
same "$(requests data get)" "$requests_before" "requests for what is in the tier"

echo "== the file system is mounted anew below a killed daemon; and a journal"
umount_volume
MOUNT_ARGS+=(--journal "$DISK/journal")
mount_volume
echo "$words, synced" >"$MNT/synced" && sync "$MNT/synced" || fail "fsync"
shows "$words" && fail "the disk shows what the journal has"
kill9
detach
attach
mount_volume
same "$(cat "$MNT/synced")" "$words, synced" "what was fsynced"
cmp "$MNT/large" <(yes "$words" | head -c 6000000) || fail "after a reboot of the disk"
shows "$words" && fail "the disk shows what files hold"

echo "== a directory that another volume's key made"
umount_volume
mv "$TIER/$ID" "$TIER/of-another" || fail "mv"
"$WEIR" key new "$T/key2" >/dev/null
URL=file://$T/bucket/second
format_volume --encrypt --key-file "$T/key2"
mv "$TIER/of-another" "$TIER/$(jq -r .id "$T/bucket/second/volume.json")"
MOUNT_ARGS=(--key-file "$T/key2" --config "$T/settings.json")
refused_mount "no key of this volume opens it"
detach
