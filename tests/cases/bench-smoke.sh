#!/usr/bin/env bash
# `make bench-smoke`: the bench measures every row once, small, and writes JSON and a page that say
# so. Whether goals are met is not asked: a test machine is no place to judge speed.
# quiet: it measures time, and is asked for little of it
source "$(dirname "$0")/../lib.sh"
begin
need fio nbdkit python3
out=$T/out bench=$T/bench.d
mkdir "$bench"
cd "$TESTS/.." || exit 1

python3 -m unittest -q perf.test_figures || fail "the bench's own tests fail"

BENCH=smoke BENCH_PEERS=none BENCH_DIR=$bench BENCH_OUT=$out BENCH_STORE=disk \
    python3 -m perf >"$T/table.log" 2>"$T/bench.log" || fail "the smoke run ends with $?"
[ ! -e "$bench" ] || fail "the work directory is still there: $(ls "$bench")"
if grep -q " $T/" /proc/self/mounts; then fail "something is still mounted below $T"; fi
same "$(daemons_below "$T/")" "" "daemons after the run"
grep -q " met, " "$T/table.log" || fail "the table has no verdict"

python3 - "$out" <<'END' || fail "the results are not what they should be"
import html.parser, json, sys

with open(sys.argv[1] + "/bench.json") as file:
    found = json.load(file)
cells = {(c["row"], c["target"], c["regime"]): c for c in found["cells"]}
regimes = {regime["name"]: regime for regime in found["settings"]["regimes"]}
first, second = regimes
assert (first, second) == ("cpu", "wire") and regimes[second]["total_mib"] == 200, regimes
small = [f"{row}-{jobs}" for row in ("create", "durable", "cold-read") for jobs in (1, 4)]
near = ["warm", "random-1", "random-4", "mmap", "stat-1", "stat-4", "read-1", "read-4"]
own = ["warm", "random-1", "random-4", "mmap"]
linked = ["linked", "linked-4", "linked-4-hydrating", "link-import", "hydrate-some", "lfs-loop"]
syncs = [f"fsync-{jobs}-{rank}" for jobs in (1, 8) for rank in ("p50", "p99", "rate")]
shared = ["1", "2", "4", "same-2", "same-4"]
nodes = [f"nodes-{what}-{where}" for what in ("create", "stat", "again", "open") for where in shared]
nodes += ["nodes-cold-1", "nodes-cold-4", "nodes-recall-p50", "nodes-recall-p99"]
volume = [f"{row}-{which}" for row in ("mount", "memory") for which in ("empty", "full")]
wanted = [(row, target, regime) for regime in (first, second) for row, targets in (
    [("write", "weir local raw"), ("cold", "weir raw"), ("cold-4", "weir")]
    + [(row, "weir local raw") for row in syncs] + [(row, "weir-journal") for row in syncs]
    + [(row, "weir") for row in linked]
    + [(f"hydrate-{size}", "weir raw") for size in ("large", "small")]
    + [(row, "weir") for row in small] + [(row, "weir") for row in volume])
    for target in targets.split()]
wanted += [(row, target, first) for row in near for target in ("weir", "weir-file", "local")]
wanted += [(row, "mirror", first) for row in own]
wanted += [(f"{row}-{jobs}", "floor", first) for row in ("create", "stat", "read") for jobs in (1, 4)]
wanted += [(row, "weir-nodes", first) for row in nodes]
wanted += [(row, target, first) for row in ("ls", "rm") for target in ("weir", "local")]
wanted += [("puts", "weir", first), ("idle", "weir", first), ("create-1", "weir-file", first)]
for cell in wanted:
    assert cell in cells, f"no value of {cell}; not measured: {found['not_measured']}"
for name, cell in cells.items():
    least = -1 if name[0].startswith("idle") else 0  # who asks for nothing pays nothing
    assert all(least < value < 1e9 for value in cell["values"]), (name, cell["values"])
# A file that is read cold was fetched, and fetching takes a daemon's time.
cold = [s for s in found["samples"] if (s["row"], s["target"]) == ("cold", "weir")]
for sample in cold:
    assert sample["requests"]["data get bytes_received"] >= sample["bytes"] > 0, sample
for sample in found["samples"]:
    if sample["row"] in ("linked", "linked-4", "linked-4-hydrating") or (
            sample["row"].startswith("hydrate-") and sample["target"] == "weir"):
        got = sample["requests"]["link get bytes_received"]
        assert sample["bytes"] <= got <= sample["bytes"] * 1.02, sample
assert sum(s["cpu_s"] for s in cold) > 0, cold
assert found["samples"] and found["machine"]["kernel"], "no machine"
# What was made slow is slow: a cold read of one object waits for the added latency, and nobody is
# faster than the cap of all connections, the limit as little as weir.
put = cells["fsync-1-p50", "raw", second]["median"]
latency_ms = regimes[second]["latency_ms"]
assert put >= latency_ms > 0, f"a PUT takes {put} ms beside {latency_ms} ms of latency"
for row, targets in (("cold", "weir raw"), ("hydrate-large", "weir raw"), ("write", "raw")):
    for target in targets.split():
        speed = cells[row, target, second]["median"]
        assert speed <= regimes[second]["total_mib"] * 1.02, f"{row} on {target}: {speed} MiB/s"
for sample in found["samples"]:
    if sample["target"] == "raw":
        assert (sample["proxy_cpu_s"] > 0) <= (sample["regime"] == second), sample
# Four nodes that read at once fetch each byte once.
[four] = [s for s in found["samples"] if s["row"] == "nodes-cold-4"]
got = four["requests"]["data get bytes_received"]
assert four["bytes"] <= got <= 2 * four["bytes"], f"{got} bytes for four nodes that read {four['bytes']} each"
idle = [s for s in found["samples"] if s["row"] == "idle"]
assert idle[0]["seconds"] >= found["settings"]["idle_s"], idle
# NFS-Ganesha is a peer: what is held against it has no verdict where it is not installed.
lacking = "is not installed" in found["not_measured"].get("ganesha", "")
for goal in found["goals"]:
    is_open = lacking and "Ganesha" in goal["against"] and goal["why"] == "the limit was not measured"
    assert goal["goal"] == "-" or goal["met"] in (True, False) or is_open, goal


class Page(html.parser.HTMLParser):
    open, heads, plots, inside = [], [], {}, ""

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            assert name not in ("src", "href") or value == "data:,", f"it asks for {value}"
        if tag == "svg":
            self.plots[self.heads[-1]] = self.plots.get(self.heads[-1], 0) + 1
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.heads.append(data)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes nothing"


page = Page()
with open(sys.argv[1] + "/bench.html") as file:
    page.feed(file.read())
assert not page.open, page.open
for group in ("Large files", "fsync of 4 KiB", "Small files", "Trees of files", "Linked buckets",
              "Disks by NBD", "Several nodes", "Requests", "Large volume"):
    assert page.plots.get(group), f"no plot of {group}: {page.plots}"
with open(sys.argv[1] + "/bench.md") as file:
    tables = file.read()
for words in ("| cold sequential read | wire |", "With 4 ms a round trip and 200 MiB/s over all"):
    assert words in tables, f"{words} is not in {tables}"
END

# What cannot be measured is refused before anything is made, with what to do.
if BENCH=smoke BENCH_DIR=$bench BENCH_ROWS=speed python3 -m perf >"$T/refused" 2>&1; then
    fail "an unknown row is accepted"
fi
grep -q "there is no speed" "$T/refused" || fail "refused with: $(cat "$T/refused")"
if BENCH=smoke BENCH_DIR=/dev/shm/weir-bench-$$ python3 -m perf >"$T/refused" 2>&1; then
    fail "a work directory in memory is accepted"
fi
rmdir "/dev/shm/weir-bench-$$"
grep -q "is in memory" "$T/refused" || fail "refused with: $(cat "$T/refused")"

# An interrupted run leaves nothing either.
BENCH=smoke BENCH_PEERS=none BENCH_DIR=$bench BENCH_OUT=$out BENCH_STORE=disk \
    python3 -m perf >>"$T/bench.log" 2>&1 &
pid=$!
poll 30 grep -q " $bench/weir" /proc/self/mounts || fail "the second run mounts nothing"
kill -TERM $pid
wait $pid
same $? 130 "the exit status of an interrupted run"
[ ! -e "$bench" ] || fail "an interrupted run leaves $bench"
if grep -q " $T/" /proc/self/mounts; then fail "an interrupted run leaves mounts"; fi
same "$(daemons_below "$T/")" "" "daemons after an interrupted run"
