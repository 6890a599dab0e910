#!/usr/bin/env bash
# A disk of a volume that nodes share is one node's at a time, and goes to another when that one closes it or dies.
# time-limit: 240
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nodes.sh"
need jq qemu-io nbdinfo

nodes_make 0
# shellcheck disable=SC2034 # for nodes_umount
NODES=2
for n in 0 1; do
    mkdir "$(node "$n")"
    # shellcheck disable=SC2034 # for node_mount
    NODE_ARGS=(--nbd-unix "$T/nbd$n.sock")
    node_mount "$n"
done
at() { echo "nbd+unix:///$2?socket=$T/nbd$1.sock"; } # NODE DISK
io() { # NODE DISK COMMAND...
    local node=$1 disk=$2 all=()
    shift 2
    for command in "$@"; do all+=(-c "$command"); done
    qemu-io -f raw "${all[@]}" "$(at "$node" "$disk")" >"$T/io" 2>&1 && ! grep -qi "fail\|error\|verification" "$T/io"
}
holder() { "$WEIR" disk list "$URL" --json | jq -r ".[] | select(.name == \"$1\") | .node"; } # DISK

echo "== who opens it has it, others are refused and told who"
"$WEIR" disk create "$URL" vm --size 16MiB >/dev/null || fail "create"
io 0 vm "write -P 1 0 1M" "write -P 2 3M 12k" flush || fail "write: $(cat "$T/io")"
# Holds it open on node 0.
mkfifo "$T/hold"
qemu-io -f raw "$(at 0 vm)" <"$T/hold" >"$T/held" 2>&1 &
remember $!
exec 9>"$T/hold"
echo "write -P 3 5M 4k" >&9
wrote() { grep -q "wrote 4096" "$T/held"; }
poll 20 wrote || fail "no write: $(cat "$T/held")"
io 1 vm "read 0 4k" && fail "a second node has it"
[ "$(holder vm)" != null ] || fail "nobody has it: $("$WEIR" disk list "$URL")"
"$WEIR" disk list "$URL" | head -1 | grep -q " node" || fail "no column of nodes"
grep -q "in use at node" "$T/io" "$T/node1.log" || fail "nobody says why: $(cat "$T/io"; tail -3 "$T/node1.log")"

echo "== once it is closed it is another's, with all that was written"
exec 9>&-
taken() { io 1 vm "read -P 3 5M 4k"; }
poll 30 taken || fail "it is not given up: $(cat "$T/io")"
io 1 vm "read -P 1 0 1M" "read -P 2 3M 12k" "write -P 4 3M 12k" flush || fail "$(cat "$T/io")"
back() { io 0 vm "read -P 4 3M 12k"; }
poll 30 back || fail "what the other wrote is not there: $(cat "$T/io")"

echo "== a node dies with it open: another one has it after that one is shut out, as after a power cut"
poll 30 taken || fail "it is not given up: $(cat "$T/io")"
qemu-io -f raw "$(at 1 vm)" <"$T/hold" >"$T/held" 2>&1 &
remember $!
exec 9>"$T/hold"
# It takes a line when there is something new to read, so one after the other.
prompts() { [ "$(grep -o "qemu-io>" "$T/held" | wc -l)" -ge "$1" ]; }
commands=0
for command in "write -P 5 6M 4k" flush "write -P 6 6M 4k"; do
    poll 30 prompts $((++commands)) || fail "no prompt: $(cat "$T/held")"
    echo "$command" >&9
done
wrote() { [ "$(grep -c "wrote 4096" "$T/held")" = 2 ]; }
poll 20 wrote || fail "no write: $(cat "$T/held")"
node_kill9 1
exec 9>&-
io 0 vm "read 0 4k" && fail "it was taken from one that may live"
free() { io 0 vm "read 0 4k"; }
poll 40 free || fail "it is not free: $(cat "$T/io")"
# What was flushed is there; what was written over it may be, if it left in time.
LEFT=5
io 0 vm "read -P 5 6M 4k" || LEFT=6
io 0 vm "read -P $LEFT 6M 4k" "write -P 7 7M 4k" flush || fail "what was flushed is not there: $(cat "$T/io")"
# shellcheck disable=SC2034 # for node_remount
NODE_ARGS=(--nbd-unix "$T/nbd1.sock")
node_remount 1
[ "$LEFT" = 6 ] || [ "$(MNT=$(node 1) status '.aside.entries | length')" -ge 1 ] ||
    fail "what was not flushed is not set aside: $(MNT=$(node 1) status .aside)"
mine() { io 1 vm "read -P $LEFT 6M 4k" "read -P 7 7M 4k"; }
poll 30 mine || fail "other bytes: $(cat "$T/io")"

echo "== a snapshot is for all"
own() { "$WEIR" disk snapshot "$URL" vm s >/dev/null 2>"$T/said"; }
poll 30 own || fail "snapshot: $(cat "$T/said")"
for n in 0 1; do
    qemu-io -r -f raw -c "read -P 7 7M 4k" "$(at "$n" vm@s)" >"$T/io" 2>&1 || fail "node $n: $(cat "$T/io")"
    grep -qi "verification" "$T/io" && fail "node $n reads other bytes of the snapshot"
done
nodes_umount
"$WEIR" fsck --data "$URL" "${CONNECT[@]}" || fail "fsck finds problems in $URL"
