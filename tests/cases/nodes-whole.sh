#!/usr/bin/env bash
# Limits, budget, bill and actions of a volume are the volume's, whichever of its nodes is asked, and outlive
# nodes that leave and nodes that die.
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nodes.sh"
need jq python3

nodes_make 2
report() { "$WEIR" throughput "$(node "$1")" --json | jq -r "$2"; } # NODE EXPRESSION
volume() { report "$1" ".rules[] | select(.name == \"/\") | $2"; }  # NODE EXPRESSION
holds() { python3 -c "import sys; sys.exit(not ($1))"; }
shares_are() { # A CONDITION ON a AND b, THE SHARES
    local a b
    a=$(volume 0 '.share.share // 0') b=$(volume 1 '.share.share // 0')
    holds "(lambda a, b: $1)($a, $b)"
}
rate() { "$TESTS/tools/rate.py" "$@"; }

echo "== a limit that is set on one node holds for both together"
"$WEIR" throughput "$(node 0)" --mode provisioned --mibps 10 >/dev/null || fail "provisioned"
poll 20 shares_are "a > 0 and b > 0" || fail "a node has no part: $(volume 1 .)"
same "$(volume 1 .mode.mib_per_s)" 10 "the limit on the other node"
rate write "$(node 0)/a" 6 >"$T/rate-a" &
writers=($!)
rate write "$(node 1)/b" 6 >"$T/rate-b" &
writers+=($!)
poll 6 shares_are "a > 0.4 and b > 0.4" || fail "shares of two that work: $(volume 0 .share) $(volume 1 .share)"
for writer in "${writers[@]}"; do wait "$writer" || fail "a writer"; done
echo "$(cat "$T/rate-a") and $(cat "$T/rate-b") MiB/s of 10"
holds "$(cat "$T/rate-a") + $(cat "$T/rate-b") <= 11" || fail "both together move more than 10 MiB/s"
"$WEIR" throughput "$(node 1)" | grep -q "of all nodes' this one may do" || fail "no share is shown"
"$WEIR" status "$(node 1)" | grep -q "10 MiB/s by all nodes" || fail "the status has no limit: $("$WEIR" status "$(node 1)")"

echo "== and for one alone it is nearly all"
rate write "$(node 1)/b" 8 >"$T/rate-b" &
writer=$!
poll 8 shares_are "b > 0.9" || fail "shares of one that works: $(volume 0 .share) $(volume 1 .share)"
wait $writer || fail "a writer"
holds "$(cat "$T/rate-b") <= 10.5" || fail "more than 10 MiB/s: $(cat "$T/rate-b")"
"$WEIR" throughput "$(node 1)" --mode elastic --budget 12USD/h >/dev/null || fail "elastic, with a budget"
follows() { [ "$(report 0 '[.budget.nano_usd_per_hour, .budget.share > 0, .rules[0].mode.mode] | join(" ")')" = "12000000000 true elastic" ]; }
poll 10 follows || fail "the other node does not follow: $(report 0 .)"

echo "== an action is one node's, all tell of it, and it waits for its tier when the node dies"
head -c 6M /dev/urandom >"$(node 0)/data" || fail "write"
"$WEIR" hydrate "$(node 1)/data" --max-rate 1MiB >/dev/null || fail "hydrate"
told() { "$WEIR" actions "$(node "$1")" --all --json | jq -r ".[-1] | $2"; } # NODE EXPRESSION
is_told() { [ "$(told "$1" '"\(.state) \(.node.here)"')" = "$2" ]; }
is_told 1 "running true" || is_told 1 "waiting true" || fail "its own node tells $(told 1 .)"
poll 10 is_told 0 "running false" || fail "the other node tells $(told 0 .)"
"$WEIR" actions "$(node 0)" | grep -q " node " || fail "no node is shown"
node_kill9 1
poll 30 is_told 0 "away false" || fail "its node is dead: $(told 0 .)"
has_all() { [ "$(report 0 '.budget.share > 0.99')" = true ]; }
poll 10 has_all || fail "the dead node keeps its part: $(report 0 .budget)"
node_remount 1
poll 30 is_told 1 "done true" || fail "it does not go on: $(told 1 .)"
same "$("$WEIR" residency "$(node 1)/data" --json | jq '[.. | .released? // empty] | add')" 0 "bytes that are not here"

echo "== the bill is of all nodes, those that left too"
bill() { "$WEIR" bill "$(node 0)" --json "$@" | jq -r .used.used; }
here=$(bill --node | jq .written_bytes)
head -c 5M /dev/urandom >"$(node 1)/more" || fail "write"
node_umount 1
all=$(bill | jq .written_bytes)
[ "$all" -ge $((here + 5 * 1048576)) ] || fail "the other node wrote 5 MiB more than $here, the bill has $all"
same "$(bill --node | jq .written_bytes)" "$here" "what this node wrote"
"$WEIR" bill "$(node 0)" | grep -q "of all nodes" || fail "the bill does not say whose it is"
node_umount 0
"$WEIR" fsck --data "$URL" "${CONNECT[@]}" || fail "fsck finds problems in $URL"
