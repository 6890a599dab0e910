"""The rows: groups of phases, and what each phase does with a target.

A phase is `name, row words that select it, near, function(run, target)`. A near phase does not
depend on the way to the store, so it is measured at the first latency only. A function adds samples,
or does nothing for a target it says nothing about.
"""

import dataclasses

from . import disks, links, work
from .site import drop_caches
from .settings import LARGE_ROWS
from .targets.base import Unavailable
from .targets.raw import Raw
from .samples import percentile

MIB = 1 << 20
JOBS = 4
CONNECTIONS = (4, 8, 16, 32)


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


def _large(run, target):
    size = (run.settings.large_mib if target.large else run.settings.peer_mib) * MIB
    return f"{target.dir}/large" if target.dir else None, size


def _speed(run, target, row, cost, done, seconds):
    run.add(row, target, done / MIB / seconds, "MiB/s", cost, seconds=seconds, bytes=done)


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


def _read(run, target, row, jobs):
    path, _ = _large(run, target)
    with run.probe(target) as cost:
        done, seconds = work.read_large([path], jobs, run.box_s(target) * 2)
    _speed(run, target, row, cost, done, seconds)


def warm(run, target):
    if isinstance(target, Raw):
        return
    if not target.large:
        # Some peers cache what is read, not what is written.
        work.read_large([_large(run, target)[0]], 1, run.box_s(target) * 2)
    drop_caches()
    _read(run, target, "warm", 1)


def random(run, target):
    if isinstance(target, Raw):
        return
    path, _ = _large(run, target)
    for jobs in (1, JOBS):
        drop_caches()
        with run.probe(target) as cost:
            rate = work.fio_reads(path, jobs, run.settings.fio_s, "psync", 1)
        run.add(f"random-{jobs}", target, rate, "reads/s", cost)


def mmap(run, target):
    if isinstance(target, Raw):
        return
    path, _ = _large(run, target)
    drop_caches()
    with run.probe(target) as cost:
        rate = work.fio_reads(path, 1, run.settings.fio_s, "mmap", 0)
    run.add("mmap", target, rate, "reads/s", cost)


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
            run.add(f"fsync-{jobs}-{row}", target, value * 1000, "ms", cost, better="less",
                    seconds=seconds)
        run.add(f"fsync-{jobs}-rate", target, len(times) / seconds, "a second", cost,
                seconds=seconds)


def _rate(run, target, row, cost, done, seconds, more=0):
    run.add(row, target, done / (seconds + more), "files/s", cost, seconds=seconds,
            bytes=done * run.settings.file_kib * 1024)


def create(run, target):
    """Makes the files that the other phases of the group use."""
    size, box = run.settings.file_kib * 1024, run.box_s(target)
    target.files = {}
    for jobs in (1, JOBS):
        if isinstance(target, Raw):
            keys = [f"file-{jobs}-{i}" for i in range(run.settings.files // 10)]
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
        with run.probe(target) as flush:
            target.settle()
        _rate(run, target, f"durable-{jobs}", flush, len(paths), seconds, flush.seconds)


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
    for jobs in () if target.name == "local" else (1, JOBS):
        if not isinstance(target, Raw):
            target.cold()
        _read_files(run, target, f"cold-read-{jobs}", jobs, run.box_s(target) / 2)


CORE = frozenset(("local", "raw", "weir", "weir-file"))


def _group(name, targets, *phases):
    return Group(name, tuple(Phase(n, frozenset(r), near, act) for n, r, near, act in phases),
                 frozenset(targets))


def groups(peers):
    """All groups; `peers` are the names of those who take part in them."""
    return (
        _group("large", CORE | peers,
               ("write", LARGE_ROWS, False, write),
               ("warm", {"warm"}, True, warm),
               ("random", {"random"}, True, random),
               ("mmap", {"mmap"}, True, mmap),
               ("cold", {"cold", "daemon"}, False, cold),
               ("daemon", {"daemon"}, True, daemon)),
        _group("fsync", CORE | {"weir-journal"} | peers, ("fsync", {"fsync"}, False, fsync)),
        _group("files", CORE | peers,
               ("create", {"files"}, False, create),
               ("stat", {"files"}, True, stat),
               ("read", {"files"}, True, read),
               ("cold-read", {"files"}, False, cold_read)),
        _group("links", {"raw", "weir"}, *links.PHASES),
        _group("disks", {"raw", "disk", "nbdkit"}, *disks.PHASES))


def calibrate(run, raw):
    """Finds how many connections the raw store is fastest with: it is a limit, not a victim."""
    body = work.pool()[:run.settings.object_mib * MIB]
    keys = [f"calibrate-{i}" for i in range(4 if run.settings.smoke else 32)]
    raw.open()
    for method in ("PUT", "GET"):
        speeds = {}
        for count in CONNECTIONS[:1] if run.settings.smoke else CONNECTIONS:
            seconds, _ = raw.all(method, keys, count, body if method == "PUT" else b"")
            speeds[count] = round(len(keys) * len(body) / MIB / seconds)
        run.connections[method] = max(speeds, key=speeds.get)
        run.calibration.append({"method": method, "latency_ms": run.latency_ms, "mib_s": speeds,
                                "connections": run.connections[method]})
    # Of small bodies a far store answers as many as there are connections.
    run.connections["SMALL GET"] = CONNECTIONS[-1] if run.latency_ms else run.connections["GET"]
    raw.close()
