#!/usr/bin/env bash
# Files that a node made and closed, and that are not in the bucket yet: the others find them all the same.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nodes.sh"
need jq python3

nodes_make_apart 2
A=$(node 0) B=$(node 1)
brought() { [ "$(of "$A" .leases.writes)" = 0 ]; }

echo "== a thousand small files are a few objects, and the other node finds each at once"
mkdir "$A/d"
cat >"$T/make.py" <<'PY'
# Makes files on one node, and looks for some of them on another one as soon as they are closed.
import os, random, sys
here, there, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
seed = random.randrange(1 << 32)
print("seed", seed, flush=True)
dice = random.Random(seed)
for n in range(count):
    body = b"%d " % n * dice.randrange(1, 400)
    name = "f%d" % n
    with open(os.path.join(here, name), "wb") as file:
        file.write(body)
    if dice.randrange(100) == 0:
        path = os.path.join(there, name)
        kind = dice.randrange(4)
        if kind == 0:
            assert os.stat(path).st_size == len(body), (name, "size")
        elif kind == 1:
            sizes = {entry.name: entry.stat().st_size for entry in os.scandir(there)}
            assert sizes[name] == len(body), (name, "size as it is listed")
        elif kind == 2:
            with open(path, "ab") as file:
                file.write(b"!")
            body += b"!"
            with open(os.path.join(here, name), "rb") as file:
                assert file.read() == body, (name, "what the other one appended")
        with open(path, "rb") as file:
            assert file.read() == body, (name, "bytes")
PY
objects() { MNT=$A requests data put; }
before=$(objects)
python3 "$T/make.py" "$A/d" "$B/d" 1000 || fail "a file that was closed is another one elsewhere"
poll 20 brought || fail "what was closed is not brought: $(of "$A" .leases)"
[ $(($(objects) - before)) -le 120 ] || fail "1,000 small files are $(($(objects) - before)) objects"
sums() { (cd "$1/d" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
cmp <(sums "$A") <(sums "$B") || fail "the nodes have other bytes"

echo "== and a large file, beside a small one"
head -c 80000000 /dev/urandom >"$T/large"
cp "$T/large" "$A/d/large" && echo small >"$A/d/small"
same "$(cat "$B/d/small")" small "a small file behind a large one"
cmp "$T/large" "$B/d/large" || fail "a large file that was closed is another one elsewhere"
# What was whole when it left for the bucket is not the whole file any more.
for n in $(seq 1 "$(amount 2 1)" 6); do
    { head -c $((n * 8 << 20)) "$T/large" && sleep 0.$n && tail -c +$(((n * 8 << 20) + 1)) "$T/large"; } >"$A/d/large$n"
    cmp "$T/large" "$B/d/large$n" || fail "a file that left in parts is another one elsewhere"
done

echo "== it does not wait for somebody to look"
for n in $(seq 40); do echo "$n" >"$A/d/quiet$n"; done
[ "$(of "$A" .leases.writes)" -gt 0 ] || fail "closes waited for the bucket: $(of "$A" .leases)"
poll 20 brought || fail "what was closed stays: $(of "$A" .leases)"

echo "== so it is with a file that was there, where one node writes it again and again"
echo 0 >"$A/d/log" && echo 0 >"$A/d/state" && sync "$A/d/log" "$A/d/state"
poll 20 brought || fail "what was synced is not whole: $(of "$A" .leases)"
cat >"$T/again.py" <<'PY'
# Appends lines to a log and rewrites a file, each time anew, and now and then looks from the other node, or
# has it append, too.
import os, random, sys, time
here, there, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
seed = random.randrange(1 << 32)
print("seed", seed, flush=True)
dice = random.Random(seed)
lines = ["0"]
for n in range(1, count):
    with open(os.path.join(here, "log"), "a") as file:
        file.write("%d\n" % n)
        if dice.randrange(4) == 0:
            file.flush()
            file.write("more\n")
            n = "%d\nmore" % n
    lines += str(n).split("\n")
    with open(os.path.join(here, "state"), "r+") as file:
        state = len(lines)
        file.write("%08d\n" % state)
    if dice.randrange(150) == 0:
        if dice.randrange(2) == 0:
            with open(os.path.join(there, "log"), "a") as file:
                file.write("other\n")
            lines.append("other")
        with open(os.path.join(there, "log")) as file:
            assert file.read().split("\n") == lines + [""], "lines"
        with open(os.path.join(there, "state")) as file:
            assert int(file.read()) == state, "state"
for at in here, there:
    with open(os.path.join(at, "log")) as file:
        assert file.read().split("\n") == lines + [""], "lines at the end"
PY
before=$(objects) began=$SECONDS
python3 "$T/again.py" "$A/d" "$A/d" 1000 || fail "a log that is appended to"
alone=$(($(objects) - before))
echo "$alone objects in $((SECONDS - began)) s"
[ "$alone" -le 200 ] || fail "1,000 appends and 1,000 times another state are $alone objects"
rm "$A/d/log" "$A/d/state" && echo 0 >"$B/d/log" && echo 0 >"$B/d/state"
python3 "$T/again.py" "$A/d" "$B/d" 600 || fail "a log that two nodes append to"
echo "begin" >"$B/d/killed-log" && sync "$B/d/killed-log"
for n in $(seq 12); do echo "$n" >>"$A/d/killed-log"; done
[ "$(of "$A" .leases.writes)" -gt 0 ] || fail "appends wait for the bucket still: $(of "$A" .leases)"
node_kill9 0
node_remount 0
same "$(cat "$B/d/killed-log")" "$(echo begin && seq 12)" "what a node appended that was killed"

echo "== a snapshot on one node has what was closed on the other"
for n in 1 2 3; do echo "snap $n" >"$A/d/snap$n"; done
"$WEIR" snapshot create "$B" closed >/dev/null || fail "weir snapshot create"
same "$(cat "$B"/.snapshots/closed/d/snap?)" "$(printf 'snap %d\n' 1 2 3)" "files in the snapshot"

echo "== without its bucket a node closes, and who looks for the file waits, and may give up"
cut_off 0 bucket cut
timeout 10 bash -c 'echo waits >"$1"' - "$A/d/waits" || fail "a close waits for the bucket"
timeout 4 cat "$B/d/waits" 2>/dev/null && fail "the other node does not wait for it"
cat "$B/d/waits" >"$T/waits" &
reader=$!
remember $reader
cut_off 0 bucket pass
wait $reader || fail "it does not come with the bucket"
rm -f "$T/$reader.pid"
same "$(cat "$T/waits")" waits "what came with the bucket"

echo "== a daemon that was killed and comes back brings it first"
for n in $(seq 20); do echo "killed $n" >"$A/d/killed$n"; done
node_kill9 0
cat "$B"/d/killed20 >"$T/killed" &
reader=$!
remember $reader
sleep 1
node_remount 0
wait $reader || fail "cat of what a killed node closed"
rm -f "$T/$reader.pid"
same "$(cat "$T/killed")" "killed 20" "what a node closed that was killed"
for n in $(seq 20); do same "$(cat "$B/d/killed$n")" "killed $n" "what a node closed that was killed"; done

echo "== one that stands still is waited for until it is shut out, and brings its file when it is back"
echo synced >"$A/d/synced" && sync "$A/d/synced"
echo late >"$A/d/late"
sleep 0.5 # until its name is in the database
node_stop 0
began=$SECONDS
same "$(cat "$B/d/synced")" synced "what was synced"
same "$(stat -c %s "$B/d/late")" 0 "the size of what was closed only"
[ $((SECONDS - began)) -le 40 ] || fail "it took $((SECONDS - began)) s"
node_cont 0
found() { [ "$(cat "$B/d/late")" = late ]; }
poll 40 found || fail "what it had is not brought: $(ls -l "$B/d/late")"

echo "== without write leases each close is for good"
node_umount 0
echo '{"write_leases": false}' >"$T/config.json"
NODE_ARGS=(--config "$T/config.json")
node_mount 0
for n in 1 2 3; do
    echo "good $n" >"$A/d/good$n"
    same "$(of "$A" '.leases.writes + .tier.dirty_bytes')" 0 "what is not in the bucket"
done
node_kill9 0
same "$(cat "$B"/d/good?)" "$(printf 'good %d\n' 1 2 3)" "what a node closed that was killed"
node_mount 0
nodes_umount
"$WEIR" fsck --data "$URL" "${CONNECT[@]}" || fail "fsck finds problems in $URL"
