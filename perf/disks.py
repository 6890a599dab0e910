"""Rows of disks, by fio's own NBD client: records one after the other, and 4 KiB anywhere.

Beside weir's disk stand the same bytes by raw PUTs and GETs of 1 MiB, and a disk in memory, which
shows what protocol and client leave over.
"""

import json
import time

from . import work
from .site import drop_caches, run as run_program
from .targets.raw import Raw

MIB = 1 << 20
DEPTH = 32


def fio(uri, how, block, size_mib, seconds=None, flush=False):
    """One fio job with 32 requests in flight: bytes and I/Os that it did; a flush of all of it is the
    end of writes."""
    limit = [f"--runtime={seconds}", "--time_based"] if seconds else []
    sync = ["--end_fsync=1"] if flush else []
    out = run_program(
        "fio", "--name=d", "--ioengine=nbd", f"--uri={uri}", f"--rw={how}", f"--bs={block}",
        f"--iodepth={DEPTH}", f"--size={size_mib}M", "--output-format=json", "--randrepeat=0",
        "--thread", "--refill_buffers", *limit, *sync, cwd="/", timeout=900)
    job = json.loads(out[out.index("{"):])["jobs"][0]
    side = job["write" if "write" in how else "read"]
    return side["io_bytes"], side["total_ios"]


def startup_s(uri):
    """How long fio takes for next to nothing: its own time leaves the last flush out, so that jobs
    are timed from outside, less this."""
    def once():
        began = time.perf_counter()
        fio(uri, "read", "4k", 1)
        return time.perf_counter() - began
    return min(once() for _ in range(3))


def _speed(run, target, row, cost, done, seconds):
    run.add(row, target, done / MIB / seconds, cost, seconds=seconds, bytes=done)


def _keys(run):
    return [f"record-{i}" for i in range(run.settings.large_mib)]


def sequential(run, target):
    """Writes all records and flushes, then reads them with nothing on this machine."""
    size = run.settings.large_mib
    if isinstance(target, Raw):
        body = work.pool()[:MIB]
        for row, method in (("disk-write", "PUT"), ("disk-read", "GET")):
            drop_caches()
            sent = body if method == "PUT" else b""
            with run.probe(target) as cost:
                seconds, _ = target.all(method, _keys(run), run.connections["SMALL GET"], sent)
            _speed(run, target, row, cost, size * MIB, seconds)
        return
    target.startup_s = startup_s(target.uri)
    with run.probe(target) as cost:
        done, _ = fio(target.uri, "write", "1M", size, flush=True)
    _speed(run, target, "disk-write", cost, done, cost.seconds - target.startup_s)
    target.cold()
    with run.probe(target) as cost:
        done, _ = fio(target.uri, "read", "1M", size)
    _speed(run, target, "disk-read", cost, done, cost.seconds - target.startup_s)


def random(run, target):
    """4 KiB anywhere among the records: writes with the flush that ends them, then reads: of records
    that are in the bucket only, each fetched whole once, and of the same when they are here."""
    if isinstance(target, Raw):
        return
    seconds, size = run.settings.fio_s, min(run.settings.large_mib, 256)

    def measure(row, how):
        with run.probe(target) as cost:
            _, ios = fio(target.uri, how, "4k", size, seconds, flush=how == "randwrite")
        spent = cost.seconds - target.startup_s
        run.add(row, target, ios / spent, cost, seconds=spent, ops=ios, bytes=ios * 4096)

    measure("disk-random-write", "randwrite")
    target.cold()
    measure("disk-random-read-cold", "randread")
    measure("disk-random-read", "randread")


PHASES = (
    ("sequential", {"disks"}, False, sequential),
    ("random", {"disks"}, True, random),
)
