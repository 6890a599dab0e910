#!/usr/bin/env bash
# Hydrate, release, archive, state, actions, cancel and pin, over a linked tree and over plain files.
source "$(dirname "$0")/../lib.sh"
begin
need python3 jq
lake_start

states() { "$WEIR" state -r "$1" --json; }
count() { states "$1" | jq -s "[.[] | select($2)] | length"; }
sums() { (cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum); }
# Says what is wrong if a command succeeds, or does not give that reason.
refused() { # REASON COMMAND...
    local reason=$1
    shift
    "$@" >/dev/null 2>"$T/refused" && fail "$* is not refused"
    grep -q -- "$reason" "$T/refused" || fail "$*: not '$reason' but: $(cat "$T/refused")"
}
action_is() { "$WEIR" actions "$MNT" --all --json | jq -e ".[] | select(.id == $1) | $2" >/dev/null; }

lake fill data/ 200 3000
for n in 1 2 3; do lake stamp "data/large$n" 1 8000000; done
fmt_mount --tier-size 128MiB
"$WEIR" link s3://lake/data "$MNT/linked" >/dev/null || fail "link"
mkdir "$MNT/plain"
python3 - "$MNT/plain" <<'PY' || fail "cannot fill plain"
import os, random, sys
rng = random.Random(3)
for i in range(100):
    with open(f"{sys.argv[1]}/f{i}", "wb") as file:
        file.write(rng.randbytes(3000))
for i in range(2):
    with open(f"{sys.argv[1]}/large{i}", "wb") as file:
        file.write(rng.randbytes(8_000_000))
PY
"$WEIR" archive -r "$MNT/plain" --wait >/dev/null || fail "archive plain"
same "$(count "$MNT/plain" .dirty)" 0 "dirty files after archive"
"$WEIR" release -r "$MNT/plain" >/dev/null || fail "release plain"

for tree in linked plain; do
    dir=$MNT/$tree files=$(find "$MNT/$tree" -type f | wc -l)
    size=$(find "$dir" -type f -printf '%s\n' | awk '{n += $1} END {print n}')
    echo "== $tree: $files files, $size bytes"
    same "$(count "$dir" '.released and .archived and .exists and .resident_bytes == 0')" "$files" "released files"
    du() { "$WEIR" du "$MNT" --json | jq ".rows[] | select(.path == \"$1\") | $2"; }
    same "$(du "$dir" '[.files, .bytes, .resident_bytes, .released] | @csv')" "\"$files,$size,0,$files\"" "weir du"
    fetched=$(status .since_mount.bytes_fetched)
    "$WEIR" hydrate -r "$dir" --wait --json >"$T/hydrated" || fail "hydrate $tree"
    same "$(jq -c '.[0] | [.state, .files_total, .files_done, .bytes_total, .bytes_done, .counted, .refused]' "$T/hydrated")" \
        "[\"done\",$files,$files,$size,$size,true,0]" "what was hydrated"
    fetched=$(($(status .since_mount.bytes_fetched) - fetched))
    [ $fetched -ge "$size" ] && [ $((fetched * 100)) -le $((size * 102)) ] || fail "$fetched bytes fetched for $size"
    same "$(count "$dir" '(.released | not) and .archived and .resident_bytes >= .size')" "$files" "files that are here"
    gets="$(requests data get) $(requests link get)"
    sums "$dir" >"$T/$tree.sums" || fail "cannot read $tree"
    same "$(requests data get) $(requests link get)" "$gets" "GETs to read what is here"
    "$WEIR" hydrate -r "$dir" --wait >/dev/null || fail "hydrate again"
    same "$(requests data get) $(requests link get)" "$gets" "GETs to hydrate what is here"
    "$WEIR" release -r "$dir" >"$T/released" || fail "release $tree"
    grep -q "released $files files" "$T/released" || fail "$(cat "$T/released")"
    same "$(count "$dir" .released)" "$files" "released files"
    "$WEIR" state "$dir/large1" | grep -q "0% .*released archived .*large1" || fail "$("$WEIR" state "$dir/large1")"
    "$WEIR" hydrate "$dir/large1" --wait >/dev/null || fail "hydrate a file"
    same "$(count "$dir" '.released | not')" 1 "files that are here"
    sums "$dir" | diff "$T/$tree.sums" - || fail "$tree has other bytes"
done

echo "== what is refused, and why"
for dir in "$MNT/linked" "$MNT/plain"; do
    echo changed >>"$dir/large1"
    refused "has changes that are not in the bucket" "$WEIR" release "$dir/large1"
    same "$(count "$dir" '.dirty and .exists')" 1 "dirty files"
    "$WEIR" archive "$dir/large1" --wait >/dev/null || fail "archive"
    "$WEIR" release "$dir/large1" >/dev/null || fail "release what was archived"
    same "$(tail -c 8 "$dir/large1")" changed "what was written"
    exec 5<"$dir/large1"
    refused "has it open" "$WEIR" release "$dir/large1"
    exec 5<&-
    "$WEIR" hydrate "$dir/large1" --wait >/dev/null || fail "hydrate what was archived"
    "$WEIR" pin "$dir/large1" >/dev/null || fail "pin"
    same "$(count "$dir" .pinned)" 1 "pinned files"
    refused "pinned" "$WEIR" release -r "$dir"
    same "$(count "$dir" '.released | not')" 1 "files that stay"
    refused "is a directory" "$WEIR" hydrate "$dir"
    refused "No such file" "$WEIR" hydrate "$dir/nothing"
done
same "$(lake cat data/large1 | tail -c 8)" changed "what was archived of a link"
remount
same "$(count "$MNT" .pinned)" 2 "pinned files after a mount"
"$WEIR" unpin -r "$MNT" >/dev/null || fail "unpin"
same "$(count "$MNT" .pinned)" 0 "pinned files after unpin"
"$WEIR" release -r "$MNT" >/dev/null || fail "release all"

echo "== cancelled"
"$WEIR" hydrate -r "$MNT/linked" --max-rate 2MiB >"$T/begun" || fail "hydrate"
id=$(sed -n 's/^action \([0-9]*\):.*/\1/p' "$T/begun")
poll 20 action_is "$id" '.state == "running"' || fail "it does not run"
"$WEIR" actions "$MNT" | grep -q "^ *$id  *hydrate  *running" || fail "$("$WEIR" actions "$MNT")"
"$WEIR" cancel "$id" "$MNT" >/dev/null || fail "cancel"
action_is "$id" '.state == "cancelled"' || fail "it is not cancelled"
"$WEIR" actions "$MNT" | grep -q "Nothing is under way" || fail "$("$WEIR" actions "$MNT")"
refused "no action $id is under way" "$WEIR" cancel "$id" "$MNT"
[ "$(count "$MNT/linked" .released)" -gt 0 ] || fail "all of it came before the cancel"

echo "== kill -9 in the middle: it goes on, and fetches nothing twice"
"$WEIR" release -r "$MNT/linked" >/dev/null || fail "release"
"$WEIR" hydrate -r "$MNT/linked" --max-rate 4MiB --json >"$T/begun" || fail "hydrate"
id=$(jq '.[0].id' "$T/begun")
some_here() { [ "$(states "$MNT/linked" | jq -s 'map(.resident_bytes) | add')" -gt 6000000 ]; }
poll 30 some_here || fail "nothing comes"
here=$(states "$MNT/linked" | jq -s 'map(.resident_bytes) | add')
kill9
mount_volume
poll 60 action_is "$id" '.state == "done"' || fail "it does not go on: $("$WEIR" actions "$MNT" --all)"
same "$(count "$MNT/linked" .released)" 0 "released files"
size=$(find "$MNT/linked" -type f -printf '%s\n' | awk '{n += $1} END {print n}')
# What was on its way was two parts of a second's worth at most.
[ "$(received link)" -le $((size - here + (9 << 20))) ] || fail "fetched $(received link) with $here of $size here"

echo "== a tier that is too small"
"$WEIR" release -r "$MNT" >/dev/null || fail "release"
echo '{"tier_bytes": 67108864, "high_water_percent": 20, "low_water_percent": 10}' >"$T/small.json"
remount --config "$T/small.json"
refused "takes a --tier-size of" "$WEIR" hydrate -r "$MNT/linked" --wait
[ "$(count "$MNT/linked" '.released | not')" -gt 0 ] || fail "nothing was hydrated"
fsck_clean
