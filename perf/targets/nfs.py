"""NFS servers: weir's, and NFS-Ganesha over a directory of the local disk. Both answer for names before they are on a
disk: what is made, moved or removed is in the redo log of the one, in the page cache of the other."""

import json
import os
import shutil
import socket

from ..site import alive, drop_caches, free_port, run, until
from .base import Target, Unavailable
from .weir import Weir


def answers(port):
    """Whether somebody listens."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Nfs(Weir):
    """A volume over S3, served by NFS, in an export with `--async`."""

    name, title, path = "nfs", "weir serve --nfs", ""

    def mount(self, *options):
        os.makedirs(self.tier, exist_ok=True)
        self.port = free_port()
        run(self.program, "serve", self.url, "--tier", self.tier, "--nfs", self.address,
            "--log-file", f"{self.root}/log",
            *self.connect(), *options)
        self.pid = self.status()["pid"]
        self.site.pids.append(self.pid)
        run(self.program, "export", "add", self.url, "/", "--name", "", "--squash", "none",
            "--async")

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def unmount(self):
        run(self.program, "stop", self.url, timeout=600)
        until(lambda: not alive(self.pid), 60, "the end of weir")
        self.site.pids.remove(self.pid)

    def status(self):
        return json.loads(run(self.program, "status", self.url, "--json"))


class Ganesha(Target):
    """NFS-Ganesha with its VFS backend."""

    name, title, path = "ganesha", "NFS-Ganesha, local disk", "/x"
    remote = False
    note = "serves a directory of the local disk: nothing leaves the machine"
    pid = None

    def open(self):
        if not shutil.which("ganesha.nfsd"):
            raise Unavailable("ganesha.nfsd is not installed: Debian: nfs-ganesha, nfs-ganesha-vfs")
        self.root = self.site.fresh(self.name)
        self.dir, self.port = f"{self.root}/files", free_port()
        os.mkdir(self.dir)
        with open(f"{self.root}/conf", "w") as file:
            file.write(f"""
NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {self.port}; Bind_addr = 127.0.0.1;
    Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}
NFSv4 {{ Graceless = true; Minor_Versions = 1, 2; RecoveryRoot = {self.root}; }}
EXPORT {{ Export_Id = 1; Path = {self.dir}; Pseudo = {self.path}; Access_Type = RW;
    Squash = No_Root_Squash; SecType = sys; Protocols = 4; Transports = TCP;
    FSAL {{ Name = VFS; }} }}
""")
        self.pid = self.site.start("ganesha.nfsd", "-F", "-f", f"{self.root}/conf",
                                   "-L", f"{self.root}/log", "-p", f"{self.root}/pid")
        until(lambda: answers(self.port), 20, "NFS-Ganesha")

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def pids(self):
        return [self.pid] if self.pid else []

    def settle(self):
        os.sync()

    def cold(self):
        drop_caches()

    def close(self):
        if self.pid:
            self.site.stop(self.pid)
            self.site.aside(self.root)
