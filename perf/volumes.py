"""Rows that need a volume of their own: requests for many small files, those of a mount that nobody
uses, and the mount of a large volume. They are weir's only, and are measured once in a run."""

import os
import time

from . import work
from .site import drop_caches, rss_mib
from .targets.weir import Weir


# Dollars a request, S3 in us-east-1, as weir's own price book has it; a test holds them to it.
USD = {"put": 5e-6, "copy": 5e-6, "list": 5e-6, "get": 4e-7, "head": 4e-7, "delete": 0.0}
MONTH_S = 730 * 3600
COMPACTION_S = 40  # the daemon looks for something to compact every 10 s


def price(requests):
    """Dollars of requests of all components, as a target counts them."""
    return sum(count * USD[what.split()[1]] for what, count in requests.items()
               if what.endswith(" requests"))


def idle(run):
    """What a month of a mount costs that has files and that nobody uses, from some minutes of it."""
    settings, target = run.settings, Weir(run.site, run.store, run.settings)
    target.open()
    try:
        work.create_files(f"{target.dir}/few", min(settings.files, 1000),
                          settings.file_kib * 1024, 1, 60)
        target.settle()
        time.sleep(settings.idle_s / 6)  # what the files left to do
        with run.probe(target) as cost:
            time.sleep(settings.idle_s)
        run.add("idle", target, price(cost.requests) * MONTH_S / cost.seconds, cost,
                seconds=cost.seconds)
        asked = sum(count for what, count in cost.requests.items() if what.endswith(" requests"))
        run.add("idle-requests", target, asked * 60 / cost.seconds, cost, seconds=cost.seconds)
    finally:
        target.close()


def puts(run):
    """PUTs of all kinds until 100,000 small files are in the bucket."""
    settings, target = run.settings, Weir(run.site, run.store, run.settings)
    target.open()
    try:
        with run.probe(target) as cost:
            paths, _ = work.create_files(f"{target.dir}/many", settings.pack_files,
                                         settings.file_kib * 1024, 4, 600)
            target.settle()
        if len(paths) < settings.pack_files:
            run.missing("puts", f"only {len(paths):,} files within 600 s")
        count = sum(n for what, n in cost.requests.items() if what.endswith(" put requests"))
        run.add("puts", target, count, cost, seconds=cost.seconds, ops=len(paths),
                bytes=len(paths) * settings.file_kib * 1024)
    finally:
        target.close()


def _mounted(run, target, row):
    """Mounts it with an empty tier, some times over: seconds, and memory at once."""
    for repeat in range(1 if run.settings.smoke else max(run.settings.repeats, 3)):
        target.unmount()
        target.site.aside(target.tier)
        drop_caches()
        began = time.perf_counter()
        target.mount()
        seconds = time.perf_counter() - began
        run.repeat = repeat
        for entry in sorted(os.listdir(target.dir))[:1]:
            os.listdir(f"{target.dir}/{entry}")
        run.add(f"mount-{row}", target, seconds, None, seconds=seconds)
        run.add(f"memory-{row}", target, rss_mib(target.pid), None)
    run.repeat = 0


def _first(run, target):
    """The first mount after its files were made, while their metadata is compacted for the first time:
    the most memory that it has meanwhile. An unmount waits for the end of that."""
    target.cold()
    most, began = rss_mib(target.pid), time.monotonic()
    while not run.settings.smoke and time.monotonic() < began + COMPACTION_S:
        time.sleep(0.2)
        most = max(most, rss_mib(target.pid))
    run.add("memory-first", target, most, None)


class Volumes:
    """The large volume and an empty one beside it, kept over all regimes."""

    def __init__(self, run):
        self.run = run
        self.many = self.empty = None

    def mount(self):
        """Both rows of the present regime. The first call makes the volume."""
        run = self.run
        if not self.many:
            self.many, self.empty = (Weir(run.site, run.store, run.settings) for _ in range(2))
            self.many.open()
            self.empty.open()
            made = work.empty_files(self.many.dir, run.settings.volume_files, 4,
                                    run.settings.volume_box_s)
            run.volume_files = made
            if made < run.settings.volume_files:
                run.say(f"made only {made:,} files within {run.settings.volume_box_s:g} s")
            self.many.settle()
            _first(run, self.many)
        else:
            self.many.mount()
            self.empty.mount()
        for target, row in ((self.empty, "empty"), (self.many, "full")):
            _mounted(run, target, row)
        self.many.unmount()
        self.empty.unmount()

    def close(self):
        for target in (self.many, self.empty):
            if target:
                self.run.store.drop(target.bucket)
