"""The goals: which value is held against which limit, where, and whether it is met.

A ratio is taken within each repeat and round, where both sides were measured beside each other, in the
same regime by the same way; the median of these ratios decides. A goal whose value or limit was not
measured is neither met nor missed. What a row is stands in table.py.
"""

import dataclasses

from .samples import cpu, middle, spread
from .settings import PEERS, REGIMES
from .table import ROWS

# s3backer is a local ext4 whose block device leaves later: creating in it is creating in ext4, which
# has goals of its own.
SHARED_PEERS = tuple(peer for peer in PEERS if peer != "s3backer")
CPU, WIRE = "cpu", "wire"
BOTH = tuple(REGIMES)


@dataclasses.dataclass(frozen=True)
class Goal:
    """One line of the table. `value` and `limit` give {repeat: number} from the table of samples."""

    row: str  # whose section, title, unit and CPU it shows
    against: str  # the limit or peer, in words
    value: object
    limit: object = None  # None: the value itself is held against the bound
    bound: float = None  # None: shown without a goal
    at_least: bool = True
    judged: tuple = BOTH  # the regimes where the bound holds; elsewhere figures are shown without
    target: str = "weir"
    what: str = ""  # instead of the row's title
    unit: str = ""  # instead of the row's unit
    needs: tuple = ()  # left out unless one of these takes part
    why: str = ""  # it is not measured here


@dataclasses.dataclass
class Line:
    """A goal as it came out in one regime."""

    group: str
    what: str
    regime: str
    against: str
    value: float
    limit: float
    ratio: float
    spread: float  # of the ratios, else of the values
    unit: str
    cpu: tuple  # what the row took of the target's CPU, and what for
    goal: str
    met: bool  # None: no goal, or not measured
    why: str = ""


def value(row, target="weir"):
    return lambda table: {r: s.value for r, s in table(row, target).items()}


def per_gb(row, target="weir"):
    """Daemon CPU for each 10^9 bytes of data."""
    return lambda table: {r: s.cpu_s / (s.bytes / 1e9) for r, s in table(row, target).items()}


def best(row, peers=SHARED_PEERS):
    """The best of the peers."""
    def of(table):
        found = {}
        for peer in peers:
            for r, sample in table(row, peer).items():
                found[r] = max(found.get(r, 0), sample.value)
        return found
    return of


def taken(row):
    """Seconds for each GiB that one job read."""
    return lambda table: {r: s.seconds / s.bytes * (1 << 30) for r, s in table(row, "weir").items()}


def more(row, than):
    """How much one of weir's rows exceeds another."""
    def of(table):
        base = value(than)(table)
        return {r: v - base[r] for r, v in value(row)(table).items() if r in base}
    return of


def fetched(row, component="data", target="weir"):
    """Bytes of data from the bucket for each byte of the file."""
    return lambda table: {r: s.requests.get(f"{component} get bytes_received", 0) / s.bytes
                          for r, s in table(row, target).items() if s.requests}


def each_mib(row, kind):
    """Requests of data for each MiB that a disk's client wrote or read."""
    return lambda table: {r: s.requests.get(f"data {kind} requests", 0) / (s.bytes / (1 << 20))
                          for r, s in table(row, "disk").items() if s.requests}


def _beside(row, against, limit, bound, **how):
    """The row held against the same row of another target."""
    return Goal(row, against, value(row), value(row, limit), bound, **how)


def _peer(row, bound, peers=SHARED_PEERS, against="best peer", **how):
    return Goal(row, against, value(row), best(row, peers), bound, needs=peers, **how)


def _once(row, one, component, what):
    """Four jobs that read what is cold beside one job: time and bytes."""
    yield Goal(row, "one job", taken(row), taken(one), 1.02, False, (WIRE,),
               what=f"{what}, time", unit="s/GiB")
    yield Goal(row, "its bytes", fetched(row, component), None, 1.01, False,
               what=f"{what}, bucket bytes", unit="x")


def _per_gb(row, what, bound=None, target="weir"):
    return Goal(row, "-", per_gb(row, target), None, bound, False, (CPU,), target=target, what=what,
                unit="core-s/GB")


def _large():
    gets, puts = "parallel GETs", "parallel PUTs"
    yield _beside("cold", gets, "raw", 0.97, judged=(WIRE,))
    yield _peer("cold", 3, judged=(CPU,))
    yield from _once("cold-4", "cold", "data", "four jobs read the same cold file")
    yield _per_gb("cold", "daemon CPU, cold sequential read", 0.6)
    yield _beside("write", puts, "raw", 0.97, judged=(WIRE,))
    yield _beside("write", "local disk", "local", None)
    yield _per_gb("write", "daemon CPU, sequential write, then fsync", 0.8)
    for row in ("warm", "random-1", "random-4", "mmap"):
        yield _beside(row, "its mirror file, bare", "mirror", 0.98)
    yield _per_gb("daemon", "daemon CPU, warm read through the daemon")


def _fsync():
    for jobs, who in ((1, "1 writer"), (8, "8 writers")):
        for rank in ("p50", "p99"):
            row, judged = f"fsync-{jobs}-{rank}", rank == "p50"
            yield _beside(row, "one PUT of 4 KiB", "raw", 2.1 if judged else None, at_least=False,
                          judged=(WIRE,))
            yield Goal(row, "local write and fdatasync", value(row, "weir-journal"),
                       value(row, "local"), 1.3 if judged else None, False, target="weir-journal",
                       what=f"the same with a journal, {who}, {rank}")


def in_turn(row, first, second):
    """What is left of both rates for who has to wait for one, and then for the other."""
    def of(table):
        other = value(row, second)(table)
        return {r: 1 / (1 / v + 1 / other[r]) for r, v in value(row, first)(table).items()
                if r in other}
    return of


def _beside_ext4(row, bound, on_disk):
    """Weir, and the most that can be behind FUSE: requests that nothing is done for, and what ext4
    takes below for what is `on_disk`."""
    yield _beside(row, "local ext4", "local", bound)
    most, what = value(row, "floor"), "FUSE that does nothing"
    if on_disk:
        most, what = in_turn(row, "floor", "local"), f"{what}, then ext4"
    yield Goal(row, "local ext4", most, value(row, "local"), target="floor",
               what=f"{what}: {ROWS[row].title}", needs=("floor",))


def _files():
    for jobs in (1, 4):
        yield from _beside_ext4(f"create-{jobs}", 0.3, True)
        yield _peer(f"durable-{jobs}", 10)
        yield from _beside_ext4(f"stat-{jobs}", 0.4, False)
        yield from _beside_ext4(f"read-{jobs}", 0.6, True)
        yield _peer(f"cold-read-{jobs}", 5)
    yield _beside("ls", "local ext4", "local", 0.4)
    yield _peer("ls", 1, ("juicefs",), "JuiceFS")
    yield _beside("rm", "local ext4", "local", 0.6)
    yield _peer("rm", None, ("juicefs",), "JuiceFS")


def _links():
    gets = "parallel GETs"
    yield Goal("link-import", "-", value("link-import"))
    for row in ("hydrate-large", "hydrate-small"):
        yield _beside(row, gets, "raw", 0.97, judged=(WIRE,))
    yield _per_gb("hydrate-large", "daemon CPU, hydrate large objects", 0.6)
    yield Goal("linked", gets, value("linked"), value("hydrate-large", "raw"), 0.97, judged=(WIRE,))
    yield from _once("linked-4", "linked", "link", "four jobs read the same cold linked files")
    yield from _once("linked-4-hydrating", "linked", "link", "the same while they are hydrated")
    yield Goal("hydrate-some", "a loop of lfs hsm_restore", value("hydrate-some"),
               value("lfs-loop"), 5)


def _disks():
    disk = "disk"
    for row, limit in (("disk-write", "PUTs"), ("disk-read", "GETs")):
        yield Goal(row, f"parallel {limit} of 1 MiB", value(row, disk), value(row, "raw"),
                   target=disk)
        yield Goal(row, "a disk in memory", value(row, disk), value(row, "nbdkit"), target=disk)
    for row, kind, bound in (("disk-write", "put", 1.02), ("disk-read", "get", 1.07)):
        yield Goal(row, "-", each_mib(row, kind), None, bound, False, target=disk,
                   what=f"{kind.upper()}s for each MiB, {ROWS[row].title}", unit="requests")
    for row in ("disk-random-write", "disk-random-read-cold", "disk-random-read"):
        yield Goal(row, "a disk in memory", value(row, disk), value(row, "nbdkit"), target=disk)


def _nfs():
    nfs, against = "nfs", "NFS-Ganesha over ext4"
    bounds = {"nfs-read": 0.9}
    rows = [row.name for row in ROWS.values() if row.word == "nfs"]
    for row in rows:
        # Of writes only weir's are in the bucket when they are committed.
        bound = bounds.get(row, 1 if "stat" in row or "create" in row or "remove" in row else None)
        yield Goal(row, against, value(row, nfs), value(row, "ganesha"), bound, target=nfs)
    for row, bound in (("nfs-read", 0.7), ("nfs-write", None)):
        yield _per_gb(row, f"server CPU, {ROWS[row].title}", bound, nfs)


def _nodes():
    nodes, one = "weir-nodes", "one node"
    for what in ("create", "stat", "again", "open"):
        for count, where in ((1, ""), (2, ""), (4, ""), (2, "same-"), (4, "same-")):
            row = f"nodes-{what}-{where}{count}"
            if count > 1:
                # All together: it is only with a machine each that they could be twice as fast.
                yield Goal(row, one, value(row, nodes), value(f"nodes-{what}-1", nodes),
                           target=nodes)
            yield Goal(row, "JuiceFS, as many mounts", value(row, nodes),
                       value(row, "juicefs-nodes"), target=nodes, needs=("juicefs-nodes",))
    yield Goal("nodes-cold-4", one, value("nodes-cold-4", nodes), value("nodes-cold-1", nodes),
               target=nodes)
    yield Goal("nodes-cold-4", "its bytes", fetched("nodes-cold-4", target=nodes), None, 1.05,
               False, target=nodes, what="four nodes read a cold data set, bucket bytes", unit="x")
    for rank in (50, 99):
        row = f"nodes-recall-p{rank}"
        yield Goal(row, "-", value(row, nodes), target=nodes)


def _volumes():
    yield Goal("puts", "1 per file", value("puts"), None, 200, False)
    yield Goal("idle", "-", value("idle"), None, 0.05, False)
    yield Goal("idle-requests", "-", value("idle-requests"))
    yield Goal("mount-full", "-", value("mount-full"), None, 0.5, False)
    yield Goal("memory-full", "-", more("memory-full", "memory-empty"), None, 16, False,
               what="memory of a large volume beyond an empty one's")
    yield Goal("memory-first", "-", more("memory-first", "memory-empty"),
               what="the same while it is compacted for the first time")


def goals():
    """All lines, in the order of the table."""
    for some in (_large, _fsync, _files, _links, _disks, _nfs, _nodes, _volumes):
        yield from some()


# Goals of several nodes, which one machine's two CPUs cannot tell anything about.
ELSEWHERE = (
    ("creates in separate directories, 2 and 4 nodes", "one node over PostgreSQL, a node", ">= 0.9x"),)


def _spread(values):
    """None for one value, which has none."""
    return spread(values) if len(values) > 1 else None


def _line(goal, table, regime):
    row = ROWS[goal.row]
    have = goal.value(table)
    limits = goal.limit(table) if goal.limit else {}
    bound = goal.bound if regime in goal.judged else None
    text = f"{'>=' if goal.at_least else '<='} {bound:g}{'x' * bool(goal.limit)}" if bound else "-"
    line = Line(row.section, goal.what or row.title, regime, goal.against, None, None, None, None,
                goal.unit or row.unit, cpu(table(goal.row, goal.target).values()), text, None)
    if not have:
        line.why = "the value was not measured"
        return line
    line.value, line.spread = middle(have.values()), _spread(have.values())
    judged = line.value
    if goal.limit:
        ratios = [have[r] / limits[r] for r in have if limits.get(r)]
        if not ratios:
            line.why = "the limit was not measured"
            return line
        line.limit = middle(limits.values())
        judged = line.ratio = middle(ratios)
        line.spread = _spread(ratios)
    if bound:
        line.met = judged >= bound if goal.at_least else judged <= bound
    return line


def judge(samples, settings):
    """The table's lines, for the rows that were asked for."""
    lines, regimes = [], [regime.name for regime in settings.regimes]
    for goal in goals():
        row = ROWS[goal.row]
        if row.word not in settings.rows or goal.needs and not set(goal.needs) & set(
                settings.targets):
            continue
        for regime in regimes[:1] if row.near else regimes:
            lines.append(_line(goal, lambda row, target: samples.of(row, target, regime), regime))
    order = list(dict.fromkeys(line.group for line in lines))
    return sorted(lines, key=lambda line: order.index(line.group))
