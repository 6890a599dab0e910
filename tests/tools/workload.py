#!/usr/bin/env python3
"""Works on a mounted volume until it is told to stop or the mount dies, and checks what is left.

    workload.py run   MNT STATE --seed N [--workers K] [--ops N] [--max-size BYTES]
                        [--few-syncs] [--survive]
    workload.py check MNT STATE [--lossy] [--manifest FILE]

Each worker has a directory of its own and names of its own in a shared one, so that its operations
have one order. It journals each operation in STATE, outside the mount, before it begins and after
it was acknowledged. `check` plays the journal on a model and compares:

strict  (a killed daemon) everything acknowledged is there, byte for byte. The one operation that
        was under way is wholly there or not at all; a write may be there in part, in its range.
--lossy (a power cut, a lost machine) the names are as they were after some operation not before the
        last acknowledged fsync, and each byte of a file is one that was there since the file's last
        fsync, or zero where the file was no longer than that since.

Either check leaves in STATE what the volume holds now, so that the next run goes on from there. For
a lossy one after it, that must have been made durable meanwhile: unmount first.
Exit codes: 0 fine, 1 the volume is wrong, 4 an operation failed that should not have.
"""

import argparse
import copy
import ctypes
import errno
import hashlib
import json
import os
import pickle
import random
import stat
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
KEEP_SIZE, PUNCH_HOLE = 1, 2
XATTR = "user.weir-test"
SHARED = "shared"
# What calls answer once their daemon is gone.
DEAD = (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO, errno.ESHUTDOWN)


def data_of(tag, length):
    """The bytes that an operation writes; every third time they can be compressed."""
    rng = random.Random(tag)
    if tag % 3 == 0:
        return (rng.randbytes(24) * (length // 24 + 1))[:length]
    return rng.randbytes(length)


class Node:
    def __init__(self, kind, mode, target=None):
        self.kind, self.mode, self.target = kind, mode, target
        self.xattr = None
        self.content = b""
        # All contents since the last fsync, that one included.
        self.versions = [b""]

    def set(self, content):
        self.content = bytes(content)
        self.versions.append(self.content)


class Model:
    """What one worker's files should be."""

    def __init__(self, worker):
        self.worker = worker
        self.home = f"w{worker}"
        self.names, self.nodes, self.next_id = {}, {}, 1

    def add(self, path, node):
        self.names[path] = self.next_id
        self.nodes[self.next_id] = node
        self.next_id += 1

    def node(self, path):
        return self.nodes[self.names[path]]

    def paths(self, kind):
        return sorted(p for p, i in self.names.items() if self.nodes[i].kind == kind)

    def view(self):
        """The names, without the contents of files."""
        seen = {}
        for path, number in self.names.items():
            node = self.nodes[number]
            seen[path] = (node.kind, number, node.mode, node.target, node.xattr)
        return seen

    def apply(self, op):
        getattr(self, "do_" + op["op"])(op)

    def do_create(self, op):
        self.add(op["path"], Node("file", op["mode"]))

    def do_mkdir(self, op):
        self.add(op["path"], Node("dir", op["mode"]))

    def do_symlink(self, op):
        self.add(op["path"], Node("symlink", 0o777, op["target"]))

    def do_write(self, op):
        node = self.node(op["path"])
        old, off = node.content, op["off"]
        data = data_of(op["tag"], op["len"])
        node.set(old[:off].ljust(off, b"\0") + data + old[off + len(data):])

    def do_append(self, op):
        node = self.node(op["path"])
        node.set(node.content + data_of(op["tag"], op["len"]))

    def do_truncate(self, op):
        node = self.node(op["path"])
        node.set(node.content[: op["size"]].ljust(op["size"], b"\0"))

    def do_empty(self, op):
        self.node(op["path"]).set(b"")

    def do_punch(self, op):
        node = self.node(op["path"])
        off, end = op["off"], min(op["off"] + op["len"], len(node.content))
        node.set(node.content[:off] + bytes(max(end - off, 0)) + node.content[max(off, end):])

    def do_rename(self, op):
        src, dst = op["path"], op["to"]
        if self.names.get(dst) == self.names[src]:
            return  # two names of one file: POSIX does nothing
        moved = {p: i for p, i in self.names.items() if p == src or p.startswith(src + "/")}
        for path in moved:
            del self.names[path]
        for path, number in moved.items():
            self.names[dst + path[len(src):]] = number

    def do_link(self, op):
        self.names[op["to"]] = self.names[op["path"]]

    def do_unlink(self, op):
        del self.names[op["path"]]

    do_rmdir = do_orphan = do_unlink

    def do_chmod(self, op):
        self.node(op["path"]).mode = op["mode"]

    def do_setxattr(self, op):
        self.node(op["path"]).xattr = op["value"]

    def do_fsync(self, op):
        node = self.node(op["path"])
        node.versions = [node.content]

    def do_fsyncdir(self, op):
        pass


# Operations whose effect on a file's bytes may be there in part.
PARTIAL = ("write", "append", "punch")
CONTENT = PARTIAL + ("truncate", "empty")


class Chooser:
    """Draws operations that must succeed."""

    def __init__(self, model, seed, max_size, few_syncs):
        self.model, self.max_size, self.few_syncs = model, max_size, few_syncs
        self.rng = random.Random(seed)
        self.queue = []
        self.count = 0

    def name(self):
        self.count += 1
        dirs = self.model.paths("dir")
        leaf = f"{self.model.worker}-{self.rng.randrange(1 << 30):x}-{self.count}"
        return self.rng.choice(dirs + [self.model.home, SHARED]) + "/" + leaf

    def length(self):
        draw = self.rng.random()
        most = 4096 if draw < 0.5 else 70_000 if draw < 0.9 else self.max_size
        return self.rng.randint(1, min(most, self.max_size))

    def draw(self):
        if self.queue:
            return self.queue.pop(0)
        rng, model = self.rng, self.model
        files, dirs = model.paths("file"), model.paths("dir")
        if len(files) < 4:
            return self.new_file(self.name())
        path = rng.choice(files)
        size = len(model.node(path).content)
        tag = rng.randrange(1 << 40)
        kinds = "write write write append append truncate empty punch create create rename rename over"
        kinds += " link unlink unlink mkdir rmdir symlink chmod setxattr fsync fsync fsyncdir replace"
        kinds += " verify verify orphan dirmove"
        if len(files) > 30:
            kinds += " unlink" * 6
        kind = rng.choice(kinds.split())
        if self.few_syncs and kind in ("fsync", "fsyncdir", "replace") and rng.random() < 0.95:
            kind = "write"
        if kind == "write":
            length = self.length()
            most = max(self.max_size - length, 0)
            off = min(rng.choice([0, rng.randint(0, size), size + rng.randint(0, 5000)]), most)
            return {"op": kind, "path": path, "off": off, "len": length, "tag": tag}
        if kind == "append":
            length = min(self.length(), max(self.max_size - size, 1))
            return {"op": kind, "path": path, "len": length, "tag": tag}
        if kind == "truncate":
            to = rng.choice([rng.randint(0, size), min(size + rng.randint(0, 9000), self.max_size)])
            return {"op": kind, "path": path, "size": to}
        if kind == "punch":
            return {"op": kind, "path": path, "off": rng.randint(0, size), "len": self.length()}
        if kind == "create":
            return self.new_file(self.name())
        if kind == "rename":
            return {"op": "rename", "path": path, "to": self.name()}
        if kind == "over":
            return {"op": "rename", "path": path, "to": rng.choice(files)}
        if kind == "link":
            return {"op": kind, "path": path, "to": self.name()}
        if kind == "mkdir" and len(dirs) < 8:
            return {"op": kind, "path": self.name(), "mode": 0o755}
        if kind == "rmdir":
            empty = [d for d in dirs if not any(p.startswith(d + "/") for p in model.names)]
            if empty:
                return {"op": kind, "path": rng.choice(empty)}
        if kind == "dirmove" and dirs:
            src, dst = rng.choice(dirs), self.name()
            if not dst.startswith(src + "/"):
                return {"op": "rename", "path": src, "to": dst}
        if kind == "symlink":
            return {"op": kind, "path": self.name(), "target": f"to/{tag:x}"}
        if kind == "chmod":
            return {"op": kind, "path": path, "mode": rng.choice([0o600, 0o644, 0o755, 0o640])}
        if kind == "setxattr":
            return {"op": kind, "path": path, "value": f"{tag:x}"}
        if kind == "fsyncdir":
            return {"op": kind, "path": os.path.dirname(path)}
        if kind == "replace":
            return self.replace(path, tag)
        if kind == "unlink":
            return {"op": kind, "path": rng.choice(files + model.paths("symlink"))}
        if kind in ("empty", "fsync", "orphan", "verify"):
            return {"op": kind, "path": path, "tag": tag}
        return {"op": "verify", "path": path}

    def new_file(self, path):
        tag = self.rng.randrange(1 << 40)
        self.queue.append({"op": "write", "path": path, "off": 0, "len": self.length(), "tag": tag})
        return {"op": "create", "path": path, "mode": 0o644}

    def replace(self, path, tag):
        """What careful programs do: write beside, sync, rename over, sync the directory."""
        beside = os.path.dirname(path) + f"/{self.model.worker}-new-{tag:x}"
        self.queue += [
            {"op": "write", "path": beside, "off": 0, "len": self.length(), "tag": tag},
            {"op": "fsync", "path": beside},
            {"op": "rename", "path": beside, "to": path},
            {"op": "fsyncdir", "path": os.path.dirname(path)},
        ]
        return {"op": "create", "path": beside, "mode": 0o644}


class Wrong(Exception):
    pass


class opened:
    """An open file; what its close says is ignored, for the operation was acknowledged before."""

    def __init__(self, path, flags, mode=0o644):
        self.fd = os.open(path, flags, mode)

    def __enter__(self):
        return self.fd

    def __exit__(self, *_):
        try:
            os.close(self.fd)
        except OSError:
            pass


def write_all(fd, data, offset=None):
    done = 0
    while done < len(data):
        part = data[done:]
        done += os.write(fd, part) if offset is None else os.pwrite(fd, part, offset + done)


def read_all(path):
    with open(path, "rb", buffering=0) as file:
        parts = []
        while part := file.read(1 << 20):
            parts.append(part)
        return b"".join(parts)


def perform(op, model, ack):
    """Does it, and says `ack` as soon as it is acknowledged."""
    kind, path = op["op"], op["path"]
    if kind == "create":
        with opened(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, op["mode"]):
            ack()
    elif kind == "write":
        with opened(path, os.O_WRONLY) as fd:
            write_all(fd, data_of(op["tag"], op["len"]), op["off"])
            ack()
    elif kind == "append":
        with opened(path, os.O_WRONLY | os.O_APPEND) as fd:
            write_all(fd, data_of(op["tag"], op["len"]))
            ack()
    elif kind == "empty":
        with opened(path, os.O_WRONLY | os.O_TRUNC):
            ack()
    elif kind == "punch":
        with opened(path, os.O_WRONLY) as fd:
            off, length = ctypes.c_int64(op["off"]), ctypes.c_int64(op["len"])
            if LIBC.fallocate(fd, KEEP_SIZE | PUNCH_HOLE, off, length):
                raise OSError(ctypes.get_errno(), "fallocate", path)
            ack()
    elif kind == "orphan":
        before = model.node(path)
        with opened(path, os.O_RDWR) as fd:
            os.unlink(path)
            ack()
            if sum(i == model.names.get(path) for i in model.names.values()) > 1:
                return  # it has other names
            extra = data_of(op["tag"], 5000)
            write_all(fd, extra, len(before.content))
            found = os.pread(fd, len(before.content) + 6000, 0)
            if found != (before.content + extra)[: len(found)] or not found:
                raise Wrong(f"{path}: an unlinked open file reads back wrong")
    elif kind in ("fsync", "fsyncdir"):
        with opened(path, os.O_RDONLY) as fd:
            os.fsync(fd)
            ack()
    elif kind == "verify":
        explain(path, read_all(path), [model.node(path).content], exact=True)
    else:
        {
            "truncate": lambda: os.truncate(path, op["size"]),
            "mkdir": lambda: os.mkdir(path, op["mode"]),
            "rmdir": lambda: os.rmdir(path),
            "symlink": lambda: os.symlink(op["target"], path),
            "rename": lambda: os.rename(path, op["to"]),
            "link": lambda: os.link(path, op["to"]),
            "unlink": lambda: os.unlink(path),
            "chmod": lambda: os.chmod(path, op["mode"]),
            "setxattr": lambda: os.setxattr(path, XATTR, op["value"].encode()),
        }[kind]()
        ack()


def explain(path, got, versions, exact):
    """Raises unless `got` is one of the versions, or (not exact) made of their bytes."""
    if got in versions:
        return
    sizes = [len(v) for v in versions]
    if exact:
        want = versions[0]
        at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        raise Wrong(
            f"{path}: {len(got)} bytes, want {' or '.join(map(str, sizes))}; first difference at "
            f"{at}: have {got[at:at + 8].hex()}, want {want[at:at + 8].hex()}"
        )
    if not min(sizes) <= len(got) <= max(sizes):
        raise Wrong(f"{path}: {len(got)} bytes, but it had {min(sizes)} to {max(sizes)} since its fsync")
    # Each byte that differs from every version is 1 in `strange`.
    differs = bytes([0]) + bytes([1]) * 255
    strange = int.from_bytes(b"\1" * len(got), "little")
    number = int.from_bytes(got, "little")
    for version in versions:
        want = int.from_bytes(version[: len(got)], "little")
        mask = (number ^ want).to_bytes(len(got), "little").translate(differs)[: len(version)]
        strange &= int.from_bytes(mask.ljust(len(got), b"\1"), "little")
    flags = bytearray(strange.to_bytes(len(got), "little"))
    for at in range(min(sizes), len(got)):
        flags[at] &= got[at] != 0
    at = flags.find(1)
    if at >= 0:
        raise Wrong(
            f"{path}: byte {at} of {len(got)} is {got[at]:#x}, which was never there since its fsync "
            f"({len(versions)} versions, {flags.count(1)} such bytes)"
        )


def run_worker(args, worker):
    os.chdir(args.mnt)  # relative paths never leave the mount, not even when it is taken away
    state = f"{args.state}/{worker}.pickle"
    if os.path.exists(state):
        with open(state, "rb") as file:
            model = pickle.load(file)
    else:
        model = Model(worker)
    chooser = Chooser(model, f"{args.seed}/{worker}", args.max_size, args.few_syncs)
    journal = os.open(f"{args.state}/{worker}.journal", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    done = 0
    op = None
    try:
        while args.ops == 0 or done < args.ops:
            op = chooser.draw()
            acked = False
            if op["op"] != "verify":
                os.write(journal, (json.dumps(op) + "\n").encode())

            def ack():
                nonlocal acked
                if op["op"] != "orphan":
                    model.apply(op)
                os.write(journal, b"ack\n")
                acked = True

            perform(op, model, ack)
            if op["op"] == "orphan" and acked:
                model.apply(op)
            if len(model.nodes) > 200:
                kept = set(model.names.values())
                model.nodes = {i: n for i, n in model.nodes.items() if i in kept}
            done += 1
    except OSError as error:
        if args.survive or error.errno not in DEAD:
            print(f"worker {worker}: {op}: {error}", flush=True)
            return 4
    except Wrong as error:
        print(f"worker {worker}: {op}: {error}", flush=True)
        return 1
    print(f"worker {worker}: {done} operations", flush=True)
    return 0


def run(args):
    os.makedirs(args.state, exist_ok=True)
    if not os.path.exists(f"{args.state}/0.pickle"):
        for name in [SHARED] + [f"w{k}" for k in range(args.workers)]:
            os.mkdir(f"{args.mnt}/{name}")
        fd = os.open(args.mnt, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        for k in range(args.workers):
            save(args.state, Model(k))
    pids = []
    for worker in range(args.workers):
        pid = os.fork()
        if pid == 0:
            code = 5
            try:
                code = run_worker(args, worker)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        pids.append(pid)
    return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF for pid in pids)


def save(state, model):
    kept = set(model.names.values())
    model.nodes = {i: n for i, n in model.nodes.items() if i in kept}
    for node in model.nodes.values():
        node.versions = [node.content]
    with open(f"{state}/{model.worker}.pickle.new", "wb") as file:
        pickle.dump(model, file)
    os.rename(f"{state}/{model.worker}.pickle.new", f"{state}/{model.worker}.pickle")


def scan(mnt):
    """All names below the mount point: path -> what is there."""
    found = {}
    stack = [""]
    while stack:
        directory = stack.pop()
        for name in sorted(os.listdir(f"{mnt}/{directory}")):
            path = f"{directory}/{name}" if directory else name
            full = f"{mnt}/{path}"
            info = os.lstat(full)
            kind = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "symlink"}.get(
                stat.S_IFMT(info.st_mode), "other"
            )
            target = os.readlink(full) if kind == "symlink" else None
            xattr = None
            if kind == "file" and XATTR in os.listxattr(full):
                xattr = os.getxattr(full, XATTR).decode()
            mode = stat.S_IMODE(info.st_mode)
            found[path] = (kind, info.st_ino, mode, target, xattr, info.st_nlink)
            if kind == "dir":
                stack.append(path)
    return found


def differences(view, disk):
    """What of the names is not as the model has it."""
    wrong = [f"{p}: missing" for p in sorted(view.keys() - disk.keys())]
    wrong += [f"{p}: should not be there" for p in sorted(disk.keys() - view.keys())]
    numbers = {}
    links = {}
    for path, (_, number, *_rest) in view.items():
        links[number] = links.get(number, 0) + 1
    for path in sorted(view.keys() & disk.keys()):
        kind, number, mode, target, xattr = view[path]
        have = disk[path]
        want = (kind, mode, target, xattr)
        if (have[0], have[2], have[3], have[4]) != want:
            wrong.append(f"{path}: {(have[0], have[2], have[3], have[4])}, want {want}")
        if numbers.setdefault(number, have[1]) != have[1]:
            wrong.append(f"{path}: is no link to the file it was linked to")
        if kind == "file" and have[5] != links[number]:
            wrong.append(f"{path}: {have[5]} links, want {links[number]}")
    return wrong


def owned(worker, disk):
    mine = {}
    for path, entry in disk.items():
        top, _, rest = path.partition("/")
        if (top == f"w{worker}" and rest) or (top == SHARED and rest.startswith(f"{worker}-")):
            mine[path] = entry
    return mine


def read_journal(path):
    """Acknowledged operations, and the one under way."""
    acked, pending = [], None
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line == "ack\n":
                    acked.append(pending)
                    pending = None
                else:
                    pending = json.loads(line)
    return acked, pending


def check_strict(model, acked, pending, disk, mnt):
    for op in acked:
        model.apply(op)
        trim(model)
    after = copy.deepcopy(model)
    if pending:
        after.apply(pending)
    for chosen in (model, after):
        if not differences(chosen.view(), disk):
            break
    else:
        wrong = differences(model.view(), disk)[:5]
        wrong += [f"(with the one under way, {pending}:)"] + differences(after.view(), disk)[:5]
        raise Wrong("names are wrong: " + "; ".join(wrong))
    touched = None
    if pending and pending["op"] in CONTENT:
        touched = chosen.names[pending["path"]]
    for path, number in sorted(chosen.names.items()):
        node = chosen.nodes[number]
        if node.kind != "file":
            continue
        got = read_all(f"{mnt}/{path}")
        if number == touched:
            versions = [model.nodes[number].content, after.nodes[number].content]
            explain(path, got, versions, exact=pending["op"] not in PARTIAL)
        else:
            explain(path, got, [node.content], exact=True)
    for path, number in chosen.names.items():
        if number == touched:
            chosen.nodes[number].set(read_all(f"{mnt}/{path}"))
    return chosen


def trim(model):
    """The strict check has no use for old contents."""
    for node in model.nodes.values():
        del node.versions[:-1]


def check_lossy(model, acked, pending, disk, mnt):
    views, nodes = [model.view()], dict(model.nodes)
    synced = 0
    for op in acked + ([pending] if pending else []):
        if op is pending and op["op"] in ("fsync", "fsyncdir"):
            break
        model.apply(op)
        nodes.update(model.nodes)
        views.append(model.view())
        if op["op"] in ("fsync", "fsyncdir"):
            synced = len(views) - 1
    matching = [i for i in range(len(views) - 1, synced - 1, -1) if not differences(views[i], disk)]
    if not matching:
        last, first = differences(views[-1], disk)[:5], differences(views[synced], disk)[:5]
        raise Wrong(
            f"the names are those after no operation from {synced} (the last fsync) to "
            f"{len(views) - 1}; against the newest: {last}; against the fsynced: {first}"
        )
    view = views[matching[0]]
    left = Model(model.worker)
    left.next_id = model.next_id
    for path, (kind, number, mode, target, xattr) in sorted(view.items()):
        if number not in left.nodes:
            node = Node(kind, mode, target)
            node.xattr = xattr
            if kind == "file":
                got = read_all(f"{mnt}/{path}")
                explain(path, got, nodes[number].versions, exact=False)
                node.content, node.versions = got, [got]
            left.nodes[number] = node
        left.names[path] = number
    lost = len(views) - 1 - matching[0]
    print(f"worker {model.worker}: {len(acked)} operations, {lost} names lost, fsync at {synced}")
    return left


def check(args):
    try:
        disk = scan(args.mnt)
    except OSError as error:
        print(f"cannot list {args.mnt}: {error}")
        return 1
    code = 0
    workers = sorted(int(f[:-7]) for f in os.listdir(args.state) if f.endswith(".pickle"))
    for worker in workers:
        with open(f"{args.state}/{worker}.pickle", "rb") as file:
            model = pickle.load(file)
        acked, pending = read_journal(f"{args.state}/{worker}.journal")
        checker = check_lossy if args.lossy else check_strict
        try:
            left = checker(model, acked, pending, owned(worker, disk), args.mnt)
        except (Wrong, OSError) as error:
            print(f"worker {worker}, after {len(acked)} operations, {pending} under way: {error}")
            code = 1
            continue
        save(args.state, left)
        if os.path.exists(f"{args.state}/{worker}.journal"):
            os.remove(f"{args.state}/{worker}.journal")
    known = {SHARED} | {f"w{k}" for k in workers}
    for worker in workers:
        known |= owned(worker, disk).keys()
    for path in sorted(disk.keys() - known):
        if path.partition("/")[0] in known:
            print(f"{path}: nobody made it")
            code = 1
    if args.manifest and code == 0:
        with open(args.manifest, "w", encoding="utf-8") as file:
            for path, entry in sorted(disk.items()):
                sum_ = hashlib.sha256(read_all(f"{args.mnt}/{path}")).hexdigest() if entry[0] == "file" else "-"
                file.write(f"{sum_} {entry[0]} {entry[2]:o} {path}\n")
    return code


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["run", "check"])
    parser.add_argument("mnt")
    parser.add_argument("state")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--ops", type=int, default=0)
    parser.add_argument("--max-size", type=int, default=2_500_000)
    parser.add_argument("--few-syncs", action="store_true")
    parser.add_argument("--survive", action="store_true")
    parser.add_argument("--lossy", action="store_true")
    parser.add_argument("--manifest")
    args = parser.parse_args()
    args.state = os.path.abspath(args.state)
    os.umask(0o022)
    return {"run": run, "check": check}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
