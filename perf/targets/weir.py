"""Weir, over a directory and over S3, and the bare local disk that it is held against."""

import functools
import json
import os

from ..site import alive, drop_caches, run, until
from .base import Target, Unavailable


@functools.cache
def knows(option):
    """Whether `weir mount` has that option: not every version has them all."""
    return option in run(os.environ["WEIR"], "mount", "--help")


class Mirror(Target):
    """The file below a file of weir, read past weir: the same blocks of the same disk. Another file's
    blocks may be twice as fast."""

    name, title = "mirror", "its mirror file, bare"
    remote = False


class Local(Target):
    """A directory of the local disk: the limit of whatever is resident."""

    name, title = "local", "local disk"
    remote = False

    def open(self):
        self.dir = self.site.fresh("local")

    def close(self):
        self.site.aside(self.dir)

    def settle(self):
        os.sync()

    def cold(self):
        drop_caches()


class Weir(Target):
    """A volume over S3."""

    name, title = "weir", "weir s3://"
    pid = None

    def open(self):
        self.program = os.environ["WEIR"]
        self.root = self.site.fresh(self.name)
        self.dir, self.tier = f"{self.root}/mnt", f"{self.root}/tier"
        self.bucket = None
        os.mkdir(self.dir)
        self.url = self.place()
        run(self.program, "format", self.url, *self.connect())
        self.mount()

    def place(self):
        self.bucket = self.store.bucket(self.name)
        return f"s3://{self.bucket}/vol"

    def connect(self):
        return ("--endpoint", self.store.endpoint)

    def mount(self, *options):
        os.makedirs(self.tier, exist_ok=True)
        run(self.program, "mount", self.url, self.dir, "--tier", self.tier,
            "--log-file", f"{self.root}/log", *self.connect(), *options)
        self.pid = self.status()["pid"]
        self.site.pids.append(self.pid)

    def unmount(self):
        run(self.program, "umount", self.dir, timeout=600)  # it may wait for a compaction
        until(lambda: not alive(self.pid), 60, "the end of weir")
        self.site.pids.remove(self.pid)

    def status(self):
        return json.loads(run(self.program, "status", self.dir, "--json"))

    def close(self):
        self.unmount()
        if self.bucket:
            self.store.drop(self.bucket)
        self.site.aside(self.root)

    def pids(self):
        return [self.pid] if self.pid else []

    def settle(self):
        run(self.program, "flush", self.dir, timeout=600)

    def cold(self):
        self.unmount()
        self.site.aside(self.tier)
        drop_caches()
        self.mount()

    def mirror(self, path):
        """The mirror file of one of its files (docs/format.md)."""
        inode = os.stat(path).st_ino
        [volume] = [name for name in os.listdir(self.tier)
                    if os.path.isdir(f"{self.tier}/{name}/mirror")]
        return f"{self.tier}/{volume}/mirror/{inode & 255:02x}/{inode:016x}"

    def link(self, url, name):
        """Links a bucket and waits for its names; when they were there, in seconds since 1970."""
        path = f"{self.dir}/{name}"
        run(self.program, "link", url, path, timeout=600)
        [view] = json.loads(run(self.program, "links", path, "--json"))
        return view["imported_unix_ms"] / 1000

    def lfs(self):
        """The program under the name of Lustre's."""
        path = f"{self.root}/lfs"
        os.symlink(self.program, path)
        return path

    def by_daemon(self):
        """Mounts it again so that no read goes past the daemon."""
        if not knows("--no-passthrough"):
            raise Unavailable("this weir has no mount option --no-passthrough")
        self.unmount()
        drop_caches()
        self.mount("--no-passthrough")

    def requests(self):
        return self.asked(self.status())

    @staticmethod
    def asked(status):
        """What a mount with that status asked of the bucket."""
        found = {}
        for row in status["requests"]["rows"]:
            for what in ("requests", "bytes_sent", "bytes_received"):
                key = f"{row['component']} {row['kind']} {what}"
                found[key] = found.get(key, 0) + row[what]
        return found


class WeirFile(Weir):
    """A volume over a directory of the local disk."""

    name, title = "weir-file", "weir file://"
    remote = False

    def place(self):
        os.mkdir(f"{self.root}/bucket")
        return f"file://{self.root}/bucket"

    def connect(self):
        return ()


class WeirJournal(Weir):
    """A volume over S3 with a journal on the local disk."""

    name, title = "weir-journal", "weir s3://, journal"

    def mount(self, *options):
        super().mount("--journal", f"{self.root}/journal", *options)
