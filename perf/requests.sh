#!/usr/bin/env bash
# What the kernel asks the daemon for each call of a program, and what that costs: requests by kind and
# microseconds of the daemon's CPU a file, as a table. Needs root and a release binary.
#
#   WEIR          the binary
#   REQUESTS_FILES (2000)     files of each row
#   REQUESTS_MOUNT            more options of `weir mount`
source "$(dirname "$0")/../tests/lib.sh"
files=${REQUESTS_FILES:-2000}
begin
need python3 jq

# shellcheck disable=SC2086 # words
fmt_mount ${REQUESTS_MOUNT:-}
mkdir "$MNT/d"
REQUESTS_PID=$(daemon_pid)
export REQUESTS_PID
python3 - "$WEIR" "$MNT" "$files" <<'PY'
import json, os, subprocess, sys, time

weir, mount, files = sys.argv[1], sys.argv[2], int(sys.argv[3])
names = [f"{mount}/d/{n:06d}" for n in range(files)]
pid, tick = int(os.environ["REQUESTS_PID"]), os.sysconf("SC_CLK_TCK")


def requests():
    status = subprocess.run([weir, "status", mount, "--json"], check=True, capture_output=True)
    return json.loads(status.stdout)["fuse_requests"]


def cpu_s():
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / tick


def create(name):
    fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    os.write(fd, b"x" * 16384)
    os.close(fd)


def read(name):
    fd = os.open(name, os.O_RDONLY)
    os.read(fd, 16384)
    os.close(fd)


def each(call):
    return lambda: [call(name) for name in names]


def listing(*words):
    return lambda: subprocess.run(["ls", *words, f"{mount}/d"], check=True, stdout=subprocess.DEVNULL)


def forget():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")


def over(name):
    with open(name + ".new", "wb") as file:
        file.write(b"y" * 16384)
    os.rename(name + ".new", name)


rows = [
    ("create, write 16 KiB, close", None, each(create)),
    ("open, read 16 KiB, close; known to the kernel", None, each(read)),
    ("the same, unknown to it", forget, each(read)),
    ("stat, unknown", forget, each(os.stat)),
    ("stat, known", None, each(os.stat)),
    ("`ls -U`", forget, listing("-U")),
    ("`ls -lR`", forget, listing("-lR")),
    ("`ls -lR` once more", None, listing("-lR")),
    ("write anew and rename over", None, each(over)),
    ("unlink", None, each(os.unlink)),
]
print("| a file of | requests a file | daemon, us | wall, us |\n|---|---|---|---|")
for what, before, work in rows:
    if before:
        before()
    asked, cpu, began = requests(), cpu_s(), time.monotonic()
    work()
    wall, cpu, now = time.monotonic() - began, cpu_s() - cpu, requests()
    kinds = {kind: (count - asked.get(kind, 0)) / files for kind, count in now.items()}
    told = [f"{kind} {per:.2g}" for kind, per in sorted(kinds.items(), key=lambda k: -k[1]) if per >= 0.02]
    total = sum(kinds.values())
    print(f"| {what} | {total:.2f}: {', '.join(told) or '-'} | {cpu / files * 1e6:.0f} | {wall / files * 1e6:.0f} |")
PY
