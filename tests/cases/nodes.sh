#!/usr/bin/env bash
# Two nodes that write one volume together, as somebody would try it by hand.
# time-limit: 200
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nodes.sh"
need fallocate git jq pgrep python3 sha256sum

nodes_make 2
A=$(node 0) B=$(node 1)

echo "== written here, read there, at once"
for turn in 1 2 3 4 5 6 7 8; do
    echo "from a $turn" >"$A/note"
    same "$(cat "$B/note")" "from a $turn" "what the other node reads"
    printf 'from b, longer %s' "$turn" >"$B/note"
    same "$(cat "$A/note")" "from b, longer $turn" "what the first node reads"
    same "$(stat -c %s "$A/note")" "$(stat -c %s "$B/note")" "sizes"
done
head -c 5000000 /dev/urandom >"$T/bytes"
cp "$T/bytes" "$A/bytes"
cmp "$T/bytes" "$B/bytes" || fail "other bytes on the other node"
same "$(stat -c %s "$B/bytes")" 5000000 "the size on the other node"
truncate -s 1000 "$B/bytes"
same "$(stat -c %s "$A/bytes")" 1000 "the size of what was cut on the other node"
truncate -s 3000 "$A/bytes"
cmp "$B/bytes" <(head -c 1000 "$T/bytes" && head -c 2000 /dev/zero) || fail "what was cut and grown"

echo "== each node has actions of its own, and tells of all"
for node in "$A" "$B" "$A" "$B"; do
    "$WEIR" hydrate -r "$node" >"$T/action.log" 2>&1 || fail "hydrate on $node: $(cat "$T/action.log")"
done
same "$("$WEIR" actions "$B" --all --json | jq -c 'map([.id, .node.here])')" "[[1,false],[2,true],[3,false],[4,true]]" \
    "actions as the second node tells of them"

echo "== names"
mkdir "$A/dir" && touch "$A/dir/one" "$B/dir/two"
same "$(ls "$A/dir")" "$(ls "$B/dir")" "what both list"
same "$(ls "$A/dir" | tr '\n' ' ')" "one two " "what is listed"
mkdir "$B/dir" 2>/dev/null && fail "a directory is made twice"
(set -C && echo x >"$B/dir/one") 2>/dev/null && fail "a file is made twice"
mv "$A/dir/one" "$A/dir/three"
[ ! -e "$B/dir/one" ] || fail "the old name is still there"
[ -e "$B/dir/three" ] || fail "the new name is not there"
mv "$B/dir" "$B/moved"
same "$(ls "$A/moved" | tr '\n' ' ')" "three two " "a directory that was moved"
rmdir "$A/moved" 2>/dev/null && fail "a directory with files is removed"
echo replaced >"$A/new" && mv "$A/new" "$A/moved/two"
same "$(cat "$B/moved/two")" replaced "a file that was replaced"
ln "$B/moved/two" "$B/hard" && ln -s hard "$B/soft" && chmod 640 "$B/hard"
same "$(stat -c '%h %a %i' "$A/moved/two")" "$(stat -c '%h %a %i' "$B/hard")" "a file with two names"
same "$(cat "$A/soft")" replaced "a symlink"
rm -r "$A/moved" && [ ! -e "$B/moved" ] || fail "what was removed is there"
made=$(for n in $(seq 40); do
    for dir in "$A" "$B"; do mkdir "$dir/once$n" 2>/dev/null && echo "$n" & done
    wait
done | sort | uniq -c | awk '$1 != 1' | wc -l)
same "$made" 0 "directories that were not made by just one of two"

echo "== both append"
for dir in "$A" "$B"; do
    for n in $(seq 100); do echo "$dir line $n" >>"$dir/log"; done &
    writers+=($!)
done
wait "${writers[@]}" || fail "an append failed"
for dir in "$A" "$B"; do
    same "$(grep -c '^' "$dir/log")" 200 "lines of a log of both"
    for from in "$A" "$B"; do
        grep "^$from line" "$dir/log" | cmp - <(seq -f "$from line %g" 100) || fail "lines of $from"
    done
done

echo "== removed while it is open elsewhere"
# Through the descriptor that is open: nothing is opened anew.
reads_as() { # DESCRIPTOR FILE
    python3 - "$1" "$2" <<'PY'
import os, sys
want = open(sys.argv[2], "rb").read()
have = b""
while part := os.pread(int(sys.argv[1]), 1 << 20, len(have)):
    have += part
sys.exit(have != want)
PY
}
cp "$T/bytes" "$A/open"
exec {held}<>"$B/open"
rm "$A/open"
[ ! -e "$B/open" ] || fail "the name is still there"
reads_as "$held" "$T/bytes" || fail "a removed file is another one for who has it open"
cp "$T/bytes" "$A/replaced"
exec {other}<"$B/replaced"
echo new >"$A/.new" && mv "$A/.new" "$A/replaced"
same "$(cat "$B/replaced")" new "what was replaced"
reads_as "$other" "$T/bytes" || fail "a replaced file is another one for who has it open"

echo "== flock(1)"
echo 0 >"$A/counter"
count() { # DIRECTORY
    local dir=$1
    for _ in $(seq 40); do
        flock "$dir/lock" bash -c 'n=$(cat "$1/counter") && echo $((n + 1)) >"$1/counter"' count "$dir" || return 1
    done
}
touch "$A/lock"
count "$A" & writers=($!)
count "$B" & writers+=($!)
wait "${writers[@]}" || fail "a counter failed"
same "$(cat "$B/counter")" 80 "what both counted"
flock "$A/lock" sleep 60 &
holder=$!
remember $holder
poll 10 bash -c "! flock -n '$B/lock' true" || fail "both have the lock"
flock -s -n "$B/lock" true && fail "a shared lock beside an exclusive one"
for pid in $(pgrep -P $holder) $holder; do kill -KILL "$pid"; done
flock -w 20 "$B/lock" true || fail "the lock of a process that was killed stays"
flock -s "$A/lock" flock -s -n "$B/lock" true || fail "no two shared locks"

echo "== a clone on one node, read on the other"
git init -q "$T/repo" && cp -r "$TESTS"/../crates/types "$TESTS"/../crates/engine/src "$T/repo/" && git -C "$T/repo" add -A &&
    git -C "$T/repo" -c user.name=x -c user.email=x@x commit -qm x || fail "no repository"
git clone -q "$T/repo" "$A/repo" & clone=$!
while ! gone $clone; do
    find "$B/repo" -type f 2>/dev/null | head -200 | xargs -r cat >/dev/null 2>&1
done
wait $clone || fail "git clone"
git -C "$B/repo" -c safe.directory="*" status --porcelain >"$T/status" || fail "git status"
[ ! -s "$T/status" ] || fail "the other node sees changes: $(cat "$T/status")"
git -C "$B/repo" -c safe.directory="*" fsck --strict || fail "git fsck"
sums() { (cd "$1/repo" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
cmp <(sums "$A") <(sums "$B") || fail "the trees differ"
echo changed >>"$B/repo/src/lib.rs"
same "$(git -C "$A/repo" status --porcelain)" " M src/lib.rs" "what git sees of a change on the other node"

# What was removed while it was open reads on.
reads_as "$held" "$T/bytes" || fail "a removed file is another one after a while"
python3 - "$held" <<'PY' || fail "a removed file cannot be written by who has it open"
import os, sys
held = int(sys.argv[1])
assert os.pwrite(held, b"written on", 100) == 10 and os.pread(held, 10, 100) == b"written on"
os.fsync(held)
PY
exec {held}>&- {other}<&-

echo "== room that is made on one node is a size on the other"
fallocate -l 70000 "$A/room" || fail "fallocate"
same "$(stat -c %s "$B/room")" 70000 "the size of what was made room for"

echo "== who is told of the others, and who is refused"
# Daemons of this machine are not known there, as those of another one are not.
elsewhere() { WEIR_RUN_DIR=$T/elsewhere "$WEIR" "$@"; }
says() { # TEXT COMMAND...: it fails and says so
    local text=$1
    shift
    "$@" >"$T/said" 2>&1 && fail "$* goes well, though it should say: $text"
    grep -q -e "$text" "$T/said" || fail "$* does not say '$text': $(cat "$T/said")"
}
mkdir -m 700 "$T/elsewhere" && mkdir "$T/alone"
same "$("$WEIR" nodes "$URL" --json | jq length)" 2 "nodes"
"$WEIR" nodes "$B" --watch >"$T/nodes" || fail "weir nodes"
same "$(grep -c lives "$T/nodes")" 2 "nodes that live"
alone=(elsewhere mount "$URL" "$T/alone" --tier "$T/tier-alone" --log-file "$T/alone.log" "${CONNECT[@]}")
says "with --shared by 2 nodes" "${alone[@]}"
says "with --shared at" "$WEIR" mount "$URL" "$T/alone" --tier "$T/tier-alone" "${CONNECT[@]}"
says "cannot be used with" "${alone[@]}" --shared --journal "$T"
"$WEIR" format "$URL-plain" >/dev/null || fail "format"
says "weir migrate" elsewhere mount "$URL-plain" "$T/alone" --tier "$T/tier-alone" --shared "${CONNECT[@]}"

echo "== one that is told to go is out, and comes back as another one where it has nothing to lose"
was=$("$WEIR" nodes "$URL" --json | jq -r '.[] | select(.tier | endswith("/tier1")).id')
"$WEIR" nodes evict "$URL" "$was" >/dev/null || fail "weir nodes evict"
says "no node is called" "$WEIR" nodes evict "$URL" "$was"
is_back() { [ "$("$WEIR" nodes "$URL" --json | jq length)" = 2 ]; }
poll 60 is_back || fail "it does not come back: $("$WEIR" nodes "$URL")"
echo back >"$B/back" && same "$(cat "$A/back")" back "what is written by one that came back"

echo "== both end, and all is there"
tree() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum && find . -printf '%p %y %m %s %l\n' | grep -v '^\. ' | sort); }
tree "$A" >"$T/tree"
tree "$B" | diff "$T/tree" - >&2 || fail "the nodes have different trees"
nodes_umount
rm -rf "$T"/tier?
node_mount 0
tree "$A" | diff "$T/tree" - >&2 || fail "another tree from the bucket"
node_umount 0

echo "== a mount that is alone waits for a node that may live, and shuts nodes out as they it"
node_mount 0
echo kept >"$A/kept" && sync "$A/kept"
node_kill9 0
began=$SECONDS
"${alone[@]}" || fail "mount alone: $(cat "$T/alone.log")"
[ $((SECONDS - began)) -ge 9 ] || fail "it does not wait to see whether the node lives"
same "$(cat "$T/alone/kept")" kept "what the dead node synced"
says "which writes it or did not end cleanly" "$WEIR" mount "$URL" "$A" --tier "$T/tier0" --shared "${CONNECT[@]}"
WEIR_RUN_DIR=$T/elsewhere "$WEIR" umount "$T/alone" || fail "umount"
"$WEIR" fsck --data "$URL" || fail "fsck finds problems in $URL"
