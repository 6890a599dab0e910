"""Rows of nodes that share a volume: one program on each node, all at once, in a directory of its
own or all in one. Figures are those of all nodes together; they share this machine's CPUs, so that
CPU for each operation says more.
"""

import os
import time

from . import work
from .jobs import run_jobs
from .samples import percentile
from .site import drop_caches

MIB = 1 << 20
COUNTS = (1, 2, 4)
LOOKS = 4  # what is looked at again is remembered
RECALLED = 50


def _rate(run, target, row, cost, done, seconds):
    run.add(row, target, done / seconds, cost, seconds=seconds, ops=done)


def _all(run, target, row, parts, act):
    """Each node takes its part of the paths, one after the other, until the box is full."""
    box = run.box_s(target) / 2

    def one(i):
        end, done = work.NOW() + box, 0
        for path in parts[i]:
            act(path)
            done += 1
            if work.NOW() > end:
                break
        return done
    with run.probe(target) as cost:
        seconds, done = run_jobs(len(parts), one)
    _rate(run, target, row, cost, sum(done), seconds)
    return [part[:count] for part, count in zip(parts, done)]


def _create(size):
    def act(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(fd, work.block(size, hash(path) % 4096))
        os.close(fd)
    return act


def _open(path):
    fd = os.open(path, os.O_RDONLY)
    os.read(fd, 1 << 20)
    os.close(fd)


def names(run, target):
    """Files are made, looked at and opened by one, two and four nodes."""
    size, each = run.settings.file_kib * 1024, max(run.settings.files // 10, 8)
    work.pool()
    for count in COUNTS:
        dirs = target.several(count)
        for same in (False, True)[:1 + (count > 1)]:
            name = f"same-{count}" if same else f"own-{count}"
            of = name if same else f"{count}"
            inside = [name if same else f"{name}-{i}" for i in range(count)]
            for one in dict.fromkeys(inside):
                os.mkdir(f"{dirs[0]}/{one}")
            parts = [[f"{dirs[i]}/{inside[i]}/{i}-{number:05}" for number in range(each)]
                     for i in range(count)]
            made = _all(run, target, f"nodes-create-{of}", parts, _create(size))
            if same:  # each looks at what the next one made
                made = [[path.replace(dirs[(i + 1) % count], dirs[i], 1)
                         for path in made[(i + 1) % count]] for i in range(count)]
            drop_caches()
            _all(run, target, f"nodes-stat-{of}", made, os.stat)
            for look in range(LOOKS - 2):
                run_jobs(count, lambda i: [os.stat(path) for path in made[i]] and None)
            _all(run, target, f"nodes-again-{of}", made, os.stat)
            _all(run, target, f"nodes-open-{of}", made, _open)


def cold(run, target):
    """One data set, read with nothing of it here: by one node, then by four at once, each all of it."""
    size = run.settings.large_mib * MIB // 4
    [first] = target.several(1)
    work.write_large(f"{first}/set", size, run.box_s(target) * 4)
    for count in (1, 4):
        target.cold()
        dirs = target.several(count)

        def one(i):
            buffer, done = bytearray(MIB), 0
            fd = os.open(f"{dirs[i]}/set", os.O_RDONLY)
            while got := os.readv(fd, [buffer]):
                done += got
            os.close(fd)
            return done
        with run.probe(target) as cost:
            seconds, done = run_jobs(count, one)
        run.add(f"nodes-cold-{count}", target, min(done) / MIB / seconds, cost,
                seconds=seconds, bytes=min(done))


def recall(run, target):
    """How long a change takes of a file that another node remembers."""
    if not hasattr(target, "recalls"):
        return
    here, there = target.several(2)
    os.mkdir(f"{here}/recalled")
    names_ = [f"recalled/{number}" for number in range(min(RECALLED, run.settings.files // 10))]
    for name in names_:
        with open(f"{there}/{name}", "w"):
            pass
    for _ in range(LOOKS):
        for name in names_:
            os.stat(f"{here}/{name}")
        time.sleep(0.2)
    before, times = target.recalls(), []
    with run.probe(target) as cost:
        for name in names_:
            began = work.NOW()
            os.chmod(f"{there}/{name}", 0o600)
            times.append((work.NOW() - began) * 1000)
    if target.recalls() == before:
        raise RuntimeError("no lease was asked back, so nothing was measured")
    for rank in (50, 99):
        run.add(f"nodes-recall-p{rank}", target, percentile(times, rank), cost, ops=len(times))


PHASES = (("names", {"nodes"}, True, names), ("cold set", {"nodes"}, True, cold),
          ("recall", {"nodes"}, True, recall))
