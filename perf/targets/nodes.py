"""Several mounts of one volume, each with a cache of its own, over metadata in PostgreSQL: weir, and
JuiceFS beside it."""

import os
import shutil
import signal
import tempfile

from ..site import children, drop_caches, free_port, run, session, until
from .base import Unavailable
from .peers import JuiceFs
from .weir import Weir

POSTGRES = "/usr/lib/postgresql/15/bin"
AS_POSTGRES = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")


class Database:
    """A PostgreSQL server of a target's own, with its defaults, on loopback. It trusts who comes."""

    def __init__(self, site):
        if not os.path.exists(f"{POSTGRES}/postgres"):
            raise Unavailable("PostgreSQL 15 is not installed: make test-tools")
        self.site = site
        # Its user may not look into the work directory.
        self.dir = tempfile.mkdtemp(prefix="weir-bench-postgres.", dir="/var/tmp")
        site.elsewhere.append(self.dir)
        shutil.chown(self.dir, "postgres", "postgres")
        run(*AS_POSTGRES, f"{POSTGRES}/initdb", "-D", f"{self.dir}/data", "-U", "bench",
            "-E", "UTF8", "--locale=C", "--auth=trust", cwd=self.dir)
        self.port = free_port()
        self.pid = site.start(*AS_POSTGRES, f"{POSTGRES}/postgres", "-D", f"{self.dir}/data", "-p",
                              self.port, "-c", "listen_addresses=127.0.0.1", "-k", self.dir,
                              cwd=self.dir)
        at = ("-h", self.dir, "-p", self.port)
        until(lambda: "accepting" in run(f"{POSTGRES}/pg_isready", *at, check=False), 60,
              "PostgreSQL")
        run(f"{POSTGRES}/createdb", *at, "-U", "bench", "bench")

    @property
    def url(self):
        return f"postgres://bench@127.0.0.1:{self.port}/bench"

    def pids(self):
        return [self.pid, *children(self.pid)]

    def close(self):
        if self.pid in self.site.pids:
            os.kill(self.pid, signal.SIGINT)  # does not wait for those who are connected
            self.site.stop(self.pid)
        shutil.rmtree(self.dir, ignore_errors=True)


class WeirNodes(Weir):
    """Nodes that share a volume over S3."""

    name, title = "weir-nodes", "weir, nodes"
    note = "CPU is that of all daemons and of the database"
    database = None

    def open(self):
        self.program = os.environ["WEIR"]
        self.dir = self.root = self.site.fresh(self.name)
        self.database, self.daemons = Database(self.site), []
        self.url = self.place()
        run(self.program, "format", self.url, "--meta", self.database.url, *self.connect())

    def several(self, count):
        """The directories of so many nodes, mounted and known to each other."""
        for number in range(len(self.daemons), count):
            self.dir, self.tier = f"{self.root}/mnt{number}", f"{self.root}/tier{number}"
            os.makedirs(self.dir, exist_ok=True)
            self.mount("--shared")
            self.daemons.append(self.pid)
        self.dir = self.root
        others = len(self.daemons) - 1
        until(lambda: all(status["peers"]["others"] == others for status in self._statuses()), 30,
              "nodes that know each other")
        return [f"{self.root}/mnt{number}" for number in range(count)]

    def unmount(self):
        """All nodes."""
        for number, self.pid in enumerate(self.daemons):
            self.dir = f"{self.root}/mnt{number}"
            super().unmount()
        self.dir, self.daemons = self.root, []

    def close(self):
        super().close()
        self.database.close()

    def pids(self):
        return [*self.daemons, *(self.database.pids() if self.database else ())]

    def settle(self):
        """A close ends in the bucket here."""

    def cold(self):
        """No node is mounted, and none has anything."""
        count = len(self.daemons)
        self.unmount()
        for number in range(count):
            self.site.aside(f"{self.root}/tier{number}")
        drop_caches()

    def _statuses(self):
        for number in range(len(self.daemons)):
            self.dir = f"{self.root}/mnt{number}"
            yield self.status()
        self.dir = self.root

    def requests(self):
        found = {}
        for status in self._statuses():
            for key, count in self.asked(status).items():
                found[key] = found.get(key, 0) + count
        return found

    def recalls(self):
        """Leases that nodes asked others for, so far."""
        return sum(status["leases"]["asked_back"] for status in self._statuses())


class JuiceFsNodes(JuiceFs):
    """As many mounts of JuiceFS over a database of the same kind."""

    name, title = "juicefs-nodes", "JuiceFS, mounts"
    note = "metadata in PostgreSQL; CPU is that of all mounts and of the database"
    database = None

    def open(self):
        self.mounts = []
        super().open()

    def metadata(self):
        self.database = Database(self.site)
        return f"{self.database.url}?sslmode=disable"

    def mount(self):
        """None before it is asked for."""

    def several(self, count):
        for number in range(len(self.mounts), count):
            self.dir, self.cache = f"{self.root}/mnt{number}", f"{self.root}/cache{number}"
            os.makedirs(self.dir, exist_ok=True)
            super().mount()
            self.mounts.append(self.mounted)
        self.dir = self.root
        return [f"{self.root}/mnt{number}" for number in range(count)]

    def unmount(self):
        for number, self.mounted in enumerate(self.mounts):
            self.dir = f"{self.root}/mnt{number}"
            super().unmount()
        self.dir, self.mounts = self.root, []

    def close(self):
        super().close()
        self.database.close()

    def cold(self):
        count = len(self.mounts)
        self.unmount()
        for number in range(count):
            self.site.aside(f"{self.root}/cache{number}")
        drop_caches()

    def pids(self):
        daemons = [pid for first in self.mounts for pid in session(first)]
        return [*daemons, *(self.database.pids() if self.database else ())]
