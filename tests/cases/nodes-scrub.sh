#!/usr/bin/env bash
# What is damaged or missing in the bucket comes from the tier of whichever node has it: to a program that reads it, and to
# `weir scrub`, which sends it off anew. What no node has is named.
# time-limit: 200
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nodes.sh"
need jq python3 sha256sum

scrub() { # NUMBER: what it says is in $T/json
    "$WEIR" scrub "$(node "$1")" --wait --json >"$T/json" 2>"$T/err"
}
is() { same "$(jq -cr "$1" "$T/json")" "$2" "$1"; }
flip() { # FILE: one bit, in the middle
    python3 - "$1" <<'PY'
import os, sys
with open(sys.argv[1], "r+b") as file:
    at = os.path.getsize(sys.argv[1]) // 2
    file.seek(at)
    byte = file.read(1)[0]
    file.seek(at)
    file.write(bytes([byte ^ 1]))
PY
}
segments() { find "$T/bucket/vol/seg" -type f -printf '%T@ %p\n' | sort | cut -d' ' -f2; }
sums() { (cd "$(node "$1")" && sha256sum -c --quiet "$T/sums"); } # NUMBER
# As a machine that never read anything.
cold_node() { # NUMBER
    node_umount "$1"
    rm -rf "$T/tier$1"
    node_mount "$1"
    drop_caches
    poll 30 knows "$1" || fail "node $1 does not know the others"
}
knows() { [ "$(of "$(node "$1")" .peers.others)" = $((NODES - 1)) ]; }

# What is damaged stays where it is until the end, so that it is known what was not read.
echo '{"collect_interval_s": 3600}' >"$T/settings.json"
nodes_make 3 --config "$T/settings.json"
mkdir "$(node 0)/d"
for n in 1 2 3 4; do head -c 12000000 /dev/urandom >"$(node 0)/d/f$n"; done
for n in $(seq 40); do seq "$n" $((n + 50)) >"$(node 0)/d/small$n"; done
head -c 3000000 /dev/zero | tr '\0' x >"$(node 0)/d/packed"
"$WEIR" flush "$(node 0)" || fail "flush"
(cd "$(node 0)" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$T/sums"
cold_node 1
cold_node 2

echo "== half of the segments are damaged, the others are gone, and one node has the bytes"
mapfile -t all < <(segments)
[ ${#all[@]} -ge 2 ] || fail "${#all[@]} segments are too few"
for at in "${!all[@]}"; do
    if ((at % 2)); then rm "${all[at]}"; else flip "${all[at]}"; fi
done
sums 1 || fail "node 1 does not read what node 0 has"
grep -q "came from another node: run .weir scrub" "$T/node1.log" || fail "the log of node 1 does not say so"

echo "== a scrub by a node that has nothing mends all of it"
scrub 2 || fail "scrub: $(cat "$T/err")"
is '[.damaged > 0, .damaged == .repaired, .lost_pieces]' "[true,true,0]"
cold_node 0
cold_node 1
cold_node 2
sums 1 || fail "what was sent off anew is not what was there"

echo "== what no node has is named; what one has is mended beside it"
cold_node 0
cold_node 1
cold_node 2
cat "$(node 0)"/d/f[12] "$(node 0)"/d/small* >/dev/null || fail "node 0 reads"
mapfile -t before < <(printf '%s\n' "${all[@]}")
mapfile -t now < <(segments | grep -vxFf <(printf '%s\n' "${before[@]}"))
[ ${#now[@]} -ge 1 ] || fail "nothing was sent off anew"
for segment in "${now[@]}"; do rm "$segment"; done
scrub 2 && fail "nothing is lost, though f3 is nowhere: $(cat "$T/json")"
"$WEIR" scrub "$(node 2)" --status --json >"$T/json"
# What is small when it is packed may have come along with the small files.
is '[.lost[].path] - ["/d/packed"] | unique | join(" ")' "/d/f3 /d/f4"
for name in f1 f2 small1 small40; do
    same "$(sha256sum <"$(node 1)/d/$name")" "$(sha256sum <"$(node 0)/d/$name")" "$name"
    grep -q "$(sha256sum <"$(node 1)/d/$name" | cut -d' ' -f1)" "$T/sums" || fail "$name is another one"
done
cat "$(node 1)/d/f3" >/dev/null 2>&1 && fail "what is nowhere is read"
rm "$(node 1)"/d/{f3,f4} || fail "what is lost cannot be removed"

echo "== once all that is damaged is nobody's any more nothing is wrong"
rm -r "$(node 1)/d" || fail "rm -r"
nodes_umount
echo '{"collect_interval_s": 1, "collect_grace_s": 0}' >"$T/settings.json"
node_mount 0
clean() { "$WEIR" fsck --data "$URL" "${CONNECT[@]}" >"$T/fsck" 2>&1; }
poll 60 clean || fail "fsck: $(cat "$T/fsck")"
node_umount 0
exit 0
