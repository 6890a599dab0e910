#!/usr/bin/env bash
# Three nodes write one volume together, held against the model (crates/weir/tests/nodes_model.rs), while what goes
# between a node and the database or the bucket is cut: one way or both, with an end or in silence, for shorter and for
# longer than it takes until the others shut the node out; answers are lost after the database has committed; and what a node
# sent to the bucket arrives when it was shut out. A soak goes on for an hour.
# time-limit: 520
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nodes.sh"
need python3
seed

nodes_make_apart 3
echo "== the bucket is away while others change what a node's kernel reads by itself"
cat >"$T/opens" <<SH
#!/bin/sh
"$WEIR" status "$(node 1)" --json | jq .passthrough.opens
SH
chmod +x "$T/opens"
CUT=$T/bucket1.orders timeout 120 python3 "$TESTS/tools/lent.py" "$(node 0)" "$(node 1)" "$T/opens" ||
    fail "a file that was lent"
model=$(nodes_model)
SECONDS_OF_MODEL=${WEIR_SECONDS:-$(amount 60 3600)}
WEIR_SYNC=1 WEIR_SEED=$SEED WEIR_SECONDS=$SECONDS_OF_MODEL WEIR_NODES=$(nodes_list) WEIR_DISTURBANCES=$DISTURBANCES \
    "$model" --ignored --exact nodes --nocapture >"$T/model.log" 2>&1 &
MODEL=$!
remember "$MODEL"
works() { ! gone "$MODEL"; }

cut_for() { # NUMBER SECONDS PLACE ORDER [PLACE ORDER]
    local node=$1 seconds=$2 words=("${@:3}") came_back
    came_back=$(came_back "$node")
    echo "node $node: ${words[*]} for $seconds s"
    node_down "$node"
    while [ ${#words[@]} -gt 0 ]; do
        cut_off "$node" "${words[0]}" "${words[1]}"
        words=("${words[@]:2}")
    done
    sleep "$seconds"
    # What waits for the bucket arrives there before the node hears from the database.
    cut_off "$node" bucket pass
    sleep 0.5
    cut_off "$node" meta pass
    # The others shut out who was silent for 12 s.
    [ "$seconds" -lt 20 ] || [[ " $* " != *" meta "* ]] || poll 30 shut_out "$node" "$came_back" ||
        fail "node $node heard nothing of the database for $seconds s, and is not shut out"
    node_goes_on "$node"
}
# One that has nothing to lose comes back by itself, sooner than anybody looks.
came_back() { grep -c "was shut out, and comes back" "$T/node$1.log"; } # NUMBER
shut_out() {                                                           # NUMBER TIMES IT CAME BACK BEFORE
    [ "$(MNT=$(node "$1") status .fenced 2>/dev/null)" = true ] || [ "$(came_back "$1")" -gt "$2" ]
}

# Nothing may fail: a commit whose answer is lost is asked for, not made again.
lose_answers() { # NUMBER COUNT
    echo "node $1: $2 answers lost"
    cut_off "$1" meta "lose:$2"
    poll 20 lost "$1" "$2" || fail "$2 answers were to be lost, and $(cat "$T/meta$1.orders.lost") were"
    cut_off "$1" meta pass
    : >"$T/meta$1.orders.lost"
}
lost() { [ "$(wc -l <"$T/meta$1.orders.lost" 2>/dev/null || echo 0)" -ge "$2" ]; }

disturb() { # NUMBER KIND
    local ways=(cut silent silent-up silent-down) way
    way=${ways[RANDOM % 4]}
    case $2 in
        0) lose_answers "$1" 3 ;;
        1) cut_for "$1" 4 meta "$way" ;;
        2) cut_for "$1" 4 bucket "$way" ;;
        3) cut_for "$1" 20 meta "$way" ;;
        4) cut_for "$1" 20 bucket "$way" ;;
        5) cut_for "$1" 20 bucket silent-up meta "$way" ;;
        6) cut_for "$1" 4 bucket "$way" meta "$way" ;;
    esac
}

RANDOM=$SEED
if soaking; then
    while sleep $((RANDOM % 30 + 10)) && [ $SECONDS -lt $((SECONDS_OF_MODEL - 90)) ] && works; do
        disturb $((RANDOM % NODES)) $((RANDOM % 7))
    done
else
    sleep 5
    for kind in 0 $((RANDOM % 2 + 1)) 5; do
        works && disturb $((RANDOM % NODES)) "$kind"
    done
fi
wait "$MODEL" || { grep -v '^test ' "$T/model.log"; fail "the nodes and the model differ"; }
rm -f "$T/$MODEL.pid"
grep -E '^(rounds|[0-9]+ operations)' "$T/model.log" || fail "the model says: $(cat "$T/model.log")"
nodes_umount
"$WEIR" fsck --data "$URL" "${CONNECT[@]}" || fail "fsck finds problems in $URL"
