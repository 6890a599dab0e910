"""The work itself: what a program that uses a file system does, timed.

Each function does one thing to one target's files and returns amounts and seconds. A phase that
lasts longer than its box ends early, and its rate is that of what it did: a slow peer costs a run no
more time than a fast one.
"""

import functools
import json
import os
import subprocess
import time

from .jobs import run_jobs
from .site import run

MIB = 1 << 20
NOW = time.perf_counter


@functools.cache
def pool():
    """64 MiB that do not compress: compressible data would flatter a file system that compresses."""
    return memoryview(os.urandom(64 * MIB))


def block(size, number):
    """One of many different blocks of that size."""
    data = pool()
    at = number * 4099 * 4096 % (len(data) - size)
    return data[at:at + size]


def write_large(path, size, box_s):
    """Writes a file from the start and fsyncs it: bytes and seconds, the fsync among them."""
    def work(_):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        began, done = NOW(), 0
        while done < size and NOW() - began < box_s:
            done += os.write(fd, block(MIB, done // MIB))
        os.fsync(fd)
        os.close(fd)
        return done, NOW() - began
    pool()
    _, [(done, seconds)] = run_jobs(1, work)
    return done, seconds


def read_large(paths, jobs, box_s):
    """So many processes read all of the files at once, one after another: the bytes each read, and
    seconds until the last was done."""
    def work(_):
        buffer, done, began = bytearray(MIB), 0, NOW()
        for path in paths:
            fd = os.open(path, os.O_RDONLY)
            while (got := os.readv(fd, [buffer])) and NOW() - began < box_s:
                done += got
            os.close(fd)
        return done
    seconds, done = run_jobs(jobs, work)
    return min(done), seconds


def fio_reads(path, jobs, seconds, engine, direct):
    """Random reads of 4 KiB: how many a second, and in all. No page is read twice: a second read
    would be warm."""
    out = run("fio", "--name=r", f"--filename={path}", "--rw=randread", "--bs=4k",
              f"--direct={direct}", f"--ioengine={engine}", f"--numjobs={jobs}",
              "--group_reporting", f"--runtime={seconds}", "--output-format=json",
              "--randrepeat=0", "--thread", cwd="/", timeout=60 + seconds)
    read = json.loads(out[out.index("{"):])["jobs"][0]["read"]
    return read["iops"], read["total_ios"]


def fsyncs(directory, jobs, count, box_s, data_only=False):
    """Each process appends 4 KiB to a file of its own and syncs it, again and again: the seconds of
    each write and sync, and of all."""
    sync = os.fdatasync if data_only else os.fsync

    def work(i):
        fd = os.open(f"{directory}/sync-{i}", os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(fd, block(4096, i))
        sync(fd)
        times, began = [], NOW()
        while len(times) < count and NOW() - began < box_s:
            before = NOW()
            os.write(fd, block(4096, len(times)))
            sync(fd)
            times.append(NOW() - before)
        os.close(fd)
        return times
    pool()
    seconds, times = run_jobs(jobs, work)
    return seconds, [time for each in times for time in each]


def _over(paths, jobs, box_s, act):
    """Each process takes every so-many-th path until the box is full: paths done and seconds."""
    def work(i):
        end, done = NOW() + box_s, 0
        for path in paths[i::jobs]:
            act(path)
            done += 1
            if NOW() > end:
                break
        return done
    seconds, done = run_jobs(jobs, work)
    return sum(done), seconds, done


def create_files(directory, count, size, jobs, box_s, per_directory=None):
    """Creates, writes and closes small files, in one directory or so many in each: the paths of those
    made, and seconds."""
    data = pool()

    def act(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        # Every file is another piece of the pool.
        at = hash(path) * 4096 % (len(data) - size)
        os.write(fd, data[at:at + size])
        os.close(fd)
    os.mkdir(directory)
    if per_directory:
        paths = [f"{directory}/{i // per_directory:03}/{i:06}" for i in range(count)]
        for inside in dict.fromkeys(os.path.dirname(path) for path in paths):
            os.mkdir(inside)
    else:
        paths = [f"{directory}/{i:06}" for i in range(count)]
    _, seconds, done = _over(paths, jobs, box_s, act)
    made = [path for i in range(jobs) for path in paths[i::jobs][:done[i]]]
    return sorted(made), seconds


def stat_files(paths, jobs, box_s):
    """Files and seconds."""
    return _over(paths, jobs, box_s, os.stat)[:2]


def read_files(paths, size, jobs, box_s):
    """Opens, reads and closes each: files and seconds. A short one is an error."""
    def act(path):
        fd = os.open(path, os.O_RDONLY)
        got = len(os.read(fd, size + 1))
        os.close(fd)
        if got != size:
            raise RuntimeError(f"{path} has {got} bytes of {size}")
    return _over(paths, jobs, box_s, act)[:2]


def tree(*command):
    """A program's walk of a tree of files: its seconds."""
    began = NOW()
    run(*command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=600)
    return NOW() - began


def empty_files(directory, count, jobs, box_s):
    """Makes many empty files, 1,000 a directory, in one call each: how many it made in time."""
    def work(i):
        end, made = NOW() + box_s, 0
        for at in range(i * 1000, count, jobs * 1000):
            inside = f"{directory}/{at // 1000:04}"
            os.mkdir(inside)
            for number in range(min(1000, count - at)):
                os.mknod(f"{inside}/{number:03}", 0o100644)
                made += 1
            if NOW() > end:
                break
        return made
    return sum(run_jobs(jobs, work)[1])
