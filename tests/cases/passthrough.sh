#!/usr/bin/env bash
# time-limit: 400
# Files that are wholly here are read by the kernel without the daemon: that it is so, that it falls
# back where it cannot, and that nobody ever sees a stale byte of it, over kill -9 too.
source "$(dirname "$0")/../lib.sh"
begin
need python3 jq
seed

fuse_requests() { status ".fuse_requests.$1 // 0"; }
passthrough_opens() { status .passthrough.opens; }
tool() { python3 "$TESTS/tools/passthrough.py" "$@"; }

# Reads and page faults of a resident file ask the daemon for nothing.
fmt_mount
same "$(status .passthrough.active)" true "passthrough"
head -c 5000000 /dev/urandom >"$T/want"
cp "$T/want" "$MNT/file"
reads=$(fuse_requests read)
cmp "$T/want" "$MNT/file" || fail "the file differs"
tool map_and_close "$MNT/file" "$T/want" || fail "the mapping differs"
dd if="$MNT/file" of="$T/direct" bs=1M iflag=direct status=none || fail "a direct read"
cmp "$T/want" "$T/direct" || fail "the direct read differs"
same "$(fuse_requests read)" "$reads" "READ requests for resident data"
same "$(passthrough_opens)" 3 "opens in passthrough"
"$WEIR" status "$MNT" | grep -q "passthrough  *on: 3 opens" || fail "status does not say so"

# A small released file is fetched when it is opened, a large one when it is read.
head -c 200000 /dev/urandom >"$MNT/small"
small=$(sha256sum <"$MNT/small")
cold
same "$(sha256sum <"$MNT/small")" "$small" "the small file"
same "$(passthrough_opens)" 1 "opens in passthrough of a small file"
same "$(fuse_requests read)" 0 "READ requests for it"
cmp "$T/want" "$MNT/file" || fail "the large file differs"
[ "$(fuse_requests read)" -gt 0 ] || fail "the large file was not read through the daemon"
cmp "$T/want" "$MNT/file" || fail "the large file differs when it is here"
same "$(passthrough_opens)" 2 "opens in passthrough once the large file is here"

# A file that one request reads whole is not worth the hand-over.
echo tiny >"$MNT/tiny"
same "$(cat "$MNT/tiny")" tiny "the tiny file"
same "$(passthrough_opens)" 2 "opens in passthrough of a tiny file"

# Copies of large files share their bytes in the bucket, and stay right beside readers.
tool copy_beside_reader "$MNT/file" "$MNT/copy" || fail "copy_file_range beside a reader"

# Who cuts a file to nothing and writes it anew beside a mapping uses the same bytes as that.
head -c 300000 /dev/urandom >"$MNT/cut"
timeout 60 python3 "$TESTS/tools/passthrough.py" cut_beside_mapping "$MNT/cut" || fail "a cut beside a mapping"
same "$(head -c 306 "$MNT/cut" | tail -c 6)" stored "what was stored beside it"

# Without it the daemon serves, and says why.
remount --no-passthrough
cmp "$T/want" "$MNT/file" || fail "the file differs without passthrough"
same "$(passthrough_opens)" 0 "opens in passthrough that is off"
"$WEIR" status "$MNT" | grep -q "passthrough  *off: turned off" || fail "status does not say why"
remount --read-only
cmp "$T/want" "$MNT/file" || fail "the file differs in a read-only mount"
same "$(passthrough_opens)" 0 "opens in passthrough of a shared mount"
same "$(status ".passthrough.active | tostring")" false "passthrough of a shared mount"

# What a program stored through a mapping survives kill -9, and what it does after that, or still
# reads, is its own affair.
remount --flush-age 1h
head -c 3000000 /dev/urandom >"$MNT/mapped"
"$WEIR" flush "$MNT" || fail "flush"
python3 "$TESTS/tools/passthrough.py" survivor "$MNT/mapped" "$T/go" >"$T/survivor.log" 2>&1 &
survivor=$!
remember $survivor
poll 30 grep -q stored "$T/survivor.log" || fail "the mapping program: $(cat "$T/survivor.log")"
[ "$(passthrough_opens)" -ge 2 ] || fail "the program was not served in passthrough"
kill9
mount_volume
same "$(tail -c +1000001 "$MNT/mapped" | head -c 6)" stored "what was stored before kill -9"
touch "$T/go"
wait $survivor || fail "the program of the dead mount: $(cat "$T/survivor.log")"
same "$(tail -c +1000001 "$MNT/mapped" | head -c 6)" stored "what a dead mount's program stored"
"$WEIR" flush "$MNT" || fail "flush"
cold
same "$(tail -c +1000001 "$MNT/mapped" | head -c 6)" stored "what is in the bucket"

# What was stored and synced survives the loss of the machine while the program still has it.
python3 "$TESTS/tools/passthrough.py" synced "$MNT/mapped" >"$T/synced.log" 2>&1 &
synced=$!
remember $synced
poll 30 grep -q synced "$T/synced.log" || fail "the syncing program: $(cat "$T/synced.log")"
kill9
kill -KILL $synced
lose_tier
MOUNT_ARGS+=(--accept-loss tier)
mount_volume
unset 'MOUNT_ARGS[-1]' 'MOUNT_ARGS[-1]'
bytes() { tail -c +$(($1 + 1)) "$MNT/mapped" | head -c "$2"; }
for at in 10 100010; do same "$(bytes $at 5)" first "what was synced first, at $at"; done
for at in 500000 600000; do same "$(bytes $at 6)" second "what was synced then, at $at"; done
umount_volume

# The hunt, by /dev/fuse and over io_uring by turns: the tier is small and lets go of all it can all the
# time.
cat >"$T/settings.json" <<'JSON'
{"tier_bytes": 67108864, "flush_age_ms": 200, "high_water_percent": 8, "low_water_percent": 1,
 "collect_grace_s": 1, "collect_interval_s": 1, "passthrough_least_bytes": 1}
JSON
rm -rf "$BUCKET/vol" && mkdir "$BUCKET/vol" && lose_tier
fmt_mount --config "$T/settings.json"
for round in $(seq "$(amount 3 40)"); do
    tool hunt $((SEED + round)) "$(amount 3000 5000)" "$MNT" "$T/model" || fail "a stale byte, or worse"
    opens=$(passthrough_opens)
    echo "round $round: $opens opens in passthrough, $(status .passthrough.other_opens) others"
    [ "$opens" -gt 30 ] || fail "hardly anything was served in passthrough"
    case $((round % 3)) in
        0) kill9 && by_turns "$round" mount_volume ;;
        1) by_turns "$round" cold ;;
        2) by_turns "$round" remount ;;
    esac
    tool check "$MNT" "$T/model" || fail "after round $round"
done
fsck_clean
