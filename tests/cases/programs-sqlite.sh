#!/usr/bin/env bash
# SQLite on the mount, WAL mode and synchronous=FULL, two processes writing. The daemon is killed in
# the middle: what was committed is there afterwards.
source "$(dirname "$0")/../lib.sh"
begin
need sqlite3 python3 jq
transactions=$(amount 60 600)

cat >"$T/writer.py" <<'PY'
import sqlite3, sys
path, writer, count, journal = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
with open(journal, "a") as done:
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    db.execute("pragma synchronous = full")
    last = db.execute("select coalesce(max(number), 0) from t where writer = ?", [writer]).fetchone()[0]
    for number in range(last + 1, last + 1 + count):
        db.execute("begin immediate")
        db.execute("insert into t values (?, ?, randomblob(3000))", [writer, number])
        db.execute("update total set n = n + 1")
        db.execute("commit")
        # Outside of the mount: what was told to have been committed.
        print(writer, number, file=done, flush=True)
PY
write_both() { # COUNT
    python3 "$T/writer.py" "$db" 1 "$1" "$T/committed" &
    one=$!
    python3 "$T/writer.py" "$db" 2 "$1" "$T/committed" &
    two=$!
}
check() {
    same "$(sqlite3 "$db" 'pragma integrity_check')" ok "integrity_check $1"
    sqlite3 "$db" 'select writer, number from t' | tr '|' ' ' | sort >"$T/there"
    sort "$T/committed" >"$T/told"
    lost=$(comm -13 "$T/there" "$T/told" | wc -l)
    same "$lost" 0 "committed transactions lost $1"
    rows=$(sqlite3 "$db" 'select count(*) - (select n from total) from t')
    same "$rows" 0 "rows without their total $1"
}

fmt_mount --flush-age 500ms
db=$MNT/data.db
same "$(sqlite3 "$db" 'pragma journal_mode = wal')" wal "journal mode"
sqlite3 "$db" 'create table t (writer int, number int, filler blob, primary key (writer, number));
    create table total (n int); insert into total values (0)' || fail "create table"

write_both "$transactions"
wait $one && wait $two || fail "a writer failed"
same "$(wc -l <"$T/committed")" $((2 * transactions)) "transactions"
check "after two writers"

for round in $(seq "$(amount 2 20)"); do
    before=$(wc -l <"$T/committed")
    write_both 1000000
    more() { [ "$(wc -l <"$T/committed")" -gt $((before + 40)) ]; }
    poll 60 more || fail "no 40 transactions in a minute"
    kill9
    wait $one && fail "a writer outlived its file system"
    wait $two && fail "a writer outlived its file system"
    mount_volume
    check "after kill -9, round $round"
done
sqlite3 "$db" 'vacuum' || fail "vacuum"
cold
check "after a cold remount"
fsck_clean
