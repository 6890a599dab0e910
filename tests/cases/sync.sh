#!/usr/bin/env bash
# weir sync: into a mount, out of one, to and from an S3 server; broken off, and what it refuses.
source "$(dirname "$0")/../lib.sh"
begin
need jq rsync python3

s3_start
fmt_mount --flush-age 1h
tree=$T/tree
mkdir -p "$tree"/{a/b,empty,"with space"}
for n in $(seq 300); do echo "file $n" >"$tree/a/$n"; done
head -c 5000000 /dev/urandom >"$tree/a/b/large"
ln -s ../a/1 "$tree/with space/link"
ln "$tree/a/2" "$tree/a/b/two"
truncate -s 64M "$tree/sparse" && printf end >>"$tree/sparse"
chmod 2711 "$tree/a/b" && chmod 4755 "$tree/a/3" && chown 1234:4321 "$tree/a/4"
touch -d '2020-02-02 02:02:02.123456789' "$tree/a/5"
alike() { # DIR DIR: nothing for rsync to do, ACLs aside
    local left
    left=$(rsync -aHn --delete --itemize-changes --checksum "$1/" "$2/") || fail "rsync -n"
    [ -z "$left" ] || fail "$2 is not like $1: $(head -5 <<<"$left")"
}

echo "== into a mount"
"$WEIR" sync "$tree" "$MNT/tree" >"$T/out" || fail "sync into a mount"
alike "$tree" "$MNT/tree"
"$WEIR" sync "$tree" "$MNT/tree" --json >"$T/json" || fail "sync again"
jq -e '.schema_version == 1 and .copied == 0 and .same == 308 and .failed == 0' "$T/json" >/dev/null ||
    fail "a second run: $(cat "$T/json")"
echo other >"$tree/a/7"
rm "$tree/a/8"
"$WEIR" sync "$tree" "$MNT/tree" --delete -n | grep -q "would copy .*would delete 1" || fail "--dry-run"
[ -e "$MNT/tree/a/8" ] || fail "--dry-run deleted something"
"$WEIR" sync "$tree" "$MNT/tree" --delete --verify >/dev/null || fail "sync --delete"
alike "$tree" "$MNT/tree"
remount
alike "$tree" "$MNT/tree"

echo "== out of a mount, to a bucket and back"
mkdir "$T/s3/lake"
"$WEIR" sync "$MNT/tree" s3://lake/tree "${CONNECT[@]}" --verify >"$T/out" || fail "sync to a bucket"
"$WEIR" sync "$MNT/tree" s3://lake/tree "${CONNECT[@]}" --json | jq -e '.bytes < 1000' >/dev/null ||
    fail "a second run to a bucket copies again"
"$WEIR" sync s3://lake/tree "$T/back" "${CONNECT[@]}" >"$T/out" || fail "sync from a bucket"
cmp "$tree/a/b/large" "$T/back/a/b/large" || fail "the large file is another one"
same "$(find "$T/back" -type f | wc -l)" "$(find "$tree" -type f -o -type l | wc -l)" "files that came back"
# What it tells of modes and links is what `weir link` understands.
mkdir "$MNT/lake"
"$WEIR" link s3://lake/tree "$MNT/lake/tree" "${CONNECT[@]}" --import on-open >/dev/null 2>&1 ||
    "$WEIR" link s3://lake/tree "$MNT/lake/tree" "${CONNECT[@]}" >/dev/null || fail "link"
cmp "$tree/a/b/large" "$MNT/lake/tree/a/b/large" || fail "through a link"

echo "== broken off"
mkdir "$T/many"
python3 - "$T/many" <<'PY'
import os, sys
for n in range(3000):
    with open(f"{sys.argv[1]}/{n}", "wb") as file:
        file.write(os.urandom(20_000))
PY
# It stands still while its files are counted, and after that, so that it is never done before it is ended.
some() { # DIRECTORY
    kill -STOP $pid
    [ "$(find "$1" -type f ! -name '.weir-sync*' 2>/dev/null | wc -l)" -ge 50 ] || { kill -CONT $pid; return 1; }
}
"$WEIR" sync "$T/many" "$MNT/many" -j 2 2>"$T/err" &
pid=$!
poll 30 some "$MNT/many" || fail "nothing is copied"
kill -INT $pid
kill -CONT $pid
wait $pid
same $? 130 "the exit code after Ctrl-C"
grep -q "goes on with what is missing" "$T/err" || fail "it does not say how to go on: $(cat "$T/err")"
same "$(find "$MNT/many" -name '.weir-sync*' | wc -l)" 0 "files that were not finished"
"$WEIR" sync "$T/many" "$MNT/many" --json >"$T/json" || fail "sync does not go on"
jq -e '.same >= 50' "$T/json" >/dev/null || fail "it began anew: $(cat "$T/json")"
alike "$T/many" "$MNT/many"
"$WEIR" sync "$T/many" "$MNT/killed" -j 2 2>/dev/null &
pid=$!
poll 30 some "$MNT/killed" || fail "nothing is copied"
kill -KILL $pid
wait $pid 2>/dev/null
"$WEIR" sync "$T/many" "$MNT/killed" >/dev/null || fail "sync after kill -9"
alike "$T/many" "$MNT/killed"

echo "== what it refuses"
mkdir "$T/nothing"
refuses() { # TEXT ARGS...
    "$WEIR" sync "${@:2}" 2>"$T/err" && fail "sync ${*:2}: it is not refused"
    grep -q -- "$1" "$T/err" || fail "sync ${*:2}: $(cat "$T/err")"
}
refuses "is it mounted?" "$T/nothing" "$MNT/tree" --delete
[ -e "$MNT/tree/a/1" ] || fail "an empty source deleted everything"
refuses "in each other" "$MNT/tree" "$MNT/tree/a"
refuses "No such file" "$T/missing" "$MNT/tree"
refuses "bucket" s3://no-such-bucket-here/x "$MNT/x" "${CONNECT[@]}"
refuses "not a directory" "$tree/a/1" "$MNT/x"
fsck_clean
echo ok
