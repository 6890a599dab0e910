#!/usr/bin/env python3
"""Makes a script of the command blocks of a document, as they are written.

A block that begins with ```sh is run. One that cannot be run here says why behind that, in one word
(```sh needs-nbd): with WORD, those of this word are run, and nothing else. What has commands in a
block of no kind is a mistake, and ends this with 1.

usage: blocks.py FILE [WORD]
"""
import re
import sys

COMMAND = re.compile(r"^(weir|lfs|make|mount|cp|zpool|nbd\w+|qemu-\w+|rsync) ", re.M)

path, wanted = sys.argv[1], ["sh", *sys.argv[2:]]
with open(path) as file:
    text = file.read()
for block in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.M | re.S):
    kind, commands = block.group(1).split(), block.group(2)
    line = text.count("\n", 0, block.start()) + 2
    if kind == wanted:
        # A shell says the command that failed as it was written; this says where.
        print(f"WHERE='{path}:{line}'\n{commands}")
    elif kind[:1] == ["sh"] and len(kind) <= 2:
        if wanted == ["sh"]:
            print(f"{path}:{line}: not run here: {kind[1]}", file=sys.stderr)
    elif not kind and COMMAND.search(commands):
        sys.exit(f"{path}:{line}: a block with commands: call it `sh`, or `sh WHY-IT-IS-NOT-RUN`")
