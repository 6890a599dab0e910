#!/usr/bin/python3
"""Random requests to a disk over NBD, up to 16 at once, and what they must come to.

    disk_model.py --seed N --rounds N --url URL --dir DIR [--cache KIND] [--record SIZE]
        [--journal] [--faults P] [--config FILE] [-- CONNECTION FLAGS]

Serves a volume that is formatted, kills the daemon with SIGKILL at random moments, serves again and
looks at every byte. Blocks of 512 bytes say which request wrote them and where. Some rounds lose
the tier as well: then what was flushed must be there, and each block has its bytes as of the last
flush or later ones.
"""

import argparse
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

import nbd

BLOCK = 512
PAGE = 4096
DISK_BYTES = 16 << 20
BLOCKS = DISK_BYTES // BLOCK
IN_FLIGHT_MAX = 16
ZEROS = 0
SIGKILLED_WITHIN_S = 60


def stamp(seq, block):
    return struct.pack("<QQ", seq, block) * (BLOCK // 16) if seq else bytes(BLOCK)


def content(values, first):
    return b"".join(stamp(seq, first + at) for at, seq in enumerate(values))


def wrong(text):
    print("WRONG:", text, flush=True)
    sys.exit(1)


class Op:
    """A request under way, for the blocks from `first` to `end`."""

    def __init__(self, kind, seq, first=0, end=0, fua=False):
        self.kind, self.seq, self.first, self.end, self.fua = kind, seq, first, end, fua
        self.mark = 0
        self.blocks = range(first, end)
        # What reads may find beside the bytes of when they were sent.
        self.before, self.beside = [], []
        self.buffer, self.extents, self.handle, self.cookie = None, [], None, None

    def changes(self):
        return self.kind in ("write", "zero", "trim")

    def meets(self, other):
        return self.first < other.end and other.first < self.end

    def value(self):
        return self.seq if self.kind == "write" else ZEROS

    def __str__(self):
        fua = " FUA" if self.fua else ""
        return f"{self.kind} {self.seq}{fua} of blocks {self.first}..{self.end}"


class Model:
    """What each block holds, and what it may hold once the machine is lost."""

    def __init__(self, values=None):
        self.now = list(values or [ZEROS] * BLOCKS)
        self.acks = 0
        # Of blocks written since a flush: (acknowledgment, value), oldest first. The first is safe.
        self.history = {}
        self.lost = 0

    def acknowledge(self, op):
        self.acks += 1
        for block in op.blocks:
            self.set(block, op.value())

    def set(self, block, value):
        self.history.setdefault(block, [(0, self.now[block])]).append((self.acks, value))
        self.now[block] = value

    def flushed(self, mark):
        """All that was acknowledged up to `mark` is safe."""
        for block, values in list(self.history.items()):
            safe = max((at for at, (ack, _) in enumerate(values) if ack <= mark), default=0)
            if safe == len(values) - 1:
                del self.history[block]
            else:
                self.history[block] = values[safe:]

    def allowed(self, block, lost):
        past = self.history.get(block) if lost else None
        return {value for _, value in past} if past else {self.now[block]}

    def settle(self, data, pending, lost):
        """The disk's bytes after a crash: must be allowed, and are what the disk holds now."""
        self.acks += 1
        maybe = {}
        for op in pending:
            for block in op.blocks:
                maybe.setdefault(block, set()).add(op.value())
        if not maybe and not (lost and self.history) and data == content(self.now, 0):
            return
        for block in range(BLOCKS):
            have = look(data, block, 0)
            allowed = self.allowed(block, lost) | maybe.get(block, set())
            if have not in allowed:
                wrong(f"block {block} has {name(data, block, 0)} after "
                      f"{'the loss of the tier' if lost else 'kill -9'}, not one of {sorted(allowed)}")
            if lost:
                self.lost += have != self.now[block]
                self.now[block] = have
            elif have != self.now[block]:
                self.set(block, have)
        if lost:
            self.history.clear()


def look(data, block, first):
    """Who wrote a block; `None` if nobody did."""
    piece = data[(block - first) * BLOCK:(block - first + 1) * BLOCK]
    seq = struct.unpack_from("<Q", piece)[0]
    return seq if piece == stamp(seq, block) else None


def name(data, block, first):
    seq = look(data, block, first)
    if seq is not None:
        return f"write {seq}" if seq else "zeros"
    piece = data[(block - first) * BLOCK:(block - first + 1) * BLOCK]
    return f"bytes of no request ({piece[:32].hex()}…)"


class Server:
    """`weir serve`, and what is asked of it by commands."""

    def __init__(self, args):
        self.args, self.weir = args, os.environ["WEIR"]
        self.tier, self.socket = f"{args.dir}/tier", f"{args.dir}/model.sock"
        self.environment = dict(os.environ)

    def run(self, *words):
        done = subprocess.run([self.weir, *words, *self.args.connect], env=self.environment,
                              capture_output=True, text=True)
        if done.returncode:
            wrong(f"weir {' '.join(words)}: {done.stderr}")
        return done.stdout

    def disk(self, verb, *words):
        return self.run("disk", verb, self.args.url, *words)

    def start(self, *words, faults=None):
        self.environment.pop("WEIR_BUCKET_FAULTS", None)
        if faults:
            self.environment["WEIR_BUCKET_FAULTS"] = faults
        words = ["serve", self.args.url, "--tier", self.tier, "--nbd-unix", self.socket,
                 "--log-file", f"{self.args.dir}/model.log", *words]
        if self.args.config:
            words += ["--config", self.args.config]
        if self.args.journal:
            words += ["--journal", f"{self.args.dir}/model-journal"]
        self.run(*words)
        self.pid = self.status()["pid"]

    def status(self):
        text = subprocess.check_output([self.weir, "status", self.args.url, "--json"])
        return json.loads(text)

    def failed(self):
        return sum(row["failed"] for row in self.status()["requests"]["rows"])

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def wait_dead(self):
        end = time.monotonic() + SIGKILLED_WITHIN_S
        while os.path.exists(f"/proc/{self.pid}"):
            if time.monotonic() > end:
                wrong(f"the daemon {self.pid} survives kill -9")
            time.sleep(0.01)

    def lose_tier(self):
        shutil.rmtree(self.tier)

    def connect(self, disk):
        handle = nbd.NBD()
        handle.add_meta_context("base:allocation")
        handle.connect_uri(f"nbd+unix:///{disk}?socket={self.socket}")
        return handle

    def all_bytes(self, disk):
        handle = self.connect(disk)
        step = 4 << 20
        data = b"".join(handle.pread(step, at) for at in range(0, DISK_BYTES, step))
        handle.shutdown()
        return data


class Work:
    """Requests of one life of the daemon."""

    def __init__(self, rng, server, disk, model, seqs):
        self.rng, self.server, self.model, self.seqs = rng, server, model, seqs
        self.handles = [server.connect(disk) for _ in range(rng.randint(1, 4))]
        self.under_way, self.last = [], []

    def range(self, kind):
        rng, record = self.rng, self.server.args.record_blocks
        how = rng.random()
        if how < 0.3:
            first = rng.randrange(BLOCKS // record) * record
            end = first + record * rng.choice([1, 1, 1, 2, 3])
        elif how < 0.6:
            first = rng.randrange(BLOCKS // 8) * 8
            end = first + 8 * rng.choice([1, 1, 4, 16])
        else:
            first = rng.randrange(BLOCKS)
            end = first + rng.choice([1, 3, rng.randint(1, 64), rng.randint(1, 4096)])
        return first, min(end, BLOCKS)

    def next(self):
        rng = self.rng
        kind = rng.choices(["write", "read", "trim", "zero", "status", "flush"],
                           [45, 25, 7, 7, 10, 5])[0]
        if kind == "flush":
            return Op(kind, next(self.seqs))
        fua = kind in ("write", "zero", "trim") and rng.random() < 0.03
        op = Op(kind, next(self.seqs), *self.range(kind), fua)
        # What a request changes no other one changes meanwhile: the order would be anybody's.
        if op.changes() and any(other.changes() and op.meets(other) for other in self.under_way):
            return None
        return op

    def send(self, op):
        handle = op.handle = self.rng.choice(self.handles)
        offset, length = op.first * BLOCK, (op.end - op.first) * BLOCK
        flags = nbd.CMD_FLAG_FUA if op.fua else 0
        op.mark = self.model.acks
        if op.kind in ("read", "status"):
            op.before = self.model.now[op.first:op.end]
            op.beside = [o for o in self.under_way if o.changes() and op.meets(o)]
        elif op.changes():
            for other in self.under_way:
                if not other.changes() and op.meets(other):
                    other.beside.append(op)
        if op.kind == "write":
            data = content([op.seq] * len(op.blocks), op.first)
            op.cookie = handle.aio_pwrite(data, offset, flags=flags)
        elif op.kind == "read":
            op.buffer = nbd.Buffer(length)
            op.cookie = handle.aio_pread(op.buffer, offset)
        elif op.kind == "trim":
            # Parts of pages stay as they are.
            pages = range(-(-offset // PAGE) * PAGE // BLOCK,
                          (offset + length) // PAGE * PAGE // BLOCK)
            op.blocks = pages
            op.cookie = handle.aio_trim(length, offset, flags=flags)
        elif op.kind == "zero":
            op.cookie = handle.aio_zero(length, offset, flags=flags)
        elif op.kind == "status":
            def told(_context, _offset, entries, _error):
                op.extents.extend(entries)
            op.cookie = handle.aio_block_status(length, offset, told)
        else:
            op.cookie = handle.aio_flush()
        self.under_way.append(op)

    def completed(self, op):
        """Whether its reply came; `None` if its connection is dead."""
        try:
            if op.handle.aio_command_completed(op.cookie):
                return True
        except nbd.Error as error:
            if op.handle.aio_is_dead() or op.handle.aio_is_closed():
                return None
            wrong(f"{op}: {error}")
        return None if op.handle.aio_is_dead() or op.handle.aio_is_closed() else False

    def finish(self, op):
        self.last = self.last[-40:] + [str(op)]
        if op.changes():
            self.model.acknowledge(op)
            if op.fua:
                # Itself, and all that had returned before it was sent.
                self.model.flushed(op.mark)
                for block in op.blocks:
                    self.model.history.pop(block, None)
        elif op.kind == "flush":
            self.model.flushed(op.mark)
        elif op.kind == "read":
            self.compare(op, op.buffer.to_bytearray())
        else:
            self.compare_extents(op)

    def allowed(self, op, block):
        values = {op.before[block - op.first]}
        return values | {o.value() for o in op.beside if block in o.blocks}

    def compare(self, op, data):
        if data == content(op.before, op.first):
            return
        for block in range(op.first, op.end):
            if look(data, block, op.first) not in self.allowed(op, block):
                self.told_wrong(op, f"block {block} has {name(data, block, op.first)}, not one of "
                                    f"{sorted(self.allowed(op, block))}")

    def compare_extents(self, op):
        at = op.first * BLOCK
        for length, status in zip(op.extents[::2], op.extents[1::2]):
            if status & nbd.STATE_ZERO:
                for block in range(at // BLOCK, min(-(-(at + length) // BLOCK), op.end)):
                    if ZEROS not in self.allowed(op, block):
                        self.told_wrong(op, f"block {block} is told as zeros, and has "
                                            f"{sorted(self.allowed(op, block))}")
            at += length
        if at == op.first * BLOCK:
            self.told_wrong(op, "no extents")

    def told_wrong(self, op, text):
        print("\n".join(self.last))
        print("under way:", *self.under_way, sep="\n  ")
        wrong(f"{op}: {text}")

    def poll(self):
        handle = self.rng.choice([op.handle for op in self.under_way])
        if not (handle.aio_is_dead() or handle.aio_is_closed()):
            try:
                handle.poll(5)
            except nbd.Error:
                pass  # A dead connection: its requests tell.
        dead = []
        for op in list(self.under_way):
            done = self.completed(op)
            if done:
                self.under_way.remove(op)
                self.finish(op)
            elif done is None:
                self.under_way.remove(op)
                dead.append(op)
        return dead

    def requests(self, count):
        """Sends requests; some of them are still under way when this returns."""
        sent = 0
        while sent < count:
            op = self.next() if len(self.under_way) < IN_FLIGHT_MAX else None
            if op:
                self.send(op)
                sent += 1
            if self.under_way and (op is None or self.rng.random() < 0.5) and self.poll():
                wrong(f"the connection broke\nlast: {self.last}")

    def drain(self):
        """Waits for what is under way. Returns what will never have a reply."""
        dead = []
        while self.under_way:
            dead += self.poll()
        return dead


def compare_disk(server, disk, values, when):
    data = server.all_bytes(disk)
    if data == content(values, 0):
        return
    for block in range(BLOCKS):
        if look(data, block, 0) != values[block]:
            wrong(f"{disk} {when}: block {block} has {name(data, block, 0)}, "
                  f"not write {values[block]}")


class Run:
    def __init__(self, args):
        self.args, self.rng = args, random.Random(args.seed)
        self.server, self.seqs = Server(args), iter(range(1, 1 << 40))
        self.disk, self.model = "d0", Model()
        self.copies = {}
        self.lives = self.losses = self.unanswered = self.failures = self.blocks_lost = 0

    def start(self, *words):
        faults = None
        if self.args.faults:
            faults = f"p={self.args.faults},seed={self.rng.randrange(1 << 30)}"
        self.server.start(*words, faults=faults)

    def copy(self):
        """A snapshot, and perhaps a clone to go on with, while nothing is under way."""
        server, number = self.server, next(self.seqs)
        server.disk("snapshot", self.disk, f"s{number}")
        snapshot = f"{self.disk}@s{number}"
        self.copies[snapshot] = list(self.model.now)
        if self.rng.random() < 0.5:
            source = self.rng.choice([snapshot, self.disk])
            old, self.disk = self.disk, f"d{number}"
            server.disk("clone", source, self.disk)
            server.disk("delete", old)
            self.model = Model(self.copies[snapshot])
        while len(self.copies) > 2:
            gone = self.rng.choice(list(self.copies))
            server.disk("delete", gone)
            del self.copies[gone]

    def round(self):
        work = None
        for _ in range(self.rng.randint(1, 3)):
            if work:
                if work.drain():
                    wrong("the connection broke")
                for handle in work.handles:
                    handle.shutdown()
                self.copy()
            work = Work(self.rng, self.server, self.disk, self.model, self.seqs)
            work.requests(self.rng.randint(20, self.args.requests))
        self.failures += self.server.failed()
        self.server.kill()
        pending = work.drain()
        self.server.wait_dead()
        self.unanswered += len(pending)
        lost = self.rng.random() < 0.4
        if lost:
            self.losses += 1
            self.server.lose_tier()
        self.start(*(["--accept-loss", "tier"] if lost else []))
        changed = [op for op in pending if op.changes()]
        before = self.model.lost
        self.model.settle(self.server.all_bytes(self.disk), changed, lost)
        self.blocks_lost += self.model.lost - before
        for copy, values in self.copies.items():
            compare_disk(self.server, copy, values, "after a crash")
        self.lives += 1

    def all(self):
        self.start()
        self.server.disk("create", self.disk, "--size", str(DISK_BYTES), "--cache",
                         self.args.cache, "--record", str(self.args.record))
        for _ in range(self.args.rounds):
            self.round()
        self.server.run("stop", self.args.url)
        self.server.wait_dead()
        self.server.lose_tier()
        self.server.start()
        compare_disk(self.server, self.disk, self.model.now, "from the bucket")
        for copy, values in self.copies.items():
            compare_disk(self.server, copy, values, "from the bucket")
        self.server.run("stop", self.args.url)
        self.server.wait_dead()
        self.server.lose_tier()
        print(f"{next(self.seqs)} requests, {self.lives} kills, {self.losses} tiers lost "
              f"with {self.blocks_lost} blocks, "
              f"{self.unanswered} requests without a reply, {self.failures} bucket requests failed")
        if self.args.faults and not self.failures:
            wrong("no bucket request failed: the faults are not there")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--requests", type=int, default=300, help="at most, between two copies")
    parser.add_argument("--url", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--cache", default="none")
    parser.add_argument("--record", type=int, default=1 << 20, help="bytes")
    parser.add_argument("--journal", action="store_true")
    parser.add_argument("--faults", type=float, default=0, help="share of bucket requests")
    parser.add_argument("--config")
    parser.add_argument("connect", nargs="*")
    args = parser.parse_args()
    args.record_blocks = args.record // BLOCK
    print(f"seed {args.seed}", flush=True)
    Run(args).all()


main()
