#!/usr/bin/env bash
# A hydration that nodes divide among them, or all do, costs one pass over the bucket, and ends whatever becomes of
# one of them.
# quiet: a node that is slow to answer has the others ask the bucket
# time-limit: 420
source "$(dirname "$0")/../lib.sh"
begin
s3_start
source "$TESTS/lib-nodes.sh"
need jq sha256sum

MIB=1048576
nodes_make 3

echo "== a data set of $((96 + 24)) MiB, large files and small ones"
mkdir "$(node 0)/set"
for n in 1 2; do head -c $((48 * MIB)) /dev/urandom >"$(node 0)/set/large$n" || fail "write"; done
head -c $((24 * MIB)) /dev/urandom | (cd "$(node 0)/set" && split -b 60K -a 4 -d - small) || fail "split"
ALL=$((120 * MIB))
FILES=$(find "$(node 0)/set" -type f | wc -l)

sum() { (cd "$1/set" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum); } # DIRECTORY
WANT=$(sum "$(node 0)")
from_bucket() { # NODE...
    local n sum=0
    for n in "$@"; do sum=$((sum + $(MNT=$(node "$n") received data))); done
    echo "$sum"
}
all_know() { [ "$(MNT=$(node "$1") status .peers.others)" = "$2" ]; } # NODE OTHERS
know_each_other() { # NODE...
    local n
    for n in "$@"; do poll 30 all_know "$n" $(($# - 1)) || fail "node $n does not know the others"; done
}
cold() { # NODE...
    local n
    for n in "$@"; do node_umount "$n"; done
    for n in "$@"; do
        rm -rf "$T/tier$n"
        node_mount "$n"
    done
    drop_caches
    know_each_other "$@"
}
# Bytes of the set that are in the tier of a node.
here() { "$WEIR" state -r "$(node "$1")/set" --json | jq -s 'map([.resident_bytes, .size] | min) | add'; } # NODE
read_right() { # NODE...
    local n
    for n in "$@"; do
        [ "$(sum "$(node "$n")")" = "$WANT" ] || fail "node $n reads other bytes"
    done
}
group() { "$WEIR" actions "$(node "$1")" --all --json | jq "[.[] | select(.portion.group == $2)] | $3"; } # NODE GROUP JQ

echo "== each node brings a part: one pass over the bucket"
cold 0 1 2
before=$(from_bucket 0 1 2)
"$WEIR" hydrate -r "$(node 1)/set" --spread --wait --json >"$T/spread" || fail "spread: $(cat "$T/spread")"
same "$(jq 'map(.state) | join(" ")' "$T/spread" -r)" "done done done" "portions"
same "$(jq 'map(.files_done) | add' "$T/spread")" "$FILES" "files"
same "$(jq 'map(.bytes_done) | add' "$T/spread")" "$ALL" "bytes"
same "$(jq 'map(.node.tier) | unique | length' "$T/spread")" 3 "tiers"
asked=$(($(from_bucket 0 1 2) - before))
echo "spread: $((asked / MIB)) MiB from the bucket of $((ALL / MIB)); here $(here 0) $(here 1) $(here 2)"
[ "$asked" -le $((ALL * 110 / 100)) ] || fail "the bucket gave $asked bytes"
for n in 0 1 2; do
    [ "$(here "$n")" -gt 0 ] || fail "node $n brought nothing"
    [ "$(here "$n")" -lt "$ALL" ] || fail "node $n brought all"
done
before=$(from_bucket 0 1 2)
read_right 0
asked=$(($(from_bucket 0 1 2) - before))
echo "read by one: $((asked / MIB)) MiB more from the bucket"
# Large files come from the tiers of the others.
[ "$asked" -le $((40 * MIB)) ] || fail "what others have came from the bucket: $asked bytes"

echo "== all nodes bring all: one pass over the bucket, too"
cold 0 1 2
before=$(from_bucket 0 1 2)
"$WEIR" hydrate -r "$(node 2)/set" --everywhere --wait >"$T/said" || fail "everywhere: $(cat "$T/said")"
cat "$T/said"
asked=$(($(from_bucket 0 1 2) - before))
echo "everywhere: $((asked / MIB)) MiB from the bucket of $((ALL / MIB))"
[ "$asked" -le $((ALL * 120 / 100)) ] || fail "the bucket gave $asked bytes"
for n in 0 1 2; do same "$(here "$n")" "$ALL" "bytes at node $n"; done
read_right 0 1 2

echo "== one dies, and one joins in between"
cold 0 1 2
"$WEIR" hydrate -r "$(node 0)/set" --spread --max-rate 12MiB --json >"$T/spread" || fail "spread"
GROUP=$(jq '.[0].portion.group' "$T/spread")
begun() { [ "$(group 0 "$GROUP" 'map(select(.bytes_done > 0)) | length')" = 3 ]; }
poll 30 begun || fail "not all have begun: $(group 0 "$GROUP" .)"
node_kill9 2
mkdir "$(node 3)"
node_mount 3
done_all() { [ "$(group 1 "$GROUP" 'map(select(.state == "done")) | length')" = 3 ]; }
poll 90 done_all || fail "it does not end: $(group 1 "$GROUP" .)"
same "$(group 1 "$GROUP" 'map(.bytes_done) | add')" "$ALL" "bytes"
same "$(group 1 "$GROUP" 'map(.refused) | add')" 0 "refused"
[ $(($(here 0) + $(here 1) + $(here 3))) -ge "$ALL" ] || fail "not all is at a node that lives: $(here 0) $(here 1) $(here 3)"
read_right 1
node_remount 2
read_right 2

echo "== one has little room: another one brings the rest"
for n in 1 2 3; do node_umount "$n"; done
cold 0
rm -rf "$T/tier2"
# shellcheck disable=SC2034 # for node_mount
NODE_ARGS=(--tier-size 64MiB)
node_mount 2
know_each_other 0 2
head -c $((44 * MIB)) /dev/urandom >"$(node 0)/ballast" || fail "write"
"$WEIR" pin "$(node 2)/ballast" >/dev/null || fail "pin"
"$WEIR" hydrate "$(node 2)/ballast" --wait >/dev/null || fail "hydrate"
"$WEIR" hydrate -r "$(node 2)/set" --spread --wait --json >"$T/spread" || fail "spread with little room: $(cat "$T/spread")"
same "$(jq 'map(.bytes_done) | add' "$T/spread")" "$ALL" "bytes"
same "$(jq -r 'map(.node.tier) | unique | join(" ")' "$T/spread")" "$T/tier0" "who ended it"
[ "$(here 2)" -ge $((4 * MIB)) ] || fail "the small one brought $(here 2) bytes"
[ "$(here 0)" -lt "$ALL" ] || fail "the large one brought what the small one has, too"

echo "== what cannot be divided is refused, and any node ends all"
"$WEIR" hydrate -r "$(node 0)/set" --spread --everywhere >"$T/said" 2>&1 && fail "both at once"
"$WEIR" hydrate "$(node 0)/set" --spread >"$T/said" 2>&1 && fail "a directory without -r"
"$WEIR" release -r "$(node 0)/set" >/dev/null || fail "release"
"$WEIR" hydrate -r "$(node 0)/set" --everywhere --max-rate 256KiB >"$T/said" || fail "everywhere"
grep -q "by 2 nodes" "$T/said" || fail "says: $(cat "$T/said")"
GROUP=$(sed -n 's/^actions \([0-9]*\) to .*/\1/p' "$T/said")
"$WEIR" actions "$(node 2)" | grep -q "hydrate everywhere ($GROUP)" || fail "$("$WEIR" actions "$(node 2)")"
"$WEIR" cancel $((GROUP + 1)) "$(node 2)" >/dev/null || fail "cancel"
cancelled() { [ "$(group 0 "$GROUP" 'map(.state) | unique | join(" ")')" = '"cancelled"' ]; }
poll 15 cancelled || fail "not all are cancelled: $(group 0 "$GROUP" .)"
node_umount 0
node_umount 2
"$WEIR" mount "$URL" "$(node 0)" --tier "$T/tier-alone" "${CONNECT[@]}" || fail "mount alone"
"$WEIR" hydrate -r "$(node 0)/set" --spread >"$T/said" 2>&1 && fail "it divides work with nobody"
grep -q -e "--shared" "$T/said" || fail "does not say why: $(cat "$T/said")"
MNT=$(node 0) umount_volume
"$WEIR" fsck --data "$URL" "${CONNECT[@]}" || fail "fsck finds problems in $URL"
