"""Rows of disks, by fio's own NBD client: records one after the other, and 4 KiB anywhere.

Beside weir's disk stand the same bytes by raw PUTs and GETs of 1 MiB, and a disk in memory, which
shows what protocol and client leave over.
"""

import json

from . import work
from .site import drop_caches, run as run_program
from .targets.raw import Raw

MIB = 1 << 20
DEPTH = 32


def fio(uri, how, block, size_mib, seconds=None, flush=False):
    """One fio job with 32 requests in flight: bytes a second and I/Os a second, a flush of the whole
    in the time of writes."""
    limit = [f"--runtime={seconds}", "--time_based"] if seconds else []
    sync = ["--end_fsync=1"] if flush else []
    out = run_program(
        "fio", "--name=d", "--ioengine=nbd", f"--uri={uri}", f"--rw={how}", f"--bs={block}",
        f"--iodepth={DEPTH}", f"--size={size_mib}M", "--output-format=json", "--randrepeat=0",
        "--thread", "--refill_buffers", *limit, *sync, cwd="/", timeout=900)
    job = json.loads(out[out.index("{"):])["jobs"][0]
    side = job["write" if "write" in how else "read"]
    # With a flush at the end fio's own rate leaves that out; the job's time does not.
    spent = max(job["job_runtime"] / 1000, 1e-3)
    return side["io_bytes"], side["total_ios"], spent


def _speed(run, target, row, cost, done):
    run.add(row, target, done / MIB / cost.seconds, "MiB/s", cost, seconds=cost.seconds, bytes=done)


def _keys(run):
    return [f"record-{i}" for i in range(run.settings.large_mib)]


def sequential(run, target):
    """Writes all records and flushes, then reads them with nothing on this machine."""
    size = run.settings.large_mib
    if isinstance(target, Raw):
        body = work.pool()[:MIB]
        for row, method in (("disk-write", "PUT"), ("disk-read", "GET")):
            drop_caches()
            with run.probe(target) as cost:
                target.all(method, _keys(run), run.connections["SMALL GET"], body if method == "PUT" else b"")
            _speed(run, target, row, cost, size * MIB)
        return
    with run.probe(target) as cost:
        done, _, _ = fio(target.uri, "write", "1M", size, flush=True)
    _speed(run, target, "disk-write", cost, done)
    target.cold()
    with run.probe(target) as cost:
        done, _, _ = fio(target.uri, "read", "1M", size)
    _speed(run, target, "disk-read", cost, done)


def random(run, target):
    """4 KiB anywhere among the records: writes with the flush that ends them, then reads, which
    bring the records that they touch to the tier."""
    if isinstance(target, Raw):
        return
    seconds, size = run.settings.fio_s, min(run.settings.large_mib, 256)
    for row, how in (("disk-random-write", "randwrite"), ("disk-random-read", "randread")):
        # The first pass of reads finds the tier without the records.
        for again in ("",) if how == "randwrite" else ("-cold", ""):
            with run.probe(target) as cost:
                _, ios, _ = fio(target.uri, how, "4k", size, seconds, flush=how == "randwrite")
            run.add(row + again, target, ios / cost.seconds, "/s", cost, seconds=cost.seconds,
                    bytes=ios * 4096)


PHASES = (
    ("sequential", {"disks"}, False, sequential),
    ("random", {"disks"}, True, random),
)
