#!/usr/bin/env python3
"""Programs on a mount whose daemon is replaced again and again: each looks at all that it gets back.

  upgraded.py writer|mapper|reader|storer|appender|unlinked|lister|maker DIR STOP   until STOP exists
  upgraded.py holder FILE GO     holds a lock until GO exists, and writes when it let go
  upgraded.py waiter FILE        waits for it, and says when it has it

Whatever is wrong ends it with a traceback. What it did it says at its end.
"""
import fcntl
import mmap
import os
import random
import sys
import time


def going(stop):
    return not os.path.exists(stop)


def writer(directory, stop):
    """One file, written in place, synced and read back."""
    size, chance = 1 << 20, random.Random(1)
    known = bytearray(size)
    path, rounds = f"{directory}/written", 0
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, size)
    while going(stop):
        at, length = chance.randrange(size), chance.randrange(1, 20000)
        data = chance.randbytes(min(length, size - at))
        assert os.pwrite(file, data, at) == len(data)
        known[at : at + len(data)] = data
        if rounds % 7 == 0:
            os.fsync(file)
        at = chance.randrange(size)
        assert os.pread(file, 30000, at) == known[at : at + 30000]
        rounds += 1
    os.fsync(file)
    os.close(file)
    assert open(path, "rb").read() == known
    print("writes", rounds)


def mapper(directory, stop):
    """One file, changed through a mapping."""
    pages, chance, rounds = 64, random.Random(2), 0
    path = f"{directory}/mapped"
    with open(path, "wb") as file:
        file.write(bytes(pages * 4096))
    file = os.open(path, os.O_RDWR)
    known = [0] * pages
    with mmap.mmap(file, pages * 4096) as mapped:
        while going(stop):
            page = chance.randrange(pages)
            known[page] = (known[page] + 1) % 256
            mapped[page * 4096 + 17] = known[page]
            if rounds % 50 == 0:
                mapped.flush()
            page = chance.randrange(pages)
            assert mapped[page * 4096 + 17] == known[page]
            rounds += 1
            time.sleep(0.001)
        mapped.flush()
    for page in range(pages):
        assert os.pread(file, 1, page * 4096 + 17) == bytes([known[page]])
    print("stores", rounds)


def reader(directory, stop):
    """A file that was there before, opened once: also past the daemon."""
    chance, rounds = random.Random(3), 0
    known = open(f"{directory}/../known", "rb").read()
    file = os.open(f"{directory}/lent", os.O_RDONLY)
    mapped = mmap.mmap(file, len(known), prot=mmap.PROT_READ)
    while going(stop):
        at = chance.randrange(len(known))
        assert os.pread(file, 70000, at) == known[at : at + 70000]
        at = chance.randrange(len(known))
        assert mapped[at : at + 5000] == known[at : at + 5000]
        rounds += 1
        time.sleep(0.001)
    print("reads", rounds)


def storer(directory, stop):
    """Files that the kernel reads past the daemon, stored into through mappings: one that is open, and
    one of which only the mapping is left."""
    chance, size, rounds = random.Random(4), 200_000, 0
    known, maps, kept = {}, {}, []
    for name in ("stored", "mapped-only"):
        path = f"{directory}/{name}"
        known[name] = bytearray(chance.randbytes(size))
        with open(path, "wb") as file:
            file.write(known[name])
        reader, both = os.open(path, os.O_RDONLY), os.open(path, os.O_RDWR)
        maps[name] = mmap.mmap(both, size)
        if name == "stored":
            kept = [reader, both]
        else:
            os.close(reader)
            os.close(both)
    while going(stop):
        for name, mapped in maps.items():
            at = chance.randrange(size - 9)
            data = chance.randbytes(9)
            mapped[at : at + 9] = data
            known[name][at : at + 9] = data
            at = chance.randrange(size - 9)
            assert mapped[at : at + 9] == known[name][at : at + 9], name
        at = chance.randrange(size - 9)
        assert os.pread(kept[0], 9, at) == known["stored"][at : at + 9]
        data = chance.randbytes(9)
        if rounds % 5 == 0:
            os.pwrite(kept[1], data, at)
            known["stored"][at : at + 9] = data
        if rounds % 100 == 0:
            os.fsync(kept[1])
        rounds += 1
        time.sleep(0.001)
    for name, mapped in maps.items():
        mapped.close()
        assert open(f"{directory}/{name}", "rb").read() == known[name], name
    print("stores", rounds)


def appender(directory, stop):
    """A log that grows, and one who follows it."""
    path, lines = f"{directory}/log", 0
    log, tail = open(path, "ab", buffering=0), None
    tail = open(path, "rb")
    seen = b""
    while going(stop):
        log.write(b"line %d\n" % lines)
        lines += 1
        if lines % 10 == 0:
            seen += tail.read()
        time.sleep(0.001)
    seen += tail.read()
    assert seen == b"".join(b"line %d\n" % line for line in range(lines))
    print("lines", lines)


def unlinked(directory, stop):
    """A file without a name, and a directory without one that somebody is in."""
    file = os.open(f"{directory}/unlinked", os.O_RDWR | os.O_CREAT)
    os.unlink(f"{directory}/unlinked")
    os.mkdir(f"{directory}/inside")
    os.chdir(f"{directory}/inside")
    size, rounds = 0, 0
    while going(stop):
        data = b"%08d" % rounds * 500
        assert os.pwrite(file, data, size) == len(data)
        size += len(data)
        assert os.fstat(file).st_nlink == 0 and os.fstat(file).st_size == size
        assert os.pread(file, 8, (rounds // 2) * 4000) == b"%08d" % (rounds // 2)
        with open("beside", "w") as beside:
            beside.write("here")
        os.unlink("beside")
        rounds += 1
        time.sleep(0.002)
    print("rounds", rounds)


def lister(directory, stop):
    """Listings that are begun before an upgrade and end after it."""
    names, rounds = {f"entry-{n:04}" for n in range(1500)}, 0
    while going(stop):
        found, stepped = [], 0
        with os.scandir(f"{directory}/many") as listing:
            for entry in listing:
                found.append(entry.name)
                stepped += 1
                if stepped % 300 == 0:
                    time.sleep(0.05)
        assert len(found) == len(names) and set(found) == names
        rounds += 1
    print("listings", rounds)


def maker(directory, stop):
    """Names that come and go: each once."""
    rounds = 0
    while going(stop):
        os.mkdir(f"{directory}/new")
        file = os.open(f"{directory}/new/file", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(file, b"x" * 100)
        os.close(file)
        os.rename(f"{directory}/new/file", f"{directory}/new/other")
        os.link(f"{directory}/new/other", f"{directory}/new/both")
        os.unlink(f"{directory}/new/other")
        os.unlink(f"{directory}/new/both")
        os.rmdir(f"{directory}/new")
        rounds += 1
    print("rounds", rounds)


def holder(path, go):
    with open(path, "r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        print("held", flush=True)
        while not os.path.exists(go):
            time.sleep(0.02)
        file.write("let go")
        file.flush()
        fcntl.lockf(file, fcntl.LOCK_UN)


def waiter(path):
    with open(path, "r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert file.read() == "let go", "the lock was given to two"
        print("granted", flush=True)


globals()[sys.argv[1]](*sys.argv[2:])
