#!/usr/bin/env python3
"""Measures what first-figures.sh has set up: first_figures.py DIRECTORY S3-ENDPOINT OUT.json.

Every row is measured on each target in turn, and all of that again, so that whatever else the
machine does hits them alike. Shown are medians and, as spread, (max - min) / median.
"""

import datetime
import hashlib
import hmac
import http.client
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import threading
import time

MIB = 1 << 20
SIZE = int(os.environ.get("BENCH_MIB", 1024)) * MIB
FILES = int(os.environ.get("BENCH_FILES", 10_000))
REPEATS = int(os.environ.get("BENCH_REPEATS", 3))
FIO_SECONDS = 4
OBJECT = 16 * MIB
RAW_SMALL = 1000
WRITE_LARGE = f"write {SIZE // MIB:,} MiB + fsync"
WEIR = os.environ["WEIR"]
PARTS = ("mnt", "tier", "log")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def drop_caches():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")


def timed(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class Local:
    """A directory of the local disk."""

    def __init__(self, where):
        self.name, self.dir = "local disk", f"{where}/local"
        os.mkdir(self.dir)

    def cold(self):
        drop_caches()

    def traffic(self):
        return {}

    def flush(self):
        os.sync()

    def close(self):
        pass


class Weir:
    """A volume, mounted."""

    def __init__(self, where, name, url, *connect):
        self.name, self.url, self.connect = name, url, connect
        short = name.split()[-1].strip(":/")
        self.dir, self.tier, self.log = (f"{where}/{short}-{part}" for part in PARTS)
        os.mkdir(self.dir)
        run(WEIR, "format", url, *connect)
        self.mount()

    def mount(self):
        os.makedirs(self.tier, exist_ok=True)
        run(WEIR, "mount", self.url, self.dir, "--tier", self.tier, "--tier-size", "4GiB",
            "--log-file", self.log + ".log", *self.connect)

    def cold(self):
        run(WEIR, "umount", self.dir)
        shutil.rmtree(self.tier)
        drop_caches()
        self.mount()

    def traffic(self):
        """Requests and bytes by kind since the mount."""
        rows = json.loads(run(WEIR, "status", self.dir, "--json"))["requests"]["rows"]
        found = {}
        for row in rows:
            for key in ("requests", "bytes_sent", "bytes_received"):
                name = f"{row['component']} {row['kind']} {key}"
                found[name] = found.get(name, 0) + row[key]
        return found

    def flush(self):
        run(WEIR, "flush", self.dir)

    def close(self):
        run(WEIR, "umount", self.dir)


class Raw:
    """The S3 server itself, with four connections. Bodies are not signed."""

    name = "raw S3 server"

    def __init__(self, endpoint):
        self.host = endpoint.split("//")[1]
        self.secret = os.environ["AWS_SECRET_ACCESS_KEY"]
        self.key = os.environ["AWS_ACCESS_KEY_ID"]

    def headers(self, method, path):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{now[:8]}/us-east-1/s3/aws4_request"
        names = "host;x-amz-content-sha256;x-amz-date"
        asked = (f"{method}\n{path}\n\nhost:{self.host}\nx-amz-content-sha256:UNSIGNED-PAYLOAD\n"
                 f"x-amz-date:{now}\n\n{names}\nUNSIGNED-PAYLOAD")
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
        key = ("AWS4" + self.secret).encode()
        for part in (now[:8], "us-east-1", "s3", "aws4_request", text):
            digest = hmac.new(key, part.encode(), hashlib.sha256)
            key = digest.digest()
        return {"x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": now,
                "Authorization": f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, "
                                 f"SignedHeaders={names}, Signature={digest.hexdigest()}"}

    def all(self, method, count, name, body=None):
        """That many requests, over four connections."""
        failed = []

        def work(first):
            try:
                server = http.client.HTTPConnection(self.host)
                for i in range(first, count, 4):
                    path = f"/raw/{name}{i}"
                    server.request(method, path, body, self.headers(method, path))
                    answer = server.getresponse()
                    while answer.read(4 * MIB):
                        pass
                    assert answer.status in (200, 204), answer.status
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=[i]) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed, failed


class Report:
    def __init__(self):
        self.values, self.traffic = {}, {}

    def row(self, what, unit, target, value, before=None):
        """`before` is a weir target's traffic when the row began."""
        self.values.setdefault((what, unit), {}).setdefault(target.name, []).append(value)
        if before:
            now = target.traffic()
            self.traffic[f"{what}: {target.name}"] = {
                key: now[key] - before.get(key, 0) for key in now if now[key] > before.get(key, 0)}
        print(f"  {target.name:14} {what:40} {value:10.1f} {unit}", file=sys.stderr)

    def rows(self):
        for (what, unit), by_target in self.values.items():
            cells = {}
            for name, values in by_target.items():
                median = statistics.median(values)
                cells[name] = {"median": round(median, 1), "values": [round(v, 1) for v in values],
                               "spread": round((max(values) - min(values)) / median, 2)}
            yield what, unit, cells

    def table(self, names):
        lines = [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
        for what, unit, cells in self.rows():
            shown = [f"{cells[n]['median']:,.0f} ±{cells[n]['spread'] * 50:.0f}%" if n in cells
                     else "-" for n in names]
            lines.append(f"| {what}, {unit} | {' | '.join(shown)} |")
        return "\n".join(lines)


def write_large(path, block):
    with open(path, "wb", buffering=0) as file:
        for _ in range(SIZE // len(block)):
            file.write(block)
        os.fsync(file.fileno())


def read_large(path):
    buffer, total = bytearray(MIB), 0
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            total += count
    assert total == SIZE, total


def fio_reads(path, jobs):
    out = run("fio", "--name=r", f"--filename={path}", "--rw=randread", "--bs=4k", "--direct=1",
              "--ioengine=psync", f"--numjobs={jobs}", "--group_reporting", "--time_based",
              f"--runtime={FIO_SECONDS}", "--output-format=json", "--randrepeat=0")
    return json.loads(out)["jobs"][0]["read"]["iops"]


def large(target, report, block):
    path = f"{target.dir}/large"
    speed = SIZE / MIB
    before = target.traffic()
    seconds = timed(lambda: write_large(path, block))
    report.row(WRITE_LARGE, "MiB/s", target, speed / seconds, before)
    drop_caches()
    before = target.traffic()
    seconds = timed(lambda: read_large(path))
    report.row("read, resident, page cache dropped", "MiB/s", target, speed / seconds, before)
    for jobs in (1, 4):
        drop_caches()
        report.row(f"random direct 4 KiB, {jobs} job(s)", "reads/s", target, fio_reads(path, jobs))
    target.cold()
    before = target.traffic()
    seconds = timed(lambda: read_large(path))
    report.row("read, cold", "MiB/s", target, speed / seconds, before)
    os.unlink(path)


def small(target, report, block):
    where = f"{target.dir}/small"
    os.mkdir(where)
    paths = [f"{where}/{i}" for i in range(FILES)]

    def create():
        for path in paths:
            with open(path, "wb", buffering=0) as file:
                file.write(block)

    def stat():
        for path in paths:
            os.stat(path)

    def read():
        for path in paths:
            with open(path, "rb", buffering=0) as file:
                assert len(file.read()) == len(block)

    def unlink():
        for path in paths:
            os.unlink(path)

    what = f"{FILES:,} files of 16 KiB: "
    before = target.traffic()
    created = timed(create)
    report.row(what + "create", "files/s", target, FILES / created)
    flushed = timed(target.flush)
    report.row(what + "create and flush", "files/s", target, FILES / (created + flushed), before)
    for name, work in (("stat", stat), ("read, resident", read)):
        drop_caches()
        before = target.traffic()
        report.row(what + name, "files/s", target, FILES / timed(work), before)
    target.cold()
    before = target.traffic()
    report.row(what + "read, cold", "files/s", target, FILES / timed(read), before)
    before = target.traffic()
    report.row(what + "remove", "files/s", target, FILES / timed(unlink), before)
    os.rmdir(where)


def raw(target, report, block):
    objects, speed = SIZE // OBJECT, SIZE / MIB
    body, tiny = block * (OBJECT // len(block)), block[:16384]

    def row(what, unit, amount, *request):
        report.row(what, unit, target, amount / timed(lambda: target.all(*request)))

    row(WRITE_LARGE, "MiB/s", speed, "PUT", objects, "large", body)
    drop_caches()
    row("read, cold", "MiB/s", speed, "GET", objects, "large")
    target.all("DELETE", objects, "large")
    what = f"{FILES:,} files of 16 KiB: "
    row(what + "create and flush", "files/s", RAW_SMALL, "PUT", RAW_SMALL, "small", tiny)
    drop_caches()
    row(what + "read, cold", "files/s", RAW_SMALL, "GET", RAW_SMALL, "small")
    target.all("DELETE", RAW_SMALL, "small")


def machine():
    with open("/proc/cpuinfo") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    with open("/proc/meminfo") as file:
        memory = int(next(file).split()[1]) // 1024
    return {"date": datetime.date.today().isoformat(), "cpu": models[0] if models else "?", "cpus": os.cpu_count(),
            "memory_mib": memory, "kernel": platform.release(), "load_average": os.getloadavg(),
            "weir": run(WEIR, "--version").strip(), "fio": run("fio", "--version").strip(),
            "python": platform.python_version()}


def main():
    where, endpoint, out = sys.argv[1:]
    facts = machine()
    os.makedirs(f"{where}/bucket/bench")
    targets = [Local(where), Weir(where, "weir file://", f"file://{where}/bucket/bench"),
               Weir(where, "weir s3://", "s3://bucket/bench", "--endpoint", endpoint)]
    server, report = Raw(endpoint), Report()
    # Compressible data would flatter a file system that compresses.
    block = os.urandom(MIB)
    for repeat in range(REPEATS):
        print(f"repeat {repeat + 1} of {REPEATS}", file=sys.stderr)
        for target in targets:
            large(target, report, block)
        for target in targets:
            small(target, report, block[:16384])
        raw(server, report, block)
    for target in targets:
        target.close()
    facts["load_average_after"] = os.getloadavg()
    names = [target.name for target in targets] + [server.name]
    rows = [{"what": what, "unit": unit, "targets": cells} for what, unit, cells in report.rows()]
    note = (f"The raw server's small files are {RAW_SMALL:,} objects of 16 KiB, extrapolated; its "
            f"large file is {SIZE // OBJECT} objects of 16 MiB; four connections. The page cache was "
            "dropped between phases, which does not empty the host's or the disk's own caches.")
    with open(out, "w") as file:
        json.dump({"machine": facts, "size_bytes": SIZE, "files": FILES, "repeats": REPEATS,
                   "rows": rows, "traffic_of_last_repeat": report.traffic, "note": note},
                  file, indent=1)
    print(f"\n{facts['date']}, {facts['cpus']} x {facts['cpu']}, {facts['memory_mib']} MiB, kernel "
          f"{facts['kernel']}, load {facts['load_average'][0]:.1f} before and "
          f"{facts['load_average_after'][0]:.1f} after, {facts['weir']}")
    print(f"Medians of {REPEATS}, ± half the range. {note}\n\n{report.table(names)}\n\nJSON: {out}")


main()
