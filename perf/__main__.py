"""`python3 -m perf`: measures, prints the table of goals, writes JSON, an HTML page and the tables of
docs/performance.md.

WEIR is the binary. Settings are in settings.py, and all of them can be set from the environment.
Ends with 0 when it could measure, whether goals are met or not; 2 when it cannot begin.
"""

# needs: awk fio ganesha.nfsd go losetup mkfs.ext4 mount nbdkit python3 setpriv umount versitygw
# needs: /usr/lib/postgresql/15/bin/postgres
import os
import shutil
import signal
import sys
import tempfile
import time

from . import goals, html, markdown, report, settings
from .runner import Run
from .site import Site, facts, run
from .store import CACHE, SCRIPT


def _interrupted(*_):
    raise KeyboardInterrupt


def _versions(chosen):
    """Versions of what is measured, as the programs tell them."""
    asks = {"weir": (os.environ["WEIR"], "--version"), "fio": ("fio", "--version"),
            "versitygw": ("go", "version", "-m", run(SCRIPT, "install", timeout=600).split()[-1]),
            "juicefs": (f"{CACHE}/peers/venv/bin/juicefs", "version"),
            "seaweedfs": (f"{CACHE}/peers/venv/bin/weed", "version"),
            "rclone": ("rclone", "version"), "s3fs": ("s3fs", "--version"),
            "s3backer": ("s3backer", "--version"), "redis": ("redis-server", "--version")}
    found = {}
    for name, command in asks.items():
        needed = name in ("weir", "fio", "versitygw") or any(name in t for t in chosen.targets) or (
            name == "redis" and any("juicefs" in t for t in chosen.targets))
        if needed and shutil.which(command[0]):
            lines = [" ".join(line.split()) for line in run(*command, check=False).splitlines()
                     if any(c.isdigit() for c in line)]
            if name == "versitygw":  # it does not know its own
                lines = [name + " " + line.split()[2] for line in lines if line.startswith("mod ")]
            found[name] = lines[0] if lines else "?"
    return found


def _begin():
    """Settings and work directory, or Refused."""
    chosen = settings.read()
    weir = os.environ.get("WEIR")
    if not weir or not shutil.which(weir):
        raise settings.Refused("set WEIR to the weir binary")
    os.environ["WEIR"] = os.path.realpath(shutil.which(weir))
    if not shutil.which("fio"):
        raise settings.Refused("fio is not installed: make test-tools")
    if chosen.store == "memory" and shutil.disk_usage("/dev/shm").free < 8 << 30:
        raise settings.Refused("/dev/shm has less than 8 GiB free: set BENCH_STORE=disk")
    where = os.environ.get("BENCH_DIR") or tempfile.mkdtemp(prefix="weir-bench.", dir="/var/tmp")
    site = Site(where, settings.disk_need_mib(chosen))
    os.environ["WEIR_RUN_DIR"] = site.sockets
    return chosen, site


def main():
    signal.signal(signal.SIGTERM, _interrupted)
    out = os.path.realpath(os.environ.get("BENCH_OUT") or "target/bench")
    try:
        chosen, site = _begin()
    except settings.Refused as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    try:
        known = {**facts(), "load_before": os.getloadavg(), "versions": _versions(chosen)}
        began = time.monotonic()
        bench = Run(site, chosen)
        bench.all()
        bench.facts = {**known, "load_after": os.getloadavg(), "seconds": time.monotonic() - began}
        lines = goals.judge(bench.samples, chosen)
        os.makedirs(out, exist_ok=True)
        for name, content in (("bench.json", report.as_json(bench, lines)),
                              ("bench.html", html.page(bench, lines)),
                              ("bench.md", markdown.tables(bench, lines))):
            with open(f"{out}/{name}", "w") as file:
                file.write(content)
        print(f"\n{report.text(bench, lines)}\n\n{out}/bench.json\n{out}/bench.html\n{out}/bench.md")
        return 0
    except settings.Refused as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench: interrupted; cleaning up", file=sys.stderr)
        return 130
    finally:
        for how in (signal.SIGINT, signal.SIGTERM):
            signal.signal(how, signal.SIG_IGN)
        site.close()


sys.exit(main())
