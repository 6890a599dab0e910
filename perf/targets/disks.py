"""Disks over NBD: weir's, and a server that keeps its disk in memory, which is as fast as the
protocol is here."""

import json
import os

from ..site import alive, drop_caches, run, until
from .base import Target
from .weir import Weir

SIZE_GIB = 8


class Disk(Weir):
    """A disk of a volume over S3, a record of 1 MiB an object, served on a Unix socket."""

    name, title = "disk", "weir disk, s3://"

    def mount(self, *options):
        os.makedirs(self.tier, exist_ok=True)
        self.socket = f"{self.root}/nbd"
        fresh = not self.pid
        if fresh:
            run(self.program, "disk", "create", self.url, "d", "--size", f"{SIZE_GIB}GiB",
                *self.connect())
        run(self.program, "serve", self.url, "--tier", self.tier, "--nbd-unix", self.socket,
            "--log-file", f"{self.root}/log", *self.connect(), *options)
        self.pid = self.status()["pid"]
        self.site.pids.append(self.pid)

    @property
    def uri(self):
        return f"nbd+unix:///d?socket={self.socket}"

    def unmount(self):
        run(self.program, "stop", self.url, timeout=600)
        until(lambda: not alive(self.pid), 60, "the end of weir")
        self.site.pids.remove(self.pid)

    def status(self):
        return json.loads(run(self.program, "status", self.url, "--json"))

    def settle(self):
        """A flush ends each write here."""


class Nbdkit(Target):
    """nbdkit's memory plugin: the protocol and the client, and nothing behind them."""

    name, title = "nbdkit", "nbdkit, memory"
    remote = False
    note = "keeps its disk in memory: the ceiling of the protocol"
    pid = None

    def open(self):
        self.dir = self.site.fresh(self.name)
        self.socket = f"{self.dir}/nbd"
        self.pid = self.site.start("nbdkit", "--foreground", "--unix", self.socket, "memory",
                                   f"{SIZE_GIB}G")
        until(lambda: os.path.exists(self.socket), 10, "nbdkit")

    @property
    def uri(self):
        return f"nbd+unix:///?socket={self.socket}"

    def pids(self):
        return [self.pid] if self.pid else []

    def cold(self):
        drop_caches()

    def close(self):
        if self.pid:
            self.site.stop(self.pid)
        self.site.aside(self.dir)
