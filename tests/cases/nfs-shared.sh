#!/usr/bin/env bash
# Two nodes that share a volume (metadata in PostgreSQL) serve it by NFS: clients of one see what clients of the other closed,
# and locks hold between them. A node that was shut out joins again by itself. What clients of a node that ended held they
# claim at the other one, and nobody else has it before.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-postgres.sh"
source "$TESTS/lib-nfs.sh"
need jq

pg_make
format_volume --meta "$META"
PORTS=("$(free_port)" "$(free_port)")
on() { WEIR_RUN_DIR=$T/run$1 "${@:2}"; } # NODE COMMAND...
serve() { # NODE
    mkdir -p -m 700 "$T/run$1"
    on "$1" "$WEIR" serve "$URL" --tier "$T/tier$1" --log-file "$T/weir$1.log" --shared --nfs "127.0.0.1:${PORTS[$1]}" \
        --nfs-lease 10s || fail "weir serve on node $1"
}
pid_of() { daemons_below "$T/tier$1"; }                                                                 # NODE
serves() { [ "$(on "$1" "$WEIR" status "$URL" --json 2>/dev/null | jq .nfs.answers)" = true ]; }        # NODE

serve 0
serve 1
on 0 "$WEIR" export add "$URL" / --name '' --squash none >/dev/null || fail "weir export add"
knows_export() { on 1 "$WEIR" export list "$URL" --json | jq -e '.[] | select(.squash == "none")' >/dev/null; }
poll 10 knows_export || fail "the other node does not know of the export"
sleep 3 # until it looks
BOTH=127.0.0.1:${PORTS[0]},127.0.0.1:${PORTS[1]}

echo "== clients of two nodes"
two_servers() {
    WEIR_NFS=$BOTH "$(nfs_client)" --ignored --exact goes_on::two_servers_serve_one_volume --nocapture >"$T/two.log" 2>&1
}
two_servers || fail "two servers: $(tail -n 12 "$T/two.log")"

echo "== a node stands still, and is shut out"
still=$(pid_of 1)
kill -STOP "$still"
shut_out() { [ "$(on 0 "$WEIR" nodes "$URL" --json | jq length)" = 1 ]; }
poll 40 shut_out || fail "node 1 stands still, and is not shut out: $(on 0 "$WEIR" nodes "$URL")"
kill -CONT "$still"
again() { grep -q "beginning anew" "$T/weir1.log" && serves 1; }
poll 40 again || fail "node 1 was shut out and does not join again"
grace_is_over() { [ "$(on "$1" "$WEIR" status "$URL" --json 2>/dev/null | jq .nfs.claiming)" = false ]; } # NODE
poll 30 grace_is_over 1 || fail "node 1 waits for clients that are gone"
# A lock of a client of the node before stands until that has had its time to claim it.
poll 40 two_servers || fail "two servers after that: $(tail -n 12 "$T/two.log")"

echo "== a client holds a lock, and its node ends for good"
moves() { # PORTS: of the node that ends, and of the other
    WEIR_NFS=$1 WEIR_HELD=$T/held "$(nfs_client)" --ignored --exact moves::what_a_client_held_it_claims_at_another_server \
        --nocapture >"$T/moves.log" 2>&1
}
held() { [ -e "$T/held" ]; }
moves_while() { # NODE COMMAND...: the command ends the node
    rm -f "$T/held"
    moves "127.0.0.1:${PORTS[$1]},127.0.0.1:${PORTS[1 - $1]}" &
    local moving=$!
    remember "$moving"
    poll 30 held || fail "nothing is held: $(tail -n 12 "$T/moves.log")"
    "${@:2}"
    wait "$moving" || fail "$2: $(grep -v '^ ' "$T/moves.log" | tail -n 12)"
    grep claimed "$T/moves.log"
}
moves_while 1 kill -9 "$(pid_of 1)"
serve 1
knows_other() { [ "$(on "$1" "$WEIR" nodes "$URL" --json | jq length)" = 2 ]; } # NODE
poll 20 knows_other 0 || fail "node 1 did not come back"
moves_while 0 on 0 "$WEIR" stop "$URL"
serve 0
poll 20 knows_other 1 || fail "node 0 did not come back"

echo "== a client is silent, and one of the other node wants its lock"
WEIR_NFS=$BOTH "$(nfs_client)" --ignored --exact moves::what_a_silent_client_held_at_another_server_is_free_after_a_lease \
    --nocapture >"$T/silent.log" 2>&1 || fail "$(grep -v '^ ' "$T/silent.log" | tail -n 12)"
grep free "$T/silent.log"

echo "== clients go on at the other node"
nfs_goes_on "$BOTH" 50 40
nfs_lives 1 10
sleep 3
kill -9 "$(pid_of 0)"
nfs_lives 2 40
serve 0
nfs_went_on
on 0 "$WEIR" stop "$URL" || fail "weir stop 0"
on 1 "$WEIR" stop "$URL" || fail "weir stop 1"
"$WEIR" fsck "$URL" --data >/dev/null || fail "weir fsck"
