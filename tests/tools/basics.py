#!/usr/bin/env python3
"""What programs have always asked of a file system that comes over a network: trees, names, attributes, holes, files
that are removed or replaced while they are open, and locks of ranges between processes.

    basics.py DIRECTORY [SECONDS]

Runs all of it in a new directory there, again and again until SECONDS are over (once by default), and says what was
not as POSIX has it. Nothing of it is allowed to fail because a server is killed meanwhile.
"""

import errno
import fcntl
import mmap
import os
import stat
import subprocess
import sys
import tempfile
import time

KIB = 1024
# For files that are locked: what one process asks of another.
LARGEST_OFFSET = 2**63 - 1


def expect(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: {got!r} instead of {wanted!r}")


def refused(number, what, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except OSError as error:
        expect(errno.errorcode.get(error.errno), errno.errorcode[number], what)
    else:
        raise AssertionError(f"{what}: not refused")


def written(path, data, flags=os.O_CREAT | os.O_WRONLY | os.O_TRUNC):
    file = os.open(path, flags, 0o644)
    expect(os.write(file, data), len(data), f"a write to {path}")
    os.close(file)


def read(path):
    with open(path, "rb") as file:
        return file.read()


# Names.


def trees():
    def grow(at, depth):
        for n in range(3):
            written(f"{at}/f{n}", b"")
        for n in range(2 if depth else 0):
            os.mkdir(f"{at}/d{n}")
            grow(f"{at}/d{n}", depth - 1)

    os.mkdir("tree")
    grow("tree", 3)
    found = [(len(dirs), len(files)) for _, dirs, files in os.walk("tree")]
    expect((sum(d for d, _ in found), sum(f for _, f in found)), (14, 45), "directories and files of a tree")
    refused(errno.ENOTEMPTY, "a directory that has files is removed", os.rmdir, "tree")
    for at, dirs, files in os.walk("tree", topdown=False):
        for name in files:
            os.unlink(f"{at}/{name}")
        for name in dirs:
            os.rmdir(f"{at}/{name}")
    os.rmdir("tree")
    refused(errno.ENOENT, "what was removed", os.stat, "tree")


def where_one_is():
    here = os.getcwd()
    os.makedirs("a/b")
    os.chdir("a/b")
    expect(os.getcwd(), f"{here}/a/b", "the working directory")
    os.rename("../../a", "../../moved")
    expect(os.getcwd(), f"{here}/moved/b", "the working directory, whose parent has moved")
    os.chdir("../..")
    expect(os.getcwd(), here, "the parent of the parent")


def links():
    written("a", b"x")
    for n in range(9):
        os.link("a", f"l{n}")
    expect(os.stat("l3").st_nlink, 10, "links")
    os.rename("l0", "l1")
    expect((os.stat("a").st_nlink, os.path.exists("l0")), (10, True), "a link renamed to another of its file")
    written("b", b"y")
    os.rename("b", "l0")
    expect((os.stat("a").st_nlink, read("l0")), (9, b"y"), "a link that is replaced")
    refused(errno.EEXIST, "a link in place of a file", os.link, "a", "l5")
    os.symlink("no/such", "s")
    expect((os.readlink("s"), stat.S_ISLNK(os.lstat("s").st_mode)), ("no/such", True), "a symlink")
    refused(errno.ENOENT, "a symlink to nothing", os.stat, "s")
    refused(errno.EEXIST, "a symlink in place of one", os.symlink, "x", "s")


def many_names():
    os.mkdir("many")
    names = {f"file.{n:03}" for n in range(80)}
    for name in names:
        written(f"many/{name}", b"")
    expect(set(os.listdir("many")), names, "names of a directory")
    seen = []
    with os.scandir("many") as entries:
        for entry in entries:
            seen.append(entry.name)
            if len(seen) % 2:
                os.unlink(f"many/{entry.name}")
    expect((set(seen), len(seen)), (names, 80), "names that are removed while they are listed")
    expect(set(os.listdir("many")), set(seen[1::2]), "names that are left")


def only_once():
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    written("once", b"", flags)
    refused(errno.EEXIST, "a file that is made twice", os.open, "once", flags)
    for _ in range(15):
        os.mkdir("again")
        os.rename("again", "other")
        os.rmdir("other")
        written("f", b"", flags)
        os.unlink("f")
        refused(errno.ENOENT, "a file that is removed twice", os.unlink, "f")


# Attributes.


def modes():
    for n in range(10):
        written(f"m{n}", b"")
    for n in range(10):
        os.chmod(f"m{n}", 0)
        expect(stat.S_IMODE(os.stat(f"m{n}").st_mode), 0, "no permissions")
        os.chmod(f"m{n}", 0o4755)
        expect(stat.S_IMODE(os.stat(f"m{n}").st_mode), 0o4755, "permissions")


def times():
    written("t", b"x")
    os.utime("t", ns=(1_000_000_000, 2_000_000_001))
    got = os.stat("t")
    expect((got.st_atime_ns, got.st_mtime_ns), (1_000_000_000, 2_000_000_001), "times that were set")
    before = got.st_ctime_ns
    time.sleep(0.02)
    written("t", b"y", os.O_WRONLY)
    got = os.stat("t")
    expect(got.st_mtime_ns > before and got.st_ctime_ns > before, True, "a write moves the times")
    os.mkdir("td")
    before = os.stat("td").st_mtime_ns
    time.sleep(0.02)
    written("td/f", b"")
    expect(os.stat("td").st_mtime_ns > before, True, "a name moves its directory's time")


def room():
    got = os.statvfs(".")
    expect(got.f_blocks >= got.f_bfree >= got.f_bavail > 0, True, f"room: {got}")
    expect(got.f_namemax, 255, "the longest name")
    refused(errno.ENAMETOOLONG, "a name of 256", os.mkdir, "n" * 256)
    os.mkdir("n" * 255)


# Bytes.


def large():
    block = bytes(range(256)) * 32
    with open("large", "wb") as file:
        for n in range(128):
            file.write(n.to_bytes(4, "big") + block[4:])
    expect(os.stat("large").st_size, 1024 * KIB, "the size of a file")
    with open("large", "rb") as file:
        for n in range(128):
            expect(file.read(8 * KIB), n.to_bytes(4, "big") + block[4:], f"block {n}")
        expect(file.read(1), b"", "past its end")


def holes():
    file = os.open("holes", os.O_CREAT | os.O_RDWR)
    for at in (0, 300 * KIB, 5 * KIB * KIB):
        os.pwrite(file, b"data", at)
    expect(os.pread(file, 8, 300 * KIB - 4), b"\0\0\0\0data", "before and in what was written")
    expect(os.pread(file, 100 * KIB, 100 * KIB), bytes(100 * KIB), "a hole")
    refused(errno.EINVAL, "before the beginning", os.lseek, file, -1, os.SEEK_SET)
    os.ftruncate(file, 2)
    os.ftruncate(file, 10)
    expect(os.pread(file, 20, 0), b"da" + bytes(8), "cut and made longer")
    os.pwrite(file, b"far", 2**40)
    expect((os.fstat(file).st_size, os.pread(file, 9, 2**40)), (2**40 + 3, b"far"), "a byte at 1 TiB")
    os.close(file)


def appended():
    one, two = (os.open("log", os.O_CREAT | os.O_APPEND | os.O_WRONLY) for _ in range(2))
    for _ in range(20):
        os.write(one, b"one\n")
        os.write(two, b"two\n")
    os.close(one)
    os.close(two)
    expect(read("log"), b"one\ntwo\n" * 20, "two that append")


# Files that are open.


def removed():
    file = os.open("gone", os.O_CREAT | os.O_RDWR)
    os.write(file, b"before")
    os.unlink("gone")
    refused(errno.ENOENT, "a file that was removed", os.stat, "gone")
    os.pwrite(file, b"after", 6)
    expect((os.pread(file, 20, 0), os.fstat(file).st_size), (b"beforeafter", 11), "an open file without a name")
    os.close(file)
    # The kernel removes them behind the close, for as long as a server that was killed takes to come back.
    late = time.monotonic() + 60
    while (left := [name for name in os.listdir(".") if name.startswith(".nfs")]) and time.monotonic() < late:
        time.sleep(0.1)
    expect(left, [], "names that a client left")


def replaced():
    written("old", b"old")
    written("new", b"new")
    file = os.open("old", os.O_RDWR)
    os.rename("new", "old")
    expect((os.pread(file, 9, 0), read("old")), (b"old", b"new"), "a file that is replaced while it is open")
    os.pwrite(file, b"OLD", 0)
    expect((os.pread(file, 9, 0), read("old")), (b"OLD", b"new"), "and written to")
    os.close(file)


def closed_to_others():
    file = os.open("mine", os.O_CREAT | os.O_RDWR)
    os.fchmod(file, 0)
    os.write(file, b"still")
    os.fsync(file)
    expect(os.pread(file, 9, 0), b"still", "an open file whose permissions were taken")
    os.close(file)


# Locks, as another process sees them.


def other(body):
    """Runs `body` in a process of its own, which is what has a lock."""
    program = f"import fcntl, os, sys, time\nfile = os.open('locked', os.O_RDWR)\n{body}"
    return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


TRY = """
for start, length in {ranges}:
    try:
        fcntl.lockf(file, fcntl.LOCK_{kind} | fcntl.LOCK_NB, length, start)
        sys.stdout.write('1')
        fcntl.lockf(file, fcntl.LOCK_UN, length, start)
    except OSError:
        sys.stdout.write('0')
"""


def free(*ranges, kind="EX"):
    """Which of the ranges another process can lock, a character each."""
    return other(TRY.format(ranges=ranges, kind=kind)).communicate()[0].decode()


def locks():
    file = os.open("locked", os.O_CREAT | os.O_RDWR)
    os.write(file, bytes(100))
    fcntl.lockf(file, fcntl.LOCK_EX)
    expect(free((0, 0), (0, 1), (1, 2), (1000, 1)), "0000", "a whole file that is locked")
    fcntl.lockf(file, fcntl.LOCK_UN, 10, 20)
    expect(free((0, 20), (20, 10), (19, 2), (30, 1), (5000, 0)), "01000", "a lock of which the middle was let go")
    fcntl.lockf(file, fcntl.LOCK_SH, 10, 20)
    expect(free((20, 10)) + free((20, 10), kind="SH"), "01", "a lock that is shared")
    fcntl.lockf(file, fcntl.LOCK_UN)
    expect(free((0, 0)), "1", "a file that is unlocked")
    fcntl.lockf(file, fcntl.LOCK_EX, 1, LARGEST_OFFSET - 1)
    expect(free((LARGEST_OFFSET - 1, 1), (LARGEST_OFFSET - 2, 1)), "01", "the last byte there can be")
    # Whoever closes any descriptor of a file lets go of all that the process has.
    os.close(os.open("locked", os.O_RDONLY))
    expect(free((0, 0)), "1", "after a close of another descriptor")
    os.close(file)


def locks_of_the_dead():
    written("locked", bytes(10))
    holder = other("fcntl.lockf(file, fcntl.LOCK_EX)\nprint('locked', flush=True)\nsys.stdin.read()")
    expect(holder.stdout.readline(), b"locked\n", "who locks")
    expect(free((0, 0)), "0", "what another process has locked")
    waiter = other("fcntl.lockf(file, fcntl.LOCK_EX)\nprint('mine')")
    time.sleep(0.1)
    expect(waiter.poll(), None, "who waits for it")
    holder.kill()
    holder.communicate()
    expect(waiter.communicate()[0], b"mine\n", "who waited for a lock of a process that was killed")


def counted():
    """Two processes that count in one file by turns, each under a lock."""
    written("locked", b"0")
    body = """
for _ in range(20):
    fcntl.lockf(file, fcntl.LOCK_EX)
    count = int(os.pread(file, 20, 0))
    os.pwrite(file, str(count + 1).encode(), 0)
    fcntl.lockf(file, fcntl.LOCK_UN)
"""
    for counter in [other(body) for _ in range(2)]:
        expect((counter.communicate()[0], counter.returncode), (b"", 0), "who counts")
    expect(read("locked"), b"40", "what two counted")


def mapped():
    written("mapped", bytes(8 * KIB))
    with open("mapped", "r+b") as file, mmap.mmap(file.fileno(), 8 * KIB) as pages:
        pages[4096:4100] = b"page"
        pages.flush()
    expect(read("mapped"), bytes(4096) + b"page" + bytes(4092), "what was stored to a mapping")


ALL = [
    trees, where_one_is, links, many_names, only_once, modes, times, room, large, holes, appended, removed, replaced,
    closed_to_others, locks, locks_of_the_dead, counted, mapped,
]  # fmt: skip


def main():
    root, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0
    until, rounds, wrong = time.monotonic() + seconds, 0, 0
    while not rounds or (time.monotonic() < until and not wrong):
        for test in ALL:
            with tempfile.TemporaryDirectory(prefix=f"{test.__name__}.", dir=root) as at:
                os.chdir(at)
                try:
                    test()
                except (AssertionError, OSError, ValueError) as error:
                    wrong += 1
                    print(f"{test.__name__}: {error}")
                os.chdir("/")
        rounds += 1
    print(f"{len(ALL)} tests, {rounds} times, {wrong} wrong")
    sys.exit(bool(wrong))


main()
