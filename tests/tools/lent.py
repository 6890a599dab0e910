#!/usr/bin/env python3
"""Files that the kernel of one node reads without the daemon while another node changes them.

usage: lent.py A B STATUS...   A and B are two nodes; `STATUS...` prints how many opens of B the kernel served.
With KEEP=1 it waits in between, with files open, for a line: B's daemon may be replaced. With CUT=FILE it is
about the time that B's bucket is away, and orders that by this file (tools/cuts.py).
"""

import errno
import fcntl
import mmap
import os
import subprocess
import sys
import time

A, B = sys.argv[1:3]
PAGE = 4096
MIB = 1 << 20
open_files = []


def say(text):
    print("  " + text, flush=True)


def lent_opens():
    return int(subprocess.run(sys.argv[3:], check=True, capture_output=True, text=True).stdout)


def put(node, name, data, offset=0, flags=os.O_CREAT):
    fd = os.open(f"{node}/{name}", os.O_WRONLY | flags, 0o644)
    try:
        done = 0
        while done < len(data):
            done += os.pwrite(fd, data[done:], offset + done)
    finally:
        os.close(fd)


def whole(fd, size=None):
    size = os.fstat(fd).st_size if size is None else size
    data = b""
    while len(data) < size:
        part = os.pread(fd, size - len(data), len(data))
        if not part:
            break
        data += part
    return data


def get(node, name):
    fd = os.open(f"{node}/{name}", os.O_RDONLY)
    try:
        return whole(fd)
    finally:
        os.close(fd)


def same(have, want, what):
    if have != want:
        n = next((n for n, (a, b) in enumerate(zip(have, want)) if a != b), min(len(have), len(want)))
        sys.exit(f"{what}: {len(have)} bytes for {len(want)}, other from {n} on: "
                 f"{have[n:n + 16]!r} for {want[n:n + 16]!r}")


def lent(name, size, fill=b"o"):
    """A file of A that B has open and mapped, and that B's kernel reads by itself."""
    put(A, name, fill * size)
    same(get(B, name), fill * size, f"{name} as it was made")
    before = lent_opens()
    fd = os.open(f"{B}/{name}", os.O_RDONLY)
    if lent_opens() == before:
        sys.exit(f"{name} is not read without the daemon")
    open_files.append(fd)
    return fd, mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ)


def little_changed():
    fd, mapped = lent("little", 3 * MIB)
    want = bytearray(b"o" * 3 * MIB)
    put(A, "little", b"n" * PAGE, MIB + 5 * PAGE)
    want[MIB + 5 * PAGE:MIB + 6 * PAGE] = b"n" * PAGE
    same(get(B, "little"), want, "an open after a close")
    same(whole(fd), want, "who has it open")
    same(mapped[:], want, "who has it mapped")
    put(A, "little", b"t" * 100, 3 * MIB)
    want += b"t" * 100
    same(get(B, "little"), want, "an open after an append")
    same(whole(fd), want, "who has it open, after an append")
    os.truncate(f"{A}/little", 2 * MIB + 10)
    if os.stat(f"{B}/little").st_size != 2 * MIB + 10:
        sys.exit("a stat after a truncation tells another size")
    same(get(B, "little"), want[:2 * MIB + 10], "an open after a truncation")
    same(whole(fd), want[:2 * MIB + 10], "who has it open, after a truncation")


def followed():
    """As `tail -f` does, on a file that grows line by line."""
    fd, mapped = lent("log", 20 * MIB)
    mapped.close()
    seen = 20 * MIB
    for turn in range(4):
        line = b"line %d\n" % turn
        log = os.open(f"{A}/log", os.O_WRONLY | os.O_APPEND)
        os.write(log, line)
        os.close(log)
        until = time.monotonic() + 10
        while os.fstat(fd).st_size == seen:
            if time.monotonic() > until:
                sys.exit("fstat tells no new size within 10 s")
            time.sleep(0.2)
        same(os.pread(fd, 100, seen), line, "what was appended")
        seen += len(line)
    # By a program of its own node.
    log = os.open(f"{B}/log", os.O_WRONLY | os.O_APPEND)
    os.write(log, b"here\n")
    os.close(log)
    same(os.pread(fd, 100, seen), b"here\n", "what was appended here")


def all_changed():
    size = 24 * MIB
    fd, mapped = lent("large", size)
    put(A, "large", b"n" * size)
    same(get(B, "large"), b"n" * size, "an open after a close")
    for have in (whole(fd, size), mapped[:]):
        if have.strip(b"o") and have.strip(b"n"):
            sys.exit("who has it open reads bytes of nobody: " + repr(bytes(set(have))))
    try:
        fcntl.lockf(fd, fcntl.LOCK_SH)
        same(whole(fd), b"n" * size, "who locked it")
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
        say("a lock of a file as it was is refused")
    other = os.open(f"{B}/large", os.O_RDONLY)
    fcntl.lockf(other, fcntl.LOCK_SH)
    same(whole(other), b"n" * size, "who opened it again and locked it")
    os.close(other)


def written_here():
    fd, mapped = lent("here", 3 * MIB)
    want = bytearray(b"o" * 3 * MIB)
    writer = os.open(f"{B}/here", os.O_RDWR)
    os.pwrite(writer, b"w" * 10, 77)
    want[77:87] = b"w" * 10
    same(whole(fd), want, "who has it open, while somebody writes here")
    same(mapped[:], want, "who has it mapped, while somebody writes here")
    same(whole(writer), want, "who writes")
    stores = mmap.mmap(writer, 3 * MIB)
    stores[2 * MIB:2 * MIB + 5] = b"store"
    want[2 * MIB:2 * MIB + 5] = b"store"
    same(get(B, "here"), want, "who opens it while somebody has it mapped for writing")
    # Beside it another node writes other bytes, of the same pages too.
    put(A, "here", b"a" * 10, 2 * MIB + 100)
    want[2 * MIB + 100:2 * MIB + 110] = b"a" * 10
    put(A, "here", b"a" * 10, MIB)
    want[MIB:MIB + 10] = b"a" * 10
    os.pwrite(writer, b"w" * 10, MIB + 20)
    want[MIB + 20:MIB + 30] = b"w" * 10
    stores.flush()
    stores.close()
    os.fsync(writer)
    os.close(writer)
    have = get(A, "here")
    # A page that was stored into leaves whole, and it is one's or the other's.
    page = slice(2 * MIB, 2 * MIB + PAGE)
    same(have[page][:5], b"store", "what was stored, on the other node")
    have = have[:page.start] + bytes(want[page]) + have[page.stop:]
    same(have, want, "what both wrote, on the other node")


def locked():
    fd, _ = lent("locked", MIB)
    writer = os.open(f"{A}/locked", os.O_RDWR)
    fcntl.lockf(writer, fcntl.LOCK_EX)
    os.pwrite(writer, b"l" * 20, 500)
    fcntl.lockf(writer, fcntl.LOCK_UN)
    fcntl.lockf(fd, fcntl.LOCK_SH)
    same(os.pread(fd, 20, 500), b"l" * 20, "what was written under a lock, through what was open")
    fcntl.lockf(fd, fcntl.LOCK_UN)
    os.close(writer)


def gone():
    fd, mapped = lent("gone", MIB)
    os.unlink(f"{A}/gone")
    time.sleep(0.5)
    same(whole(fd), b"o" * MIB, "who has a removed file open")
    same(mapped[:], b"o" * MIB, "who has a removed file mapped")
    fd, _ = lent("replaced", MIB)
    put(A, "new", b"n" * MIB)
    os.rename(f"{A}/new", f"{A}/replaced")
    same(get(B, "replaced"), b"n" * MIB, "an open after a rename over it")
    same(whole(fd), b"o" * MIB, "who has a replaced file open")


def bucket_away():
    def order(word):
        with open(os.environ["CUT"] + ".new", "w") as file:
            file.write(word + "\n")
        os.rename(os.environ["CUT"] + ".new", os.environ["CUT"])
        until = time.monotonic() + 20
        while open(os.environ["CUT"] + ".obeyed").read() != word:
            if time.monotonic() > until:
                sys.exit(f"the proxy does not obey: {word}")
            time.sleep(0.01)

    fd, mapped = lent("away", MIB)
    order("silent")
    put(A, "away", b"n" * MIB)
    began = time.monotonic()
    other = os.open(f"{B}/away", os.O_RDONLY)
    took = time.monotonic() - began
    if took > 20:
        sys.exit(f"an open waits {took:.1f} s for the bucket")
    for have in (whole(fd, MIB), mapped[:]):
        same(have, b"o" * MIB, "who has it open")
    order("pass")
    same(whole(other), b"n" * MIB, "who opened it after the close")
    same(get(B, "away"), b"n" * MIB, "who opens it again")
    os.close(other)


def replaced():
    """Whoever started this replaces the daemon of B meanwhile: files are open that are as they were, that went,
    and others."""
    kept, _ = lent("kept", MIB)
    frozen, _ = lent("frozen", 20 * MIB)
    put(A, "frozen", b"n" * 20 * MIB)
    same(get(B, "frozen"), b"n" * 20 * MIB, "an open after a close")
    print("kept", flush=True)
    sys.stdin.readline()
    same(whole(kept), b"o" * MIB, "who has it open, after the daemon was replaced")
    put(A, "kept", b"k" * 10, 5)
    want = b"o" * 5 + b"k" * 10 + b"o" * (MIB - 15)
    same(get(B, "kept"), want, "an open after that")
    same(whole(kept), want, "who has it open since before")
    if set(whole(frozen, 20 * MIB)) != {ord("o")}:
        sys.exit("who has a file open as it was reads other bytes")
    same(get(B, "frozen"), b"n" * 20 * MIB, "an open of it")
    put(B, "frozen", b"b" * 10, 9)
    want = b"n" * 9 + b"b" * 10 + b"n" * (20 * MIB - 19)
    same(get(A, "frozen"), want, "what is written there, on the other node")
    same(get(B, "frozen"), want, "and there")


TESTS = (little_changed, followed, all_changed, written_here, locked, gone)
if "CUT" in os.environ:
    TESTS = (bucket_away,)
if "KEEP" in os.environ:
    TESTS = (replaced,)
for test in TESTS:
    say(test.__name__.replace("_", " "))
    test()
