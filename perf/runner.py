"""The run: which target does what when.

What goals compare (weir, the local disk, the raw store) is measured side by side: each phase on each
of them in turn, in another order in each repeat. Peers come after, one at a time, so that an idle
peer's daemon takes no part in anybody's figures.
"""

import sys
import time

from . import rows
from .samples import Probe, Sample, Samples
from .settings import PEERS
from .store import Store
from .targets.base import Unavailable
from .targets.peers import CLASSES as PEER_CLASSES
from .targets.raw import Raw
from .targets.disks import Disk, Nbdkit
from .targets.weir import Local, Weir, WeirFile, WeirJournal
from .volumes import Volumes, puts

CLASSES = {each.name: each for each in
           (Local, Raw, Weir, WeirFile, WeirJournal, Disk, Nbdkit, *PEER_CLASSES)}


class Run:
    """One run, and what is known of it so far."""

    def __init__(self, site, settings):
        self.site, self.settings = site, settings
        self.samples, self.skipped, self.notes = Samples(), {}, {}
        self.latency_ms, self.repeat, self.volume_files = 0, 0, None
        self.connections, self.calibration = {"PUT": 4, "GET": 4, "SMALL GET": 4}, []
        self.data_set = None  # of linked buckets, once it is made
        self.part_s = {}
        self.began, self.done, self.total = time.monotonic(), 0, 1
        self.store = Store(site, settings)

    def box_s(self, target):
        """How long a phase may last."""
        return self.settings.box_s if target.large else self.settings.peer_box_s

    def probe(self, target):
        return Probe(target, self.store)

    def add(self, row, target, value, unit, cost, **more):
        sample = Sample(row, target.name, self.latency_ms, self.repeat, value, unit,
                        **(cost.costs() if cost else {}), **more)
        self.samples.add(sample)
        self.notes.setdefault(target.name, target.note)

    def missing(self, what, why):
        """Something could not be measured. It goes into every report."""
        if self.skipped.setdefault(what, why) is why:
            self.say(f"not measured: {what}: {why}")

    def say(self, text):
        print(f"  {text}", file=sys.stderr, flush=True)

    def progress(self, text):
        spent = time.monotonic() - self.began
        left = f", about {spent / self.done * (self.total - self.done) / 60:.0f} min left" \
            if self.done > 2 else ""
        print(f"[{self.done * 100 // self.total:3}% {spent:5.0f} s{left}] {text}",
              file=sys.stderr, flush=True)

    def _spent(self, part, began):
        self.part_s[part] = round(self.part_s.get(part, 0) + time.monotonic() - began, 1)
        self.done += 1

    def plan(self):
        """Groups with the phases and targets that were asked for, at one latency."""
        first = self.latency_ms == self.settings.latencies_ms[0]
        for group in rows.groups(frozenset(PEERS)):
            phases = [phase for phase in group.phases if phase.rows & set(self.settings.rows)
                      and (first or not phase.near)]
            targets = [name for name in self.settings.targets if name in group.targets
                       and (first or name != "weir-file")]
            core = [name for name in targets if name not in PEERS]
            peers = [name for name in targets if name in PEERS
                     and self.repeat < self.settings.peer_repeats]
            batches = [core] * bool(core) + [[name] for name in peers]
            if phases and batches:
                yield group, phases, batches

    def all(self):
        own = "weir" in self.settings.targets
        volumes = Volumes(self) if own and "mount" in self.settings.rows else None
        self.total = (own and "puts" in self.settings.rows) + \
            (volumes is not None) * len(self.settings.latencies_ms)
        for self.latency_ms in self.settings.latencies_ms:
            for self.repeat in range(self.settings.repeats):
                self.total += sum(len(batches) for _, _, batches in self.plan())
        for self.latency_ms in self.settings.latencies_ms:
            self.store.at(self.latency_ms)
            if "raw" in self.settings.targets:
                rows.calibrate(self, Raw(self.site, self.store, self.settings))
            for self.repeat in range(self.settings.repeats):
                for group, phases, batches in self.plan():
                    for batch in batches:
                        self.batch(group, phases, batch)
            self.repeat = 0
            first = self.latency_ms == self.settings.latencies_ms[0]
            if own and "puts" in self.settings.rows and first:
                self.special("puts", lambda: puts(self))
            if volumes:
                self.special("mount", volumes.mount)
        if volumes:
            volumes.close()

    def special(self, name, act):
        began = time.monotonic()
        self.progress(f"{self.latency_ms:g} ms: {name}")
        try:
            act()
        except Exception as error:
            self.missing(f"weir: {name}", self.why(error))
        self._spent(name, began)

    def why(self, error):
        text = f"{error}" or type(error).__name__
        return " ".join(text.split())[:300]

    def batch(self, group, phases, names):
        """One group on targets that are open side by side."""
        began = time.monotonic()
        self.progress(f"{self.latency_ms:g} ms, repeat {self.repeat + 1} of "
                      f"{self.settings.repeats}: {group.name} on {', '.join(names)}")
        if group.name == "large" and names[0] not in PEERS:
            self.site.empty_trash()
        turn = self.repeat % len(names)
        targets = []
        try:
            for name in names[turn:] + names[:turn]:
                if {f"{name}", f"{name} at {self.latency_ms:g} ms"} & set(self.skipped):
                    continue
                target = CLASSES[name](self.site, self.store, self.settings)
                # It is closed even if it opened half-way.
                if self.attempt(target, "open", target.open):
                    targets.append(target)
            for phase in phases:
                for target in list(targets):
                    at = time.monotonic()
                    if not self.attempt(target, phase.name, lambda: phase.act(self, target)):
                        targets.remove(target)
                    if time.monotonic() - at > 90:
                        self.say(f"{phase.name} on {target.name} took "
                                 f"{time.monotonic() - at:.0f} s")
        finally:
            for target in targets:
                self.attempt(target, "close", target.close)
        self._spent(group.name if len(names) > 1 or names[0] not in PEERS else names[0], began)

    def attempt(self, target, what, act):
        """Does it; a target that fails is named with the reason, and the run goes on."""
        try:
            act()
            return True
        except Unavailable as error:
            now = f" at {self.latency_ms:g} ms" if error.only_now else ""
            self.missing(f"{target.name}{now}", str(error))
        except Exception as error:  # whatever it is, the others are to be measured
            row = "" if what == "open" else f": {what}"
            self.missing(f"{target.name}{row} at {self.latency_ms:g} ms", self.why(error))
            log = self.site.last_words()
            if log:
                self.say(f"the log ends: {log[-500:]}")
        try:
            if what == "close" or target.dir is None:
                raise RuntimeError("not again")
            target.close()
        except Exception:
            self.site.abandon(target.dir or "/nonexistent", target.pids())
        return False
