"""What was measured: every single value, and what it cost.

A sample is one value of one row on one target, in one repeat and round in one regime. Nothing is averaged
before it is written down.
"""

import dataclasses
import statistics
import time

from . import table
from .site import cpu_s, loopback_bytes


@dataclasses.dataclass
class Sample:
    """One value. Costs are those of the timed part."""

    row: str
    target: str
    regime: str
    repeat: int
    value: float
    round: int = 0  # within the repeat
    seconds: float = None
    bytes: int = None  # of the user's data
    ops: int = None  # operations of the user
    cpu_s: float = None  # of the target's processes
    server_cpu_s: float = None
    proxy_cpu_s: float = None
    loopback_bytes: int = None  # all of loopback, twice where a proxy is between
    requests: dict = dataclasses.field(default_factory=dict)  # of the bucket, where the target knows


class Probe:
    """Counts what the work inside it costs: `with Probe(target, store) as cost`."""

    def __init__(self, target, store):
        self.target, self.store = target, store

    def _counters(self):
        return (time.perf_counter(), cpu_s(self.target.pids()), *self.store.cpu_s(),
                loopback_bytes())

    def __enter__(self):
        self.asked = self.target.requests()
        self.before = self._counters()
        return self

    def __exit__(self, kind, error, trace):
        if kind:
            return
        spent = [after - before for after, before in zip(self._counters(), self.before)]
        self.seconds, self.cpu_s, self.server_cpu_s, self.proxy_cpu_s = spent[:4]
        self.loopback_bytes = spent[4]
        now = self.target.requests()
        self.requests = {key: now[key] - self.asked.get(key, 0) for key in now
                         if now[key] > self.asked.get(key, 0)}

    def also(self, other):
        """Takes on what another probe counted."""
        for name in ("seconds", "cpu_s", "server_cpu_s", "proxy_cpu_s", "loopback_bytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for key, count in other.requests.items():
            self.requests[key] = self.requests.get(key, 0) + count

    def costs(self):
        return {"cpu_s": self.cpu_s, "server_cpu_s": self.server_cpu_s,
                "proxy_cpu_s": self.proxy_cpu_s, "loopback_bytes": self.loopback_bytes,
                "requests": self.requests}


class Samples:
    """All samples of a run."""

    def __init__(self):
        self.all = []

    def add(self, sample):
        self.all.append(sample)

    def of(self, row, target, regime):
        """The samples of one cell, by repeat and round."""
        return {(s.repeat, s.round): s for s in self.all
                if (s.row, s.target, s.regime) == (row, target, regime)}

    def cells(self):
        """Row, target, regime and the samples of each cell, in the order of measurement."""
        found = {}
        for sample in self.all:
            found.setdefault((sample.row, sample.target, sample.regime), []).append(sample)
        return found


def middle(values):
    return statistics.median(values)


def cpu(samples):
    """The median of what CPU one row took, with its unit; empty where it is not told."""
    told = [found for found in map(table.cpu, samples) if found]
    return (middle([value for value, _ in told]), told[0][1]) if told else None


def spread(values):
    """(max - min) / median; 0 for one value."""
    median = statistics.median(values)
    return (max(values) - min(values)) / median if median else 0.0


def percentile(values, percent):
    """The smallest value that so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * percent // 100) - 1))]
