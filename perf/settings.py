"""What a run measures: sizes, targets, rows and regimes, from the environment.

Every setting has a default for the full run and one for the smoke run, and is written into the
results, so that two results can be compared.
"""

import dataclasses
import os

from .table import WORDS as ROWS

LARGE_ROWS = ("write", "warm", "random", "mmap", "cold", "daemon")
WEIR = ("weir", "weir-file", "weir-journal", "weir-nodes")
PEERS = ("juicefs", "juicefs-wb", "juicefs-nodes", "rclone", "s3fs", "seaweedfs", "s3backer")
DISKS = ("disk", "nbdkit")
NFS = ("nfs", "ganesha")
TARGETS = ("local", "floor", "raw", *WEIR, *DISKS, *NFS, *PEERS)
SHOWN = ("local", "mirror", *TARGETS[1:])  # the mirror file of a weir is measured with it
SMALL_DIR_FILES = 100  # small objects in each directory of a linked data set


class Refused(Exception):
    """The run cannot begin; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class Regime:
    """What the way to the store is like, for whoever goes it: weir, peers and the raw client."""

    name: str
    latency_ms: float  # of a round trip
    rate_mib: float  # a second of each connection, each way; 0 is no limit
    total_mib: float  # of all connections together, each way; 0 is no limit

    @property
    def free(self):
        """Whether nothing is between, so that there is no proxy."""
        return not (self.latency_ms or self.rate_mib or self.total_mib)

    def words(self):
        """For people."""
        limits = [f"{rate:g} MiB/s {of}" for rate, of in
                  ((self.rate_mib, "a connection"), (self.total_mib, "over all connections"))
                  if rate]
        return " and ".join([f"{self.latency_ms:g} ms a round trip", *limits])


# In `cpu` the CPUs are what is short, in `wire` the network is, as on a user's machine.
REGIMES = {each.name: each for each in (
    Regime("cpu", 0, 0, 0), Regime("wire", 20, 0, 200),
    Regime("far", 20, 80, 0))}  # of figures before 2026-11-25


@dataclasses.dataclass(frozen=True)
class Settings:
    """One run. Sizes are in the unit their name ends with."""

    smoke: bool
    rows: tuple
    targets: tuple
    regimes: tuple  # of Regime
    repeats: int
    limit_s: float  # no repeat begins that would end later; 0 is no limit
    rounds: int  # of reads of the same file through weir and beside it, in each repeat
    large_mib: int  # the large file of weir, local and raw
    peer_mib: int  # that of peers, some of which are slow
    object_mib: int  # size of the raw store's objects; weir's segments are as large
    files: int
    file_kib: int
    fio_s: float
    fsyncs: int  # by each writer
    box_s: float  # a phase that has run so long ends, and its rate is taken from what it did
    peer_box_s: float  # the same for peers
    peer_repeats: int
    pack_files: int  # how many files the row `puts` makes
    volume_files: int  # how many files the volume of row `mount` has
    volume_box_s: float  # and how long making them may take
    idle_s: float  # how long a mount is watched that nobody uses
    store: str  # memory or disk: where the S3 server keeps its objects


FULL = Settings(
    smoke=False, rows=ROWS, targets=TARGETS, regimes=(REGIMES["cpu"], REGIMES["wire"]), repeats=3,
    limit_s=0, rounds=4, large_mib=1024, peer_mib=256, object_mib=16, files=10_000, file_kib=16,
    fio_s=1, fsyncs=200, box_s=8, peer_box_s=3, peer_repeats=2, pack_files=100_000,
    volume_files=1_000_000, volume_box_s=300, idle_s=180, store="memory")
SMOKE = dataclasses.replace(
    FULL, smoke=True, targets=("local", "floor", "raw", *WEIR, *DISKS, *NFS), repeats=1, rounds=1,
    regimes=(REGIMES["cpu"], dataclasses.replace(REGIMES["wire"], latency_ms=4.0)),
    large_mib=16, peer_mib=16, object_mib=4, files=100, fsyncs=10, box_s=5, peer_repeats=1,
    pack_files=400, volume_files=1_000, volume_box_s=10, idle_s=3)
ALONE_LIMIT_S = 24 * 60  # of a full run without peers; what comes after the last repeat is in it


def _words(name, allowed, default):
    words = tuple(word for word in os.environ.get(name, "").replace(",", " ").split())
    for word in words:
        if word not in allowed:
            raise Refused(f"{name}: there is no {word}; there are {', '.join(allowed)}")
    return words or default


def _number(name, kind, default, least):
    text = os.environ.get(name, "")
    try:
        value = kind(text) if text else default
    except ValueError:
        raise Refused(f"{name}={text} is not a number") from None
    if value < least:
        raise Refused(f"{name}={text} is below {least}")
    return value


def _regimes(base):
    """Those that were asked for; the way of those with a network is set apart from their names."""
    known = {**REGIMES, **{each.name: each for each in base.regimes}}
    names = _words("BENCH_REGIMES", tuple(REGIMES), tuple(each.name for each in base.regimes))

    def changed(regime):
        if regime.free:
            return regime
        total = regime.total_mib and _number("BENCH_TOTAL_MIB", float, regime.total_mib, 1)
        rate = regime.rate_mib and _number("BENCH_RATE_MIB", float, regime.rate_mib, 1)
        return dataclasses.replace(regime, rate_mib=rate, total_mib=total, latency_ms=_number(
            "BENCH_LATENCY", float, regime.latency_ms, 0))
    return tuple(changed(known[name]) for name in dict.fromkeys(names))


def read():
    """The settings of this run. Raises Refused with the variable that is wrong."""
    kind = os.environ.get("BENCH") or "full"
    if kind not in ("full", "smoke"):
        raise Refused(f"BENCH={kind}: it is full or smoke")
    base = SMOKE if kind == "smoke" else FULL
    targets = _words("BENCH_TARGETS", TARGETS, base.targets)
    peers = os.environ.get("BENCH_PEERS") or "all"
    if peers != "all":
        wanted = () if peers == "none" else _words("BENCH_PEERS", PEERS, ())
        targets = tuple(name for name in targets if name not in PEERS or name in wanted)
    store = os.environ.get("BENCH_STORE") or base.store
    if store not in ("memory", "disk"):
        raise Refused(f"BENCH_STORE={store}: it is memory or disk")
    alone = not base.smoke and not set(PEERS) & set(targets)
    return dataclasses.replace(
        base, targets=targets, store=store, regimes=_regimes(base),
        limit_s=60 * _number("BENCH_MINUTES", float, ALONE_LIMIT_S / 60 if alone else 0, 0),
        rows=_words("BENCH_ROWS", ROWS, base.rows),
        repeats=_number("BENCH_REPEATS", int, base.repeats, 1),
        large_mib=_number("BENCH_MIB", int, base.large_mib, base.object_mib),
        peer_mib=_number("BENCH_PEER_MIB", int, base.peer_mib, 1),
        files=_number("BENCH_FILES", int, base.files, 8),
        box_s=_number("BENCH_BOX_S", float, base.box_s, 1),
        peer_box_s=_number("BENCH_PEER_BOX_S", float, base.peer_box_s, 1),
        peer_repeats=_number("BENCH_PEER_REPEATS", int, base.peer_repeats, 1),
        pack_files=_number("BENCH_PACK_FILES", int, base.pack_files, 1),
        volume_files=_number("BENCH_VOLUME_FILES", int, base.volume_files, 1),
        volume_box_s=_number("BENCH_VOLUME_BOX_S", float, base.volume_box_s, 1),
        idle_s=_number("BENCH_IDLE_S", float, base.idle_s, 1))


def disk_need_mib(settings):
    """About how much room the run takes on the disk of the work directory: see site.py for what is
    removed when."""
    mounted = sum(name in settings.targets for name in ("local", "weir", "weir-file"))
    small = settings.files * settings.file_kib // 1024
    need, runs = 2048, settings.repeats * len(settings.regimes)
    if set(LARGE_ROWS) & set(settings.rows):
        need += settings.large_mib * (mounted * 2 + any("juice" in t for t in settings.targets))
        need += settings.peer_mib * 4
    if "files" in settings.rows:
        need += small * 2 * (mounted + 1 + sum(name in settings.targets for name in PEERS)) * runs
    if {"ls", "rm"} & set(settings.rows):
        need += small * 4 * settings.repeats
    if "links" in settings.rows:
        need += 2 * settings.large_mib + small * 4 * runs
    if "puts" in settings.rows:
        need += settings.pack_files * settings.file_kib // 1024 * 2
    return need if settings.store == "memory" else need * 2
