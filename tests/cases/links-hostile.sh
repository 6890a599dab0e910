#!/usr/bin/env bash
# A linked directory in which somebody makes symbolic links, pipes and devices: the daemon, which is
# root, neither reads nor writes anything outside of it, waits for no pipe, and counts what cannot show.
source "$(dirname "$0")/../lib.sh"
begin
need jq python3
LAKE=$T/lake OUTSIDE=$T/outside DIR=$MNT/lake
mkdir -p "$LAKE/d" "$LAKE/e" "$OUTSIDE/below"
for file in plain d/f e/f; do echo "object $file" >"$LAKE/$file"; done
for file in secret f below/f; do echo "secret $file" >"$OUTSIDE/$file"; done
chmod -R go-rwx "$OUTSIDE"
ln -s ../outside/secret "$LAKE/shadow"
ln -s ../outside "$LAKE/out"
ln -s .. "$LAKE/d/up"
ln -s plain "$LAKE/inside"
mkfifo "$LAKE/pipe"
mknod "$LAKE/zero" c 1 5
python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$LAKE/socket"
HIDDEN=7
before=$(cd "$OUTSIDE" && find . -type f -exec sha256sum {} + | sort)

weir() { timeout 60 "$WEIR" "$@"; }
untouched() {
    same "$(cd "$OUTSIDE" && find . -type f -exec sha256sum {} + | sort)" "$before" "what is outside $1"
    same "$(find "$DIR" -type f -exec grep -l secret {} +)" "" "files that show it $1"
}
shows() { same "$(cd "$DIR" && find . -mindepth 1 -printf '%P %y\n' | LC_ALL=C sort | tr '\n' ' ')" "$1" "$2"; }

fmt_mount
for kind in --import=all --lazy-dirs; do
    echo "== $kind"
    weir link "file://$LAKE" "$DIR" $kind >/dev/null || fail "link $kind"
    shows "d d d/f f e d e/f f plain f " "what shows ($kind)"
    same "$(link_has .hidden "$DIR")" $HIDDEN "what cannot show ($kind)"
    weir links "$DIR" --hidden >"$T/hidden" || fail "links --hidden"
    for why in 'shadow.*symbolic link' 'pipe.*pipe' 'zero.*device' 'socket.*socket'; do
        grep -q "$why" "$T/hidden" || fail "no $why in $(cat "$T/hidden")"
    done
    untouched "after $kind"
    weir unlink "$DIR" >/dev/null || fail "unlink"
    rm -rf "$DIR"
done

echo "== a directory that becomes a link after it was imported"
weir link "file://$LAKE" "$DIR" --import new,changed,deleted --export all --poll 1h >/dev/null ||
    fail "link with exports"
mv "$LAKE/e" "$LAKE/e.away"
ln -s ../outside "$LAKE/e"
timeout 60 cat "$DIR/e/f" >"$T/read" 2>/dev/null
grep -q secret "$T/read" && fail "a read goes where the link leads"
echo mine >"$DIR/e/new"
mkdir -p "$DIR/out"
echo mine >"$DIR/out/new"
weir archive --wait "$DIR/e/new" "$DIR/out/new" >"$T/archive" 2>&1 && fail "exports through links: $(cat "$T/archive")"
weir refresh "$DIR" --wait >/dev/null || fail refresh
[ ! -e "$DIR/e/f" ] || fail "what is behind a link shows"
same "$(link_has .hidden "$DIR")" $((HIDDEN + 1)) "what cannot show now"
untouched "after exports"

echo "== and back"
rm "$LAKE/e"
mv "$LAKE/e.away" "$LAKE/e"
weir refresh "$DIR" --wait >/dev/null || fail refresh
same "$(cat "$DIR/e/f")" "object e/f" "the directory that is back"
poll 30 test -e "$LAKE/e/new" || fail "the export never ends: $(weir links "$DIR" --json)"
[ "$(stat -c %a "$LAKE/e/new")" = 644 ] || fail "an exported file has mode $(stat -c %a "$LAKE/e/new")"
rm -rf "$DIR/out"
fsck_clean
