#!/usr/bin/env bash
# Two nodes of a volume whose metadata is in PostgreSQL as Patroni runs it. With a standby that each commit waits for
# it takes over by order, and when the primary's machine is gone: programs wait, see no error, and what they were told is
# there. With one that is behind, what is lost with the primary is told. A soak does it again and again.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nodes.sh"
source "$TESTS/lib-patroni.sh"
seed

nodes_make 2
model=$(nodes_model)
SECONDS_OF_MODEL=${WEIR_SECONDS:-$(amount 40 1800)}
# Nobody is said to be disturbed: no operation may fail.
WEIR_SEED=$SEED WEIR_SECONDS=$SECONDS_OF_MODEL WEIR_NODES=$(nodes_list) \
    "$model" --ignored --exact nodes --nocapture >"$T/model.log" 2>&1 &
MODEL=$!
remember "$MODEL"

take_over() { # switchover|machine|server
    local primary
    primary=$(patroni_primary) || fail "no server takes writes"
    echo "server $primary: $1, at $SECONDS s"
    case $1 in
        switchover) patroni_switchover ;;
        machine) patroni_kill9 "$primary" ;;
        server) patroni_kill9_postgres "$primary" ;;
    esac
    poll 60 patroni_says $((1 - primary)) primary || fail "nobody takes over after: $1"
    echo "server $((1 - primary)) takes writes, at $SECONDS s"
    [ "$1" != machine ] || patroni_start "$primary"
    poll 120 patroni_whole || fail "server $primary does not come back as a standby after: $1"
}

sleep 4
take_over switchover
sleep 2
take_over machine
RANDOM=$SEED
while soaking && [ $SECONDS -lt $((SECONDS_OF_MODEL - 90)) ] && ! gone $MODEL; do
    sleep $((RANDOM % 30 + 5))
    ways=(switchover machine server)
    take_over "${ways[RANDOM % 3]}"
done
wait "$MODEL" || { grep -v '^test ' "$T/model.log"; fail "the nodes and the model differ"; }
rm -f "$T/$MODEL.pid"
grep -E '^(rounds|[0-9]+ operations)' "$T/model.log" || fail "the model says: $(cat "$T/model.log")"
nodes_umount
"$WEIR" fsck --data "$URL" || fail "fsck finds problems in $URL"

echo "== a standby that is behind takes over"
patroni_set '{"synchronous_mode": false}'
not_synchronous() { [ "$(sql postgres 'show synchronous_standby_names')" = "" ]; }
poll 30 not_synchronous || fail "commits still wait for the standby"
# The standby hears nothing more.
sql postgres "alter role replicator nologin"
sql postgres "select pg_terminate_backend(pid) from pg_stat_replication" >/dev/null
node_mount 0
echo lost >"$(node 0)/lost" || fail "no file"
node_umount 0
primary=$(patroni_primary)
take_over_alone() { patroni_says $((1 - primary)) primary; }
patroni_kill9_postgres "$primary"
poll 60 take_over_alone || fail "the standby does not take over"
MOUNT_ARGS=(--shared)
MNT=$(node 0) TIER=$T/tier0 refused_mount metadata-older
MNT=$(node 1) TIER=$T/tier1 refused_mount metadata-older
"$WEIR" fsck "$URL" >"$T/fsck" 2>&1 && fail "fsck finds nothing"
grep -q "the database is older than" "$T/fsck" || fail "fsck says: $(cat "$T/fsck")"
MOUNT_ARGS=(--accept-loss all)
MNT=$(node 0) TIER=$T/tier0 mount_volume
[ -e "$(node 0)/lost" ] && fail "a file of later"
node_umount 0
"$WEIR" fsck --data "$URL" || fail "fsck finds problems in $URL"
