"""The rows: groups of phases, and what each phase does with a target.

A phase is `name, row words that select it, near, function(run, target)`. A near phase does not
depend on the way to the store, so it is measured in the first regime only. A function adds samples of
rows of table.py, or does nothing for a target it says nothing about.
"""

import dataclasses

from . import disks, links, nfs, nodes, work
from .site import drop_caches
from .settings import LARGE_ROWS
from .targets.base import Unavailable
from .targets.raw import Raw
from .targets.weir import Mirror
from .samples import percentile

MIB = 1 << 20
JOBS = 4
CONNECTIONS = (4, 8, 16, 32)
PER_DIRECTORY = 1000


@dataclasses.dataclass(frozen=True)
class Phase:
    """One thing that is done to each target in turn."""

    name: str
    rows: frozenset  # selected when one of these is asked for
    near: bool
    act: object


@dataclasses.dataclass(frozen=True)
class Group:
    """Phases that work on the same files of a target that was opened for them."""

    name: str
    phases: tuple
    targets: frozenset  # kinds that it is not for are left out
    late: bool = False  # whether it is measured when all others were: it leaves a slow disk


def _large(run, target):
    size = (run.settings.large_mib if target.large else run.settings.peer_mib) * MIB
    return f"{target.dir}/large" if target.dir else None, size


def _speed(run, target, row, cost, done, seconds):
    run.add(row, target, done / MIB / seconds, cost, seconds=seconds, bytes=done)


def _objects(run):
    return [f"large-{i}" for i in range(run.settings.large_mib // run.settings.object_mib)]


def write(run, target):
    path, size = _large(run, target)
    drop_caches()
    if isinstance(target, Raw):
        body = work.pool()[:run.settings.object_mib * MIB]
        keys = _objects(run)
        with run.probe(target) as cost:
            seconds, _ = target.all("PUT", keys, run.connections["PUT"], body)
        return _speed(run, target, "write", cost, len(keys) * len(body), seconds)
    with run.probe(target) as cost:
        done, seconds = work.write_large(path, size, run.box_s(target) * 2)
    _speed(run, target, "write", cost, done, seconds)
    target.settle()


def _read(run, target, row, jobs, path=None):
    with run.probe(target) as cost:
        done, seconds = work.read_large([path or _large(run, target)[0]], jobs,
                                        run.box_s(target) * 2)
    _speed(run, target, row, cost, done, seconds)


def _beside(run, target, measure):
    """Reads a resident file, and in turn with that (A B, B A) its mirror file where it has one:
    `measure(target, path)`. The page cache is dropped before each."""
    path, _ = _large(run, target)
    sides = [(target, path)]
    if target.name == "weir":
        sides.append((Mirror(target.site, target.store, target.settings), target.mirror(path)))
    for run.round in range(run.settings.rounds if len(sides) > 1 else 1):
        for side in sides[::-1] if run.round % 2 else sides:
            drop_caches()
            measure(*side)


def warm(run, target):
    if isinstance(target, Raw):
        return
    # Some keep what is read, not what is written; and no disk is as fast the first time.
    work.read_large([_large(run, target)[0]], 1, run.box_s(target) * 2)
    _beside(run, target, lambda side, path: _read(run, side, "warm", 1, path))


def _fio(run, target, row, jobs, engine, direct):
    def measure(side, path):
        with run.probe(side) as cost:
            rate, ops = work.fio_reads(path, jobs, run.settings.fio_s, engine, direct)
        run.add(row, side, rate, cost, ops=ops)
    if not isinstance(target, Raw):
        _beside(run, target, measure)


def random(run, target):
    for jobs in (1, JOBS):
        _fio(run, target, f"random-{jobs}", jobs, "psync", 1)


def mmap(run, target):
    _fio(run, target, "mmap", 1, "mmap", 0)


def cold(run, target):
    if isinstance(target, Raw):
        drop_caches()
        with run.probe(target) as cost:
            seconds, _ = target.all("GET", _objects(run), run.connections["GET"])
        return _speed(run, target, "cold", cost, run.settings.large_mib * MIB, seconds)
    if target.name == "local":
        return
    for row, jobs in (("cold", 1), (f"cold-{JOBS}", JOBS)):
        target.cold()
        _read(run, target, row, jobs)


def daemon(run, target):
    if not hasattr(target, "by_daemon"):
        return
    try:
        target.by_daemon()
    except Unavailable as error:
        run.missing("daemon", str(error))
        return
    _read(run, target, "daemon", 1)


def fsync(run, target):
    """One writer, then eight, each of 4 KiB."""
    count, box = run.settings.fsyncs, run.box_s(target) / 2
    for jobs in (1, 8):
        each = max(count // jobs, 5)
        with run.probe(target) as cost:
            if isinstance(target, Raw):
                keys = [f"sync-{jobs}-{i}" for i in range(each * jobs)]
                seconds, times = target.all("PUT", keys, jobs, work.block(4096, 1))
            else:
                seconds, times = work.fsyncs(target.dir, jobs, each, box,
                                             data_only=target.name == "local")
        for row, value in (("p50", percentile(times, 50)), ("p99", percentile(times, 99))):
            run.add(f"fsync-{jobs}-{row}", target, value * 1000, cost, seconds=seconds,
                    ops=len(times))
        run.add(f"fsync-{jobs}-rate", target, len(times) / seconds, cost, seconds=seconds,
                ops=len(times))


def _rate(run, target, row, cost, done, seconds, more=0):
    run.add(row, target, done / (seconds + more), cost, seconds=seconds + more, ops=done,
            bytes=done * run.settings.file_kib * 1024)


def create(run, target):
    """Makes the files that the other phases of the group use."""
    size, box = run.settings.file_kib * 1024, run.box_s(target)
    target.files = {}
    for jobs in (1, JOBS):
        if isinstance(target, Raw):
            # One at a time over a far way: enough to know the rate.
            keys = [f"file-{jobs}-{i}" for i in range(max(
                run.settings.files // (10 if run.regime.free else 50), jobs))]
            with run.probe(target) as cost:
                seconds, _ = target.all("PUT", keys, jobs, work.block(size, 1))
            target.files[jobs] = keys
            _rate(run, target, f"create-{jobs}", cost, len(keys), seconds)
            continue
        with run.probe(target) as cost:
            paths, seconds = work.create_files(f"{target.dir}/files-{jobs}", run.settings.files,
                                               size, jobs, box)
        target.files[jobs] = paths
        _rate(run, target, f"create-{jobs}", cost, len(paths), seconds)
        if target.name == "floor":  # it has nowhere to flush to
            continue
        with run.probe(target) as flush:
            target.settle()
        took = flush.seconds
        flush.also(cost)
        _rate(run, target, f"durable-{jobs}", flush, len(paths), seconds, took)


def stat(run, target):
    if isinstance(target, Raw):
        return
    for jobs in (1, JOBS):
        drop_caches()
        with run.probe(target) as cost:
            done, seconds = work.stat_files(target.files[jobs], jobs, run.box_s(target) / 2)
        _rate(run, target, f"stat-{jobs}", cost, done, seconds)


def _read_files(run, target, row, jobs, box):
    size = run.settings.file_kib * 1024
    with run.probe(target) as cost:
        if isinstance(target, Raw):
            seconds, times = target.all("GET", target.files[jobs], jobs)
            done = len(times)
        else:
            done, seconds = work.read_files(target.files[jobs], size, jobs, box)
    _rate(run, target, row, cost, done, seconds)


def read(run, target):
    for jobs in () if isinstance(target, Raw) else (1, JOBS):
        drop_caches()
        _read_files(run, target, f"read-{jobs}", jobs, run.box_s(target) / 2)


def cold_read(run, target):
    for jobs in () if target.name in ("local", "floor") else (1, JOBS):
        if not isinstance(target, Raw):
            target.cold()
        _read_files(run, target, f"cold-read-{jobs}", jobs, run.box_s(target) / 2)


def tree(run, target):
    """Makes the tree that is listed and removed. It has as many files on each target that is fast
    enough, so that starting a program weighs the same."""
    size, box = run.settings.file_kib * 1024, run.box_s(target) * 3
    target.tree = f"{target.dir}/tree"
    paths, _ = work.create_files(target.tree, run.settings.files, size, JOBS, box, PER_DIRECTORY)
    target.settle()
    target.inside = len(paths)


def ls(run, target):
    for run.round in range(run.settings.rounds):
        drop_caches()
        with run.probe(target) as cost:
            seconds = work.tree("ls", "-lR", target.tree)
        run.add("ls", target, target.inside / seconds, cost, seconds=seconds, ops=target.inside)


def rm(run, target):
    # With names and inodes in the kernel, so that the disk's random reads are not what is measured.
    work.tree("ls", "-lR", target.tree)
    with run.probe(target) as cost:
        seconds = work.tree("rm", "-rf", target.tree)
    run.add("rm", target, target.inside / seconds, cost, seconds=seconds, ops=target.inside)


CORE = frozenset(("local", "raw", "weir", "weir-file"))


def _group(name, targets, *phases, late=False):
    return Group(name, tuple(Phase(n, frozenset(r), near, act) for n, r, near, act in phases),
                 frozenset(targets), late)


def groups(peers):
    """All groups; `peers` are the names of those who take part in them."""
    several = {"weir-nodes", "juicefs-nodes"}
    peers -= several
    return (
        _group("large", CORE | peers,
               ("write", LARGE_ROWS, False, write),
               ("warm", {"warm"}, True, warm),
               ("random", {"random"}, True, random),
               ("mmap", {"mmap"}, True, mmap),
               ("cold", {"cold", "daemon"}, False, cold),
               ("daemon", {"daemon"}, True, daemon)),
        _group("fsync", CORE | {"weir-journal"} | peers, ("fsync", {"fsync"}, False, fsync)),
        _group("files", CORE | {"floor"} | peers,
               ("create", {"files"}, False, create),
               ("stat", {"files"}, True, stat),
               ("read", {"files"}, True, read),
               ("cold-read", {"files"}, False, cold_read)),
        _group("links", {"raw", "weir"}, *links.PHASES),
        _group("disks", {"raw", "disk", "nbdkit"}, *disks.PHASES),
        _group("nfs", {"nfs", "ganesha"}, *nfs.PHASES),
        _group("nodes", several, *nodes.PHASES),
        _group("trees", {"local", "weir"} | peers,
               ("tree", {"ls", "rm"}, True, tree),
               ("ls", {"ls"}, True, ls),
               ("rm", {"rm"}, True, rm), late=True))


def calibrate(run, raw):
    """Finds how many connections the raw store is fastest with in this regime: it is a limit, not a
    victim. Their numbers by kind of request."""
    body = work.pool()[:run.settings.object_mib * MIB]
    keys = [f"calibrate-{i}" for i in range(4 if run.settings.smoke else 32)]
    best = {}
    raw.open()
    for method in ("PUT", "GET"):
        speeds = {}
        for count in CONNECTIONS[:1] if run.settings.smoke else CONNECTIONS:
            seconds, _ = raw.all(method, keys, count, body if method == "PUT" else b"")
            speeds[count] = round(len(keys) * len(body) / MIB / seconds)
        best[method] = max(speeds, key=speeds.get)
        run.calibration.append({"method": method, "regime": run.regime.name, "mib_s": speeds,
                                "connections": best[method]})
    # Of small bodies a far store answers as many as there are connections.
    best["SMALL GET"] = best["GET"] if run.regime.free else CONNECTIONS[-1]
    raw.close()
    return best
