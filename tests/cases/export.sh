#!/usr/bin/env bash
# What is made, changed, renamed and removed in a linked directory becomes native objects, which
# another S3 client sees as FSx for Lustre writes them: each once, over faults and kill -9.
source "$(dirname "$0")/../lib.sh"
begin
need python3 jq
seed
lake_start "${LAKE_SERVER:-}"
DIR=$MNT/lake

version_of() { "$TESTS/tools/objects.py" - - check "$1" "$2" || fail "$1 is no version of $2"; }
nothing_waits() { link_is '[.export_waiting, .export_failed]' '[0,0]' "$DIR"; }
# A file is noted when the kernel tells of its last close, which nobody waits for.
exported() { sleep 0.3 && poll "${1:-30}" nothing_waits || fail "exports do not end: $("$WEIR" links "$DIR")"; }
puts() { requests link put; }
conflicts() { find "$DIR" -name '*.weir-conflict-*' | wc -l; }
# The other client must see all files, and nothing else; but files whose bytes went with an object
# that it changed are files here only.
shows_all() {
    "$WEIR" state -r "${3:-$DIR}" --json | jq -r 'select(.lost) | .path' | sed "s|^${3:-$DIR}/||" >"$T/lost"
    lake sums "${2:-data/}" >"$T/objects"
    (cd "${3:-$DIR}" && find . -type f -not -name '*.weir-conflict-*' -printf '%P\0' | LC_ALL=C sort -z |
        grep -zvxFf "$T/lost" | xargs -0 -r sha256sum && find . -type l -printf '%P\n' | LC_ALL=C sort | while read -r link; do
        echo "$(printf %s "$(readlink "$link")" | sha256sum | cut -d' ' -f1)  $link"
    done) >"$T/files" || fail "cannot read all files"
    LC_ALL=C sort -k2 -o "$T/objects" "$T/objects"
    LC_ALL=C sort -k2 -o "$T/files" "$T/files"
    diff "$T/objects" "$T/files" >&2 || fail "files and objects differ: $1"
}
attribute() { jq -r "select(.key == \"data/$1\") | .metadata[\"$2\"]" "$T/heads"; }

echo "== new files"
fmt_mount
"$WEIR" link s3://lake/data "$DIR" "${LAKE_AT[@]}" --export new,changed,deleted >/dev/null || fail "link"
link_is .conditions '{"absent":true,"matches":true}' "$DIR" || fail "the server holds other conditions than it does"
mkdir -p "$DIR/sub/deep"
for n in {2..20}; do echo "file $n" >"$DIR/sub/f$n"; done
echo "file 1" | (cat && touch -d '2020-07-17T16:22:00.000000001Z' "$DIR/sub/f1") >"$DIR/sub/f1"
: >"$DIR/empty"
# Attributes alone export nothing: these are set before the close.
{
    cat /bin/true && chmod 751 "$DIR/program" && chown 500:501 "$DIR/program"
} >"$DIR/program"
(umask 077 && : >"$DIR/chmod" && chmod 620 "$DIR/chmod" && echo late >"$DIR/chmod")
ln -s sub/f1 "$DIR/link"
head -c 40000000 /dev/urandom >"$DIR/large"
exported
shows_all "new files"
lake head data/{program,chmod,link,sub/f1,large} >"$T/heads"
same "$(attribute program file-permissions)" 0100751 "mode of a program"
same "$(attribute program file-owner) $(attribute program file-group)" "500 501" "its owner"
same "$(attribute chmod file-permissions)" 0100620 "a mode that was set before the write"
same "$(attribute link file-permissions)" 0120777 "mode of a symlink"
same "$(attribute sub/f1 file-mtime)" 1595002920000000001ns "a time that was set"
same "$(attribute large file-mtime)" "$(stat -c %.9Y "$DIR/large" | tr -d .)ns" "mtime"
jq -e 'select(.key == "data/large") | .etag | test("-[0-9]+")' "$T/heads" >/dev/null || fail "a large file went in one PUT"

echo "== nothing twice, and nothing comes back as another version"
before=$(puts)
inodes=$(find "$DIR" -printf '%i %P\n' | sort)
"$WEIR" refresh "$DIR" --wait >/dev/null || fail "refresh"
remount
"$WEIR" refresh "$DIR" --wait >/dev/null || fail "refresh"
exported
same "$(puts)" 0 "PUTs without a change"
same "$(find "$DIR" -printf '%i %P\n' | sort)" "$inodes" "inodes"
[ "$before" -ge 26 ] && [ "$before" -le 40 ] || fail "$before PUTs for 24 files, a large one and a link"

echo "== changed, renamed, removed"
echo more >>"$DIR/sub/f2"
mv "$DIR/sub/f3" "$DIR/sub/deep/moved"
rm "$DIR/sub/f4" "$DIR/link"
exported
shows_all "after changes"
same "$(puts) $(requests link copy)" "1 1" "PUTs and copies for a change and a rename"
mv "$DIR/sub" "$DIR/renamed"
mv "$DIR/large" "$DIR/larger"
exported
shows_all "after directories were renamed"
mkdir "$MNT/out" && mv "$DIR/renamed/f5" "$MNT/out/" && mv "$DIR/renamed/deep" "$MNT/out/"
exported
shows_all "after files left"
same "$(cat "$MNT/out/f5" "$MNT/out/deep/moved")" "$(printf 'file 5\nfile 3')" "files that left"
cold
shows_all "cold"
same "$(cat "$MNT/out/f5" "$MNT/out/deep/moved")" "$(printf 'file 5\nfile 3')" "files that left, cold"

echo "== what the other client did meanwhile is not overwritten"
"$WEIR" release "$DIR/larger" >/dev/null || fail "release"
exec 5>>"$DIR/larger"
echo mine >&5
lake stamp data/larger 2 1000 -- stamp data/renamed/f6 2 1000 -- delete data/renamed/f7 -- stamp data/contended 1 1000
echo mine >>"$DIR/renamed/f6"
echo mine >>"$DIR/renamed/f7"
echo mine >"$DIR/contended"
exec 5>&-
rm "$DIR/renamed/f8" & lake stamp data/renamed/f8 2 1000; wait $!
exported
"$WEIR" refresh "$DIR" --wait >/dev/null || fail "refresh"
exported
shows_all "after conflicts"
same "$(version_of "$DIR/renamed/f6" data/renamed/f6)" 2 "the bucket's version"
same "$(cat "$DIR"/renamed/f6.weir-conflict-*)" "$(printf 'file 6\nmine')" "ours beside it"
same "$(version_of "$DIR/contended" data/contended)" 1 "the bucket's version"
same "$(cat "$DIR"/contended.weir-conflict-*)" mine "ours beside it"
same "$(version_of "$DIR/larger" data/larger)" 2 "the bucket's version of what was not here"
same "$(tail -c 5 "$DIR"/larger.weir-conflict-*)" mine "what was written to it, beside it"
cat "$DIR"/larger.weir-conflict-* >/dev/null 2>&1 && fail "bytes that went with their object can be read"
same "$(cat "$DIR/renamed/f7")" "$(printf 'file 7\nmine')" "what was deleted there and changed here"
same "$(conflicts)" 3 "conflicts"

echo "== both sides at once"
lake churn data/both/ 100 4 "$SEED" >"$T/churned" &
churn=$!
while kill -0 $churn 2>/dev/null; do
    file=both/d000/f000$(printf %02d $((RANDOM % 100)))
    mkdir -p "$DIR/both/d000"
    case $((RANDOM % 4)) in
        0) rm -f "$DIR/$file" ;;
        1) mv "$DIR/$file" "$DIR/$file.moved" ;;
        *) echo "local $RANDOM" >"$DIR/$file" ;;
    esac 2>/dev/null
    if head -c 1 "$DIR/$file" 2>/dev/null | grep -q d; then
        cp "$DIR/$file" "$T/copy" 2>/dev/null && [ -s "$T/copy" ] && version_of "$T/copy" "data/$file" >/dev/null
    fi
done
wait $churn || fail "the other client"
for _ in 1 2; do
    exported 60
    "$WEIR" refresh "$DIR" --wait >/dev/null || fail "refresh"
done
exported
shows_all "after both sides changed all the time"

echo "== faults: the bucket fails one request in five"
rm -rf "$DIR/both"
export WEIR_BUCKET_FAULTS="p=0.2,seed=$SEED"
remount
mkdir "$DIR/faults"
for n in {1..30}; do echo "fault $n" >"$DIR/faults/f$n"; done
head -c 20000000 /dev/urandom >"$DIR/faults/large"
exported 120
unset WEIR_BUCKET_FAULTS
remount
mv "$DIR/faults" "$DIR/faultless"
exported 60
shows_all "after faults"

echo "== kill -9 between the PUT and the note of it, early and late"
before=$(conflicts)
for nth in 1 3; do
    umount_volume
    WEIR_FAILPOINTS="engine::export-put=$nth" mount_volume
    mkdir "$DIR/kill$nth"
    pid=$(daemon_pid)
    for n in 1 2 3 4; do echo "kill $nth $n" >"$DIR/kill$nth/f$n" || break; done
    poll 30 gone "$pid" || fail "the daemon lives on"
    kill9
    mount_volume
    exported
    "$WEIR" refresh "$DIR" --wait >/dev/null || fail "refresh"
    exported
    shows_all "after kill -9"
    same "$(cat "$DIR/kill$nth"/f*)" "$(for n in 1 2 3 4; do echo "kill $nth $n"; done)" "what was written"
done
same "$(conflicts)" "$before" "conflicts with ourselves"

echo "== a link without export: what is archived goes"
"$WEIR" link s3://lake/plain "$MNT/plain" "${LAKE_AT[@]}" 2>"$T/refused" && fail "linked what is not there"
grep -q "no object lies below s3://lake/plain" "$T/refused" || fail "it says $(cat "$T/refused")"
[ ! -e "$MNT/plain" ] || fail "a refused link left its directory"
"$WEIR" link s3://lake/plain "$MNT/plain" "${LAKE_AT[@]}" --empty >/dev/null || fail "link"
echo one >"$MNT/plain/one"
echo two >"$MNT/plain/two"
sleep 2
same "$(lake sums plain/)" "" "objects nobody asked for"
"$WEIR" archive "$MNT/plain/one" --wait >/dev/null || fail "archive"
same "$(lake cat plain/one)" one "what was archived"
same "$(lake sums plain/ | wc -l)" 1 "objects"
"$WEIR" archive -r "$MNT/plain" --wait >/dev/null || fail "archive -r"
shows_all "after archive" plain/ "$MNT/plain"
"$WEIR" release -r "$MNT/plain" >/dev/null || fail "release"
same "$(cat "$MNT/plain/two")" two "a file that was archived and released"
fsck_clean
