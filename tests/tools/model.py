#!/usr/bin/env python3
"""Random file operations on a mounted volume, and what they must come to.

    model.py run SEED COUNT MNT STATE    do COUNT operations below MNT, check as we go
    model.py check MNT STATE             compare the whole tree with what was done

STATE is a pickle of the model, so that the volume may be remounted between the two. An operation
that must fail must fail with the right errno. Everything is done with plain system calls.
"""

import ctypes
import errno
import mmap
import os
import pickle
import random
import stat
import sys

LARGE = 12 << 20
libc = ctypes.CDLL(None, use_errno=True)
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
FALLOC_KEEP, FALLOC_PUNCH, FALLOC_ZERO = 1, 2, 16


class Node:
    """An inode: a file's bytes, a directory's entries or a symlink's target."""

    def __init__(self, kind, mode=0o644):
        self.kind, self.mode = kind, mode
        self.data, self.entries, self.target = bytearray(), {}, None
        self.xattrs, self.mtime, self.links = {}, None, 1


def checked(result):
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def renameat2(old, new, flags):
    checked(libc.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags))


def fallocate(fd, mode, offset, length):
    checked(libc.fallocate(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(length)))


class Model:
    def __init__(self, root, state):
        self.root, self.state = root, state
        self.top = Node("dir")
        if os.path.exists(state):
            with open(state, "rb") as file:
                self.top = pickle.load(file)
        self.log = []

    def save(self):
        with open(self.state, "wb") as file:
            pickle.dump(self.top, file)

    # What is where.

    def walk(self, node=None, path=""):
        node = node or self.top
        for name, child in sorted(node.entries.items()):
            yield node, name, path + "/" + name, child
            if child.kind == "dir":
                yield from self.walk(child, path + "/" + name)

    def all(self, kind):
        return [entry for entry in self.walk() if entry[3].kind == kind]

    def dirs(self):
        return [(self.top, "", "", self.top)] + self.all("dir")

    def place(self, rng):
        """A directory, and a name in it that may be taken."""
        _, _, path, node = rng.choice(self.dirs())
        name = rng.choice("abcdefgh") + rng.choice(["", "", "é" * 20, "x" * rng.randint(1, 254)])
        name = name.encode()[:255].decode(errors="ignore")
        return node, name, path + "/" + name

    def expect(self, code, call, *args):
        """The call must fail with the code (None: succeed)."""
        try:
            call(*args)
            found = None
        except OSError as error:
            found = error.errno
        want = code if isinstance(code, tuple) else (code,)
        if found not in want:
            names = [errno.errorcode.get(c, "success") for c in want]
            call = f"{call.__name__} {str(args)[:300]}"
            self.wrong(f"{call}: {errno.errorcode.get(found, 'success')}, not {names}")
        return found is None

    def wrong(self, text):
        print("\n".join(self.log[-30:]))
        print("WRONG:", text)
        sys.exit(1)

    # Operations: each does one thing to the volume and the same to the model.

    def create(self, rng):
        node, name, path = self.place(rng)
        taken = name in node.entries
        mode = rng.choice([0o600, 0o644, 0o755, 0o4755])
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
        self.log.append(f"create {path} {mode:o}")
        if self.expect(errno.EEXIST if taken else None, lambda p: os.close(os.open(p, flags, mode)),
                       self.root + path):
            node.entries[name] = Node("file", mode)

    def mkdir(self, rng):
        node, name, path = self.place(rng)
        if path.count("/") > 6:
            return
        self.log.append(f"mkdir {path}")
        if self.expect(errno.EEXIST if name in node.entries else None, os.mkdir, self.root + path,
                       0o755):
            node.entries[name] = Node("dir", 0o755)

    def symlink(self, rng):
        node, name, path = self.place(rng)
        target = "t" * rng.choice([1, 20, 1000])
        self.log.append(f"symlink {path} {len(target)}")
        if self.expect(errno.EEXIST if name in node.entries else None, os.symlink, target,
                       self.root + path):
            made = node.entries[name] = Node("link", 0o777)
            made.target = target

    def link(self, rng):
        files = self.all("file")
        if not files:
            return
        _, _, old, inode = rng.choice(files)
        node, name, path = self.place(rng)
        self.log.append(f"link {old} {path}")
        if self.expect(errno.EEXIST if name in node.entries else None, os.link, self.root + old,
                       self.root + path):
            node.entries[name] = inode
            inode.links += 1

    def unlink(self, rng):
        entries = self.all("file") + self.all("link")
        if len(entries) < 8 and rng.random() < 0.8 or not entries:
            return
        node, name, path, inode = rng.choice(entries)
        self.log.append(f"unlink {path}")
        fd = os.open(self.root + path, os.O_RDWR) if inode.kind == "file" else None
        os.unlink(self.root + path)
        del node.entries[name]
        inode.links -= 1
        if fd is not None:
            # It lives on behind an open descriptor.
            os.pwrite(fd, b"still here", len(inode.data))
            have = os.pread(fd, len(inode.data) + 20, 0)
            if have != bytes(inode.data) + b"still here":
                self.wrong(f"{path} unlinked and open: other bytes")
            if inode.links:
                inode.data += b"still here"
            os.close(fd)

    def rmdir(self, rng):
        dirs = self.all("dir")
        if not dirs:
            return
        node, name, path, inode = rng.choice(dirs)
        self.log.append(f"rmdir {path}")
        if self.expect(errno.ENOTEMPTY if inode.entries else None, os.rmdir, self.root + path):
            del node.entries[name]

    def rename(self, rng):
        entries = list(self.walk())
        if not entries:
            return
        old_dir, old_name, old, inode = rng.choice(entries)
        if rng.random() < 0.5:
            new_dir, new_name, new, _ = rng.choice(entries)
        else:
            new_dir, new_name, new = self.place(rng)
        flags = rng.choice([0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE])
        self.log.append(f"rename {old} {new} {flags}")
        there = new_dir.entries.get(new_name)
        into_self = (new + "/").startswith(old + "/") and new != old
        from_self = (old + "/").startswith(new + "/") and new != old
        code = None
        if flags == RENAME_NOREPLACE and there is not None:
            code = errno.EEXIST
        elif flags == RENAME_EXCHANGE and there is None:
            code = errno.ENOENT
        elif into_self:
            code = errno.EINVAL
        elif from_self:
            code = errno.EINVAL if flags == RENAME_EXCHANGE else errno.ENOTEMPTY
        elif flags != RENAME_EXCHANGE and there is not None and there is not inode:
            if inode.kind == "dir" and there.kind != "dir":
                code = errno.ENOTDIR
            elif inode.kind != "dir" and there.kind == "dir":
                code = errno.EISDIR
            elif there.kind == "dir" and there.entries:
                code = errno.ENOTEMPTY
        if not self.expect(code, renameat2, self.root + old, self.root + new, flags):
            return
        if there is inode:
            return  # Two names of one file: nothing happens.
        if flags == RENAME_EXCHANGE:
            old_dir.entries[old_name], new_dir.entries[new_name] = there, inode
            return
        del old_dir.entries[old_name]
        new_dir.entries[new_name] = inode
        if there is not None:
            there.links -= 1

    def attributes(self, rng):
        entries = self.all("file") + self.all("dir")
        if not entries:
            return
        _, _, path, inode = rng.choice(entries)
        full = self.root + path
        what = rng.randrange(4)
        self.log.append(f"attributes {what} {path}")
        if what == 0:
            inode.mode = rng.choice([0o600, 0o644, 0o755, 0o700])
            os.chmod(full, inode.mode)
        elif what == 1:
            time = rng.randrange(10**18, 2 * 10**18)
            os.utime(full, ns=(time, time))
        elif what == 2:
            name, value = "user." + rng.choice("abc"), rng.randbytes(rng.choice([0, 5, 300, 4000]))
            os.setxattr(full, name, value)
            inode.xattrs[name] = value
        else:
            name = "user." + rng.choice("abc")
            code = None if name in inode.xattrs else errno.ENODATA
            if self.expect(code, os.removexattr, full, name):
                del inode.xattrs[name]

    def bytes(self, rng):
        """One to four operations on the bytes of an open file."""
        files = self.all("file")
        if not files:
            return
        _, _, path, inode = rng.choice(files)
        append = rng.random() < 0.2
        fd = os.open(self.root + path, os.O_RDWR | (os.O_APPEND if append else 0))
        for _ in range(rng.randint(1, 4)):
            size = len(inode.data)
            offset = rng.choice([0, size, rng.randint(0, size + 1), rng.randint(0, LARGE)])
            length = rng.choice([1, rng.randint(1, 5000), rng.randint(1, 300_000), 1 << 20])
            how = rng.choice([self.write, self.write, self.truncate, self.map, self.hole,
                              self.copy, self.read, self.read, self.fsync])
            self.log.append(f"{how.__name__} {path} {offset}+{length} of {size} append {append}")
            how(rng, fd, inode, size if append else offset, length)
            if os.fstat(fd).st_size != len(inode.data):
                self.wrong(f"{path}: size {os.fstat(fd).st_size}, not {len(inode.data)}")
        os.close(fd)

    @staticmethod
    def put(inode, offset, data):
        if offset > len(inode.data):
            inode.data.extend(bytes(offset - len(inode.data)))
        inode.data[offset:offset + len(data)] = data

    def write(self, rng, fd, inode, offset, length):
        data = rng.randbytes(length) if rng.random() < 0.5 else bytes([rng.randrange(256)]) * length
        written = 0
        while written < length:
            written += os.pwrite(fd, data[written:], offset + written)
        self.put(inode, offset, data)

    def truncate(self, rng, fd, inode, offset, _):
        size = rng.choice([0, offset, len(inode.data) // 2])
        os.ftruncate(fd, size)
        if size < len(inode.data):
            del inode.data[size:]
        else:
            inode.data.extend(bytes(size - len(inode.data)))

    def map(self, rng, fd, inode, offset, length):
        if not inode.data:
            return
        with mmap.mmap(fd, len(inode.data)) as view:
            offset = min(offset, len(inode.data) - 1)
            length = min(length, len(inode.data) - offset)
            data = rng.randbytes(length)
            view[offset:offset + length] = data
            # What a mapping changed is the kernel's until it is asked to write it.
            view.flush()
        self.put(inode, offset, data)

    def hole(self, rng, fd, inode, offset, length):
        mode = rng.choice([FALLOC_PUNCH | FALLOC_KEEP, FALLOC_ZERO, FALLOC_ZERO | FALLOC_KEEP, 0])
        size = len(inode.data)
        fallocate(fd, mode, offset, length)
        if not mode & FALLOC_KEEP and offset + length > size:
            inode.data.extend(bytes(offset + length - size))
        if mode:
            end = min(offset + length, len(inode.data))
            if offset < end:
                inode.data[offset:end] = bytes(end - offset)

    def copy(self, rng, fd, inode, offset, length):
        files = self.all("file")
        _, _, path, source = rng.choice(files)
        if source is inode or fd_appends(fd):
            return
        start = rng.randint(0, len(source.data))
        want = bytes(source.data[start:start + length])
        done, other = 0, os.open(self.root + path, os.O_RDONLY)
        while done < len(want):
            step = os.copy_file_range(other, fd, len(want) - done, start + done, offset + done)
            if step == 0:
                self.wrong(f"copy_file_range from {path} at {start + done} ends early")
            done += step
        os.close(other)
        if want:
            self.put(inode, offset, want)

    def read(self, rng, fd, inode, offset, length):
        have = os.pread(fd, length, offset)
        while len(have) < length:
            more = os.pread(fd, length - len(have), offset + len(have))
            if not more:
                break
            have += more
        self.compare(have, inode.data[offset:offset + length], f"read {offset}+{length}")

    def fsync(self, rng, fd, *_):
        rng.choice([os.fsync, os.fdatasync])(fd)

    def compare(self, have, want, what):
        if have == want:
            return
        at = next((i for i, (h, w) in enumerate(zip(have, want)) if h != w), min(len(have), len(want)))
        differ = sum(h != w for h, w in zip(have, want))
        self.wrong(f"{what}: {len(have)} bytes, not {len(want)}; {differ} differ, the first at {at}")

    def run(self, seed, count):
        rng = random.Random(seed)
        for _ in range(count):
            rng.choices(
                [self.create, self.mkdir, self.symlink, self.link, self.unlink, self.rmdir,
                 self.rename, self.attributes, self.bytes],
                [8, 3, 2, 3, 6, 2, 8, 8, 20])[0](rng)
        self.keep_times()
        self.save()

    def keep_times(self):
        for _, _, path, inode in self.walk():
            inode.mtime = os.lstat(self.root + path).st_mtime_ns

    def check(self):
        have = {"": None}
        for path, dirs, files in os.walk(self.root):
            for name in dirs + files:
                have[os.path.join(path, name)[len(self.root):]] = None
        want = {""} | {path for _, _, path, _ in self.walk()}
        if set(have) != want:
            self.wrong(f"missing {sorted(want - set(have))}, unexpected {sorted(set(have) - want)}")
        inos = {}
        for _, _, path, inode in self.walk():
            self.check_one(path, inode)
            ino = os.lstat(self.root + path).st_ino
            if inos.setdefault(ino, inode) is not inode:
                self.wrong(f"{path}: inode {ino} is another's too")

    def check_one(self, path, inode):
        full = self.root + path
        found = os.lstat(full)
        kind = {"file": stat.S_ISREG, "dir": stat.S_ISDIR, "link": stat.S_ISLNK}[inode.kind]
        if not kind(found.st_mode):
            self.wrong(f"{path}: not a {inode.kind}")
        if stat.S_IMODE(found.st_mode) != inode.mode:
            self.wrong(f"{path}: mode {found.st_mode:o}, not {inode.mode:o}")
        if found.st_mtime_ns != inode.mtime:
            self.wrong(f"{path}: mtime {found.st_mtime_ns}, not {inode.mtime}")
        if inode.kind == "link":
            if os.readlink(full) != inode.target:
                self.wrong(f"{path}: another target")
            return
        subdirs = sum(child.kind == "dir" for child in inode.entries.values())
        links = inode.links if inode.kind == "file" else 2 + subdirs
        if found.st_nlink != links:
            self.wrong(f"{path}: {found.st_nlink} links, not {links}")
        xattrs = {name: os.getxattr(full, name) for name in os.listxattr(full)}
        if xattrs != inode.xattrs:
            self.wrong(f"{path}: xattrs {sorted(xattrs)}, not {sorted(inode.xattrs)}")
        if inode.kind == "file":
            with open(full, "rb") as file:
                self.compare(file.read(), inode.data, path)


def fd_appends(fd):
    import fcntl
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND)


def main():
    verb, *args = sys.argv[1:]
    if verb == "run":
        seed, count, root, state = args
        Model(root, state).run(int(seed), int(count))
    else:
        Model(*args).check()


sys.setrecursionlimit(10_000)
os.umask(0)
main()
