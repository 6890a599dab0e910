"""The S3 server that all targets share, and the way to it.

Where a regime has a network, clients talk to a proxy in front of the server, else to it. Its
objects lie in memory by default, so that the bucket does not share a disk with the tier: a real one
does not.
"""

import os
import shutil
import tempfile

from .settings import Refused
from .site import cpu_s, free_port, run, until
from .s3 import KEY, SECRET, Connection

HERE = os.path.dirname(os.path.realpath(__file__))
SCRIPT = f"{HERE}/../tests/s3/versitygw.sh"
CACHE = os.environ.get("WEIR_CACHE") or os.path.expanduser("~/.cache/weir")


def answers(address):
    """Whether an S3 server at that address lists its buckets."""
    try:
        Connection(address).ask("GET", "/")
        return True
    except OSError:
        return False


class Proxy:
    """The network of a regime in front of an address, half of the latency each way. All who are
    measured in that regime go through it. The program (crates/bench) is built beside weir."""

    def __init__(self, site, to, regime):
        self.site = site
        self.address = ("127.0.0.1", free_port())
        self.pid = site.start(
            f"{os.path.dirname(os.environ['WEIR'])}/bench-proxy",
            "-listen", f"127.0.0.1:{self.address[1]}", "-to", f"{to[0]}:{to[1]}",
            "-delay", f"{regime.latency_ms / 2}ms", "-rate", int(regime.rate_mib * (1 << 20)),
            "-total", int(regime.total_mib * (1 << 20)))
        until(lambda: answers(self.address), 5, "the proxy")

    def close(self):
        self.site.stop(self.pid)


class Store:
    """A running S3 server. `at` sets the regime of its clients from then on."""

    def __init__(self, site, settings):
        self.site, self.settings, self.proxy = site, settings, None
        self.where = site.fresh("s3")
        self.memory = settings.store == "memory"
        if self.memory:
            self.where = tempfile.mkdtemp(prefix="weir-bench-", dir="/dev/shm")
            site.elsewhere.append(self.where)
        self.direct = ("127.0.0.1", free_port())
        program = run(SCRIPT, "install", timeout=600).strip().splitlines()[-1]
        # Without keep-alive it ends the connection with each answer. S3 does not.
        self.pid = site.start(
            program, "--port", "%s:%d" % self.direct, "--quiet", "--keep-alive", "posix",
            self.where, env={**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET})
        until(lambda: answers(self.direct), 20, "the S3 server")
        os.environ.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET,
                          AWS_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true")
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_CA_BUNDLE"):
            os.environ.pop(name, None)

    def at(self, regime):
        if self.proxy:
            self.proxy.close()
            self.proxy = None
        if not regime.free:
            self.proxy = Proxy(self.site, self.direct, regime)

    @property
    def address(self):
        return self.proxy.address if self.proxy else self.direct

    @property
    def endpoint(self):
        return "http://%s:%d" % self.address

    def bucket(self, name):
        """A new, empty bucket; its name."""
        self.site.count += 1
        name = f"{name}-{self.site.count}"
        os.mkdir(f"{self.where}/{name}")
        return name

    def drop(self, bucket):
        """Removes a bucket and all in it, behind the server's back."""
        shutil.rmtree(f"{self.where}/{bucket}", ignore_errors=True)

    def cpu_s(self):
        """CPU of the server and of the proxy, in core-seconds."""
        return cpu_s([self.pid]), cpu_s([self.proxy.pid]) if self.proxy else 0.0
