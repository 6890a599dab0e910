"""The run: which target does what when.

What goals compare (weir, the local disk, the raw store) is measured side by side: each phase on each
of them in turn, in another order in each repeat. Peers come after, one at a time, so that an idle
peer's daemon takes no part in anybody's figures. A repeat goes through all regimes, so that a run that
has no time for another one has figures of each.
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
from .targets.floor import Floor
from .targets.nfs import Ganesha, Nfs
from .targets.nodes import JuiceFsNodes, WeirNodes
from .targets.weir import Local, Mirror, Weir, WeirFile, WeirJournal
from .volumes import Volumes, idle, puts

CLASSES = {each.name: each for each in
           (Local, Mirror, Floor, Raw, Weir, WeirFile, WeirJournal, Disk, Nbdkit, Nfs, Ganesha, WeirNodes,
            JuiceFsNodes, *PEER_CLASSES)}
LATE_S = 90  # what comes after the last repeat


class Run:
    """One run, and what is known of it so far."""

    def __init__(self, site, settings):
        self.site, self.settings = site, settings
        self.samples, self.skipped, self.notes = Samples(), {}, {}
        self.regime, self.repeat, self.round = settings.regimes[0], 0, 0
        self.volumes, self.volume_files = Volumes(self), None
        # Of the raw client, in the present regime and in each.
        self.connections, self.calibrated = {"PUT": 4, "GET": 4, "SMALL GET": 4}, {}
        self.calibration = []
        self.data_set = None  # of linked buckets, once it is made
        self.part_s = {}
        self.began, self.done, self.total = time.monotonic(), 0, 1
        self.store = Store(site, settings)

    def box_s(self, target):
        """How long a phase may last."""
        return self.settings.box_s if target.large else self.settings.peer_box_s

    def probe(self, target):
        return Probe(target, self.store)

    def add(self, row, target, value, cost, **more):
        sample = Sample(row, target.name, self.regime.name, self.repeat, value, self.round,
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

    def plan(self, late=False):
        """Groups with the phases and targets that were asked for, in one regime."""
        first = self.regime == self.settings.regimes[0]
        for group in rows.groups(frozenset(PEERS)):
            phases = [phase for phase in group.phases if phase.rows & set(self.settings.rows)
                      and (first or not phase.near)]
            targets = [name for name in self.settings.targets if name in group.targets
                       and (first or name != "weir-file")]
            core = [name for name in targets if name not in PEERS]
            peers = [name for name in targets if name in PEERS
                     and self.repeat < self.settings.peer_repeats]
            batches = [core] * bool(core) + [[name] for name in peers]
            if phases and batches and group.late == late:
                yield group, phases, batches

    def specials(self):
        """What is measured once, in the present regime, and its name."""
        asked = set(self.settings.rows) if "weir" in self.settings.targets else set()
        if self.regime == self.settings.regimes[0]:
            for name, act in (("puts", puts), ("idle", idle)):
                if name in asked:
                    yield name, lambda act=act: act(self)
        if "mount" in asked:
            yield "mount", self.volumes.mount

    def parts(self):
        """How many parts the run has."""
        total = 0
        for self.repeat in range(self.settings.repeats):
            for self.regime in self.settings.regimes:
                total += sum(len(batches) for late in (False, True)
                             for _, _, batches in self.plan(late))
                total += len(list(self.specials())) if self.repeat == 0 else 0
        return total

    def all(self):
        self.total, took, repeats = self.parts(), 0, 0
        for self.repeat in range(self.settings.repeats):
            if self.repeat and self.too_long(took):
                break
            took = sum(self.in_regime(regime) for regime in self.settings.regimes)
            repeats += 1
        self.regime = self.settings.regimes[0]
        self.store.at(self.regime)
        for self.repeat in range(repeats):
            self.groups(late=True)
        self.repeat = 0
        self.volumes.close()

    def too_long(self, took):
        """Whether one more repeat would end after the run's limit."""
        limit = self.settings.limit_s
        if not limit or time.monotonic() - self.began + took + LATE_S <= limit:
            return False
        self.missing(f"repeat {self.repeat + 1} and later",
                     f"the run would take more than {limit / 60:g} minutes (BENCH_MINUTES)")
        return True

    def in_regime(self, regime):
        """All that this repeat measures in a regime; seconds that it takes in each repeat."""
        self.regime = regime
        self.store.at(regime)
        if "raw" in self.settings.targets:
            if regime.name not in self.calibrated:
                self.calibrated[regime.name] = rows.calibrate(
                    self, Raw(self.site, self.store, self.settings))
            self.connections = self.calibrated[regime.name]
        began = time.monotonic()
        self.groups()
        took = time.monotonic() - began
        if self.repeat == 0:
            for name, act in self.specials():
                self.special(name, act)
        return took

    def groups(self, late=False):
        for group, phases, batches in self.plan(late):
            for batch in batches:
                self.batch(group, phases, batch)

    def special(self, name, act):
        began = time.monotonic()
        self.progress(f"{self.regime.name}: {name}")
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
        self.progress(f"{self.regime.name}, repeat {self.repeat + 1} of "
                      f"{self.settings.repeats}: {group.name} on {', '.join(names)}")
        turn = self.repeat % len(names)
        targets = []
        try:
            for name in names[turn:] + names[:turn]:
                if {f"{name}", f"{name} in {self.regime.name}"} & set(self.skipped):
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
        self.round = 0
        try:
            act()
            return True
        except Unavailable as error:
            now = f" in {self.regime.name}" if error.only_now else ""
            self.missing(f"{target.name}{now}", str(error))
        except Exception as error:  # whatever it is, the others are to be measured
            row = "" if what == "open" else f": {what}"
            self.missing(f"{target.name}{row} in {self.regime.name}", self.why(error))
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
