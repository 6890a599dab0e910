"""Every row of a run: what it is called, its unit, how its cost is told. Nothing else defines a row.

What is done for a row stands in rows.py, links.py, disks.py, nfs.py and volumes.py; what it is held against,
in goals.py.
"""

import dataclasses

GB, OP = "core-s/GB", "us/op"


@dataclasses.dataclass(frozen=True)
class Row:
    """One row. Its values are of one unit on every target."""

    name: str
    word: str  # selects it in BENCH_ROWS
    section: str  # of the page
    title: str
    unit: str
    less: bool = False  # whether less is better
    cpu: str = ""  # what CPU is told for: GB of data or an operation
    near: bool = False  # independent of the way to the store: measured in the first regime only
    beside: str = ""  # its name in the table of peers, if it is in it


def _threads(name, word, section, title, beside, jobs=(1, 4), **more):
    """A row for each number of threads."""
    for count in jobs:
        who = f"{count} thread{'s' * (count > 1)}"
        yield Row(f"{name}-{count}", word, section, f"{title}, {who}", "files/s", cpu=OP,
                  beside=f"{beside}, {who}, /s" if beside else "", **more)


def _fsyncs():
    for jobs, who in ((1, "1 writer"), (8, "8 writers")):
        for rank in ("p50", "p99"):
            yield Row(f"fsync-{jobs}-{rank}", "fsync", "fsync of 4 KiB",
                      f"fsync of 4 KiB, {who}, {rank}", "ms", less=True, cpu=OP,
                      beside=f"fsync of 4 KiB, {rank}, ms" if (jobs, rank) == (1, "p50") else "")
        yield Row(f"fsync-{jobs}-rate", "fsync", "fsync of 4 KiB", f"fsync of 4 KiB, {who}",
                  "a second", cpu=OP)


def _nodes():
    """What several nodes do, in directories of their own and in one."""
    for what, title in (("create", "create 16 KiB files"), ("stat", "stat"),
                        ("again", "stat, the fourth time"), ("open", "open, read and close")):
        for where, who in (("1", "one node"), ("2", "two nodes, a directory each"),
                           ("4", "four nodes, a directory each"),
                           ("same-2", "two nodes, one directory"),
                           ("same-4", "four nodes, one directory")):
            yield Row(f"nodes-{what}-{where}", "nodes", NODES, f"{title}, {who}", "files/s", cpu=OP,
                      near=True)
    for count in (1, 4):
        who = "one node reads" if count == 1 else "four nodes read"
        yield Row(f"nodes-cold-{count}", "nodes", NODES, f"{who} a cold data set, each", "MiB/s",
                  cpu=GB, near=True)
    for rank in (50, 99):
        yield Row(f"nodes-recall-p{rank}", "nodes", NODES,
                  f"chmod of a file that another node remembers, p{rank}", "ms", less=True, cpu=OP,
                  near=True)


def _nfs_names():
    for what, title in (("create", "create, open and close"), ("stat", "look up and stat"),
                        ("remove", "remove")):
        for suffix, how in (("-1", "1 at a time"), ("", "8 in flight")):
            yield Row(f"nfs-{what}{suffix}", "nfs", NFS, f"{title}, {how}", "/s", near=True)


LARGE, SMALL, LINKS, DISKS = "Large files", "Small files", "Linked buckets", "Disks by NBD"
NFS = "Served by NFS"
TREES, VOLUME, NODES = "Trees of files", "Large volume", "Several nodes"

TABLE = (
    Row("write", "write", LARGE, "sequential write, then fsync", "MiB/s", cpu=GB,
        beside="write + fsync, MiB/s"),
    Row("cold", "cold", LARGE, "cold sequential read", "MiB/s", cpu=GB, beside="cold read, MiB/s"),
    Row("cold-4", "cold", LARGE, "four jobs read the same cold file, each", "MiB/s", cpu=GB,
        beside="four jobs, cold, MiB/s each"),
    Row("warm", "warm", LARGE, "warm sequential read", "MiB/s", cpu=GB, near=True,
        beside="warm read, page cache dropped, MiB/s"),
    Row("daemon", "daemon", LARGE, "warm sequential read through the daemon", "MiB/s", cpu=GB,
        near=True),
    Row("random-1", "random", LARGE, "4 KiB random direct reads, 1 job", "reads/s", cpu=OP,
        near=True, beside="4 KiB direct, 1 job, reads/s"),
    Row("random-4", "random", LARGE, "4 KiB random direct reads, 4 jobs", "reads/s", cpu=OP,
        near=True, beside="4 KiB direct, 4 jobs, reads/s"),
    Row("mmap", "mmap", LARGE, "4 KiB random mmap reads", "reads/s", cpu=OP, near=True,
        beside="4 KiB through a mapping, reads/s"),
    *_fsyncs(),
    *_threads("create", "files", SMALL, "create 16 KiB files", "create 16 KiB files"),
    *_threads("durable", "files", SMALL, "create 16 KiB files and flush them to the bucket",
              "create and flush them"),
    *_threads("stat", "files", SMALL, "stat", "stat", near=True),
    *_threads("read", "files", SMALL, "open and read 16 KiB, resident", "open and read, resident",
              near=True),
    *_threads("cold-read", "files", SMALL, "open and read 16 KiB, cold", "open and read, cold"),
    Row("ls", "ls", TREES, "`ls -lR`, page cache dropped", "entries/s", cpu=OP, near=True,
        beside="`ls -lR`, page cache dropped, entries/s"),
    Row("rm", "rm", TREES, "`rm -rf` of what was just listed", "files/s", cpu=OP, near=True,
        beside="`rm -rf` of what was just listed, files/s"),
    Row("link-import", "links", LINKS, "import of small objects", "objects/s", cpu=OP),
    Row("hydrate-large", "links", LINKS, "hydrate large objects", "MiB/s", cpu=GB),
    Row("hydrate-small", "links", LINKS, "hydrate small objects", "files/s", cpu=OP),
    Row("linked", "links", LINKS, "cold sequential read of linked files", "MiB/s", cpu=GB),
    Row("linked-4", "links", LINKS, "four jobs read the same cold linked files, each", "MiB/s",
        cpu=GB),
    Row("linked-4-hydrating", "links", LINKS, "the same while they are hydrated, each", "MiB/s",
        cpu=GB),
    Row("hydrate-some", "links", LINKS, "some small objects by one `weir hydrate`", "files/s",
        cpu=OP),
    Row("lfs-loop", "links", LINKS, "the same by a loop of `lfs hsm_restore`", "files/s", cpu=OP),
    Row("disk-write", "disks", DISKS, "1 MiB sequential write, then flush", "MiB/s", cpu=GB),
    Row("disk-read", "disks", DISKS, "1 MiB sequential read, cold", "MiB/s", cpu=GB),
    Row("disk-random-write", "disks", DISKS, "4 KiB random writes, 32 in flight, then flush",
        "/s", cpu=OP, near=True),
    Row("disk-random-read-cold", "disks", DISKS, "4 KiB random reads, 32 in flight, cold", "/s",
        cpu=OP, near=True),
    Row("disk-random-read", "disks", DISKS, "4 KiB random reads, 32 in flight", "/s", cpu=OP,
        near=True),
    Row("nfs-write", "nfs", NFS, "1 MiB sequential write, then commit", "MiB/s", cpu=GB, near=True),
    Row("nfs-read", "nfs", NFS, "1 MiB sequential read, resident", "MiB/s", cpu=GB, near=True),
    Row("nfs-random-1", "nfs", NFS, "4 KiB random reads, 1 at a time", "/s", cpu=OP, near=True),
    Row("nfs-random", "nfs", NFS, "4 KiB random reads, 8 in flight", "/s", cpu=OP, near=True),
    *_nfs_names(),
    *_nodes(),
    Row("puts", "puts", "Requests", "PUTs until all small files are in the bucket", "PUTs",
        less=True, cpu=OP, near=True),
    Row("idle", "idle", "Requests", "requests of an idle mount", "USD a month", less=True,
        near=True),
    Row("idle-requests", "idle", "Requests", "requests of an idle mount", "a minute", less=True,
        near=True),
    Row("mount-empty", "mount", VOLUME, "mount of an empty volume", "s", less=True),
    Row("mount-full", "mount", VOLUME, "mount of a large volume", "s", less=True),
    Row("memory-empty", "mount", VOLUME, "memory, empty volume", "MiB", less=True),
    Row("memory-full", "mount", VOLUME, "memory, large volume", "MiB", less=True),
    Row("memory-first", "mount", VOLUME, "memory, large volume, first compaction", "MiB", less=True),
)
ROWS = {row.name: row for row in TABLE}
WORDS = tuple(dict.fromkeys(row.word for row in TABLE))


def cpu(sample):
    """CPU of the target's processes, and what for; None where it is not told."""
    kind = ROWS[sample.row].cpu
    if sample.cpu_s is None or not kind:
        return None
    if kind == GB:
        return (sample.cpu_s / sample.bytes * 1e9, GB) if sample.bytes else None
    return (sample.cpu_s / sample.ops * 1e6, OP) if sample.ops else None
