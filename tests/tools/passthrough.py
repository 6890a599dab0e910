#!/usr/bin/env python3
"""A hunt for stale bytes: processes that open, map, write, cut and replace the same few files in
every way there is, each step compared with a model.

    passthrough.py hunt SEED COUNT MNT STATE   do COUNT steps below MNT
    passthrough.py check MNT STATE             compare all files with what was done
    passthrough.py map_and_close FILE WANT     read FILE through a mapping whose open file is gone
    passthrough.py copy_beside_reader FROM TO  copy_file_range into a file that somebody reads
    passthrough.py cut_beside_mapping FILE     cut FILE to nothing and write it beside a mapping
    passthrough.py survivor FILE GO            store through a mapping, and again once GO exists
    passthrough.py synced FILE                 store through a mapping and fsync, twice, and stay

One step runs at a time, in one of several processes, so what a read must find is known.
"""

import ctypes
import mmap
import multiprocessing
import os
import pickle
import random
import signal
import sys
import time

PAGE = 4096
LARGEST = 256 * PAGE
NAMES = 7
WORKERS = 4
libc = ctypes.CDLL(None, use_errno=True)
FALLOC_KEEP, FALLOC_PUNCH, FALLOC_ZERO = 1, 2, 16


def fallocate(fd, mode, offset, length):
    if libc.fallocate(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(length)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class Worker:
    """What one process does: open files and mappings by number."""

    def __init__(self):
        self.fds, self.maps = {}, {}

    def open(self, number, path, flags):
        self.fds[number] = os.open(path, flags, 0o644)

    def close(self, number):
        os.close(self.fds.pop(number))

    def read(self, number, offset, length, direct):
        if not direct:
            return os.pread(self.fds[number], length, offset)
        with mmap.mmap(-1, length) as aligned:
            got = os.preadv(self.fds[number], [aligned], offset)
            return aligned[:got]

    def write(self, number, offset, data, direct):
        if not direct:
            return os.pwrite(self.fds[number], data, offset)
        with mmap.mmap(-1, len(data)) as aligned:
            aligned[:] = data
            return os.pwritev(self.fds[number], [aligned], offset)

    def append(self, number, data):
        return os.write(self.fds[number], data)

    def ftruncate(self, number, size):
        os.ftruncate(self.fds[number], size)

    def fallocate(self, number, mode, offset, length):
        fallocate(self.fds[number], mode, offset, length)

    def copy(self, source, target, start, to, length):
        return os.copy_file_range(self.fds[source], self.fds[target], length, start, to)

    def fsync(self, number):
        os.fsync(self.fds[number])

    def want(self, number, length):
        os.posix_fadvise(self.fds[number], 0, length, os.POSIX_FADV_WILLNEED)

    def map(self, number, fd, length, shared, writable):
        kind = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
        prot = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self.maps[number] = mmap.mmap(self.fds[fd], length, kind, prot)

    def unmap(self, number):
        self.maps.pop(number).close()

    def look(self, number, offset, length):
        return self.maps[number][offset : offset + length]

    def store(self, number, offset, data):
        self.maps[number][offset : offset + len(data)] = data

    def msync(self, number):
        self.maps[number].flush()


def serve(pipe):
    worker = Worker()
    while True:
        name, args = pipe.recv()
        try:
            pipe.send((None, getattr(worker, name)(*args)))
        except OSError as error:
            pipe.send((error.errno, str(error)))


class Inode:
    def __init__(self):
        self.data = bytearray()

    def resize(self, size):
        if size < len(self.data):
            del self.data[size:]
        else:
            self.data.extend(bytes(size - len(self.data)))

    def put(self, offset, data):
        if offset + len(data) > len(self.data):
            self.resize(offset + len(data))
        self.data[offset : offset + len(data)] = data


class Hunt:
    def __init__(self, seed, mnt):
        self.random, self.mnt = random.Random(seed), mnt
        self.names, self.fds, self.maps = {}, {}, {}
        self.next, self.log, self.fill = 0, [], 0
        self.workers = []
        for _ in range(WORKERS):
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
            process.start()
            self.workers.append((ours, process))

    def ask(self, worker, name, *args):
        shown = [arg if not isinstance(arg, bytes) else f"{len(arg)} bytes" for arg in args]
        self.log.append(f"{worker}: {name} {shown}")
        pipe, process = self.workers[worker]
        pipe.send((name, args))
        while not pipe.poll(60):
            self.fail(f"process {worker} does not answer")
        try:
            code, value = pipe.recv()
        except EOFError:
            process.join()
            self.fail(f"process {worker} died: {process.exitcode}")
        if code is not None:
            self.fail(f"{name}: {value}")
        return value

    def fail(self, why):
        print("\n".join(self.log[-60:]))
        print(f"FAILED after {len(self.log)} steps: {why}")
        for _, process in self.workers:
            process.kill()
        sys.exit(1)

    def compare(self, have, want, offset, what):
        if have == want:
            return
        at = next((i for i, (a, b) in enumerate(zip(have, want)) if a != b), None)
        if at is None:
            self.fail(f"{what} at {offset}: {len(have)} bytes, want {len(want)}")
        self.fail(f"{what}: byte {offset + at} is {have[at]}, want {want[at]}")

    def bytes(self, most):
        length = self.random.randrange(1, most)
        return self.random.randbytes(min(length, 64)).ljust(length, bytes([self.random.randrange(256)]))

    def number(self):
        self.next += 1
        return self.next

    def pick(self, table, wanted=lambda entry: True):
        found = [number for number, entry in table.items() if wanted(entry)]
        return self.random.choice(found) if found else None

    # Steps. Each answers whether it did anything.

    def step_open(self):
        name = f"f{self.random.randrange(NAMES)}"
        access = self.random.choice([os.O_RDONLY] * 4 + [os.O_WRONLY, os.O_RDWR])
        # The first open decides how a file is served: mostly one that reads.
        used = any(inode is self.names.get(name) for _, inode, _ in self.fds.values())
        if name not in self.names:
            access = self.random.choice([os.O_WRONLY, os.O_WRONLY, os.O_RDWR])
        elif not used and self.random.random() < 0.7:
            access = os.O_RDONLY
        flags = access
        chance = self.random.random()
        if chance < 0.12:
            flags |= os.O_DIRECT
        elif chance < 0.22 and access != os.O_RDONLY:
            flags |= os.O_APPEND
        elif chance < 0.27 and access != os.O_RDONLY:
            flags |= os.O_TRUNC
        if name not in self.names:
            flags |= os.O_CREAT
        number, worker = self.number(), self.random.randrange(WORKERS)
        self.ask(worker, "open", number, f"{self.mnt}/{name}", flags)
        inode = self.names.setdefault(name, Inode())
        if flags & os.O_TRUNC:
            inode.resize(0)
        self.fds[number] = (worker, inode, flags)
        return True

    def step_close(self):
        number = self.pick(self.fds)
        if number is None or (len(self.fds) < 6 and self.random.random() < 0.5):
            return False
        worker, _, _ = self.fds.pop(number)
        self.ask(worker, "close", number)
        return True

    def step_close_all(self):
        """All open files of one inode, so that it can be served another way; mappings stay."""
        some = self.pick(self.fds)
        if some is None:
            return False
        inode = self.fds[some][1]
        for number in [number for number, entry in self.fds.items() if entry[1] is inode]:
            self.ask(self.fds.pop(number)[0], "close", number)
        return True

    def readable(self, entry):
        return entry[2] & os.O_ACCMODE != os.O_WRONLY

    def writable(self, entry):
        return entry[2] & os.O_ACCMODE != os.O_RDONLY

    def step_read(self):
        number = self.pick(self.fds, self.readable)
        if number is None:
            return False
        worker, inode, flags = self.fds[number]
        direct = bool(flags & os.O_DIRECT)
        size = len(inode.data)
        if direct or self.random.random() < 0.2:
            offset, length = self.random.randrange(size // PAGE + 1) * PAGE, 16 * PAGE
        else:
            offset, length = self.random.randrange(size + 1), self.random.randrange(1, 40_000)
        if self.random.random() < 0.1:
            offset, length = 0, LARGEST
        have = self.ask(worker, "read", number, offset, length, direct)
        self.compare(have, bytes(inode.data[offset : offset + length]), offset, "read")
        return True

    def step_write(self):
        number = self.pick(self.fds, self.writable)
        if number is None:
            return False
        worker, inode, flags = self.fds[number]
        if flags & os.O_APPEND:
            data = self.bytes(9_000)
            if len(inode.data) + len(data) > LARGEST:
                return False
            done = self.ask(worker, "append", number, data)
            inode.put(len(inode.data), data[:done])
            return True
        if flags & os.O_DIRECT:
            offset = self.random.randrange(64) * PAGE
            data = self.random.randbytes(PAGE) * self.random.randrange(1, 5)
        else:
            offset = self.random.randrange(min(len(inode.data) + 20_000, LARGEST - 70_000))
            data = self.bytes(70_000 if self.random.random() < 0.3 else 5_000)
        done = self.ask(worker, "write", number, offset, data, bool(flags & os.O_DIRECT))
        if done != len(data):
            self.fail(f"wrote {done} of {len(data)}")
        inode.put(offset, data)
        return True

    def step_map(self):
        number = self.pick(self.fds, self.readable)
        if number is None:
            return False
        worker, inode, flags = self.fds[number]
        if not inode.data:
            return False
        shared = self.random.random() < 0.8
        writable = shared and self.writable(self.fds[number])
        mapping, length = self.number(), len(inode.data)
        self.ask(worker, "map", mapping, number, length, shared, writable)
        self.maps[mapping] = (worker, inode, length, writable)
        # As libraries are mapped: the open file goes, the mapping stays.
        if self.random.random() < 0.5:
            self.fds.pop(number)
            self.ask(worker, "close", number)
        return True

    def step_unmap(self):
        mapping = self.pick(self.maps)
        if mapping is None or (len(self.maps) < 5 and self.random.random() < 0.5):
            return False
        worker = self.maps.pop(mapping)[0]
        self.ask(worker, "unmap", mapping)
        return True

    def step_look(self):
        mapping = self.pick(self.maps, lambda entry: entry[1].data)
        if mapping is None:
            return False
        worker, inode, length, _ = self.maps[mapping]
        end = min(length, len(inode.data))
        offset = self.random.randrange(end)
        have = self.ask(worker, "look", mapping, offset, end - offset)
        self.compare(have, bytes(inode.data[offset:end]), offset, "mapping")
        return True

    def step_store(self):
        mapping = self.pick(self.maps, lambda entry: entry[1].data and entry[3])
        if mapping is None:
            return False
        worker, inode, length, _ = self.maps[mapping]
        end = min(length, len(inode.data))
        offset = self.random.randrange(end)
        data = self.bytes(6_000)[: end - offset]
        self.ask(worker, "store", mapping, offset, data)
        inode.put(offset, data)
        if self.random.random() < 0.1:
            self.ask(worker, "msync", mapping)
        return True

    def step_truncate(self):
        number = self.pick(self.fds, self.writable)
        if number is None:
            return False
        worker, inode, _ = self.fds[number]
        size = self.random.choice([0, self.random.randrange(LARGEST), self.random.randrange(len(inode.data) + 1)])
        if self.random.random() < 0.3:
            size = size // PAGE * PAGE
        self.ask(worker, "ftruncate", number, size)
        inode.resize(size)
        return True

    def step_fallocate(self):
        number = self.pick(self.fds, self.writable)
        if number is None:
            return False
        worker, inode, _ = self.fds[number]
        mode = self.random.choice([FALLOC_KEEP | FALLOC_PUNCH] * 2 + [FALLOC_ZERO, 0])
        offset = self.random.randrange(LARGEST // 2)
        length = self.random.randrange(1, LARGEST // 2)
        if self.random.random() < 0.3:
            offset, length = offset // PAGE * PAGE, length // PAGE * PAGE + PAGE
        self.ask(worker, "fallocate", number, mode, offset, length)
        if mode & FALLOC_KEEP == 0 and offset + length > len(inode.data):
            inode.resize(offset + length)
        if mode:
            end = min(offset + length, len(inode.data))
            if offset < end:
                inode.data[offset:end] = bytes(end - offset)
        return True

    def step_copy(self):
        source = self.pick(self.fds, lambda e: self.readable(e) and not e[2] & os.O_DIRECT)
        if source is None:
            return False
        worker, inode, _ = self.fds[source]
        plain = os.O_APPEND | os.O_DIRECT
        target = self.pick(
            self.fds, lambda e: e[0] == worker and self.writable(e) and e[1] is not inode and not e[2] & plain
        )
        if target is None or not inode.data:
            return False
        start, to = self.random.randrange(len(inode.data)), self.random.randrange(LARGEST // 2)
        if self.random.random() < 0.6:
            start, to = 0, to // PAGE * PAGE
        length = min(len(inode.data) - start, LARGEST - to)
        done = self.ask(worker, "copy", source, target, start, to, length)
        self.fds[target][1].put(to, bytes(inode.data[start : start + done]))
        return True

    def step_fsync(self):
        number = self.pick(self.fds)
        if number is None:
            return False
        self.ask(self.fds[number][0], "fsync", number)
        return True

    def step_want(self):
        number = self.pick(self.fds, self.readable)
        if number is None:
            return False
        self.ask(self.fds[number][0], "want", number, LARGEST)
        return True

    def step_rename(self):
        if not self.names:
            return False
        old, new = self.random.choice(list(self.names)), f"f{self.random.randrange(NAMES)}"
        if old == new:
            return False
        self.log.append(f"rename {old} {new}")
        os.rename(f"{self.mnt}/{old}", f"{self.mnt}/{new}")
        self.names[new] = self.names.pop(old)
        return True

    def step_unlink(self):
        if not self.names:
            return False
        name = self.random.choice(list(self.names))
        self.log.append(f"unlink {name}")
        os.unlink(f"{self.mnt}/{name}")
        del self.names[name]
        return True

    def step_press(self):
        """Fills the tier, so that what is clean is released."""
        self.fill += 1
        self.log.append("press")
        with open(f"{self.mnt}/fill{self.fill % 2}", "wb") as file:
            for _ in range(9):
                file.write(self.random.randbytes(1 << 20))
            os.fsync(file.fileno())
        return True

    def run(self, count):
        weights = {
            "open": 34, "close": 14, "close_all": 6, "read": 40, "write": 22, "map": 12, "unmap": 8, "look": 25,
            "store": 14, "truncate": 4, "fallocate": 4, "copy": 3, "fsync": 3, "want": 2,
            "rename": 2, "unlink": 0.7, "press": 1,
        }
        steps, chances = list(weights), list(weights.values())
        done = 0
        while done < count:
            step = self.random.choices(steps, chances)[0]
            try:
                done += getattr(self, f"step_{step}")()
            except OSError as error:
                self.fail(f"{step}: {error}")
        for number, (worker, _, _) in self.fds.items():
            self.ask(worker, "close", number)
        for number, (worker, _, _, _) in self.maps.items():
            self.ask(worker, "unmap", number)

    def save(self, state):
        with open(state, "wb") as file:
            pickle.dump({name: bytes(inode.data) for name, inode in self.names.items()}, file)


def check(mnt, state):
    with open(state, "rb") as file:
        want = pickle.load(file)
    found = {name for name in os.listdir(mnt) if not name.startswith("fill")}
    assert found == set(want), (found, set(want))
    for name, data in want.items():
        with open(f"{mnt}/{name}", "rb") as file:
            have = file.read()
        at = next((i for i, (a, b) in enumerate(zip(have, data)) if a != b), None)
        assert have == data, f"{name}: {len(have)} bytes, want {len(data)}; they differ at {at}"


def map_and_close(path, want):
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    with open(want, "rb") as file:
        assert mapped[:] == file.read()


def copy_beside_reader(source, target):
    with open(source, "rb") as file:
        want = file.read()
    with open(target, "wb") as file:
        file.write(bytes(len(want)))
    reader = open(target, "rb", buffering=0)
    mapped = mmap.mmap(reader.fileno(), 0, prot=mmap.PROT_READ)
    assert reader.read(PAGE) == bytes(PAGE)
    fds = os.open(source, os.O_RDONLY), os.open(target, os.O_WRONLY)
    done = 0
    while done < len(want):
        done += os.copy_file_range(*fds, len(want) - done)
    assert mapped[:] == want, "the mapping"
    assert os.pread(reader.fileno(), len(want), 0) == want, "the reader"


def cut_beside_mapping(path):
    size = os.stat(path).st_size
    reader, writer = os.open(path, os.O_RDONLY), os.open(path, os.O_RDWR)
    mapped = mmap.mmap(writer, size)
    os.close(reader)
    os.close(writer)
    # Nobody has it open any more: the next open decides anew how the file is served.
    cutter = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.pwrite(cutter, b"new" * (size // 3), 0)
    assert mapped[:6] == b"newnew", "the mapping has not what was written"
    before = os.stat(path).st_mtime_ns
    mapped[300:306] = b"stored"
    with open(path, "rb", buffering=0) as file:
        assert os.pread(file.fileno(), 6, 300) == b"stored", "a reader has not what was stored"
    while os.stat(path).st_mtime_ns == before:
        time.sleep(0.05)
    os.pwrite(cutter, b"last", 600)
    os.close(cutter)
    assert mapped[600:604] == b"last", "the mapping has not what was written last"


def survivor(path, go):
    reader = open(path, "rb", buffering=0)
    writer = os.open(path, os.O_RDWR)
    mapped = mmap.mmap(writer, 0)
    os.close(writer)
    mapped[1_000_000:1_000_006] = b"stored"
    want = mapped[:]
    print("stored", flush=True)
    while not os.path.exists(go):
        time.sleep(0.05)
    assert mapped[:] == want, "what a program has mapped changed under it"
    mapped[1_000_000:1_000_006] = b"strays"
    reader.close()


def synced(path):
    reader = open(path, "rb", buffering=0)
    writer = os.open(path, os.O_RDWR)
    mapped = mmap.mmap(writer, 0)
    for at, text in [(10, b"first"), (500_000, b"second")]:
        mapped[at : at + len(text)] = text
        os.pwrite(writer, text, at + 100_000)
        os.fsync(writer)
    print("synced", flush=True)
    time.sleep(600)
    reader.close()


SCENES = [check, map_and_close, copy_beside_reader, cut_beside_mapping, survivor, synced]


def main():
    scenes = {scene.__name__: scene for scene in SCENES}
    if sys.argv[1] in scenes:
        scenes[sys.argv[1]](*sys.argv[2:])
        return
    seed, count, mnt, state = sys.argv[2:]
    hunt = Hunt(seed, mnt)
    if os.path.exists(state):
        with open(state, "rb") as file:
            for name, data in pickle.load(file).items():
                hunt.names[name] = Inode()
                hunt.names[name].put(0, data)
    hunt.run(int(count))
    hunt.save(state)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main()
