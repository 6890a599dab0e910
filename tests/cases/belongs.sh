#!/usr/bin/env bash
# A volume knows its tier and its journal: after a crash it is not mounted without them, says where
# they are, and goes on without only when told so.
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-crash.sh"
need jq

busy_settings flush_age_ms=600000 meta_flush_ms=100
CONFIG=(--config "$T/settings.json")
JOURNAL=$T/ebs/journal
mkdir -p "$T/ebs"
status() { "$WEIR" status "$MNT" --json | jq -er "$1"; }
nothing_missing() { "$WEIR" status "$MNT" --json | jq -e '.mount.left_behind == null' >/dev/null; }

echo "== the journal's disk is not mounted"
fmt_mount "${CONFIG[@]}" --journal "$JOURNAL"
echo fsynced >"$MNT/a" && sync "$MNT/a"
pid=$(daemon_pid)
kill9
mv "$T/ebs" "$T/unplugged" && mkdir "$T/ebs"
refused_mount "was written last by process $pid on $(hostname), which did not end cleanly"
refused_mount "its journal $JOURNAL, and --journal $JOURNAL is empty (is its disk mounted?)"
refused_mount "--accept-loss all"
mountpoint -q "$MNT" && fail "refused, but mounted"
MOUNT_ARGS=("${CONFIG[@]}")
refused_mount "its journal $JOURNAL, and there is no --journal"
MOUNT_ARGS+=(--accept-loss tier)
refused_mount "--accept-loss all"
"$WEIR" serve "$URL" --tier "$TIER" --log-file "$LOG" 2>"$T/refused" && fail "served without the journal"
grep -q "its journal $JOURNAL" "$T/refused" || fail "serve: $(cat "$T/refused")"
"$WEIR" disk list "$URL" >/dev/null || fail "a reader is kept from the volume"
"$WEIR" disk create "$URL" d --size 1MiB 2>"$T/refused" && fail "a command wrote beside what is missing"
"$WEIR" fsck "$URL" || fail "fsck is kept from the volume"
MOUNT_ARGS=("${CONFIG[@]}" --read-only)
TIER=$T/reader mount_volume
umount_volume

echo "== the same disk at another place is the same journal, and so is the tier"
mv "$TIER" "$T/moved" && TIER=$T/moved
MOUNT_ARGS=("${CONFIG[@]}" --journal "$T/unplugged/journal")
mount_volume
same "$(cat "$MNT/a")" fsynced "what was fsynced"
nothing_missing || fail "something is missing"
"$WEIR" status "$MNT" | grep -q "nothing lost" || fail "status of a kill"
"$WEIR" flush "$MNT" || fail "flush"

echo "== both are lost, and given up"
echo again >"$MNT/b" && sync "$MNT/b"
kill9
TIER=$T/other MOUNT_ARGS=("${CONFIG[@]}" --journal "$T/ebs/journal")
refused_mount "its tier $T/moved, and --tier $T/other is empty (is its disk mounted?); what was fsynced"
MOUNT_ARGS+=(--accept-loss all)
mount_volume
same "$(cat "$MNT/a")" fsynced "what is in the bucket"
[ ! -s "$MNT/b" ] || fail "b is where from?"
same "$(status .mount.left_behind.tier)" "$T/moved" "the tier that is missing"
same "$(status .mount.left_behind.journal)" "$T/unplugged/journal" "the journal that is missing"
"$WEIR" status "$MNT" | grep "LEFT BEHIND" | grep -q "$T/unplugged/journal" || fail "status does not tell"
"$WEIR" status "$MNT" | grep -q "nothing lost" && fail "status says that nothing is lost"
grep -q "mounted without what it had there" "$LOG" || fail "the log does not tell"
unset 'MOUNT_ARGS[-1]' 'MOUNT_ARGS[-1]'
umount_volume

echo "== after a clean end any tier will do, and what comes back late is set aside"
TIER=$T/third MOUNT_ARGS=("${CONFIG[@]}")
mount_volume
same "$(cat "$MNT/a")" fsynced "what is in the bucket"
umount_volume
TIER=$T/moved
mount_volume
"$WEIR" status "$MNT" | grep -q "SET ASIDE" || fail "status does not tell of what was set aside"
"$WEIR" status "$MNT" | grep -q "nothing lost" && fail "status says that nothing is lost"
umount_volume

echo "== as /etc/fstab has it, on a disk that forgets"
ln -s "$WEIR" "$T/mount.weir"
fstab() { # OPTIONS
    "$T/mount.weir" "$URL" "$MNT" -o "tier=$TIER,config=$T/settings.json,log-file=$LOG,_netdev$1"
}
fstab "" || fail "mount"
echo kept >"$MNT/c" && sync "$MNT/c"
kill9
lose_tier
fstab "" 2>"$T/refused" && fail "mounted without the tier"
grep -q -e "--accept-loss tier" "$T/refused" || fail "does not say what to do: $(cat "$T/refused")"
fstab ",accept-loss=tier" || fail "mount with accept-loss=tier"
same "$(cat "$MNT/c")" kept "what was fsynced"
same "$(status .mount.left_behind.tier)" "$TIER" "the tier that is missing"
echo more >"$MNT/d"
kill9
fstab ",accept-loss=tier" || fail "mount with a tier that is there"
same "$(cat "$MNT/d")" more "what was written: the option gives nothing up that is here"
nothing_missing || fail "nothing was missing"

echo "== a copy of the machine's disk is another machine"
kill9
lease=${URL#file://}/writer.json
jq '.host.hardware_id = "of the original" | .host.boot_id = "of the original"' "$lease" >"$T/lease" &&
    cp "$T/lease" "$lease"
export WEIR_HARDWARE_ID="of the copy"
MOUNT_ARGS=("${CONFIG[@]}")
refused_mount "--take-over"
export WEIR_HARDWARE_ID="of the original"
mount_volume
same "$(cat "$MNT/d")" more "on the machine itself, booted anew"
fsck_clean
