#!/usr/bin/env bash
# What a node remembers of a volume that others change, and how it gives that up.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nodes.sh"
need jq python3

nodes_make 2
A=$(node 0) B=$(node 1)

mkdir "$A/d"
for n in $(seq 50); do echo "$n" >"$A/d/f$n"; done
look() { stat "$1"/d/f* "$1"/d/none >/dev/null 2>&1 || true; } # NODE

# Until the node has leases on the directory and its files.
remember() { # NODE
    looks() { look "$1" && sleep 0.1 && look "$1" && sleep 0.2 && [ "$(of "$1" .leases.held)" -ge 45 ]; }
    poll 60 looks "$1" || fail "no leases are taken: $(of "$1" .leases)"
    look "$1"
}

echo "== what is looked at again is remembered"
remember "$B"
before=$(of "$B" .leases.hits)
for _ in 1 2 3 4 5; do look "$B"; done
now=$(of "$B" .leases.hits)
[ $((now - before)) -ge 200 ] || fail "of 255 looks $((now - before)) were answered from memory"

echo "== and given up before a change is answered"
cat >"$T/changes.py" <<'PY'
# Changes made on one node are seen on the other once they returned, whatever that remembers.
import os, random, sys, time
a, b = sys.argv[1] + "/d", sys.argv[2] + "/d"
seed = random.randrange(1 << 32)
print("seed", seed, flush=True)
dice = random.Random(seed)
def exists(path):
    try:
        os.stat(path)
        return True
    except FileNotFoundError:
        return False
slowest = 0
for turn in range(120):
    here, there = (a, b) if dice.random() < 0.5 else (b, a)
    name = "f%d" % dice.randrange(1, 11)
    # Both may remember by now.
    for _ in range(dice.randrange(4)):
        for side in (here, there):
            for n in range(1, 11):
                exists("%s/f%d" % (side, n))
        time.sleep(0.06)
    began = time.monotonic()
    kind = dice.randrange(5)
    if kind == 0 and exists(here + "/" + name):
        mode = 0o600 + dice.randrange(0o100)
        os.chmod(here + "/" + name, mode)
        assert os.stat(there + "/" + name).st_mode & 0o777 == mode, (turn, name, "mode")
    elif kind == 1 and exists(here + "/" + name):
        os.unlink(here + "/" + name)
        assert not exists(there + "/" + name), (turn, name, "is removed")
    elif kind == 2 and exists(here + "/" + name):
        os.rename(here + "/" + name, here + "/" + name + "x")
        assert not exists(there + "/" + name) and exists(there + "/" + name + "x"), (turn, name)
        os.rename(there + "/" + name + "x", there + "/" + name)
        assert exists(here + "/" + name), (turn, name, "is back")
    else:
        text = "%d %s" % (turn, "x" * dice.randrange(100))
        with open(here + "/" + name, "w") as file:
            file.write(text)
        assert os.stat(there + "/" + name).st_size == len(text), (turn, name, "size")
        assert open(there + "/" + name).read() == text, (turn, name, "bytes")
    slowest = max(slowest, time.monotonic() - began)
print("slowest", round(slowest, 3))
PY
python3 "$T/changes.py" "$A" "$B" || fail "a change was not seen"
[ "$(of "$A" .leases.given_back)" -gt 0 ] || fail "nothing was given back: $(of "$A" .leases)"
[ "$(of "$B" .leases.asked_back)" -gt 0 ] || fail "nothing was asked for: $(of "$B" .leases)"

echo "== what a node changes itself it goes on remembering"
for n in $(seq 50); do echo "$n" >"$A/d/f$n"; done
remember "$A"
had=$(of "$A" .leases.held)
for n in $(seq 50); do chmod 600 "$A/d/f$n"; done
same "$(stat -c %a "$A"/d/f* | sort -u)" 600 "modes"
[ "$(of "$A" .leases.held)" -ge "$had" ] || fail "leases went with the node's own changes"

# A directory and five files on which nobody asked for a lease yet: the second node has one on each.
learn() { # NAME
    local base n
    mkdir "$A/$1"
    for n in 1 2 3 4 5; do echo "$n" >"$A/$1/f$n"; done
    base=$(of "$B" .leases.held)
    learned() { stat "$B/$1"/f? >/dev/null && sleep 0.1 && [ "$(of "$B" .leases.held)" -ge $((base + 6)) ]; }
    poll 60 learned "$1" || fail "no leases are taken: $(of "$B" .leases)"
}

echo "== what the kernel of a node reads by itself is as its last writer closed it, too"
cat >"$T/opens" <<SH
#!/bin/sh
"$WEIR" status "$B" --json | jq .passthrough.opens
SH
chmod +x "$T/opens"
python3 "$TESTS/tools/lent.py" "$A" "$B" "$T/opens" || fail "a file that was lent"

echo "== a node that stands still is waited for until it is shut out"
learn stops
node_stop 1
began=$SECONDS
chmod 640 "$A/stops/f3"
took=$((SECONDS - began))
[ $took -ge 3 ] || fail "after $took s the other node was not asked"
[ $took -le 40 ] || fail "it took $took s"
node_cont 1
same "$(stat -c %a "$B/stops/f3")" 640 "the mode, where it was remembered"

echo "== so is one that was killed"
learn dies
node_kill9 1
rm "$A/dies/f4"
[ ! -e "$A/dies/f4" ] || fail "it is there"
node_remount 1
[ ! -e "$B/dies/f4" ] || fail "it is there, on the node that was killed"

echo "== a node that is upgraded remembers nothing of before, and files stay open as they were"
learn turns
cp "$WEIR" "$T/weir"
mkfifo "$T/go"
KEEP=1 timeout 120 python3 "$TESTS/tools/lent.py" "$A" "$B" "$T/opens" <"$T/go" >"$T/kept" & kept=$!
exec 9>"$T/go"
has_kept() { grep -q kept "$T/kept" || gone $kept; }
poll 60 has_kept || fail "it opens nothing"
"$T/weir" upgrade "$B" || fail "upgrade"
echo go >&9
exec 9>&-
wait $kept || fail "a file that was lent, over an upgrade: $(cat "$T/kept")"
chmod 604 "$A/turns/f5"
same "$(stat -c %a "$B/turns/f5")" 604 "the mode after an upgrade"
learn turned
chmod 606 "$A/turned/f5"
same "$(stat -c %a "$B/turned/f5")" 606 "the mode after another change"

echo "== the volume is sound, and whoever has it alone needs no leases"
nodes_umount
"$WEIR" fsck --data "$URL" || fail "fsck finds problems in $URL"
