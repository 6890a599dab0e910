"""The goals: which value is held against which limit, and whether it is met.

A ratio is taken within each repeat, where both sides were measured beside each other, and the median
of these ratios decides. A goal whose value or limit was not measured is neither met nor missed.
"""

import dataclasses

from .samples import middle, spread
from .settings import PEERS


@dataclasses.dataclass(frozen=True)
class Goal:
    """One line of the table. `value` and `limit` give {repeat: number} from the table of samples."""

    group: str  # of rows, as the report shows them
    selects: str  # the row word it belongs to
    what: str
    against: str  # the limit or peer, in words
    value: object
    limit: object  # None: the value itself is held against the bound
    bound: float = None  # None: shown without a goal
    at_least: bool = True
    unit: str = ""
    near: bool = False  # shown at the first latency only


@dataclasses.dataclass
class Line:
    """A goal as it came out at one latency."""

    group: str
    what: str
    latency_ms: float
    against: str
    value: float
    limit: float
    ratio: float
    spread: float  # of the ratios, else of the values
    unit: str
    goal: str
    met: bool  # None: no goal, or not measured
    why: str = ""


def value(row, target="weir"):
    return lambda table: {r: s.value for r, s in table(row, target).items()}


def per_gb(row):
    """Daemon CPU for each 10^9 bytes of data."""
    return lambda table: {r: s.cpu_s / (s.bytes / 1e9) for r, s in table(row, "weir").items()}


def slower(*sides):
    """The smallest of several values, where all were measured."""
    def of(table):
        found = [side(table) for side in sides]
        return {r: min(each[r] for each in found) for r in found[0]
                if all(r in each for each in found)}
    return of


def best_peer(row):
    """The best of the peers that are shared file systems. s3backer is a local ext4 whose block
    device leaves later: creating in it is creating in ext4, which has a goal of its own."""
    def of(table):
        best = {}
        for peer in PEERS:
            if peer == "s3backer":
                continue
            for r, sample in table(row, peer).items():
                best[r] = max(best.get(r, 0), sample.value)
        return best
    return of


def taken(row, target="weir"):
    """Seconds for each GiB that one job read."""
    return lambda table: {r: s.seconds / s.bytes * (1 << 30) for r, s in table(row, target).items()}


def more(row, than):
    """How much one of weir's rows exceeds another."""
    def of(table):
        base = value(than)(table)
        return {r: v - base[r] for r, v in value(row)(table).items() if r in base}
    return of


def fetched(row, component="data"):
    """Bytes of data from the bucket for each byte of the file."""
    return lambda table: {r: s.requests.get(f"{component} get bytes_received", 0) / s.bytes
                          for r, s in table(row, "weir").items() if s.requests}


def goals():
    """All lines, in the order of the table."""
    both = ("1", "4")
    yield Goal("Cold", "cold", "cold sequential read", "parallel GETs", value("cold"),
               value("cold", "raw"), 0.90, unit="MiB/s")
    yield Goal("Cold", "cold", "four jobs read the same cold file, time", "one job",
               taken("cold-4"), taken("cold"), 1.1, False, "s/GiB")
    yield Goal("Cold", "cold", "four jobs read the same cold file, bucket bytes", "the file's bytes",
               fetched("cold-4"), None, 1.02, False, "x")
    for row, what, unit in (("warm", "warm sequential read", "MiB/s"),
                            ("random-1", "4 KiB random direct reads, 1 job", "/s"),
                            ("random-4", "4 KiB random direct reads, 4 jobs", "/s"),
                            ("mmap", "4 KiB random mmap reads", "/s")):
        yield Goal("Warm", "random" if "random" in row else row, what, "bare local file",
                   value(row), value(row, "local"), 0.95, unit=unit, near=True)
    yield Goal("Write", "write", "sequential write, then fsync",
               "slower of local disk and parallel PUTs", value("write"),
               slower(value("write", "local"), value("write", "raw")), 0.90, unit="MiB/s")
    for jobs, who in (("1", "1 writer"), ("8", "8 writers")):
        for rank in ("p50", "p99"):
            row, judged = f"fsync-{jobs}-{rank}", rank == "p50"
            yield Goal("fsync", "fsync", f"fsync of 4 KiB, {who}, {rank}", "one PUT of 4 KiB",
                       value(row), value(row, "raw"), 2.2 if judged else None, False, "ms")
            yield Goal("fsync", "fsync", f"the same with a journal, {who}, {rank}",
                       "local write and fdatasync", value(row, "weir-journal"),
                       value(row, "local"), 1.5 if judged else None, False, "ms")
    for row, what in (("create", "create"), ("stat", "stat"), ("read", "read, resident")):
        for jobs in both:
            title = f"small files: {what}, {jobs} thread{'s' * (jobs != '1')}"
            near = row != "create"
            yield Goal("Small files", "files", title, "local ext4", value(f"{row}-{jobs}"),
                       value(f"{row}-{jobs}", "local"), 0.3, unit="/s", near=near)
            yield Goal("Small files", "files", title, "best peer", value(f"{row}-{jobs}"),
                       best_peer(f"{row}-{jobs}"), 5, unit="/s", near=near)
    for jobs in both:
        yield Goal("Small files", "files",
                   f"small files: read, cold, {jobs} thread{'s' * (jobs != '1')}", "best peer",
                   value(f"cold-read-{jobs}"), best_peer(f"cold-read-{jobs}"), 5, unit="/s")
    yield from _links()
    yield from _disks()
    yield Goal("Requests", "puts", "PUTs for small files", "1 per file", value("puts"), None, 250,
               False, "PUTs", near=True)
    yield Goal("CPU", "cold", "daemon CPU, cold read", "-", per_gb("cold"), None, 1.2, False,
               "core-s/GB")
    yield Goal("CPU", "daemon", "daemon CPU, warm read through the daemon", "-", per_gb("daemon"),
               None, None, False, "core-s/GB", near=True)
    yield Goal("CPU", "write", "daemon CPU, write and fsync", "-", per_gb("write"), None, None,
               False, "core-s/GB")
    yield Goal("Large volume", "mount", "mount of a large volume", "-", value("mount-full"), None,
               1.0, False, "s")
    yield Goal("Large volume", "mount", "memory beyond an empty volume's", "-",
               more("memory-full", "memory-empty"), None, 16, False, "MiB")


def _links():
    group, gets = "Linked buckets", "parallel GETs"
    yield Goal(group, "links", "import of small objects", "-", value("link-import"), None,
               unit="objects/s")
    yield Goal(group, "links", "hydrate large objects", gets, value("hydrate-large"),
               value("hydrate-large", "raw"), 0.95, unit="MiB/s")
    yield Goal(group, "links", "hydrate small objects", gets, value("hydrate-small"),
               value("hydrate-small", "raw"), 0.95, unit="/s")
    yield Goal(group, "links", "daemon CPU, hydrate large objects", "-", per_gb("hydrate-large"),
               None, 1.2, False, "core-s/GB")
    yield Goal(group, "links", "cold sequential read of linked files", gets, value("linked"),
               value("hydrate-large", "raw"), 0.90, unit="MiB/s")
    for row, what in (("linked-4", "four jobs read the same cold linked files"),
                      ("linked-4-hydrating", "the same while they are hydrated")):
        yield Goal(group, "links", f"{what}, time", "one job", taken(row), taken("linked"), 1.1,
                   False, "s/GiB")
        yield Goal(group, "links", f"{what}, bucket bytes", "the files' bytes",
                   fetched(row, "link"), None, 1.02, False, "x")
    yield Goal(group, "links", "weir hydrate of small objects", "a loop of lfs hsm_restore",
               value("hydrate-some"), value("lfs-loop"), 5, unit="/s")


def each_mib(row, kind):
    """Requests of data for each MiB that a disk's client wrote or read."""
    return lambda table: {r: s.requests.get(f"data {kind} requests", 0) / (s.bytes / (1 << 20))
                          for r, s in table(row, "disk").items() if s.requests}


def _disks():
    group, disk = "Disks by NBD", "disk"
    for row, what, limit in (("disk-write", "1 MiB sequential write, then flush", "PUTs of 1 MiB"),
                             ("disk-read", "1 MiB sequential read, cold", "GETs of 1 MiB")):
        yield Goal(group, "disks", what, f"parallel {limit}", value(row, disk), value(row, "raw"),
                   None, unit="MiB/s")
        yield Goal(group, "disks", what, "a disk in memory", value(row, disk), value(row, "nbdkit"),
                   None, unit="MiB/s")
    yield Goal(group, "disks", "PUTs for each MiB written", "-", each_mib("disk-write", "put"), None,
               1.02, False, "PUTs")
    yield Goal(group, "disks", "GETs for each MiB read", "-", each_mib("disk-read", "get"), None,
               1.07, False, "GETs")
    for row, what in (("disk-random-write", "4 KiB random writes, 32 in flight, then flush"),
                      ("disk-random-read-cold", "4 KiB random reads, 32 in flight, cold"),
                      ("disk-random-read", "4 KiB random reads, 32 in flight")):
        yield Goal(group, "disks", what, "a disk in memory", value(row, disk),
                   value(row, "nbdkit"), None, unit="/s", near=True)


def _spread(values):
    """None for one value, which has none."""
    return spread(values) if len(values) > 1 else None


def _line(goal, table, latency_ms):
    have = goal.value(table)
    limits = goal.limit(table) if goal.limit else {}
    sign = ">=" if goal.at_least else "<="
    text = f"{sign} {goal.bound:g}" if goal.bound else "-"
    if goal.bound and goal.limit:
        text += "x"
    line = Line(goal.group, goal.what, latency_ms, goal.against, None, None, None, None, goal.unit,
                text, None)
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
    if goal.bound:
        line.met = judged >= goal.bound if goal.at_least else judged <= goal.bound
    return line


def judge(samples, settings):
    """The table's lines, for the rows that were asked for."""
    lines = []
    for goal in goals():
        if goal.selects not in settings.rows or (
                goal.against == "best peer" and not set(PEERS) & set(settings.targets)):
            continue
        latencies = settings.latencies_ms[:1] if goal.near else settings.latencies_ms
        for latency_ms in latencies:
            lines.append(_line(goal, lambda row, target: samples.of(row, target, latency_ms),
                               latency_ms))
    return lines
