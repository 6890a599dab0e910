#!/usr/bin/env python3
"""Processes at work on the same files, side by side, each byte of which says what it is.

    hammer.py run   MNT STATE --seed N [--seconds S] [--workers K] [--weir PROGRAM]
    hammer.py check MNT STATE

Every 64 bytes of a file are a stamp: which file, which offset, which generation. A table in STATE,
outside of the mount, has two generations of each cell of 512 bytes: the newest that somebody began
to write, and the newest that was written when its call returned. Whoever writes a range has a lock
on it, so generations of a cell grow; readers have none. What is read must be a stamp of this place,
not older than what was complete before the read and not newer than what had begun after it.
Generations that are odd are zeros: punched, cut off, or never written.

Beside that: records appended to one file, none of them torn, lost or overwritten; files that are
published by rename, whole and never older than the last; copies; names that are listed.

`check` looks at all of it when nobody writes: after the end, after `kill -9`, from an empty tier.
Exit codes: 0 fine, 1 something was wrong, 3 the mount died while we worked.
"""

import argparse
import array
import ctypes
import errno
import faulthandler
import fcntl
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback

# Four quarters of a stamp say the same; a write may end after any of them.
STAMP, QUARTER, CELL, PAGE = 64, 16, 512, 4096
# More than the least tier holds, 64 MiB.
FILES, SIZES = 12, (64 << 10, 1 << 20, 20 << 20)
MOST = max(SIZES)
CELLS = MOST // CELL
RECORD, LOGS = 640, 2
PUBLISHED = 6
SPAN_MOST = 256 << 10
DEAD = (errno.ENOTCONN, errno.ECONNABORTED, errno.ESHUTDOWN)
LIBC = ctypes.CDLL(None, use_errno=True)
F_OFD_SETLKW = 38


class Wrong(Exception):
    pass


def alive(mnt):
    try:
        # Asked of the daemon each time; attributes are remembered by the kernel.
        os.statvfs(mnt)
    except OSError:
        return False
    return os.path.ismount(mnt)


def reaches(fd, end):
    """Whether the kernel has the file up to there: beside a write that has not returned, fstat may
    tell the size with it before the kernel lets anybody read or map that far."""
    return os.fstat(fd).st_size >= end and len(os.pread(fd, 1, end - 1)) == 1


def size_of(file):
    return SIZES[file % len(SIZES)]


def stamps(file, start, end, generation):
    """The bytes of a range in an even generation; zeros in an odd one."""
    if generation % 2:
        return bytes(end - start)
    pack = struct.Struct("<IIQ").pack
    return b"".join(pack(file, generation, at) * 4 for at in range(start, end, STAMP))


class Table:
    """What is known of all cells, records and published files; in a file that all map."""

    def __init__(self, state, workers=0):
        path = os.path.join(state, "table")
        words = 2 * FILES * CELLS + 2 * LOGS * 64 + 2 * PUBLISHED
        if workers:
            with open(path, "wb") as file:
                file.truncate(words * 4)
        self.file = open(path, "r+b")
        self.map = mmap.mmap(self.file.fileno(), words * 4)
        view = memoryview(self.map).cast("I")
        self.begun, self.done = view[:FILES * CELLS], view[FILES * CELLS:2 * FILES * CELLS]
        rest = view[2 * FILES * CELLS:]
        self.log_begun, self.log_done = rest[:LOGS * 64], rest[LOGS * 64:2 * LOGS * 64]
        rest = rest[2 * LOGS * 64:]
        self.pub_begun, self.pub_done = rest[:PUBLISHED], rest[PUBLISHED:]
        self.state = state
        if workers:
            ones = array.array("I", [1]) * (FILES * CELLS)
            self.begun[:], self.done[:] = ones, ones

    def cells(self, file, start, end):
        return slice(file * CELLS + start // CELL, file * CELLS + -(-end // CELL))

    def begin(self, file, start, end, zeros=False):
        """A generation that is newer than all of the range, which is locked."""
        at = self.cells(file, start, end)
        generation = max(self.begun[at]) + 1
        generation += (generation % 2 == 0) == zeros
        self.begun[at] = array.array("I", [generation]) * (at.stop - at.start)
        return generation

    def end(self, file, start, end, generation):
        at = self.cells(file, start, end)
        self.done[at] = array.array("I", [generation]) * (at.stop - at.start)


class Locked:
    """A range of a thing is this thread's."""

    def __init__(self, table, thing, start=0, end=1):
        self.fd = os.open(os.path.join(table.state, f"lock-{thing}"), os.O_RDWR | os.O_CREAT)
        self.range = (start, end)

    def __enter__(self):
        start, end = self.range
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, start, end - start, 0)
        fcntl.fcntl(self.fd, F_OFD_SETLKW, lock)

    def __exit__(self, *_):
        os.close(self.fd)


def verify(table, file, start, data, low, end, what):
    """`low` was complete before `data` was read; what had begun by now is the newest it may be."""
    high = table.begun[table.cells(file, start, end)].tolist()
    short = end - start - len(data)
    if short:
        # Past the end are zeros: fine only where something was cut.
        data = bytes(data) + bytes(short)
    for n, (least, most) in enumerate(zip(low, high)):
        at = start + n * CELL
        cell = data[at - start:at - start + CELL]
        if least == most and cell == stamps(file, at, at + len(cell), least):
            continue
        for offset in range(0, len(cell), QUARTER):
            quarter, place = cell[offset:offset + QUARTER], at + offset // STAMP * STAMP
            of, generation, wrote = struct.unpack("<IIQ", quarter)
            if quarter == bytes(QUARTER):
                fine = least % 2 == 1 or most > least
            else:
                fine = ((of, wrote) == (file, place) and generation % 2 == 0
                        and least <= generation <= most)
            if not fine:
                raise Wrong(f"{what}: file {file} at {at + offset}: found file {of} offset {wrote} "
                            f"generation {generation}, not of generations {least} to {most} "
                            f"(read {start}..{end}, {short} bytes short)")


def aligned(length):
    return mmap.mmap(-1, max(length, PAGE))


class Worker:
    def __init__(self, mnt, table, number, rng):
        self.mnt, self.table, self.number, self.rng = mnt, table, number, rng
        self.names, self.made, self.counts = set(), 0, {}

    def path(self, file):
        return f"{self.mnt}/cells/f{file}"

    def span(self, file, unit=CELL):
        most = min(SPAN_MOST, size_of(file)) // unit
        length = self.rng.choice([1, 2, 8, self.rng.randint(1, most), most]) * unit
        length = min(length, size_of(file))
        start = self.rng.randint(0, (size_of(file) - length) // unit) * unit
        return start, start + length

    def pick(self):
        return self.rng.randrange(FILES)

    # Writes

    def change(self, file, start, end, act, zeros=False):
        with Locked(self.table, f"f{file}", start, end):
            generation = self.table.begin(file, start, end, zeros)
            act(generation)
            self.table.end(file, start, end, generation)

    def write(self):
        file = self.pick()
        start, end = self.span(file)

        def act(generation):
            data = stamps(file, start, end, generation)
            fd = os.open(self.path(file), os.O_RDWR)
            try:
                if self.rng.random() < 0.3:
                    # In pieces that are no cells, as stdio would.
                    at = 0
                    while at < len(data):
                        step = self.rng.randint(1, 200) * QUARTER
                        os.pwrite(fd, data[at:at + step], start + at)
                        at += step
                elif os.pwrite(fd, data, start) != len(data):
                    raise Wrong("a short write")
                if self.rng.random() < 0.1:
                    os.fsync(fd)
            finally:
                os.close(fd)

        self.change(file, start, end, act)

    def write_direct(self):
        file = self.pick()
        start, end = self.span(file, PAGE)

        def act(generation):
            data = stamps(file, start, end, generation)
            fd = os.open(self.path(file), os.O_RDWR | os.O_DIRECT)
            try:
                half = (end - start) // PAGE // 2 * PAGE
                if half and self.rng.random() < 0.5:
                    # Two at once, as an asynchronous writer has them.
                    failed = []
                    threads = [threading.Thread(target=self.pwrite_direct,
                                                args=(fd, data[a:b], start + a, failed))
                               for a, b in ((0, half), (half, len(data)))]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()
                    if failed:
                        raise failed[0]
                else:
                    failed = []
                    self.pwrite_direct(fd, data, start, failed)
                    if failed:
                        raise failed[0]
            finally:
                os.close(fd)

        self.change(file, start, end, act)

    def pwrite_direct(self, fd, data, at, failed):
        try:
            with aligned(len(data)) as buffer:
                buffer[:len(data)] = data
                with memoryview(buffer)[:len(data)] as view:
                    if os.pwritev(fd, [view], at) != len(data):
                        raise Wrong("a short direct write")
        except BaseException as error:
            failed.append(error)

    def write_mapped(self):
        file = self.pick()
        start, end = self.span(file)

        def act(generation):
            fd = os.open(self.path(file), os.O_RDWR)
            try:
                # Nobody cuts the file beside this: who cuts has a lock on all that goes.
                if not reaches(fd, end):
                    os.pwrite(fd, stamps(file, start, end, generation), start)
                    return
                base = start // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
                with mmap.mmap(fd, end - base, offset=base) as view:
                    view[start - base:end - base] = stamps(file, start, end, generation)
                    view.flush()
                # In passthrough a store outlives the daemon, and is part of no volume then.
                if not alive(self.mnt):
                    os._exit(3)
            finally:
                os.close(fd)

        self.change(file, start, end, act)

    def punch(self):
        file = self.pick()
        start, end = self.span(file)

        def act(_):
            fd = os.open(self.path(file), os.O_RDWR)
            try:
                mode = self.rng.choice([3, 0x11])  # punch, or zero, keeping the size
                if LIBC.fallocate(fd, mode, ctypes.c_int64(start), ctypes.c_int64(end - start)):
                    code = ctypes.get_errno()
                    raise OSError(code, os.strerror(code))
            finally:
                os.close(fd)

        self.change(file, start, end, act, zeros=True)

    def cut(self):
        file = self.rng.choice([f for f in range(FILES) if f % 3 != 2] + [self.pick()])
        size = size_of(file)
        start = self.rng.choice([0, self.rng.randint(0, size // CELL) * CELL])
        if start == size:
            return

        def act(_):
            if start == 0 and self.rng.random() < 0.5:
                os.close(os.open(self.path(file), os.O_WRONLY | os.O_TRUNC))
            else:
                os.truncate(self.path(file), start)
            if self.rng.random() < 0.5:
                os.truncate(self.path(file), size)

        self.change(file, start, size, act, zeros=True)

    # Reads

    def read(self):
        file = self.pick()
        start, end = self.span(file)
        low = self.table.done[self.table.cells(file, start, end)].tolist()
        fd = os.open(self.path(file), os.O_RDONLY)
        try:
            data = os.pread(fd, end - start, start)
            self.verify_twice(fd, file, start, data, low, end)
        finally:
            os.close(fd)

    def verify_twice(self, fd, file, start, data, low, end):
        """Says of a wrong byte also whether it stays wrong, and whether the daemon has it so."""
        try:
            verify(self.table, file, start, data, low, end, "read")
        except Wrong as wrong:
            raise Wrong(f"{wrong}; again: {self.look_again(fd, file, start, low, end)}; direct: "
                        f"{self.look_again(None, file, start, low, end)}") from None

    def look_again(self, fd, file, start, low, end):
        try:
            if fd is not None:
                data = os.pread(fd, end - start, start)
            else:
                fd = os.open(self.path(file), os.O_RDONLY | os.O_DIRECT)
                base = start // PAGE * PAGE
                with aligned(end - base) as buffer:
                    length = os.preadv(fd, [buffer], base)
                    data = buffer[start - base:max(length, start - base)][:end - start]
                os.close(fd)
            verify(self.table, file, start, data, low, end, "read")
        except (OSError, Wrong) as error:
            return str(error)
        return "right"

    def read_direct(self):
        file = self.pick()
        start, end = self.span(file, PAGE)
        low = self.table.done[self.table.cells(file, start, end)].tolist()
        fd = os.open(self.path(file), os.O_RDONLY | os.O_DIRECT)
        try:
            with aligned(end - start) as buffer:
                length = os.preadv(fd, [buffer], start)
                data = buffer[:length]
        finally:
            os.close(fd)
        verify(self.table, file, start, data, low, end, "direct read")

    def read_mapped(self):
        file = self.pick()
        start, end = self.span(file)
        # With a lock on what may be cut, or the page may go while we look at it.
        with Locked(self.table, f"f{file}", start, end):
            low = self.table.done[self.table.cells(file, start, end)].tolist()
            fd = os.open(self.path(file), os.O_RDONLY)
            try:
                if not reaches(fd, end):
                    return
                base = start // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
                with mmap.mmap(fd, end - base, prot=mmap.PROT_READ, offset=base) as view:
                    data = view[start - base:end - base]
            finally:
                os.close(fd)
            verify(self.table, file, start, data, low, end, "mapped read")

    def copy(self):
        """What a copy has is what its source had meanwhile."""
        file = self.pick()
        start, end = self.span(file)
        path = f"{self.mnt}/copies/c{self.number}"
        low = self.table.done[self.table.cells(file, start, end)].tolist()
        source = os.open(self.path(file), os.O_RDONLY)
        target = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            os.ftruncate(target, self.rng.choice([0, start]))
            copied = 0
            while copied < end - start:
                step = os.copy_file_range(source, target, end - start - copied, start + copied,
                                          start + copied)
                if step == 0:
                    break
                copied += step
            data = os.pread(target, copied, start)
            if len(data) != copied:
                raise Wrong(f"copy of file {file}: {copied} bytes copied, {len(data)} there")
        finally:
            os.close(source)
            os.close(target)
        verify(self.table, file, start, data, low, end, "copy")

    # Records, published files, names

    def append(self):
        log = self.rng.randrange(LOGS)
        slot = log * 64 + self.number
        sequence = self.table.log_begun[slot] + 1
        self.table.log_begun[slot] = sequence
        record = struct.pack("<IIQ", self.number, sequence, log) * (RECORD // 16)
        fd = os.open(f"{self.mnt}/log{log}", os.O_WRONLY | os.O_APPEND)
        try:
            if os.write(fd, record) != RECORD:
                raise Wrong("a short append")
        finally:
            os.close(fd)
        self.table.log_done[slot] = sequence

    def read_log(self):
        log = self.rng.randrange(LOGS)
        least = sum(self.table.log_done[log * 64:log * 64 + 64])
        fd = os.open(f"{self.mnt}/log{log}", os.O_RDONLY)
        try:
            # The kernel may tell the size of an append that has not returned yet, a moment before
            # it lets anybody read it.
            size = os.fstat(fd).st_size
            if size < least * RECORD:
                raise Wrong(f"log {log} has {size} bytes, and {least} records were complete")
            if least:
                first = max(0, self.rng.choice([least - 20, self.rng.randrange(least)]))
                data = os.pread(fd, 20 * RECORD, first * RECORD)
                if len(data) < min(20, least - first) * RECORD:
                    raise Wrong(f"log {log}: {least} records were complete, and {len(data)} bytes "
                                f"are read from record {first} on")
                check_records(self.table, log, data[:len(data) // RECORD * RECORD])
        finally:
            os.close(fd)

    def publish(self):
        which = self.rng.randrange(PUBLISHED)
        with Locked(self.table, f"published{which}"):
            generation = self.table.pub_begun[which] + 1
            self.table.pub_begun[which] = generation
            new = f"{self.mnt}/published/new{self.number}"
            length = self.rng.choice([1, 70, 700, 5000]) * STAMP
            with open(new, "wb") as file:
                file.write(stamps(1000 + which, 0, length, generation * 2))
            os.rename(new, f"{self.mnt}/published/p{which}")
            self.table.pub_done[which] = generation

    def read_published(self):
        which = self.rng.randrange(PUBLISHED)
        least = self.table.pub_done[which]
        try:
            with open(f"{self.mnt}/published/p{which}", "rb") as file:
                size, data = os.fstat(file.fileno()).st_size, file.read()
        except FileNotFoundError:
            if least:
                raise Wrong(f"published file {which} is missing") from None
            return
        check_published(self.table, which, data, least, size)

    def name(self):
        d, new, act = f"{self.mnt}/names", f"{self.number}-{self.made}", self.rng.random()
        self.made += 1
        old = self.rng.choice(sorted(self.names)) if self.names else None
        if old is None or act < 0.4:
            os.close(os.open(f"{d}/{new}", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            self.names.add(new)
        elif act < 0.7:
            os.rename(f"{d}/{old}", f"{d}/{new}")
            self.names = self.names - {old} | {new}
        else:
            os.unlink(f"{d}/{old}")
            self.names.remove(old)
        listed = [n for n in os.listdir(d) if n.startswith(f"{self.number}-")]
        if sorted(listed) != sorted(self.names):
            raise Wrong(f"listing: missing {self.names - set(listed)}, gone "
                        f"{set(listed) - self.names}, {len(listed)} listed")

    def work(self, seconds):
        acts = [(self.write, 8), (self.write_direct, 5), (self.write_mapped, 4), (self.punch, 2),
                (self.cut, 1), (self.read, 8), (self.read_direct, 4), (self.read_mapped, 3),
                (self.copy, 2), (self.append, 4), (self.read_log, 3), (self.publish, 2),
                (self.read_published, 4), (self.name, 2)]
        calls, weights = zip(*acts)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            call = self.rng.choices(calls, weights)[0]
            try:
                call()
            except (OSError, Wrong) as error:
                if getattr(error, "errno", None) in DEAD or not alive(self.mnt):
                    os._exit(3)
                raise
            self.counts[call.__name__] = self.counts.get(call.__name__, 0) + 1
        print(f"worker {self.number}:", self.counts, flush=True)


def check_records(table, log, data):
    found = []
    for at in range(0, len(data), RECORD):
        record = data[at:at + RECORD]
        number, sequence, of = struct.unpack_from("<IIQ", record)
        fine = record == record[:16] * (RECORD // 16) and of == log and number < 64
        if not fine or sequence > table.log_begun[log * 64 + number]:
            raise Wrong(f"log {log}: a record that nobody wrote: {record[:48].hex()}…")
        found.append((number, sequence))
    return found


def check_published(table, which, data, least, size):
    if size != len(data):
        raise Wrong(f"published file {which} has {size} bytes, {len(data)} are read")
    generation = struct.unpack_from("<IIQ", data)[1] // 2 if len(data) >= STAMP else 0
    if not least <= generation <= table.pub_begun[which] or (
            data != stamps(1000 + which, 0, len(data), generation * 2)):
        raise Wrong(f"published file {which}: {len(data)} bytes of generation {generation}, not of "
                    f"{least} to {table.pub_begun[which]}")


def disturb(args, rng, stop):
    """Flushes, releases, hydrates and archives at random, until the workers are done."""
    files = [f"cells/f{n}" for n in range(FILES)] + ["", "cells", "published"]
    while not stop.is_set():
        act = rng.choice(["flush", "release", "release", "hydrate", "archive"])
        what = f"{args.mnt}/{rng.choice(files)}"
        command = [args.weir, act, args.mnt] if act == "flush" else [args.weir, act, "-r", what]
        # What is open or changed is refused, and says so by its exit code.
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        stop.wait(rng.random() * 0.3)


def run(args):
    for name in ("cells", "copies", "published", "names"):
        os.makedirs(f"{args.mnt}/{name}", exist_ok=True)
    for log in range(LOGS):
        open(f"{args.mnt}/log{log}", "ab").close()
    table = Table(args.state, args.workers)
    for file in range(FILES):
        with open(f"{args.mnt}/cells/f{file}", "wb") as made:
            for start in range(0, size_of(file), 1 << 20):
                end = min(start + (1 << 20), size_of(file))
                made.write(stamps(file, start, end, table.begin(file, start, end)))
        table.end(file, 0, size_of(file), 2)
    for n in range(300):
        open(f"{args.mnt}/names/other{n}", "wb").close()
    pids = {}
    for number in range(args.workers):
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            faulthandler.enable()
            try:
                Worker(args.mnt, table, number, random.Random(args.seed * 64 + number)).work(args.seconds)
                os._exit(0)
            except Wrong as wrong:
                print(f"WRONG by worker {number}: {wrong}", flush=True)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        pids[pid] = number
    stop = threading.Event()
    disturber = threading.Thread(target=disturb, args=(args, random.Random(args.seed), stop))
    if args.weir:
        disturber.start()
    codes = set()
    while pids:
        pid, status = os.wait()
        if pid in pids:
            number = pids.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            # A mapping of a dead mount has no pages.
            dead = code == -signal.SIGBUS and not alive(args.mnt)
            codes.add(3 if dead else code)
            if code < 0 and not dead and not codes - {0, 3, code}:
                print(f"worker {number} ends by signal {-code}", flush=True)
            if codes - {0, 3}:
                for other in pids:
                    os.kill(other, signal.SIGTERM)
    stop.set()
    if args.weir:
        disturber.join()
    return 1 if codes - {0, 3} else 3 if 3 in codes else 0


def check(args):
    """Nobody writes: each cell has what was complete, or what had begun."""
    table = Table(args.state)
    for file in range(FILES):
        with open(f"{args.mnt}/cells/f{file}", "rb") as cells:
            for start in range(0, size_of(file), 1 << 20):
                end = min(start + (1 << 20), size_of(file))
                low = table.done[table.cells(file, start, end)].tolist()
                verify(table, file, start, cells.read(end - start), low, end, "check")
    for log in range(LOGS):
        with open(f"{args.mnt}/log{log}", "rb") as records:
            data = records.read()
        last = {}
        for number, sequence in check_records(table, log, data[:len(data) // RECORD * RECORD]):
            # One that had no answer may be missing, the one after it not.
            if sequence not in (last.get(number, 0) + 1, last.get(number, 0) + 2):
                raise Wrong(f"log {log}: record {sequence} of {number} after {last.get(number)}")
            last[number] = sequence
        for number in range(64):
            if last.get(number, 0) < table.log_done[log * 64 + number]:
                raise Wrong(f"log {log}: the last record of {number} is {last.get(number)}, not "
                            f"{table.log_done[log * 64 + number]}")
    for which in range(PUBLISHED):
        if table.pub_done[which]:
            with open(f"{args.mnt}/published/p{which}", "rb") as file:
                data = file.read()
            check_published(table, which, data, table.pub_done[which], len(data))
    print(f"checked: generations up to {max(table.begun)}, "
          f"{sum(table.log_done)} records, {sum(table.pub_done)} published")
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["run", "check"])
    parser.add_argument("mnt")
    parser.add_argument("state")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--workers", type=int, default=7)
    parser.add_argument("--weir")
    args = parser.parse_args()
    try:
        return run(args) if args.what == "run" else check(args)
    except Wrong as wrong:
        print(f"WRONG: {wrong}")
        return 1


sys.exit(main())
