#!/usr/bin/env bash
# What `make run-cluster` shows: three nodes write one volume, one is killed, and all is as it should be.
source "$(dirname "$0")/../lib.sh"
begin
need /usr/lib/postgresql/15/bin/postgres
chmod 755 "$T"
(cd "$T" && PORT=$(free_port) bash "$TESTS/../scripts/cluster.sh") >"$T/cluster.log" 2>&1 ||
    fail "cluster: $(tail -20 "$T/cluster.log" "$T"/weir-cluster/*.log)"
for line in "find the same" "shut it out by themselves" "finds what they did" "nothing wrong"; do
    grep -qF "$line" "$T/cluster.log" || fail "no \"$line\" in: $(cat "$T/cluster.log")"
done
grep -q " $T/weir-cluster/" /proc/self/mounts && fail "it left a mount behind"
[ ! -e "$T/weir-cluster/pg/data/postmaster.pid" ] || fail "it left its database running"
exit 0
