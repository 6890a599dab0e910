#!/usr/bin/env bash
# Three nodes write one volume together, held against the model (crates/weir/tests/nodes_model.rs): one
# is killed in the midst of it and mounted again, and clocks of others jump by hours. A soak goes on for an hour, with
# kills, daemons that stand still for 20 s, clocks that jump and restarts of the database.
# time-limit: 400
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nodes.sh"
seed

# Every other seed encrypted.
if ((SEED % 2)); then
    "$WEIR" key new "$T/vol.key" >/dev/null || fail "key new"
    export WEIR_KEY_FILE=$T/vol.key ENCRYPTED=1
fi
nodes_make 3
model=$(nodes_model)
# A soak leaves nodes away for so long that they are shut out.
! soaking || export WEIR_SYNC=1
SECONDS_OF_MODEL=${WEIR_SECONDS:-$(amount 40 3600)}
WEIR_SEED=$SEED WEIR_SECONDS=$SECONDS_OF_MODEL WEIR_NODES=$(nodes_list) WEIR_DISTURBANCES=$DISTURBANCES \
    "$model" --ignored --exact nodes --nocapture >"$T/model.log" 2>&1 &
MODEL=$!
remember "$MODEL"
works() { ! gone "$MODEL"; }

if soaking; then
    RANDOM=$SEED
    while sleep $((RANDOM % 60 + 20)) && [ $SECONDS -lt $((SECONDS_OF_MODEL - 60)) ] && works; do
        victim=$((RANDOM % NODES))
        case $((RANDOM % 5)) in
            0 | 1)
                node_kill9 $victim
                sleep $((RANDOM % 20))
                node_remount $victim
                ;;
            2)
                node_stop $victim
                sleep 20
                node_cont $victim
                ;;
            3) nodes_restart_database ;;
            4) node_clock $victim $((RANDOM - 16000)) ;;
        esac
    done
else
    sleep 5
    node_clock 0 7300
    node_clock 2 -11000
    sleep 10
    works && {
        node_kill9 1
        sleep 1
        node_remount 1
    }
    node_clock 0 -7300
    node_clock 2 0
fi
wait "$MODEL" || { grep -v '^test ' "$T/model.log"; fail "the nodes and the model differ"; }
rm -f "$T/$MODEL.pid"
grep -E '^(rounds|[0-9]+ operations)' "$T/model.log" || fail "the model says: $(cat "$T/model.log")"
nodes_umount
"$WEIR" fsck --data "$URL" || fail "fsck finds problems in $URL"
