"""Rows of linked buckets: a data set that another tool put into a bucket, through weir and by plain GETs.

Few large objects, and many small ones in directories of a hundred. Both targets use the same objects,
made once for a run: asking for them is all that is measured.
"""

import os
import time

from . import work
from .jobs import run_jobs
from .s3 import Connection
from .settings import SMALL_DIR_FILES
from .site import run
from .targets.raw import Raw

MIB = 1 << 20
LARGE_OBJECTS = 4
LOOP_DIRS = 3  # a loop over more of them would take longer than all the rest
JOBS = 4
LARGE, SMALL = "large", "small"


class DataSet:
    """The objects, in a bucket of their own."""

    def __init__(self, store, settings):
        self.bucket = store.bucket("linked")
        self.large_bytes = settings.large_mib * MIB // LARGE_OBJECTS
        self.small_bytes = settings.file_kib * 1024
        self.large = [f"{LARGE}/{i}" for i in range(LARGE_OBJECTS)]
        self.small = [f"{SMALL}/{i // SMALL_DIR_FILES:04}/{i:06}" for i in range(settings.files)]
        pool = work.pool()
        whole = (bytes(pool) * (self.large_bytes // len(pool) + 1))[:self.large_bytes]
        bodies = dict.fromkeys(self.large, whole)
        bodies.update((key, work.block(self.small_bytes, i)) for i, key in enumerate(self.small))
        keys, address = list(bodies), store.direct

        def put(i):
            server = Connection(address)
            for key in keys[i::JOBS]:
                server.ask("PUT", f"/{self.bucket}/{key}", bodies[key])
        run_jobs(JOBS, put)

    def parts(self, step):
        """The large objects in ranges of `step` bytes, as the raw client asks for them."""
        return [(key, (at, min(step, self.large_bytes - at))) for key in self.large
                for at in range(0, self.large_bytes, step)]


def _data(run_):
    if run_.data_set is None:
        run_.data_set = DataSet(run_.store, run_.settings)
    return run_.data_set


def _speed(run_, target, row, cost, done, seconds):
    run_.add(row, target, done / MIB / seconds, cost, seconds=seconds, bytes=done)


def _rate(run_, target, row, cost, done, seconds, each):
    run_.add(row, target, done / seconds, cost, seconds=seconds, ops=done, bytes=done * each)


def _large_bytes(data):
    return len(data.large) * data.large_bytes


def _paths(target, data):
    return [f"{target.dir}/{key}" for key in data.large]


def _hydrate(target, path, *options):
    run(target.program, "hydrate", "-r", f"{target.dir}/{path}", *options, timeout=600)


def link(run_, target):
    """Links both parts; the import of the small ones is a row."""
    data = _data(run_)
    if isinstance(target, Raw):
        return
    target.link(f"s3://{data.bucket}/{LARGE}", LARGE)
    began = time.time()
    with run_.probe(target) as cost:
        ended = target.link(f"s3://{data.bucket}/{SMALL}", SMALL)
    _rate(run_, target, "link-import", cost, len(data.small), max(ended - began, 0.001), 0)


def cold(run_, target):
    """One job and four that read all large files cold, then four while all is hydrated."""
    data = _data(run_)
    if isinstance(target, Raw):
        return
    for row, jobs, hydrating in (("linked", 1, False), (f"linked-{JOBS}", JOBS, False),
                                 (f"linked-{JOBS}-hydrating", JOBS, True)):
        target.cold()
        with run_.probe(target) as cost:
            if hydrating:
                _hydrate(target, LARGE)
            done, seconds = work.read_large(_paths(target, data), jobs, run_.box_s(target) * 2)
        _speed(run_, target, row, cost, done, seconds)


def hydrate(run_, target):
    """All bytes of the large objects, then all of the small ones."""
    data = _data(run_)
    if isinstance(target, Raw):
        parts = data.parts(run_.settings.object_mib * MIB)
        with run_.probe(target) as cost:
            seconds, _ = target.all("GET", parts, run_.connections["GET"], bucket=data.bucket)
        _speed(run_, target, "hydrate-large", cost, _large_bytes(data), seconds)
        # Small bodies take more connections to keep a far store busy.
        connections = run_.connections["SMALL GET"]
        with run_.probe(target) as cost:
            seconds, _ = target.all("GET", data.small, connections, bucket=data.bucket)
        return _rate(run_, target, "hydrate-small", cost, len(data.small), seconds,
                     data.small_bytes)
    target.cold()
    with run_.probe(target) as cost:
        _hydrate(target, LARGE, "--wait")
    _speed(run_, target, "hydrate-large", cost, _large_bytes(data), cost.seconds)
    target.cold()
    with run_.probe(target) as cost:
        _hydrate(target, SMALL, "--wait")
    _rate(run_, target, "hydrate-small", cost, len(data.small), cost.seconds, data.small_bytes)


def loop(run_, target):
    """Some of the small files by one request, and by one for each file as on Lustre."""
    data = _data(run_)
    if isinstance(target, Raw):
        return
    some = sorted({os.path.dirname(key) for key in data.small})[:LOOP_DIRS]
    count = sum(os.path.dirname(key) in some for key in data.small)
    paths = [f"{target.dir}/{path}" for path in some]
    lfs = target.lfs()
    target.cold()
    with run_.probe(target) as cost:
        run(target.program, "hydrate", "-r", "--wait", *paths, timeout=600)
    _rate(run_, target, "hydrate-some", cost, count, cost.seconds, data.small_bytes)
    target.cold()
    with run_.probe(target) as cost:
        run("sh", "-c", 'lfs=$1; shift; find "$@" -type f -print0 | '
            'xargs -0 -n 1 "$lfs" hsm_restore', "sh", lfs, *paths, timeout=600)
        # Until the last of them is here, which it mostly is.
        run(target.program, "hydrate", "-r", "--wait", *paths, timeout=600)
    _rate(run_, target, "lfs-loop", cost, count, cost.seconds, data.small_bytes)


PHASES = (("link", {"links"}, False, link), ("cold", {"links"}, False, cold),
          ("hydrate", {"links"}, False, hydrate), ("loop", {"links"}, False, loop))
