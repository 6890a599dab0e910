"""The object store itself, without a file system: the limit of rows that are bound by it."""

import time

from ..jobs import run_jobs
from ..s3 import Connection
from .base import Target


class Raw(Target):
    """Objects in a bucket, each connection a process."""

    name, title = "raw", "raw S3"

    def open(self):
        self.bucket = self.store.bucket("raw")

    def close(self):
        self.store.drop(self.bucket)

    def all(self, method, keys, connections, body=b"", bucket=None):
        """Asks for all keys, or (key, (start, length)), over so many connections: seconds of all,
        and of each."""
        address = self.store.address

        def work(i):
            server, times = Connection(address), []
            for key in keys[i::connections]:
                key, part = key if isinstance(key, tuple) else (key, None)
                began = time.perf_counter()
                server.ask(method, f"/{bucket or self.bucket}/{key}", body, part)
                times.append(time.perf_counter() - began)
            return times

        seconds, times = run_jobs(connections, work)
        return seconds, [time for each in times for time in each]
