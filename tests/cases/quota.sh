#!/usr/bin/env bash
# Quotas of directories, users and groups: what they count, what they refuse, what df shows; set on a tree
# that is in use, over kills, moves and links.
source "$(dirname "$0")/../lib.sh"
begin
need jq setpriv git
seed
fmt_mount
chmod 1777 "$MNT"
X=$MNT/x

quota() { "$WEIR" quota list "$MNT" --json | jq -r ".[] | select($1) | $2"; } # WHICH EXPRESSION
of() { quota ".path == \"$1\"" "\"\(.files_used) \(.bytes_used)\""; }
is_of() { [ "$(of "$1")" = "$2" ]; }
df_of() { df --output="$1" "$2" | tail -1 | tr -d " "; }
as() { setpriv --reuid="$1" --regid="$2" --clear-groups "${@:3}"; }
refused() { # COMMAND...
    "$@" 2>"$T/refused" && fail "not refused: $*"
    grep -q "Disk quota exceeded" "$T/refused" || fail "$* says $(cat "$T/refused")"
}

echo "== a tree that is in use counts in the end, whatever is done to it meanwhile"
mkdir -p "$X/d"
for n in {1..60}; do mkdir "$X/d/$n" && touch "$X/d/$n/"{1..50} || fail "make"; done
(for n in {1..60}; do echo more >"$X/d/$n/late" && mkdir "$X/d/$n/deep" && : >"$X/d/$n/deep/f" && rm "$X/d/$n/1"; done) &
writer=$!
"$WEIR" quota set "$X" --bytes 4MiB --files 3400 --json >"$T/set" || fail "quota set"
jq -e '.counting == null and .path == "/x" and .bytes_max == 4194304' "$T/set" >/dev/null || fail "$(cat "$T/set")"
wait $writer || fail "the writer"
"$WEIR" metrics "$MNT" >"$T/metrics" && grep -q '^weir_quota_limit_bytes{of="/x"} 4194304' "$T/metrics" ||
    fail "no metric of a quota: $(grep quota "$T/metrics")"
# Files that are removed count until they are purged; small files in whole pages until they are flushed.
"$WEIR" flush "$MNT" >/dev/null || fail "flush"
wanted="$(find "$X" | wc -l) $((60 * 5))"
poll 10 is_of /x "$wanted" || fail "counted: $(of /x), there: $wanted"

echo "== bytes: who writes too much is refused, who overwrites is not"
dd if=/dev/urandom of="$X/big" bs=64k count=60 status=none || fail "3,840 of 4,096 KiB"
refused dd if=/dev/urandom of="$X/more" bs=64k count=10 status=none
rm "$X/more"
for _ in 1 2 3; do dd if=/dev/urandom of="$X/big" bs=64k count=60 conv=notrunc status=none || fail "overwrite"; done
truncate -s 1G "$X/sparse" || fail "a hole counts nothing"
refused fallocate -l 1M "$X/sparse"
rm "$X/big" "$X/sparse"
dd if=/dev/urandom of="$X/big" bs=64k count=60 status=none || fail "what is removed is free again at once"
echo "fits" >"$MNT/outside" || fail "outside of the tree nothing is full"
same "$(df_of size "$X/d")" 4096 "df below the quota, in KiB"
[ "$(df_of avail "$X/d")" -lt 300 ] || fail "df: $(df "$X/d")"
[ "$(df_of size "$MNT")" -gt 1000000000 ] || fail "df outside: $(df "$MNT")"
rm "$X/big"

echo "== files"
left=$((3400 - $(find "$X" | wc -l)))
# What was removed last is purged in a moment.
is_free() { [ "$(df_of iavail "$X")" = $left ]; }
poll 10 is_free || fail "inodes that df shows as free: $(df_of iavail "$X"), not $left"
for ((n = 0; n < left; n++)); do : >"$X/n$n" || fail "file $n of $left"; done
refused touch "$X/one-more"
refused mkdir "$X/one-more"
refused ln -s x "$X/one-more"
ln "$X/n0" "$X/a-name" || fail "a name more is no file more"
rm "$X/n1" && touch "$X/instead" || fail "one for another"
rm "$X"/n* "$X/a-name" "$X/instead"

echo "== moves: a file takes along what it counts, a directory is copied"
mkdir "$MNT/y" && "$WEIR" quota set "$MNT/y" --bytes 1MiB >/dev/null || fail "set"
head -c 600K /dev/urandom >"$MNT/a" && cp "$MNT/a" "$MNT/b" || fail "write"
mv "$MNT/a" "$MNT/y/" || fail "mv"
refused mv "$MNT/b" "$MNT/y/"
[ -e "$MNT/b" ] || fail "what could not move is gone"
poll 5 is_of /y "2 614400" || { "$WEIR" flush "$MNT" >/dev/null && is_of /y "2 614400"; } || fail "/y has $(of /y)"
mkdir "$MNT/tree" && echo in >"$MNT/tree/f" && mv "$MNT/tree" "$MNT/y/tree" || fail "mv copies a directory"
same "$(cat "$MNT/y/tree/f")" in "what was moved"
ln "$MNT/y/tree/f" "$MNT/f" 2>/dev/null && fail "a link out of a quota"
mv "$MNT/y" "$MNT/x/y" || fail "a tree with a quota moves as it is"
"$WEIR" quota get "$X/y/tree" --json | jq -e 'map(.path) == ["/x/y", "/x"]' >/dev/null || fail "which hold: $("$WEIR" quota get "$X/y/tree")"
mv "$X/y" "$MNT/y"

echo "== users and groups"
"$WEIR" quota set "$MNT" --user 1000 --bytes 1MiB --files 20 >/dev/null || fail "set for a user"
"$WEIR" quota set "$MNT" --group 2000 --files 3 >/dev/null || fail "set for a group"
refused as 1000 1000 dd if=/dev/urandom of="$MNT/of-1000" bs=64k count=20 status=none
as 1001 1001 dd if=/dev/urandom of="$MNT/of-1001" bs=64k count=20 status=none || fail "another user"
rm "$MNT/of-1000"
refused chown 1000 "$MNT/of-1001"
as 1001 2000 touch "$MNT/g1" "$MNT/g2" "$MNT/g3" || fail "three files of a group"
refused as 1001 2000 touch "$MNT/g4"
"$WEIR" quota set "$MNT" --user nobody-here --files 3 2>"$T/refused" && fail "a user that is not known"
grep -q "not known on this machine" "$T/refused" || fail "$(cat "$T/refused")"

echo "== over a kill, and over a walk that a kill ends"
mkdir -p "$MNT/z" && for n in {1..40}; do mkdir "$MNT/z/$n" && touch "$MNT/z/$n/"{1..50}; done
"$WEIR" quota set "$MNT/z" --files 2040 --no-wait >/dev/null || fail "set"
kill9
mount_volume
counted() { [ "$(quota '.path == "/z"' .counting)" = null ]; }
poll 30 counted || fail "the counting does not go on: $("$WEIR" quota list "$MNT")"
same "$(of /z | cut -d' ' -f1)" "$(find "$MNT/z" | wc -l)" "files that count after a kill"
refused touch "$MNT/z/more"
refused as 1001 2000 touch "$MNT/g4"

echo "== programs, and the removal of a quota"
git init -q "$X/git" && (cd "$X/git" && cp "$X/d/2/late" . && git add . && git -c user.name=a -c user.email=a@b commit -qm x) || fail "git below a quota"
"$WEIR" quota remove "$MNT/z" >/dev/null || fail "remove"
touch "$MNT/z/more" || fail "there is no quota any more"
went() { [ -z "$(quota '.path == "/z"' .path)" ]; }
poll 30 went || fail "the quota stays: $("$WEIR" quota list "$MNT")"
mkdir "$MNT/w" && mv "$MNT/z" "$MNT/w/z" || fail "what counts for nothing moves"
"$WEIR" quota remove "$MNT/z2" 2>/dev/null && fail "removed what is not there"
"$WEIR" quota set "$MNT/outside" --bytes 1MiB 2>"$T/refused" && fail "a quota of a file"
mkdir "$MNT/v" && "$WEIR" quota set "$MNT/v" --files 9 >/dev/null && rmdir "$MNT/v" || fail "a quota whose directory goes"
gone_too() { [ -z "$(quota '.path == "/v" or .path == null and (.subject.directory? // 0) > 0' .subject)" ]; }
poll 10 gone_too || fail "the quota of a removed directory: $("$WEIR" quota list "$MNT")"
"$WEIR" quota set "$X" --bytes 0 2>/dev/null && fail "a limit of nothing"
fsck_clean
