"""A file system that does nothing, behind the same FUSE crate: what is left when weir's own work is
taken away."""

import os
import subprocess

from ..site import mounted_below, run, until
from .base import Unavailable
from .weir import Local


class Floor(Local):
    """It remembers names and sizes, in memory, and no bytes (crates/fuse/examples/floor.rs)."""

    name, title = "floor", "FUSE that does nothing"
    server = None

    def open(self):
        program = f"{os.path.dirname(os.environ['WEIR'])}/examples/floor"
        if not os.path.exists(program):
            raise Unavailable(f"{program} is not there: make bench builds it")
        self.dir = self.site.fresh(self.name)
        self.server = subprocess.Popen([program, self.dir], stdin=subprocess.DEVNULL)
        self.site.pids.append(self.server.pid)
        until(lambda: mounted_below(self.dir), 10, "the mount of the file system that does nothing")

    def close(self):
        run("umount", self.dir)
        self.server.wait(timeout=10)
        self.site.pids.remove(self.server.pid)
        os.rmdir(self.dir)

    def pids(self):
        return [self.server.pid] if self.server else []

    def settle(self):
        """What it was told is nowhere."""
