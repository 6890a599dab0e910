"""Rows of NFS, by `bench-nfs` of crates/bench, a client that has no kernel and no cache: one file of
1 MiB reads and writes, 4 KiB anywhere in it, and names. Requests come eight at a time unless the row says one.

Beside weir stands NFS-Ganesha over a directory of the local disk.
"""

import json
import os

from .site import run as run_program

MIB = 1 << 20
READS = 4  # times that the whole file is read
ROUNDS = 20_000  # of 4 KiB reads, and of looks at names, as the client has it
CLIENT = "bench-nfs"  # beside the binary of weir


def load(run, target, *parts):
    """What the client says of these parts."""
    program = os.path.join(os.path.dirname(os.environ["WEIR"]), CLIENT)
    size, files = max(run.settings.large_mib // 4, 4), run.settings.files // 5
    told = run_program(program, target.address, target.path, size, files, *parts, timeout=900)
    return json.loads(told), size


def large(run, target):
    """Writes a file and commits it, and reads it when it is here."""
    with run.probe(target) as cost:
        told, size = load(run, target, "write")
    run.add("nfs-write", target, told["write_mib_s"], cost, bytes=size * MIB)
    load(run, target, "read")
    with run.probe(target) as cost:
        told, size = load(run, target, "read")
    run.add("nfs-read", target, told["read_mib_s"], cost, bytes=READS * size * MIB)
    with run.probe(target) as cost:
        told, _ = load(run, target, "random")
    for row, name in (("nfs-random-1", "read_4k_s"), ("nfs-random", "read_4k_8_s")):
        run.add(row, target, told[name], cost, ops=2 * ROUNDS)
    load(run, target, "remove")


def names(run, target):
    """Makes and closes files, looks at them, removes them."""
    told, _ = load(run, target, "names")
    for what in ("create", "stat", "remove"):
        for row, name in ((f"nfs-{what}-1", f"{what}_s"), (f"nfs-{what}", f"{what}_8_s")):
            run.add(row, target, told[name], None)


PHASES = (
    ("large", {"nfs"}, True, large),
    ("names", {"nfs"}, True, names),
)
