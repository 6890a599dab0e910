#!/usr/bin/env python3
"""Scenes with several processes on one mount: concurrency.py SCENE DIRECTORY.

Each scene raises when the file system does something that POSIX, or the local file systems of
Linux, would not do. Some leave files that `check_kept` looks at after a cold remount.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import random
import signal
import socket
import stat
import struct
import sys
import time
import traceback

TIB = 1 << 40


def children(count, work):
    """Runs work(i) in so many processes; all must end well."""
    pids = []
    for i in range(count):
        pid = os.fork()
        if pid == 0:
            try:
                work(i)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        pids.append(pid)
    return pids


def all_well(pids):
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert codes == [0] * len(pids), codes


def fails(code, call, *args):
    try:
        call(*args)
    except OSError as error:
        assert error.errno == code, f"{call.__name__}: {error}, not {errno.errorcode[code]}"
        return
    raise AssertionError(f"{call.__name__}{args} succeeds, instead of {errno.errorcode[code]}")


def put(path, data=b""):
    with open(path, "wb") as file:
        file.write(data)


def get(path):
    with open(path, "rb") as file:
        return file.read()


def wait_for(holds):
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end, "it never comes"
        time.sleep(0.01)


def one_directory(d):
    """Eight processes make, rename and remove names in one directory, some of them the same."""

    def work(i):
        rng = random.Random(i)
        for n in range(150):
            mine, shared = f"{d}/p{i}-{n}", f"{d}/shared{rng.randrange(5)}"
            put(mine, b"%d %d" % (i, n))
            if n % 3 == 0:
                os.rename(mine, shared)
            elif n % 3 == 1:
                os.rename(mine, mine + "-kept")
            else:
                os.unlink(mine)
            try:
                os.unlink(shared) if rng.random() < 0.3 else get(shared)
            except FileNotFoundError:
                pass

    all_well(children(8, work))
    names = os.listdir(d)
    assert len(names) == len(set(names)), "a name is listed twice"
    want = {f"p{i}-{n}-kept" for i in range(8) for n in range(1, 150, 3)}
    assert want == {name for name in names if not name.startswith("shared")}
    for name in want:
        i, n = name[1:].split("-")[:2]
        assert get(f"{d}/{name}") == f"{i} {n}".encode(), name


def listings(d):
    """Eight processes make, rename and remove names of their own in one large directory. What each
    lists then, through a fresh descriptor or through one that it keeps and rewinds, has just those
    names of it that are there."""
    for i in range(1500):
        put(f"{d}/other{i}")

    def work(i):
        rng, mine = random.Random(i), set()
        kept = os.open(d, os.O_RDONLY)
        for n in range(80):
            new, act = f"p{i}-{n}", rng.random()
            old = rng.choice(sorted(mine)) if mine else None
            if old is None or act < 0.5:
                put(f"{d}/{new}")
                mine.add(new)
            elif act < 0.75:
                os.rename(f"{d}/{old}", f"{d}/{new}")
                mine = mine - {old} | {new}
            else:
                os.unlink(f"{d}/{old}")
                mine.remove(old)
            # Of a descriptor, listdir rewinds what it has read.
            where = rng.choice([d, kept])
            names = [name for name in os.listdir(where) if name.startswith(f"p{i}-")]
            assert len(names) == len(set(names)), "a name is listed twice"
            assert set(names) == mine, (where, n, "missing", mine - set(names), "gone", set(names) - mine)

    all_well(children(8, work))


def kept_directory(d):
    """A directory that is held open while it changes: rewound, it shows what is there; a place
    that `telldir` would tell stays one to go on from."""
    for i in range(3000):
        put(f"{d}/f{i}")
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(4096)

    def page(fd):
        size = libc.syscall(217, fd, buffer, len(buffer))  # getdents64
        assert size >= 0, os.strerror(ctypes.get_errno())
        found, at = [], 0
        while at < size:
            _, place, length, _ = struct.unpack_from("=QqHB", buffer.raw, at)
            found.append((buffer.raw[at + 19:at + length].split(b"\0")[0].decode(), place))
            at += length
        return found

    fd = os.open(d, os.O_RDONLY)
    want = set(os.listdir(fd))
    assert len(want) == 3000
    first = page(fd)
    for i in range(0, 3000, 2):
        os.unlink(f"{d}/f{i}")
        put(f"{d}/g{i}")
    # What stays is listed once, whatever came and went since the beginning.
    names, more = [name for name, _ in first], page(fd)
    while more:
        names += [name for name, _ in more]
        more = page(fd)
    assert len(names) == len(set(names)), "a name is listed twice"
    assert {f"f{i}" for i in range(1, 3000, 2)} <= set(names), "a name that stayed is missing"
    os.lseek(fd, 0, os.SEEK_SET)
    now = {f"f{i}" for i in range(1, 3000, 2)} | {f"g{i}" for i in range(0, 3000, 2)}
    assert set(os.listdir(fd)) == now == set(os.listdir(d))
    # From a place in the middle on.
    os.lseek(fd, first[-1][1], os.SEEK_SET)
    names, more = [], page(fd)
    while more:
        names += [name for name, _ in more]
        more = page(fd)
    before = {name for name, _ in first}
    assert not before & set(names), "what lies before the place is listed"
    assert {f"f{i}" for i in range(1, 3000, 2)} - before <= set(names), "a name is missing"
    os.close(fd)


def count_up(path, lock, unlock):
    """Four processes add to a number, each time under a lock; none may be lost."""
    put(path, b"0")

    def work(_):
        fd = os.open(path, os.O_RDWR)
        for _ in range(100):
            lock(fd)
            value = int(os.pread(fd, 20, 0))
            os.pwrite(fd, b"%d" % (value + 1), 0)
            unlock(fd)

    all_well(children(4, work))
    assert get(path) == b"400", get(path)


def flock(d):
    count_up(f"{d}/f", lambda fd: fcntl.flock(fd, fcntl.LOCK_EX),
             lambda fd: fcntl.flock(fd, fcntl.LOCK_UN))
    one, two = os.open(f"{d}/f", os.O_RDWR), os.open(f"{d}/f", os.O_RDWR)
    fcntl.flock(one, fcntl.LOCK_SH)
    fcntl.flock(two, fcntl.LOCK_SH)
    fails(errno.EAGAIN, fcntl.flock, two, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(one)
    fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)


def fcntl_lock(d):
    path = f"{d}/f"
    count_up(path, lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX),
             lambda fd: fcntl.lockf(fd, fcntl.LOCK_UN))
    fd = os.open(path, os.O_RDWR)
    fcntl.lockf(fd, fcntl.LOCK_EX, 10, 5)

    def other(_):
        # Ranges beside it are free, it is not, and the one who holds it can be named.
        fd = os.open(path, os.O_RDWR)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 0)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 15)
        fails(errno.EAGAIN, fcntl.lockf, fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 14)
        ask = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
        kind, _, start, length, pid = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, ask))
        assert (kind, start, length, pid) == (fcntl.F_WRLCK, 5, 10, os.getppid()), (kind, start, pid)

    all_well(children(1, other))
    # A lock ends with the process that holds it, and a waiting one gets it.
    ready = f"{d}/ready"

    def waiter(_):
        mine = os.open(path, os.O_RDWR)
        put(ready)
        fcntl.lockf(mine, fcntl.LOCK_EX, 10, 5)

    pids = children(1, waiter)
    wait_for(lambda: os.path.exists(ready))
    assert os.waitpid(pids[0], os.WNOHANG) == (0, 0), "the waiter has a lock that is taken"
    os.close(fd)
    all_well(pids)


def deadlock(d):
    """Two processes that wait for each other: one of them is told."""
    path, readies = f"{d}/f", [f"{d}/ready0", f"{d}/ready1"]
    put(path, b"xx")

    def work(i):
        signal.alarm(60)
        fd = os.open(path, os.O_RDWR)
        fcntl.lockf(fd, fcntl.LOCK_EX, 1, i)
        put(readies[i])
        wait_for(lambda: os.path.exists(readies[1 - i]))
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX, 1, 1 - i)
        except OSError as error:
            assert error.errno == errno.EDEADLK, error
            put(f"{d}/told{i}")

    all_well(children(2, work))
    told = [name for name in os.listdir(d) if name.startswith("told")]
    assert len(told) == 1, told


def shared_mapping(d):
    """Two processes see each other's writes through a shared mapping, and `read` sees both."""
    path = f"{d}/f"
    put(path, bytes(1 << 20))

    def work(i):
        fd = os.open(path, os.O_RDWR)
        with mmap.mmap(fd, 1 << 20) as view:
            for turn in range(1, 200):
                view[i * 4096] = turn
                wait_for(lambda: view[(1 - i) * 4096] >= turn)
            view[500_000 + i:500_001 + i] = b"z"

    all_well(children(2, work))
    data = get(path)
    assert (data[0], data[4096], data[500_000:500_002]) == (199, 199, b"zz")
    # A write shows in a mapping that is there already.
    fd = os.open(path, os.O_RDWR)
    with mmap.mmap(fd, 1 << 20, prot=mmap.PROT_READ) as view:
        assert view[7] == 0
        os.pwrite(fd, b"seen", 7)
        assert view[7:11] == b"seen"
    os.truncate(path, 100)
    with mmap.mmap(fd, 100) as view:
        view[99] = 65
    os.truncate(path, 5000)
    assert get(path)[98:] == b"\0A" + bytes(4900), "bytes past a cut come back"


def rename_over_open(d):
    put(f"{d}/old", b"old" * 1000)
    put(f"{d}/new", b"new")
    fd = os.open(f"{d}/old", os.O_RDWR)
    os.rename(f"{d}/new", f"{d}/old")
    assert get(f"{d}/old") == b"new"
    assert os.pread(fd, 6, 0) == b"oldold" and os.fstat(fd).st_nlink == 0
    os.pwrite(fd, b"still", 3000)
    assert os.pread(fd, 5, 3000) == b"still"
    os.close(fd)
    assert get(f"{d}/old") == b"new"


def unlinked_open(d):
    path = f"{d}/f"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(fd, b"a" * 100_000)
    os.unlink(path)
    assert not os.path.exists(path)
    os.fsync(fd)
    os.pwrite(fd, b"b", 200_000)
    os.ftruncate(fd, 150_000)
    assert os.pread(fd, 200_000, 99_999) == b"a" + bytes(50_000)
    assert os.fstat(fd).st_nlink == 0
    put(path, b"another")
    assert os.pread(fd, 1, 0) == b"a" and get(path) == b"another"
    fails(errno.ENOENT, os.link, f"/proc/self/fd/{fd}-gone", f"{d}/back")
    os.mkdir(f"{d}/dir")
    where = os.open(f"{d}/dir", os.O_RDONLY)
    os.rmdir(f"{d}/dir")
    assert os.listdir(where) == []
    fails(errno.ENOENT, lambda: os.open("x", os.O_CREAT | os.O_RDWR, dir_fd=where))


def appends(d):
    path, lines = f"{d}/log", 1000
    put(path)

    def work(i):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        for n in range(lines):
            line = b"%d %d %s\n" % (i, n, b"x" * (n % 300))
            assert os.write(fd, line) == len(line)

    all_well(children(4, work))
    have = get(path).split(b"\n")
    assert have.pop() == b""
    want = {b"%d %d %s" % (i, n, b"x" * (n % 300)) for i in range(4) for n in range(lines)}
    assert len(have) == len(want) and set(have) == want, "lines are lost or torn"


def writes_side_by_side(d):
    """Two writers and two readers of the same bytes. A read may have parts of several writes, as on
    local file systems, but no byte that nobody wrote; and what is left is one write as a whole."""
    for turn in range(12):
        length, direct = (4096, 65536, 524288)[turn % 3], (0, os.O_DIRECT)[turn // 3 % 2]
        path = f"{d}/f{turn}"
        put(path, b"0" * length)

        def work(i):
            fd = os.open(path, os.O_RDWR | direct)
            with mmap.mmap(-1, length) as buffer:
                for n in range(60):
                    if i < 2:
                        buffer[:] = bytes([65 + i * 8 + n % 8]) * length
                        assert os.pwritev(fd, [buffer], 0) == length
                    else:
                        assert os.preadv(fd, [buffer], 0) == length
                        strange = set(buffer[:]) - set(b"0ABCDEFGHIJKLMNOP")
                        assert not strange, f"bytes that nobody wrote: {strange}"

        all_well(children(4, work))
        left = set(get(path))
        assert len(left) == 1, f"{length} bytes, direct {direct}: parts of writes are left: {left}"


def opens_beside_writes(d):
    """Whoever opens a file beside a write, directly or as the first after passthrough, does not bring
    back the bytes of before: no open empties the page cache while somebody writes."""
    # A small file is never lent; a large one is, to whoever only reads it, while nobody else does.
    for size, direct in ((64 << 10, os.O_DIRECT), (256 << 10, 0)):
        path = f"{d}/f{size}"
        put(path, bytes(size))
        phase = mmap.mmap(-1, 1)

        def beside(i):
            with mmap.mmap(-1, size) as buffer:
                while phase[0] != END:
                    if phase[0] == WAIT:
                        time.sleep(1e-4)
                        continue
                    fd = os.open(path, os.O_RDONLY | (direct if i == 0 else 0))
                    os.preadv(fd, [buffer], 0)
                    os.close(fd)

        pids = children(3, beside)
        try:
            end = time.monotonic() + 6
            while time.monotonic() < end:
                write_and_read_back(path, size, phase)
        finally:
            phase[0] = END
        all_well(pids)


WAIT, GO, END = range(3)


def write_and_read_back(path, size, phase):
    cell, pages, last = 1024, 16, {}
    if size > 128 << 10:
        # Cut to nothing it may be lent again, and is to this reader.
        put(path, bytes(size))
        time.sleep(1e-3)
        os.close(os.open(path, os.O_RDONLY))
    writer, reader = os.open(path, os.O_WRONLY), os.open(path, os.O_RDONLY)
    os.pread(reader, size, 0)
    phase[0] = GO
    for turn in range(1, 13):
        at = random.randrange(pages) * 4096 + cell
        last[at] = struct.pack("<Q", turn) * (cell // 8)
        assert os.pwrite(writer, last[at], at) == cell
        for at, data in last.items():
            found = os.pread(reader, cell, at)
            assert found == data, f"{size} bytes, write {turn}: old bytes at {at}"
    phase[0] = WAIT
    os.close(writer)
    os.close(reader)


def replaced_names(d):
    """A name that others replace all the time can be opened, looked at and listed at any time."""
    put(f"{d}/name", b"first")

    def work(i):
        for n in range(400):
            if i < 2:
                put(f"{d}/new{i}", b"%d" % n)
                os.rename(f"{d}/new{i}", f"{d}/name")
            else:
                assert get(f"{d}/name") and os.stat(f"{d}/name").st_size
                if n % 20 == 0:
                    assert "name" in os.listdir(d)

    all_well(children(6, work))


def privileges(d):
    """Whatever way a file is written, it loses what makes it run as somebody else: set-uid and
    set-gid if the writer is not privileged, capabilities always."""
    capability = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0)

    def write(path, flags=0, beside=False):
        reader = os.open(path, os.O_RDONLY) if beside else None
        fd = os.open(path, os.O_WRONLY | flags)
        with mmap.mmap(-1, 4096) as buffer:
            os.pwritev(fd, [buffer], 0)
        os.close(fd)
        if beside:
            os.close(reader)

    def copy(path):
        fd = os.open(path, os.O_RDWR)
        os.copy_file_range(fd, fd, 4096, 0, 65536)
        os.close(fd)

    def punch(path):
        fd = os.open(path, os.O_RDWR)
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.fallocate(fd, 3, ctypes.c_int64(0), ctypes.c_int64(4096)) == 0
        os.close(fd)

    ways = {
        "write": write,
        "direct": lambda path: write(path, os.O_DIRECT),
        "beside a reader": lambda path: write(path, 0, True),
        "direct beside a reader": lambda path: write(path, os.O_DIRECT, True),
        "truncate": lambda path: os.truncate(path, 1000),
        "O_TRUNC": lambda path: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
        "copy": copy,
        "punch": punch,
    }

    def user(way, path):
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        way(path)

    for n, (name, way) in enumerate(ways.items()):
        path = f"{d}/f{n}"
        for privileged in (False, True):
            put(path, b"x" * 300_000)
            # Twice, as what was once seen without may be remembered.
            for again in (False, True):
                os.chmod(path, 0o6777)
                os.setxattr(path, "security.capability", capability)
                all_well(children(1, lambda _: way(path) if privileged else user(way, path)))
                has = stat.S_IMODE(os.stat(path).st_mode)
                want = 0o6777 if privileged else 0o777
                assert has == want, f"{name}, privileged {privileged}: mode {has:o}, not {want:o}"
                assert os.listxattr(path) == [], f"{name}, privileged {privileged}: capabilities"


def sparse(d):
    fd = os.open(f"{d}/f", os.O_RDWR | os.O_CREAT)
    for at in (0, 1 << 30, TIB, 15 * TIB):
        os.pwrite(fd, b"at %d" % at, at)
    found = os.fstat(fd)
    assert found.st_size == 15 * TIB + len(b"at %d" % (15 * TIB))
    assert found.st_blocks * 512 < 64 << 20, "holes take room"
    assert os.pread(fd, 4096, (1 << 30) - 2048) == bytes(2048) + b"at 1073741824" + bytes(2035)
    os.close(fd)


def sizes(d):
    """The largest file is 16 TiB less a page, as on ext4."""
    path, largest = f"{d}/f", 16 * TIB - 4096
    put(path)
    os.truncate(path, largest)
    assert os.stat(path).st_size == largest
    fd = os.open(path, os.O_RDWR)
    os.pwrite(fd, b"end", largest - 3)
    assert os.pread(fd, 10, largest - 3) == b"end"
    fails(errno.EFBIG, os.truncate, path, largest + 1)
    fails(errno.EFBIG, os.pwrite, fd, b"x", largest)
    assert os.stat(path).st_size == largest
    os.fsync(fd)
    os.close(fd)


def long_names(d):
    for name in (b"n" * 255, "é".encode() * 127, bytes(c for c in range(1, 256) if c != 47)):
        path = os.fsencode(d) + b"/" + name
        put(path, name)
        assert name in os.listdir(os.fsencode(d)) and get(path) == name
    fails(errno.ENAMETOOLONG, put, f"{d}/{'n' * 256}")
    fails(errno.ENAMETOOLONG, os.mkdir, f"{d}/{'n' * 256}")
    os.symlink("t" * 4095, f"{d}/link")
    assert os.readlink(f"{d}/link") == "t" * 4095


def xattrs(d):
    path = f"{d}/f"
    put(path)
    for name, size in (("user.empty", 0), ("user.some", 100), ("user.large", 65536),
                       ("trusted.t", 5), ("security.s", 9), ("user." + "n" * 250, 1)):
        os.setxattr(path, name, b"v" * size)
        assert os.getxattr(path, name) == b"v" * size
    assert len(os.listxattr(path)) == 6, os.listxattr(path)
    fails(errno.EEXIST, os.setxattr, path, "user.some", b"", os.XATTR_CREATE)
    fails(errno.ENODATA, os.setxattr, path, "user.none", b"", os.XATTR_REPLACE)
    fails(errno.ENODATA, os.getxattr, path, "user.none")
    fails(errno.EOPNOTSUPP, os.setxattr, path, "system.posix_acl_access", b"\2\0\0\0")
    os.removexattr(path, "user.large")
    assert "user.large" not in os.listxattr(path)


def times(d):
    path = f"{d}/f"
    put(path)
    for ns in (1_234_567_890_123_456_789, 0, -1_500_000_000, 4_000_000_000_000_000_001):
        os.utime(path, ns=(ns, ns + 7))
        found = os.stat(path)
        assert (found.st_atime_ns, found.st_mtime_ns) == (ns, ns + 7), (ns, found)
    # A change moves the times on, by the clock that `time` shows.
    now = time.time_ns()
    os.utime(path, ns=(5, 5))
    with open(path, "ab") as file:
        file.write(b"x")
    found = os.stat(path)
    assert abs(found.st_mtime_ns - now) < 60 * 10**9 and found.st_ctime_ns >= found.st_mtime_ns
    before = os.stat(d).st_mtime_ns
    time.sleep(0.02)
    put(f"{d}/g")
    assert os.stat(d).st_mtime_ns > before, "a directory's time stands still"
    os.utime(path, ns=(5, 1_234_567_890_123_456_789))


def holes(d):
    path, mib = f"{d}/f", 1 << 20
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, b"a" * mib, 4 * mib)
    os.ftruncate(fd, 10 * mib)
    assert os.lseek(fd, 0, os.SEEK_DATA) == 4 * mib
    assert os.lseek(fd, 4 * mib, os.SEEK_HOLE) == 5 * mib
    assert os.lseek(fd, 0, os.SEEK_HOLE) == 0
    fails(errno.ENXIO, os.lseek, fd, 5 * mib, os.SEEK_DATA)
    fails(errno.ENXIO, os.lseek, fd, 10 * mib, os.SEEK_HOLE)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.fallocate(fd, 3, ctypes.c_int64(4 * mib + 65536), ctypes.c_int64(131072)) == 0
    assert os.lseek(fd, 4 * mib, os.SEEK_HOLE) == 4 * mib + 65536
    assert os.lseek(fd, 4 * mib + 65536, os.SEEK_DATA) == 4 * mib + 196608
    assert os.pread(fd, mib, 4 * mib) == b"a" * 65536 + bytes(131072) + b"a" * (mib - 196608)
    os.close(fd)


def hard_links(d):
    put(f"{d}/a", b"one")
    for i in range(500):
        os.link(f"{d}/a", f"{d}/l{i}")
    found = os.stat(f"{d}/l77")
    assert found.st_nlink == 501 and found.st_ino == os.stat(f"{d}/a").st_ino
    os.unlink(f"{d}/a")
    put(f"{d}/l3", b"changed")
    assert get(f"{d}/l499") == b"changed" and os.stat(f"{d}/l0").st_nlink == 500
    fails(errno.EPERM, os.link, d, f"{d}/dirlink")


def special_files(d):
    os.mknod(f"{d}/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(f"{d}/block", stat.S_IFBLK | 0o600, os.makedev(259, 70000))
    os.mkfifo(f"{d}/fifo")
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(d)
        server.bind("socket")
        server.listen()
        pids = children(1, lambda _: socket.socket(socket.AF_UNIX).connect("socket"))
        server.accept()
        all_well(pids)
        os.chdir("/")
    put(f"{d}/null", b"gone")
    assert get(f"{d}/null") == b""
    assert os.stat(f"{d}/block").st_rdev == os.makedev(259, 70000)
    pids = children(1, lambda _: put(f"{d}/fifo", b"through"))
    assert get(f"{d}/fifo") == b"through"
    all_well(pids)


def statfs(d):
    found = os.statvfs(d)
    assert found.f_blocks * found.f_frsize >= 1 << 50 and found.f_namemax == 255
    assert 0 < found.f_bfree <= found.f_blocks


def check_kept(d):
    """What the scenes left, read from the bucket."""
    fd = os.open(f"{d}/sparse/f", os.O_RDONLY)
    for at in (0, 1 << 30, TIB, 15 * TIB):
        want = b"at %d" % at
        assert os.pread(fd, len(want), at) == want
    fd = os.open(f"{d}/sizes/f", os.O_RDONLY)
    assert os.pread(fd, 10, 16 * TIB - 4099) == b"end"
    assert os.stat(f"{d}/long_names/{'n' * 255}").st_size == 255
    assert os.getxattr(f"{d}/xattrs/f", "user.some") == b"v" * 100
    assert os.stat(f"{d}/times/f").st_mtime_ns == 1_234_567_890_123_456_789
    assert os.stat(f"{d}/hard_links/l3").st_nlink == 500
    assert get(f"{d}/hard_links/l9") == b"changed"
    assert stat.S_ISSOCK(os.stat(f"{d}/special_files/socket").st_mode)
    assert stat.S_ISFIFO(os.stat(f"{d}/special_files/fifo").st_mode)
    assert os.stat(f"{d}/special_files/block").st_rdev == os.makedev(259, 70000)
    fd = os.open(f"{d}/holes/f", os.O_RDONLY)
    assert os.lseek(fd, 0, os.SEEK_DATA) == 4 << 20, "a hole became data"
    assert os.lseek(fd, 4 << 20, os.SEEK_HOLE) == (4 << 20) + 65536, "a hole was filled"
    assert len(get(f"{d}/appends/log").split(b"\n")) == 4001


scene, directory = sys.argv[1:]
globals()[scene](directory)
