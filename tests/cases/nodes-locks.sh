#!/usr/bin/env bash
# Locks of files between nodes that write one volume together: each excludes the others, who gets one finds
# what was written before it, and one that a dead node held is free soon.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-postgres.sh"
need flock jq python3 sqlite3
pg_make
"$WEIR" format "$URL" --meta "$META" || fail "format"
schema=weir_$(jq -r .id "$BUCKET/vol/volume.json")
# Files that some node has a lock of, as the database has it.
locked() { sql weir "select count(*) from \"$schema\".kv where get_byte(key, 0) = ascii('F')"; }
none_locked() { [ "$(locked)" = 0 ]; }
# Sessions of which the database says that somebody waits there.
waiting() { sql weir "select count(*) from \"$schema\".kv where get_byte(key, 0) = ascii('f')"; }
some_waiting() { ! none_waiting; }
none_waiting() { [ "$(waiting)" = 0 ]; }
A=$MNT B=$T/b
mkdir "$B"
node() { # MOUNTPOINT TIER
    WEIR_RUN_DIR=$T/run "$WEIR" mount "$URL" "$1" --tier "$2" --log-file "$2.log" --shared || fail "mount on $1"
}
node "$A" "$T/tier-a"
node "$B" "$T/tier-b"

echo "== flock(1): one at a time, readers together, free when its process is gone"
touch "$A/f"
exec 8<"$A/f"
flock -x 8
flock -xn "$B/f" true && fail "two exclusive locks at once"
flock -sn "$B/f" true && fail "a shared lock beside an exclusive one"
flock -s 8
flock -sn "$B/f" true || fail "no shared lock beside a shared one"
flock -xn "$B/f" true && fail "an exclusive lock beside a shared one"
flock -x "$B/f" touch "$T/got" &
waiter=$!
sleep 0.5
[ ! -e "$T/got" ] || fail "it does not wait"
flock -u 8
poll 5 test -e "$T/got" || fail "who waits does not get it"
wait "$waiter" || fail "who waited failed"
exec 8<&-
flock -x -o "$B/f" sleep 8 &
waiter=$!
poll 5 sh -c "! flock -xn '$A/f' true" || fail "the other node does not hold it"
timeout 1 flock -x "$A/f" true && fail "got it beside the other node"
kill -KILL "$waiter"
flock -w 5 "$A/f" true || fail "the lock of a killed process stays"
for _ in 1 2 3 4 5; do
    flock -xn "$A/f" true || fail "who let go a moment ago is in its own way"
done

poll 5 none_locked || fail "$(locked) files are locked by nobody"

echo "== weir locks tells at each node, and of the volume, who holds and who waits"
# Kind, for writing, waits: of all that is locked.
told() { # PATH|URL
    "$WEIR" locks "$1" --json | jq -sr 'flatten | map("\(.path) \(.kind) \(.exclusive) \(.waits)") | join(", ")'
}
tells() { # PATH|URL WANTED
    [ "$(told "$1")" = "$2" ]
}
mkdir "$A/d"
exec 8<"$A/f"
flock -x 8
flock -s "$B/f" true &
waiter=$!
for place in "$A" "$B" "$B/f" "$URL"; do
    poll 15 tells "$place" "f flock true false, f flock false true" || fail "$place: $(told "$place")"
done
same "$(told "$A/d")" "" "locks below another directory"
mkdir -m 700 "$T/elsewhere"
env WEIR_RUN_DIR="$T/elsewhere" "$WEIR" locks "$URL" --json >"$T/told" || fail "locks where nothing is mounted"
same "$(jq -sr 'flatten | map("\(.path) \(.kind) \(.exclusive) \(.waits)") | join(", ")' "$T/told")" \
    "f flock true false, f flock false true" "what is told where nothing is mounted"
same "$("$WEIR" locks "$A" --json | jq -sr 'flatten | map(.node) | unique | length')" 2 "nodes that are told of"
"$WEIR" locks "$B" | grep -q "f .*all .*flock .*writing .*holds it" || fail "the table: $("$WEIR" locks "$B")"
same "$("$WEIR" nodes "$A" --json | jq -sr 'flatten | map(.id) | sort | join(" ")')" \
    "$("$WEIR" locks "$A" --json | jq -sr 'flatten | map(.node) | unique | join(" ")')" "their names"
flock -u 8
wait "$waiter" || fail "who waited failed"
exec 8<&-
rmdir "$A/d"
poll 10 none_waiting || fail "somebody waits for nothing"
for place in "$A" "$B" "$URL"; do
    poll 5 tells "$place" "" || fail "$place: $(told "$place")"
done

echo "== who is killed while it waits, or as it gets it, leaves no lock"
give_up() { # FILE
    local _
    for _ in $(seq 30); do
        timeout -s KILL "0.0$((RANDOM % 9 + 1))" flock -x "$1" sleep 0.02
    done
}
pids=()
for node in "$A" "$B" "$A" "$B"; do
    give_up "$node/f" 2>/dev/null &
    pids+=($!)
done
wait "${pids[@]}" 2>/dev/null
flock -w 5 "$A/f" true || fail "somebody who was killed has the lock on the first node"
flock -w 5 "$B/f" true || fail "somebody who was killed has the lock on the second node"
poll 5 none_locked || fail "$(locked) files are locked by nobody"

echo "== a daemon that is replaced keeps its locks; a file that goes takes its own along"
exec 8<"$A/f"
flock -x 8
cp "$WEIR" "$T/weir"
"$T/weir" upgrade "$A" || fail "upgrade"
flock -xn "$B/f" true && fail "another node got the lock meanwhile"
flock -u 8
flock -xn "$B/f" true || fail "it is not free after it was let go"
flock -x 8
rm "$A/f"
exec 8<&-
poll 10 none_locked || fail "the locks of a removed file stay"
touch "$A/f"

cat >"$T/locks.py" <<'PY'
import errno, fcntl, os, struct, sys

def at(path):
    return os.open(path, os.O_RDWR | os.O_CREAT)

def lock(fd, how, start, length, wait=False):
    op = fcntl.F_SETLKW if wait else fcntl.F_SETLK
    fcntl.fcntl(fd, op, struct.pack("hhqqi4x", how, 0, start, length, 0))

def asked(fd, start, length):
    told = fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, start, length, 0))
    return struct.unpack("hhqqi4x", told)

def refused(fd, how, start, length):
    try:
        lock(fd, how, start, length)
    except OSError as error:
        assert error.errno in (errno.EAGAIN, errno.EACCES), error
        return True
    return False

def ranges(a, b):
    a, b = at(a + "/ranges"), at(b + "/ranges")
    R, W, U = fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK
    lock(a, W, 0, 100)
    assert refused(b, R, 99, 1) and refused(b, W, 0, 0)
    lock(b, W, 100, 0)
    assert refused(a, R, 1 << 40, 1)
    # As on NFS, whose it is elsewhere is not told.
    assert asked(b, 0, 50) == (W, 0, 0, 100, 0), asked(b, 0, 50)
    assert asked(a, 100, 1) == (W, 0, 100, 0, 0), asked(a, 100, 1)
    lock(a, U, 40, 10)
    assert refused(b, R, 39, 2) and refused(b, R, 49, 2)
    lock(b, R, 40, 10)
    assert refused(a, W, 40, 10)
    lock(a, R, 40, 10)
    lock(a, R, 0, 100)
    assert not refused(b, R, 0, 100)
    os.close(at(sys.argv[2] + "/ranges"))
    # A close of any of its descriptors takes all locks of a process.
    assert not refused(b, W, 0, 0)
    assert asked(a, 0, 0)[0] == W
    lock(b, U, 0, 0)
    assert asked(a, 0, 0)[0] == U

def count(path, times, how):
    fd = at(path)
    for _ in range(times):
        if how == "flock":
            fcntl.flock(fd, fcntl.LOCK_EX)
        else:
            lock(fd, fcntl.F_WRLCK, 0, 0, True)
        now = int(os.pread(fd, 20, 0) or b"0")
        os.pwrite(fd, b"%020d" % (now + 1), 0)
        if how == "flock":
            fcntl.flock(fd, fcntl.LOCK_UN)
        else:
            lock(fd, fcntl.F_UNLCK, 0, 0)

# A record of a number and a log that grows: both under one lock, of a byte that is elsewhere.
def ledger(path, times, who):
    fd = at(path)
    for at_ in range(times):
        lock(fd, fcntl.F_WRLCK, 1 << 40, 1, True)
        end = os.fstat(fd).st_size
        os.pwrite(fd, b"%s %06d\n" % (who.encode(), at_), end)
        lock(fd, fcntl.F_UNLCK, 1 << 40, 1)

# A number of its own among those of others in one page.
def slot(path, times, which):
    fd = at(path)
    start = 8 * int(which)
    for _ in range(times):
        lock(fd, fcntl.F_WRLCK, start, 8, True)
        now = struct.unpack("<q", os.pread(fd, 8, start).ljust(8, b"\0"))[0]
        os.pwrite(fd, struct.pack("<q", now + 1), start)
        lock(fd, fcntl.F_UNLCK, start, 8)

if sys.argv[1] == "ranges":
    ranges(sys.argv[2], sys.argv[3])
elif sys.argv[1] == "count":
    count(sys.argv[2], int(sys.argv[3]), sys.argv[4])
elif sys.argv[1] == "ledger":
    ledger(sys.argv[2], int(sys.argv[3]), sys.argv[4])
elif sys.argv[1] == "slot":
    slot(sys.argv[2], int(sys.argv[3]), sys.argv[4])
PY
at() { timeout 120 python3 "$T/locks.py" "$@"; }

# Runs the same at two processes of each node at once.
on_all() { # COMMAND FILE ARGS...
    local what=$1 file=$2 pids=() node
    shift 2
    for node in "$A" "$B" "$A" "$B"; do
        at "$what" "$node/$file" "$@" &
        pids+=($!)
    done
    wait "${pids[@]}" || fail "$what $*"
}

echo "== fcntl: ranges, upgrades, who is in the way"
at ranges "$A" "$B" || fail "ranges"

echo "== what is read and written under a lock is right: a number that four count up"
for how in flock fcntl; do
    on_all count "count-$how" 40 "$how"
    same "$(cat "$A/count-$how")" 00000000000000000160 "the number at one node, by $how"
    same "$(cat "$B/count-$how")" 00000000000000000160 "and at the other"
done

echo "== the size, too: four write behind the end"
pids=()
for who in "$A a" "$B b" "$A c" "$B d"; do
    at ledger "${who% *}/ledger" 30 "${who#* }" &
    pids+=($!)
done
wait "${pids[@]}" || fail "a writer of the ledger failed"
for node in "$A" "$B"; do
    same "$(sort "$node/ledger" | uniq | wc -l)" 120 "lines of the ledger on $node"
    same "$(stat -c %s "$node/ledger")" 1080 "bytes of the ledger on $node"
done

echo "== bytes of one page that are locked by four"
pids=()
for which in "$A 0" "$B 1" "$A 2" "$B 3"; do
    at slot "${which% *}/slots" 60 "${which#* }" &
    pids+=($!)
done
wait "${pids[@]}" || fail "a writer of a slot failed"
for node in "$A" "$B"; do
    same "$(od -An -v -t d8 -w32 "$node/slots" | tr -s ' ')" " 60 60 60 60" "the numbers in one page on $node"
done

echo "== a database that both nodes write"
sqlite3 "$A/db" 'create table t (node text, number int, filler blob, primary key (node, number));
    create table total (n int); insert into total values (0)' || fail "create table"
cat >"$T/insert.py" <<'PY'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1] + "/db", timeout=60, isolation_level=None)
for number in range(30):
    db.execute("begin immediate")
    db.execute("insert into t values (?, ?, randomblob(3000))", [sys.argv[1], number])
    db.execute("update total set n = n + 1")
    db.execute("commit")
PY
timeout 120 python3 "$T/insert.py" "$A" &
one=$!
timeout 120 python3 "$T/insert.py" "$B" &
two=$!
wait "$one" "$two" || fail "a writer of the database failed"
for node in "$A" "$B"; do
    same "$(sqlite3 "$node/db" 'pragma integrity_check')" ok "integrity_check on $node"
    same "$(sqlite3 "$node/db" 'select (select count(*) from t), n from total')" "60|60" "rows on $node"
done

echo "== a node that dies takes its locks along"
exec 8<"$B/f"
flock -x 8
flock -xn "$A/f" true && fail "two exclusive locks at once"
touch "$A/g"
exec 9<"$A/g"
flock -x 9
flock -x "$B/g" true 2>/dev/null &
waiter=$!
poll 15 some_waiting || fail "nobody is told to wait"
pid=$(daemons_below "$T/tier-b")
kill -KILL "$pid"
wait "$waiter" && fail "who waited at the dead node got it"
began=$SECONDS
flock -w 30 "$A/f" true || fail "the lock of a dead node stays"
echo "it was free after $((SECONDS - began)) s"
[ $((SECONDS - began)) -le 25 ] || fail "that took $((SECONDS - began)) s"
same "$(told "$A")" "g flock true false" "what is told after it died"
# Who waited here is said no more with the next beat; nobody but who shut it out takes the dead node's row away.
poll 10 none_waiting || fail "what waited at the dead node is still said"
exec 8<&- 9<&-
umount -l "$B"

"$WEIR" umount "$A" || fail "umount of the first"
pid=$(daemons_below "$T/tier-a")
[ -z "$pid" ] || poll 30 gone "$pid" || fail "the first daemon stays"
"$WEIR" fsck "$URL" || fail "fsck"
