#!/usr/bin/env bash
# A linked bucket, whose objects another S3 client puts, changes and deletes at every moment: names,
# attributes and bytes follow, no file ever has bytes of two versions, and no local change is lost.
source "$(dirname "$0")/../lib.sh"
begin
need python3 jq curl
seed
lake_start
DIR=$MNT/lake

version_of() { "$TESTS/tools/objects.py" - - check "$1" "$2" || fail "$1 is no version of $2"; }
refresh() { "$WEIR" refresh "$DIR" --wait "$@" >/dev/null || fail "refresh $*"; }
conflicts() { find "$DIR" -name '*.weir-conflict-*' | wc -l; }
# The tree must show the bytes of all objects, and no other files but conflicts.
shows_all() {
    lake sums data/ | grep -v '  fsx/link$' >"$T/objects" # a symlink
    (cd "$DIR" && find . -type f -not -name '*.weir-conflict-*' -printf '%P\0' | LC_ALL=C sort -z |
        xargs -0 -r sha256sum) >"$T/files" || fail "cannot read all files"
    LC_ALL=C sort -k2 -o "$T/objects" "$T/objects"
    diff "$T/objects" "$T/files" >&2 || fail "files and objects differ: $1"
}

echo "== names, sizes, times, attributes"
lake fill data/ 300 3000 -- stamp data/big 1 24000000
of_fsx=(file-owner=500 file-group=501 file-atime=1595002920000000000ns file-mtime=1595002920123456789ns
    user-agent=aws-fsx-lustre)
lake put data/fsx/file file-permissions=0100640 "${of_fsx[@]}" <<<"as FSx wrote it"
lake put data/fsx/link file-permissions=0120777 "${of_fsx[@]}" < <(printf '../big')
lake put data/fsx/dir/ file-permissions=0040750 "${of_fsx[@]}" </dev/null
odd=$(lake odd data/odd/)
fmt_mount
"$WEIR" link s3://lake/data "$DIR" --import new,changed,deleted --poll 1h --attributes always \
    >"$T/linked" || fail "link"
grep -q "$(lake sums data/ | wc -l) files" "$T/linked" || fail "link does not tell how many files: $(cat "$T/linked")"
same "$(stat -c '%a %u %g %.9Y %.9X' "$DIR/fsx/file")" \
    "640 500 501 1595002920.123456789 1595002920.000000000" "attributes of a file"
same "$(stat -c '%a %u %F' "$DIR/fsx/dir")" "750 500 directory" "attributes of a directory"
same "$(readlink "$DIR/fsx/link")" ../big "the symlink"
same "$(stat -c '%s %u %a' "$DIR/big")" "24000000 0 644" "attributes of an object without any"
same "$(stat -c %Y "$DIR/d000/f00000")" "$(stat -c %Y "$T/s3/lake/data/d000/f00000")" "its time"
same "$(link_has .hidden "$DIR")" "$odd" "objects that cannot show"
same "$("$WEIR" links "$DIR" --hidden | wc -l)" "$odd" "those that are listed"
same "$(requests link get)" 1 "GETs for an import: the symlink's"
shows_all "after the import"
[ -L "$DIR/fsx/link" ] && same "$(sha256sum <"$DIR/fsx/link")" "$(sha256sum <"$DIR/big")" "through the symlink"

echo "== what the other client does shows when refresh returns, whatever the kernel remembers"
for ((n = 1; n <= 3; n++)); do
    stat "$DIR/d000/f00001" "$DIR/new$n" >/dev/null 2>&1
    cat "$DIR/d000/f00001" >/dev/null
    ls "$DIR/d001" >/dev/null
    lake stamp data/d000/f00001 $((n + 1)) $((3000 + n)) -- stamp "data/new$n" 1 1000 -- \
        delete "data/d001/f0010$n"
    case $n in
        1) refresh ;;
        2) "$WEIR" refresh "$DIR" --key d000/f00001 --key new2 --key d001/f00102 >/dev/null || fail "by key" ;;
        3) python3 - <<'PY' | "$WEIR" refresh "$DIR" --events - >/dev/null || fail "by events"
import json
def event(name, key):
    return {"eventName": name, "s3": {"bucket": {"name": "lake"}, "object": {"key": key}}}
changes = [event("ObjectCreated:Put", key) for key in ("data/d000/f00001", "data/new3")]
changes.append(event("ObjectRemoved:Delete", "data/d001/f00103"))
print(json.dumps({"Messages": [{"Body": json.dumps({"Records": changes})}]}))
PY
            ;;
    esac
    same "$(stat -c %s "$DIR/d000/f00001")" $((3000 + n)) "the new size ($n)"
    same "$(version_of "$DIR/d000/f00001" data/d000/f00001)" $((n + 1)) "the new version"
    same "$(version_of "$DIR/new$n" "data/new$n")" 1 "a new object"
    [ ! -e "$DIR/d001/f0010$n" ] || fail "an object that is gone has its file"
    ls "$DIR/d001" | grep -q "f0010$n" && fail "it is listed"
    ls "$DIR" | grep -q "new$n" || fail "a new object is not listed"
done

echo "== while a reader is in the middle, and while the file is mapped"
cold
exec 5<"$DIR/big"
head -c 65536 <&5 >"$T/part"
coproc MAPPED { exec python3 -c '
import mmap, sys
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
first = mapped[:65536]
print("mapped", flush=True)
sys.stdin.readline()
with open(sys.argv[2], "wb", buffering=0) as out:
    for at in range(0, len(mapped), 65536):
        out.write(mapped[at : at + 65536])
' "$DIR/big" "$T/mapped" 2>/dev/null; }
mapper=$MAPPED_PID
read -r <&"${MAPPED[0]}"
lake stamp data/big 2 24000001
cat <&5 >>"$T/part" 2>/dev/null && echo "the reader had all of it"
same "$(version_of "$T/part" data/big)" 1 "what the reader has"
refresh
exec 5<&-
echo go >&"${MAPPED[1]}"
wait "$mapper" && echo "the mapping had all of it"
[ ! -s "$T/mapped" ] || same "$(version_of "$T/mapped" data/big)" 1 "what the mapping has"
same "$(version_of "$DIR/big" data/big)" 2 "the next open"

echo "== while it is open for writing: the local version stays beside it"
exec 6<>"$DIR/d002/f00200"
echo -n mine >&6
lake stamp data/d002/f00200 2 4000
refresh
echo -n " too" >&6
exec 6>&-
same "$(version_of "$DIR/d002/f00200" data/d002/f00200)" 2 "the bucket's version"
same "$(conflicts)" 1 "files that lost a conflict"
same "$(head -c 8 "$DIR"/d002/f00200.weir-conflict-*)" "mine too" "the local version"
same "$(link_has .conflicts "$DIR")" 1 "conflicts that are counted"

echo "== local changes that nobody has open, deletes of changed files, names that are taken"
echo local >>"$DIR/d002/f00201"
echo local >>"$DIR/d002/f00202"
echo ours >"$DIR/taken"
lake stamp data/d002/f00201 2 4000 -- delete data/d002/f00202 -- stamp data/taken 1 500
refresh
same "$(tail -1 "$DIR"/d002/f00201.weir-conflict-*)" local "a changed file"
same "$(tail -1 "$DIR/d002/f00202")" local "a changed file whose object is gone"
same "$(version_of "$DIR/taken" data/taken)" 1 "an object with the name of a file"
same "$(cat "$DIR"/taken.weir-conflict-*)" ours "the file that had it"
rm "$DIR/d002/f00202"
shows_all "after conflicts"

echo "== a poll finds it"
"$WEIR" unlink "$DIR" >/dev/null || fail "unlink"
same "$(find "$DIR" -type f | wc -l)" 3 "files that are ours after unlink"
[ "$(conflicts)" = 3 ] || fail "conflicts do not survive unlink"
rm -rf "$DIR"
lake delete data/fsx/link
"$WEIR" link s3://lake/data "$DIR" --import new,changed,deleted --poll 1s --attributes never \
    >/dev/null || fail "link again"
lake stamp data/big 3 24000000 -- stamp data/polled 1 100 -- delete data/new1
poll 20 test -e "$DIR/polled" || fail "no poll found a new object"
poll 20 test ! -e "$DIR/new1" || fail "no poll found that an object went"
poll 20 eval '[ $(stat -c %s "$DIR/big") = 24000000 ]' || fail "no poll found a changed object"
same "$(version_of "$DIR/big" data/big)" 3 "what the poll found"

echo "== at any moment of imports and hydrations, with readers all over"
lake churn data/ 300 6 "$SEED" >"$T/churned" &
churn=$!
while kill -0 $churn 2>/dev/null; do
    "$WEIR" hydrate -r "$DIR" --wait >/dev/null 2>&1
    "$WEIR" release -r "$DIR/d001" >/dev/null 2>&1
    for file in "$DIR"/d00"$((RANDOM % 3))"/*5; do
        cp "$file" "$T/copy" 2>/dev/null || continue
        [ ! -s "$T/copy" ] || version_of "$T/copy" "data/${file#"$DIR"/}" >/dev/null
    done
done
wait $churn || fail "the other client"
refresh
shows_all "after much change"
same "$(conflicts)" 0 "conflicts without a local change"

echo "== over kill -9, in the middle of an import too"
kill9
mount_volume
shows_all "after kill -9"
"$WEIR" unlink "$DIR" >/dev/null || fail "unlink"
[ ! -e "$DIR/big" ] || fail "unlink leaves an object's file"
lake fill data/many/ 1500 10
mkdir -p "$DIR"
"$WEIR" link s3://lake/data "$DIR" --no-wait >/dev/null || fail "link a third time"
poll 30 test -e "$DIR/many" || fail "no import began"
kill9
mount_volume
"$WEIR" refresh "$DIR" --wait >/dev/null || fail "refresh"
shows_all "after an import that was killed"
remount
shows_all "after a new mount"
fsck_clean
