"""Work done by several processes at once.

Processes, not threads: Python's interpreter lock would else be what is measured. They are forked and
ready before the clock starts.
"""

import json
import os
import signal
import sys
import time
import traceback


def run_jobs(count, work):
    """Runs work(i) in `count` processes at once: seconds until the last is done, and what each
    returned. It must be plain data."""
    ready, release = os.pipe(), os.pipe()
    pids, answers = [], []
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        for i in range(count):
            answer = os.pipe()
            pid = os.fork()
            if pid == 0:
                _child(i, work, ready[1], release, answer[1])
            os.close(answer[1])
            pids.append(pid)
            answers.append(answer[0])
        for _ in range(count):
            os.read(ready[0], 1)
        began = time.perf_counter()
        os.close(release[1])
        release = (release[0], None)
        texts = [_all(answer) for answer in answers]
        seconds = time.perf_counter() - began
        results = [json.loads(text) if text else {"failed": "it died"} for text in texts]
    except BaseException:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        raise
    finally:
        for fd in (*ready, *release, *answers):
            if fd is not None:
                os.close(fd)
        for pid in pids:
            os.waitpid(pid, 0)
    for result in results:
        if "failed" in result:
            raise RuntimeError(f"a job failed: {result['failed']}")
    return seconds, [result["value"] for result in results]


def _all(fd):
    parts = []
    while part := os.read(fd, 1 << 16):
        parts.append(part)
    return b"".join(parts)


def _child(i, work, ready, release, answer):
    """Never returns."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.close(release[1])
        os.write(ready, b".")
        os.read(release[0], 1)
        try:
            text = json.dumps({"value": work(i)})
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = json.dumps({"failed": f"{type(error).__name__}: {error} ({where.name})"})
        view = memoryview(text.encode())
        while view:
            view = view[os.write(answer, view):]
        status = 0
    finally:
        os._exit(status)
