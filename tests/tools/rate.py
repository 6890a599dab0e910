#!/usr/bin/env python3
"""Moves bytes of a file past the page cache for some seconds; prints MiB a second.

rate.py read|write FILE SECONDS [BLOCK_BYTES]

The time ends with the last I/O that was answered, so a slow one is not cut short."""
import mmap
import os
import sys
import time

kind, path, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
block = int(sys.argv[4]) if len(sys.argv) > 4 else 65536
span = 8 << 20
flags = os.O_DIRECT | (os.O_RDONLY if kind == "read" else os.O_RDWR | os.O_CREAT)
fd = os.open(path, flags, 0o644)
buffer = mmap.mmap(-1, block)
buffer.write(os.urandom(block))
moved, began = 0, time.monotonic()
while time.monotonic() - began < seconds:
    at = moved % span
    count = os.preadv(fd, [buffer], at) if kind == "read" else os.pwrite(fd, buffer, at)
    assert count == block, f"{count} of {block} bytes"
    moved += count
took = time.monotonic() - began
os.close(fd)
print(f"{moved / took / (1 << 20):.3f}")
