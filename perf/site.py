"""The place where a run happens: its work directory, its processes, the machine's counters.

What must hold: whatever is mounted, started or attached below the work directory is gone when the
run ends, however it ends; processes are ended by their id.

Directories of many files are only moved aside, and removed at the end: ext4 allocates inodes slowly for
minutes after many were deleted, and what is measured next would pay for what was measured before.
"""

import os
import platform
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from .settings import Refused

def run(*command, check=True, **options):
    """Runs a command to its end; its output. A failure carries what it said."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT,
               "text": True, "timeout": 120, **options}
    done = subprocess.run([str(word) for word in command], **options)
    if check and done.returncode:
        said = ((done.stdout or "") + (done.stderr or "")).strip().splitlines()[-3:]
        raise RuntimeError(f"{os.path.basename(command[0])} ended with {done.returncode}: "
                           f"{' / '.join(said)}")
    return done.stdout


def until(true, seconds, what):
    """Waits for something that comes soon."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def drop_caches():
    """Lets go of this kernel's page cache and inodes. The disk's own caches stay."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")


def cpu_s(pids):
    """CPU time that living processes have used, all their threads, in core-seconds. Exact to less than
    a microsecond, unlike the ticks of /proc."""
    total = 0.0
    for pid in pids:
        try:
            # The kernel's number of the CPU clock of another process: CPUCLOCK_SCHED.
            total += time.clock_gettime(~pid << 3 | 2)
        except OSError:
            continue
    return total


def rss_mib(pid):
    """Memory that is this process's own (no mapped files), in MiB."""
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024
    raise RuntimeError(f"no RssAnon of {pid}")


def loopback_bytes():
    """Bytes that went over loopback, both ways."""
    with open("/proc/net/dev") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name.strip() == "lo":
                return int(rest.split()[0])
    return 0


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def mounted_below(path):
    with open("/proc/self/mountinfo") as file:
        points = [line.split()[4].replace("\\040", " ") for line in file]
    return [point for point in points if point == path or point.startswith(path + "/")]


def alive(pid):
    """Whether a process runs. One that has ended and was not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def facts():
    """The machine, for the results."""
    with open("/proc/cpuinfo") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    with open("/proc/meminfo") as file:
        memory = int(next(file).split()[1]) // 1024
    return {"date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "cpus": os.cpu_count(),
            "cpu": models[0] if models else platform.machine(), "memory_mib": memory,
            "kernel": platform.release(), "python": platform.python_version()}


def _processes(which):
    """Those that run, by the fields of /proc's stat behind the name: state, parent, group, session."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if which(fields) and fields[0] != "Z":
            found.append(int(entry))
    return found


def session(pid):
    """Processes of the session that a process began, itself among them."""
    return _processes(lambda fields: int(fields[3]) == pid)


def children(pid):
    """Processes that a process began and that run."""
    return _processes(lambda fields: int(fields[1]) == pid)


class Site:
    """The work directory and what was started for this run."""

    def __init__(self, path, need_mib):
        if os.getuid() != 0:
            raise Refused("mounting and dropping caches need root: run it as root")
        if not os.path.exists("/dev/fuse"):
            raise Refused("there is no /dev/fuse here")
        os.makedirs(path, exist_ok=True)
        self.path = os.path.realpath(path)
        if run("stat", "-f", "-c", "%T", self.path).strip() in ("tmpfs", "ramfs"):
            raise Refused(f"{self.path} is in memory: set BENCH_DIR to a directory on a disk")
        free = shutil.disk_usage(self.path).free >> 20
        if free < need_mib:
            raise Refused(f"{self.path} has {free:,} MiB free and the run needs about {need_mib:,}: "
                          "set BENCH_DIR to another disk, or BENCH_MIB and BENCH_FILES to less")
        if os.listdir(self.path):
            raise Refused(f"{self.path} is not empty")
        self.pids, self.count, self.log = [], 0, f"{self.path}/processes.log"
        self.trash = f"{self.path}/trash"
        os.mkdir(self.trash)
        # Sockets lie in a place of their own: their paths may have 107 bytes.
        self.sockets = tempfile.mkdtemp(prefix="wb-", dir="/tmp")
        self.elsewhere = [self.sockets]  # directories outside, to be removed too

    def fresh(self, name):
        """A new directory that nothing has used."""
        self.count += 1
        path = f"{self.path}/{name}-{self.count}"
        os.mkdir(path)
        return path

    def aside(self, path):
        """Removes a directory of few files; moves one of many out of the way."""
        files = 0
        for _, _, names in os.walk(path):
            files += len(names)
            if files > 500:
                self.count += 1
                os.rename(path, f"{self.trash}/{self.count}")
                return
        shutil.rmtree(path, ignore_errors=True)

    def start(self, *command, **options):
        """Starts a process that goes on until `stop`; its id."""
        with open(self.log, "a") as log:
            child = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                     stdout=log, stderr=log, start_new_session=True, **options)
        self.pids.append(child.pid)
        return child.pid

    def stop(self, pid, gently_s=30):
        """Ends a process that `start` began, gently at first if it may take that long."""
        ways = ((signal.SIGTERM, gently_s), (signal.SIGKILL, 10))
        for how, limit in ways if gently_s else ways[1:]:
            end = time.monotonic() + limit
            try:
                os.kill(pid, how)
            except ProcessLookupError:
                break
            while alive(pid) and time.monotonic() < end:
                time.sleep(0.02)
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
        if pid in self.pids:
            self.pids.remove(pid)

    def abandon(self, path, pids):
        """Takes away what a target that failed may have left below a directory."""
        for point in reversed(mounted_below(path)):
            subprocess.run(["umount", "-l", point], capture_output=True)
        for pid in pids:
            self.stop(pid, 5)

    def last_words(self):
        """The end of what the processes logged, for a failure."""
        try:
            with open(self.log, errors="replace") as file:
                return "".join(file.readlines()[-5:]).strip()
        except OSError:
            return ""

    def _ours(self):
        """Processes that we started, and those that name the work directory: a daemon whose start
        was interrupted is known by nothing else."""
        found = [child for pid in self.pids for child in (pid, *session(pid))]
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid():
                try:
                    with open(f"/proc/{entry}/cmdline", "rb") as file:
                        if f"{self.path}/".encode() in file.read():
                            found.append(int(entry))
                except OSError:
                    pass
        return found

    def close(self):
        """Ends, unmounts and removes everything. What is not flushed is nobody's."""
        for point in reversed(mounted_below(self.path)):
            subprocess.run(["umount", "-l", point], capture_output=True)
        for pid in self._ours():
            self.stop(pid, gently_s=0)
        for line in run("losetup", "-nO", "NAME,BACK-FILE").splitlines():
            device, _, file = line.partition(" ")
            if file.strip().startswith(self.path + "/"):
                subprocess.run(["losetup", "-d", device], capture_output=True)
        for path in (self.path, *self.elsewhere):
            shutil.rmtree(path, ignore_errors=True)
