#!/usr/bin/env bash
# The binary called as `lfs`: AWS's guide for FSx for Lustre, command by command, unchanged.
source "$(dirname "$0")/../lib.sh"
begin
need python3 jq
lake_start
DIR=$MNT/lake
mkdir "$T/bin" && ln -s "$WEIR" "$T/bin/lfs" && export PATH=$T/bin:$PATH

states() { (cd "$MNT" && find lake -type f -print0 | xargs -0 lfs hsm_state | sed 's/^[^:]*: //' | sort | uniq -c | sed 's/^ *//'); }
idle() { ! (cd "$MNT" && find lake -type f -print0 | xargs -0 lfs hsm_action) | grep -qv ': NOOP$'; }
now() { date +%s%3N; }

lake fill data/ 2000 1000
lake stamp data/big 1 6000000
fmt_mount
"$WEIR" link s3://lake/data "$DIR" >/dev/null || fail "link"
released="(0x0000000d) released exists archived, archive_id:1"
here="(0x00000009) exists archived, archive_id:1"
same "$(states)" "2001 $released" "hsm_state after the import"
same "$(lfs hsm_action "$DIR/big")" "$DIR/big: NOOP" "hsm_action of a file that waits for nothing"

echo "== the loop of the guide, and one request instead"
part=$DIR/d000
began=$(now)
find "$part" -type f -print0 | xargs -0 -n 1 lfs hsm_restore || fail "hsm_restore"
poll 60 idle || fail "it does not end: $(lfs hsm_action "$part/f00000")"
loop=$(($(now) - began))
same "$(cd "$MNT" && find lake -type f -print0 | xargs -0 lfs hsm_state | grep -c "$here" -F)" 100 "restored files"
began=$(now)
"$WEIR" hydrate -r "$DIR" --wait --json >"$T/hydrated" || fail "hydrate"
whole=$(($(now) - began))
same "$(states)" "2001 $here" "hsm_state when all is here"
echo "100 files by a loop of lfs: $loop ms; 2,001 files by one request: $whole ms"
same "$(jq '.[0].files_done' "$T/hydrated")" 2001 "files of one action"
# The loop asks once for each file: one request for all must cost less than a third of that for each.
[ $((whole * 100 * 3)) -lt $((loop * 2001)) ] || fail "one request takes as long as the loop"
same "$("$WEIR" actions "$MNT" --all --json | jq length)" 100 "actions that are kept"

echo "== release, archive, restore of single files"
cd "$DIR" || fail "cd"
find . -type f -print0 | xargs -0 lfs hsm_release || fail "hsm_release"
cd "$T" || fail "cd"
same "$(states)" "2001 $released" "hsm_state after release"
echo more >>"$DIR/big"
lfs hsm_state "$DIR/big" | grep -q "exists dirty" || fail "$(lfs hsm_state "$DIR/big")"
lfs hsm_release "$DIR/big" 2>"$T/err"
same "$?" 1 "exit code of a release that is refused"
grep -q "lfs hsm_release: $DIR/big: .*archive" "$T/err" || fail "$(cat "$T/err")"
lfs hsm_archive "$DIR/big" || fail "hsm_archive"
poll 30 idle || fail "hsm_archive does not end"
poll 10 eval 'lfs hsm_state "$DIR/big" | grep -q "exists archived"' || fail "$(lfs hsm_state "$DIR/big")"
same "$(lake cat data/big | tail -c 5)" more "what was archived"
lfs hsm_release "$DIR/big" || fail "release what was archived"
lfs hsm_set --norelease "$DIR/big" || fail "hsm_set"
lfs hsm_state "$DIR/big" | grep -q "(0x0000001d) released exists archived never_release" ||
    fail "$(lfs hsm_state "$DIR/big")"
lfs hsm_clear --norelease "$DIR/big" || fail "hsm_clear"
lfs hsm_restore "$DIR/big" "$DIR/nothing" 2>/dev/null
same "$?" 2 "exit code for a file that is not there"
poll 30 idle || fail "hsm_restore does not end"
same "$(lfs hsm_state "$DIR/big")" "$DIR/big: $here" "a restored file"

echo "== layouts and space"
mkdir "$DIR/striped"
lfs setstripe -c 4 -S 4M "$DIR/striped" || fail "setstripe"
same "$(lfs getstripe -c "$DIR/striped") $(lfs getstripe -S "$DIR/striped")" "4 4194304" "a layout that was set"
lfs getstripe "$DIR/big" | grep -q "lmm_stripe_count:" || fail "getstripe"
lfs df -h "$MNT" | grep -q "filesystem_summary" || fail "df: $(lfs df -h "$MNT")"
fsck_clean
