# shellcheck shell=bash
# A SQLite database under two writers, and what must be true of it after whatever happened. Source it
# after `begin`, set db to the database's path, then: make_database, write_both, check.

need python3 sqlite3
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
make_database() {
    same "$(sqlite3 "$db" 'pragma journal_mode = wal')" wal "journal mode"
    sqlite3 "$db" 'create table t (writer int, number int, filler blob, primary key (writer, number));
        create table total (n int); insert into total values (0)' || fail "create table"
}
