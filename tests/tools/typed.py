#!/usr/bin/env python3
"""Runs a command at a terminal of its own, and types a line at each question.

  typed.py QUESTION=ANSWER [QUESTION=ANSWER...] -- COMMAND [ARG...]

Ends as the command does; what it wrote is on standard output. An answer is not shown, or this fails with 99."""

import os
import pty
import select
import sys
import time

at = sys.argv.index("--")
lines = [word.split("=", 1) for word in sys.argv[1:at]]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[at + 1], sys.argv[at + 1 :])
said, until = b"", time.monotonic() + 60
seen = 0
while time.monotonic() < until:
    if not select.select([terminal], [], [], 1)[0]:
        continue
    try:
        piece = os.read(terminal, 4096)
    except OSError:
        break
    if not piece:
        break
    said += piece
    if lines and lines[0][0].encode() + b": " in said[seen:]:
        seen = len(said)
        # It says what it asks before it stops to echo.
        time.sleep(0.3)
        os.write(terminal, lines.pop(0)[1].encode().decode("unicode_escape").encode() + b"\r")
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.stdout.write(said.decode(errors="replace"))
for word in sys.argv[1:at]:
    answer = word.split("=", 1)[1]
    if len(answer) > 3 and answer.encode() in said:
        status = 99
sys.exit(98 if lines else status)
