#!/usr/bin/env python3
"""Files written beside a disk that fails, and what must hold of them afterwards.

  flakey.py write DIR ACKED SEED   writes and fsyncs files in DIR until SIGTERM; ACKED gets a line for
                                   each fsync that succeeded
  flakey.py check DIR ACKED        what was acknowledged is there; nothing has bytes that nobody wrote

A file of generation g has in each 64 bytes its name, g and the offset, so any byte tells where it is from.
"""
import os
import random
import re
import signal
import sys
import time

SIZES = [4096, 70_000, 300_000, 3_000_000]


def stamped(name, generation, size):
    cells = (f"{name} {generation} {offset}".ljust(63, ".") + "\n" for offset in range(0, size, 64))
    return "".join(cells).encode()[:size]


def write(directory, acked, seed):
    chance = random.Random(seed)
    ended = False

    def end(*_):
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    generation = 0
    failed = 0
    with open(acked, "a", buffering=1) as told:
        while not ended:
            generation += 1
            # Some are written again and again; the others keep their promise to the end.
            name = f"f{chance.randrange(8)}" if chance.random() < 0.5 else f"n{seed}.{generation}"
            size = chance.choice(SIZES)
            stamp = f"{seed}.{generation}"
            try:
                # What a replaced file was is no longer promised from here on.
                told.write(f"begin {name} {stamp} {size}\n")
                with open(f"{directory}/{name}", "wb") as file:
                    file.write(stamped(name, stamp, size))
                    file.flush()
                    if chance.random() < 0.6:
                        os.fsync(file.fileno())
                        told.write(f"fsynced {name} {stamp} {size}\n")
            except OSError:
                failed += 1
                time.sleep(0.05)
    print(f"{generation} files written, {failed} refused")


def check(directory, acked):
    begun, last = {}, {}
    with open(acked) as told:
        for line in told:
            what, name, stamp, size = line.split()
            if what == "begin":
                begun.setdefault(name, {})[stamp] = int(size)
                last[name] = None
            else:
                last[name] = (stamp, int(size))
    wrong = []
    for name, generations in sorted(begun.items()):
        try:
            with open(f"{directory}/{name}", "rb") as file:
                data = file.read()
        except FileNotFoundError:
            data = b""
        except OSError as error:
            if last[name]:
                wrong.append(f"{name}: fsynced as {last[name][0]}, and now {error}")
            continue
        if last[name]:
            stamp, size = last[name]
            if data != stamped(name, stamp, size):
                wrong.append(f"{name}: not what was fsynced as {stamp}: {len(data)} bytes, {data[:48]!r}")
            continue
        for offset in range(0, len(data), 64):
            cell = data[offset:offset + 64]
            match = re.match(rb"(\S+) (\S+) (\d+)\.*\n?$", cell)
            if cell.strip(b"\0") and not (
                match and match[1].decode() == name and match[2].decode() in generations
                and int(match[3]) == offset or len(cell) < 64
            ):
                wrong.append(f"{name}: at {offset} has {cell!r}, which nobody wrote there")
                break
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(begun)} files looked at, {sum(1 for at in last.values() if at)} of them fsynced")


if sys.argv[1] == "write":
    write(sys.argv[2], sys.argv[3], int(sys.argv[4]))
else:
    check(sys.argv[2], sys.argv[3])
