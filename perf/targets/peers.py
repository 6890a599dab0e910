"""Other file systems over the same S3 server, as their manuals say to run them.

Each keeps its cache on the local disk, as weir keeps its tier. What differs from the others is said
in `note`, which every report shows. None is needed to build or test weir: `make bench-peers` gets
them.
"""

import json
import os
import shutil
import urllib.request

from ..s3 import KEY, REGION, SECRET
from ..site import alive, drop_caches, free_port, run, session, until
from ..store import CACHE
from .base import Target, Unavailable


def program(name):
    """A peer's program, from the peers' own directory or the path."""
    own = f"{CACHE}/peers/venv/bin/{name}"
    found = own if os.path.exists(own) else shutil.which(name)
    if not found:
        raise Unavailable(f"{name} is not installed: make bench-peers")
    return found


class Peer(Target):
    """A peer with a bucket, a mount point and a cache directory. `start` mounts it."""

    large = False
    mounted, started = None, ()

    def open(self):
        self.program = program(self.command)
        self.root = self.site.fresh(self.name)
        self.dir, self.cache = f"{self.root}/mnt", f"{self.root}/cache"
        os.mkdir(self.dir)
        self.started, self.bucket = [], self.store.bucket(self.name)
        self.begin()
        self.mount()

    def begin(self):
        """Makes the volume, before its first mount."""

    def mount(self):
        os.makedirs(self.cache, exist_ok=True)
        self.mounted = self.site.start(*self.start())
        self.wait(lambda: os.path.ismount(self.dir))

    def wait(self, ready):
        """Waits for its mount, or for its end."""
        until(lambda: ready() or not alive(self.mounted), 20, f"the mount of {self.name}")
        if not alive(self.mounted):
            raise RuntimeError(f"it ended: {self.site.last_words()[-200:]}")

    def unmount(self):
        run("umount", self.dir)
        until(lambda: not session(self.mounted), 60, f"the end of {self.name}")
        self.site.stop(self.mounted)

    def close(self):
        self.settle()
        self.unmount()
        for pid in self.started:
            self.site.stop(pid, gently_s=1)
        self.store.drop(self.bucket)
        self.site.aside(self.root)

    def cold(self):
        self.settle()
        self.unmount()
        self.site.aside(self.cache)
        drop_caches()
        self.mount()

    def pids(self):
        return [pid for first in (self.mounted, *self.started) if first
                for pid in session(first)]


class JuiceFs(Peer):
    """JuiceFS with its metadata in a Redis beside it."""

    name = title = command = "juicefs"
    large = True  # it is the one that weir is held against first: the same work
    note = "metadata in Redis on loopback without added latency, append-only file synced each second"
    options = ()

    def metadata(self):
        """Where its metadata is to be, which is ready then."""
        port, redis = free_port(), program("redis-server")
        data = f"{self.root}/redis"
        os.mkdir(data)
        self.started.append(self.site.start(
            redis, "--port", port, "--bind", "127.0.0.1", "--dir", data, "--save", "",
            "--appendonly", "yes", "--appendfsync", "everysec"))
        until(lambda: "PONG" in run("redis-cli", "-p", port, "ping", check=False), 10, "Redis")
        return f"redis://127.0.0.1:{port}/1"

    def begin(self):
        self.meta = self.metadata()
        run(self.program, "format", "--storage", "s3", "--bucket",
            f"{self.store.endpoint}/{self.bucket}", "--access-key", KEY, "--secret-key", SECRET,
            "--trash-days", "0", self.meta, "bench")

    def start(self):
        return (self.program, "mount", "--no-usage-report", "--cache-dir", self.cache,
                "--cache-size", "8192", "--free-space-ratio", "0.01", *self.options, self.meta,
                self.dir)

    def mount(self):
        super().mount()
        # It takes the highest priority for itself. The others have none.
        for pid in session(self.mounted):
            run("renice", "-n", "0", "-p", pid)


class JuiceFsWriteback(JuiceFs):
    """JuiceFS that answers before it uploads."""

    name = title = "juicefs-wb"
    note = "--writeback: fsync does not reach the bucket; " + JuiceFs.note
    options = ("--writeback",)

    def settle(self):
        def staged():
            return any(files for at, _, files in os.walk(self.cache) if "rawstaging" in at)
        until(lambda: not staged(), 300, "uploads of juicefs")


class Rclone(Peer):
    """rclone mount with a full cache."""

    name = title = command = "rclone"
    note = "--vfs-cache-mode full: close and fsync do not reach the bucket, uploads follow 5 s later"

    def start(self):
        os.environ.update(RCLONE_CONFIG_BENCH_TYPE="s3", RCLONE_CONFIG_BENCH_PROVIDER="Other",
                          RCLONE_CONFIG_BENCH_ENV_AUTH="true",
                          RCLONE_CONFIG_BENCH_REGION=REGION,
                          RCLONE_CONFIG_BENCH_ENDPOINT=self.store.endpoint)
        self.port = free_port()
        return (self.program, "mount", f"bench:{self.bucket}", self.dir, "--vfs-cache-mode", "full",
                "--cache-dir", self.cache, "--config", "", "--rc", "--rc-no-auth", "--rc-addr",
                f"127.0.0.1:{self.port}", "--transfers", "16")

    def settle(self):
        def left():
            ask = urllib.request.Request(f"http://127.0.0.1:{self.port}/vfs/stats", method="POST")
            with urllib.request.urlopen(ask, timeout=10) as answer:
                cache = json.load(answer)["diskCache"]
            return cache["uploadsInProgress"] + cache["uploadsQueued"]
        until(lambda: not left(), 300, "uploads of rclone")


class S3fs(Peer):
    """s3fs with a cache directory."""

    name = title = command = "s3fs"
    note = "no metadata of its own: each name is a request"

    def begin(self):
        self.keys = f"{self.root}/keys"
        with open(self.keys, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(f"{KEY}:{SECRET}")

    def start(self):
        return (self.program, self.bucket, self.dir, "-f", "-o", f"url={self.store.endpoint}", "-o",
                "use_path_request_style", "-o", f"passwd_file={self.keys}", "-o",
                f"use_cache={self.cache}", "-o", f"endpoint={REGION}", "-o", "parallel_count=16")


class SeaweedFs(Peer):
    """A SeaweedFS mount over a SeaweedFS of its own: it cannot use another's store."""

    name, title, command = "seaweedfs", "seaweedfs", "weed"
    note = "its own store in the same memory instead of the S3 server; no added latency"

    def begin(self):
        if self.store.proxy:
            raise Unavailable("it talks to its own store, not through the proxy", only_now=True)
        master, volume, self.filer, *grpc = (free_port() for _ in range(6))
        # Its files lie where the S3 server's do.
        data = f"{self.store.where}/{self.bucket}"
        self.grpc = grpc[2]
        self.started.append(self.site.start(
            self.program, "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={data}",
            f"-master.port={master}", f"-master.port.grpc={grpc[0]}", f"-volume.port={volume}",
            f"-volume.port.grpc={grpc[1]}", "-filer", f"-filer.port={self.filer}",
            f"-filer.port.grpc={grpc[2]}", "-master.telemetry=false", "-volume.max=20",
            "-master.volumeSizeLimitMB=512", "-volume.preStopSeconds=0"))
        until(self._takes_files, 30, "SeaweedFS")

    def _takes_files(self):
        ask = urllib.request.Request(f"http://127.0.0.1:{self.filer}/ready", b"x", method="PUT")
        try:
            with urllib.request.urlopen(ask, timeout=5):
                return True
        except OSError:
            return False

    def start(self):
        return (self.program, "mount", f"-filer=127.0.0.1:{self.filer}.{self.grpc}",
                f"-dir={self.dir}", f"-cacheDir={self.cache}", "-cacheCapacityMB=4096",
                f"-localSocket={self.site.sockets}/weed-{self.filer}")


class S3backer(Peer):
    """A file of blocks in the bucket, with ext4 on a loop device on it."""

    name, title, command = "s3backer", "s3backer + ext4", "s3backer"
    note = "blocks of 1 MiB; its cache is in memory, so page cache dropped leaves it warm"

    def begin(self):
        self.blocks = f"{self.root}/blocks"
        os.mkdir(self.blocks)
        self.new = True

    def start(self):
        return (self.program, "-f", f"--accessId={KEY}", f"--accessKey={SECRET}",
                f"--baseURL={self.store.endpoint}/", "--blockSize=1M", "--size=4G", "--listBlocks", "--quiet", self.bucket, self.blocks)

    def mount(self):
        self.mounted = self.site.start(*self.start())
        self.wait(lambda: os.path.exists(f"{self.blocks}/file"))
        if self.new:
            run("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0", f"{self.blocks}/file")
            self.new = False
        run("mount", "-o", "loop", f"{self.blocks}/file", self.dir)

    def unmount(self):
        run("umount", self.dir)
        run("umount", self.blocks)
        until(lambda: not session(self.mounted), 120, "the end of s3backer")
        self.site.stop(self.mounted)

    def settle(self):
        os.sync()


CLASSES = (JuiceFs, JuiceFsWriteback, Rclone, S3fs, SeaweedFs, S3backer)
