#!/usr/bin/env bash
# What a fenced writer had not flushed is told of by every mount until somebody settles it, and
# `weir recover` lists it, writes it out, puts it back and gives it up.
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-crash.sh"
need jq

busy_settings flush_age_ms=3600000 meta_flush_ms=60000
MOUNT_ARGS=(--config "$T/settings.json" --take-over)
A=$MNT B=$T/b
mkdir "$B"

mount_second() {
    "$WEIR" mount "$URL" "$B" --tier "$T/tier-b" --log-file "$T/b.log" --config "$T/settings.json" --take-over ||
        fail "no takeover"
}

# Dirty changes of the first, then another writer, which changes one of the files; then the first again.
leave_things() {
    head -c 300000 /dev/urandom >"$T/same.now"
    cp "$T/same.now" "$A/same"
    echo before >"$A/other"
    "$WEIR" flush "$A" || fail "flush"
    printf CHANGED | dd of="$T/same.now" bs=1 seek=9000 conv=notrunc status=none
    printf CHANGED | dd of="$A/same" bs=1 seek=9000 conv=notrunc status=none
    echo "ours, longer" | dd of="$A/other" conv=notrunc status=none
    head -c 70000 /dev/urandom >"$T/new.now"
    mkdir -p "$A/dir" && cp "$T/new.now" "$A/dir/new" && chmod 640 "$A/dir/new" && chown 7:8 "$A/dir/new"
    mount_second
    echo theirs >"$B/other"
    "$WEIR" umount "$B" || fail "umount of the second"
    kill9
    mount_volume
}

format_volume
mount_volume
echo "== it is told of by every mount, beside nothing that says otherwise"
leave_things
label=$("$WEIR" recover "$A" --json | jq -r '.[0].label')
for mount in 1 2 3; do
    if [ $mount = 3 ]; then kill9 && mount_volume; fi
    text=$("$WEIR" status "$A")
    grep -q "SET ASIDE .* weir recover $A $label" <<<"${text//\`/ }" || fail "mount $mount: status tells nothing: $text"
    grep -q "nothing lost" <<<"$text" && fail "mount $mount: status says nothing was lost"
    same "$(status .aside.files)" 3 "files in the status of mount $mount"
    [ $mount = 1 ] && remount --config "$T/settings.json"
done
grep -q "WARN.*data is set aside" "$LOG" || fail "the log does not tell of it"
standing() { "$WEIR" recover "$A" --json | jq -r ".[0].files[] | select(.path == \"$1\") | .standing"; }
same "$(standing /same)" unchanged "the file that nobody changed"
same "$(standing /other)" changed "the file that somebody changed"
same "$(standing /dir/new)" new "the file that never reached the volume"
"$WEIR" recover "$A" | grep -q "changed .*/other" || fail "the list is not for people: $("$WEIR" recover "$A")"

echo "== it is written out, as nobody but its owner may read it"
mkdir "$T/out"
ln -s /etc "$T/out/$label"
"$WEIR" recover "$A" --extract "$T/out" 2>"$T/err" && fail "followed a symlink out of the directory"
rm "$T/out/$label"
"$WEIR" recover "$A" "$label" --extract "$T/out" >"$T/said" || fail "extract"
cmp "$T/out/$label/same" "$T/same.now" || fail "not the last state of a file of which all is known"
cmp "$T/out/$label/dir/new" "$T/new.now" || fail "not the new file"
same "$(stat -c %a:%u:%g "$T/out/$label/dir/new")" 600:7:8 "who may read the new file"
same "$(cat "$T/out/$label/other")" "ours, longer" "what was written of the changed file"
grep -q "other .*holes" "$T/said" || grep -q "other .*whole" "$T/said" || fail "it is not said: $(cat "$T/said")"
"$WEIR" recover "$A" --extract "$A/dir" 2>"$T/err" && fail "extracts into the volume itself"

echo "== a merge puts back what nobody changed, though it is killed meanwhile"
"$WEIR" umount "$A" || fail "umount"
WEIR_FAILPOINTS="engine::aside-named=1" mount_volume
"$WEIR" recover "$A" --merge >"$T/said" 2>&1 && fail "killed, yet merged: $(cat "$T/said")"
kill9
mount_volume
"$WEIR" recover "$A" --merge >"$T/said"
same $? 1 "the exit code where something is left"
grep -q "changed .*/other" "$T/said" || fail "it is not said what is left: $(cat "$T/said")"
check() {
    cmp "$A/same" "$T/same.now" || fail "the unchanged file is not as it was written last"
    cmp "$A/dir/new" "$T/new.now" || fail "the new file is not as it was written"
    same "$(stat -c %a:%u:%g "$A/dir/new")" 640:7:8 "mode and owner of the new file"
    same "$(cat "$A/other")" theirs "the file that somebody changed"
}
check
cold
check

echo "== what is left is given up when told, and not before"
"$WEIR" recover "$A" --json | jq -e 'length == 0' >/dev/null || fail "the tier is empty, yet: $("$WEIR" recover "$A")"
leave_things
label=$("$WEIR" recover "$A" --json | jq -r '.[0].label')
"$WEIR" recover "$A" "$label" --discard </dev/null >"$T/said" 2>&1 && fail "gave it up without being asked to"
grep -q -- "--yes" "$T/said" || fail "does not say how: $(cat "$T/said")"
"$WEIR" recover "$A" "$label" --discard --yes >"$T/said" || fail "discard"
grep -q "/other" "$T/said" || fail "it is not said what goes: $(cat "$T/said")"
same "$("$WEIR" recover "$A" --json | jq length)" 0 "what is set aside after it was given up"
"$WEIR" status "$A" | grep -q "SET ASIDE" && fail "status still tells of it"
fsck_clean
