"""Tests of what the table rests on: statistics, verdicts, jobs."""

import dataclasses
import json
import os
import re
import subprocess
import types
import unittest
from pathlib import Path
from unittest import mock

from . import goals, html, markdown, picture, rows, runner, samples, settings, site, volumes
from .jobs import run_jobs
from .report import as_json, columns, number, text, verdict
from .table import ROWS, TABLE, WORDS, cpu

REPOSITORY = Path(__file__).parent.parent


def table(*cells, regime="cpu"):
    """Samples of (row, target, values by repeat)."""
    found = samples.Samples()
    for row, target, values in cells:
        for repeat, value in enumerate(values):
            found.add(samples.Sample(row, target, regime, repeat, value, bytes=10**9, ops=1000,
                                     seconds=1.0, cpu_s=value))
    return found


def lines(found, regime="cpu", targets=settings.TARGETS):
    chosen = types.SimpleNamespace(rows=settings.ROWS, regimes=(settings.REGIMES[regime],),
                                   targets=targets)
    return {(line.what, line.against): line for line in goals.judge(found, chosen)}


def read(**environment):
    """The settings that an environment makes."""
    with mock.patch.dict(os.environ, environment):
        return settings.read()


class Statistics(unittest.TestCase):
    def test_a_percentile_is_a_value_that_was_measured(self):
        values = list(range(1, 201))
        self.assertEqual(samples.percentile(values, 50), 100)
        self.assertEqual(samples.percentile(values, 99), 198)
        self.assertEqual(samples.percentile([7], 99), 7)

    def test_spread_is_the_range_in_medians(self):
        self.assertEqual(samples.spread([5]), 0)
        self.assertEqual(samples.spread([1, 2, 3]), 1)

    def test_numbers_keep_three_digits(self):
        self.assertEqual([number(v) for v in (1234.6, 12.34, 1.234, 0.012345, None)],
                         ["1,235", "12.3", "1.23", "0.0123", "-"])


class Verdicts(unittest.TestCase):
    cold = ("cold sequential read", "parallel GETs")

    def test_a_ratio_is_taken_within_each_repeat(self):
        # The medians alone, 100 and 100, would say 1.0.
        found = lines(table(("cold", "weir", [50, 100, 400]), ("cold", "raw", [100, 500, 50]),
                            regime="wire"), "wire")
        self.assertAlmostEqual(found[self.cold].ratio, 0.5)
        self.assertIs(found[self.cold].met, False)
        self.assertEqual(verdict(found[self.cold]), "NOT MET")

    def test_a_ratio_is_taken_within_each_round(self):
        found = samples.Samples()
        for number_, (through, bare) in enumerate(((50, 100), (100, 500), (400, 50))):
            for target, value in (("weir", through), ("mirror", bare)):
                found.add(samples.Sample("warm", target, "cpu", 0, value, number_))
        line = lines(found)["warm sequential read", "its mirror file, bare"]
        self.assertAlmostEqual(line.ratio, 0.5)

    def test_a_bound_holds_in_its_regime_only(self):
        for regime, met, goal in (("cpu", None, "-"), ("wire", True, ">= 0.97x")):
            found = lines(table(("cold", "weir", [97]), ("cold", "raw", [100]), regime=regime),
                          regime)
            line = found[self.cold]
            self.assertEqual((line.met, line.goal, line.regime), (met, goal, regime))
            self.assertAlmostEqual(line.ratio, 0.97)
            self.assertEqual(columns(line)[1], regime)

    def test_regimes_are_not_mixed(self):
        found = table(("cold", "weir", [97]), regime="wire")
        found.all += table(("cold", "raw", [100])).all
        self.assertIn("the limit was not measured", verdict(lines(found, "wire")[self.cold]))

    def test_less_is_better_where_the_goal_says_so(self):
        found = lines(table(("fsync-1-p50", "weir", [2.3]), ("fsync-1-p50", "raw", [1.0]),
                            regime="wire"), "wire")
        self.assertIs(found[("fsync of 4 KiB, 1 writer, p50", "one PUT of 4 KiB")].met, False)

    def test_what_was_not_measured_is_neither_met_nor_missed(self):
        found = lines(table(("cold", "weir", [90])))
        self.assertIsNone(found[self.cold].met)
        self.assertIn("the limit was not measured", verdict(found[self.cold]))
        self.assertIn("the value was not measured",
                      verdict(found[("sequential write, then fsync", "parallel PUTs")]))

    def test_the_best_peer_is_a_shared_file_system(self):
        found = lines(table(("durable-1", "weir", [1000]), ("durable-1", "juicefs", [100]),
                            ("durable-1", "rclone", [250]), ("durable-1", "s3backer", [9000])))
        what = "create 16 KiB files and flush them to the bucket, 1 thread"
        self.assertAlmostEqual(found[(what, "best peer")].ratio, 4)

    def test_lines_of_peers_need_peers(self):
        alone = {against for _, against in lines(table(), targets=("weir", "raw", "local"))}
        self.assertFalse(alone & {"best peer", "JuiceFS"}, alone)
        one = {against for _, against in lines(table(), targets=("weir", "juicefs"))}
        self.assertLessEqual({"best peer", "JuiceFS"}, one)

    def test_cpu_is_for_a_gigabyte_or_an_operation(self):
        found = lines(table(("cold", "weir", [1.3]), ("ls", "weir", [0.02])))
        line = found[("daemon CPU, cold sequential read", "-")]
        self.assertAlmostEqual(line.value, 1.3)
        self.assertIs(line.met, False)
        self.assertEqual(columns(line)[2:4], ("1.30 core-s/GB", "-"))
        self.assertEqual(columns(found[self.cold])[3], "1.30 core-s/GB")
        self.assertEqual(columns(found[("`ls -lR`, page cache dropped", "local ext4")])[3],
                         "20.0 us/op")


class Rows(unittest.TestCase):
    def test_each_is_defined_once_and_judged_or_shown(self):
        self.assertEqual(len(ROWS), len(TABLE))
        for goal in goals.goals():
            self.assertIn(goal.row, ROWS)
        judged = {goal.row for goal in goals.goals() if goal.bound}
        self.assertLessEqual({"cold", "write", "warm", "ls", "rm", "idle", "puts"}, judged)

    def test_each_word_selects_something_that_is_done(self):
        done = {word for group in rows.groups(frozenset()) for phase in group.phases
                for word in phase.rows}
        self.assertEqual(done | {"puts", "idle", "mount"}, set(WORDS))

    def test_cpu_that_is_not_told_is_none(self):
        self.assertIsNone(cpu(samples.Sample("mount-full", "weir", "cpu", 0, 1.0, cpu_s=1.0)))
        self.assertIsNone(cpu(samples.Sample("ls", "local", "cpu", 0, 1.0)))


class Settings(unittest.TestCase):
    def test_regimes_are_chosen_and_changed(self):
        both = read().regimes
        self.assertEqual([(each.name, each.free) for each in both], [("cpu", True), ("wire", False)])
        self.assertEqual((both[1].latency_ms, both[1].total_mib), (20, 200))
        [wire] = read(BENCH_REGIMES="wire", BENCH_LATENCY="5", BENCH_TOTAL_MIB="100").regimes
        self.assertEqual((wire.latency_ms, wire.rate_mib, wire.total_mib), (5, 0, 100))
        self.assertEqual(read(BENCH="smoke").regimes[1].latency_ms, 4)
        with self.assertRaisesRegex(settings.Refused, "there is no lan"):
            read(BENCH_REGIMES="lan")

    def test_a_run_without_peers_has_a_limit(self):
        self.assertTrue(read(BENCH_PEERS="none").limit_s < 25 * 60)
        self.assertEqual(read(BENCH_PEERS="juicefs").limit_s, 0)
        self.assertEqual(read(BENCH_PEERS="juicefs", BENCH_MINUTES="30").limit_s, 1800)
        self.assertEqual(set(read(BENCH_PEERS="juicefs").targets) & set(settings.PEERS),
                         {"juicefs"})


class Runs(unittest.TestCase):
    """What is done when, with nothing that does it."""

    def run_of(self, took=0, **changes):
        """What a run does and in which order, if each batch takes so many seconds."""
        chosen = dataclasses.replace(settings.SMOKE, repeats=3, targets=("weir", "raw", "juicefs"),
                                     rows=("cold", "ls", "idle"), **changes)
        did, now = [], [0]
        with mock.patch.object(runner, "Store"), \
                mock.patch.object(rows, "calibrate", return_value={}), \
                mock.patch.object(runner.time, "monotonic", lambda: now[0]):
            run = runner.Run(None, chosen)
            run.say = run.progress = lambda *_: None

            def batch(group, phases, names):
                did.append((run.repeat, run.regime.name, group.name, *names))
                now[0] += took
            run.batch = batch
            run.special = lambda name, act: did.append((run.repeat, run.regime.name, name))
            run.all()
        return run, did

    def test_a_repeat_goes_through_all_regimes_and_trees_come_last(self):
        _, did = self.run_of()
        self.assertEqual(did[:5], [(0, "cpu", "large", "weir", "raw"), (0, "cpu", "large", "juicefs"),
                                   (0, "cpu", "idle"), (0, "wire", "large", "weir", "raw"),
                                   (0, "wire", "large", "juicefs")])
        self.assertEqual([each[2] for each in did[-4:]], ["trees"] * 4)
        self.assertEqual({each[1] for each in did if each[2] == "trees"}, {"cpu"})

    def test_no_repeat_begins_that_would_end_too_late(self):
        # Four batches a repeat: weir and the peer in two regimes.
        run, did = self.run_of(took=100, limit_s=900, peer_repeats=3)
        self.assertEqual({each[0] for each in did}, {0, 1})
        self.assertIn("BENCH_MINUTES", run.skipped["repeat 3 and later"])
        run, did = self.run_of(took=100, limit_s=0)
        self.assertEqual({each[0] for each in did}, {0, 1, 2})
        self.assertFalse(run.skipped)


class Prices(unittest.TestCase):
    def test_they_are_those_of_the_price_book(self):
        book = json.loads((REPOSITORY / "crates/cost/data/prices.json").read_text())["prices"]
        for kind, item in (("put", "s3.put"), ("list", "s3.put"), ("get", "s3.get"),
                           ("head", "s3.get"), ("delete", "s3.delete")):
            [usd] = [entry["usd"] for entry in book
                     if (entry["region"], entry["item"]) == ("us-east-1", item)]
            self.assertAlmostEqual(volumes.USD[kind] * 1000, usd)

    def test_requests_of_all_components_are_paid(self):
        asked = {"meta get requests": 1000, "meta get bytes_received": 9, "data put requests": 10,
                 "collect delete requests": 5}
        self.assertAlmostEqual(volumes.price(asked), 0.00045)


class Picture(unittest.TestCase):
    def test_it_is_what_the_tables_say(self):
        drawn = picture.draw(picture.PAGE.read_text())
        self.assertEqual(drawn, picture.PICTURE.read_text(), "draw it anew: python3 -m perf.picture")

    def test_it_has_every_figure_of_its_rows(self):
        measured = dict(picture.figures(picture.PAGE.read_text())["write + fsync, MiB/s"])
        self.assertEqual(set(measured), set(picture.KINDS))
        self.assertGreater(measured["rclone"], measured["weir"])


class Reports(unittest.TestCase):
    def made(self):
        """A run in which everything was measured, and its lines."""
        targets = ("local", "mirror", "floor", "raw", "weir", "weir-journal", "weir-nodes", "disk",
                   "nbdkit", "nfs", "ganesha", "juicefs", "juicefs-nodes")
        chosen = dataclasses.replace(settings.FULL, targets=settings.TARGETS)
        found = samples.Samples()
        for regime in chosen.regimes:
            for row in ROWS:
                for target in targets:
                    found.add(samples.Sample(
                        row, target, regime.name, 0, 12.0, bytes=10**9, ops=10**3, seconds=1.0,
                        cpu_s=0.5, requests={"data get bytes_received": 10**9}))
        facts = {"load_before": (0,), "load_after": (0,), "cpus": 2, "cpu": "a", "memory_mib": 1,
                 "kernel": "k", "date": "d", "versions": {}, "seconds": 1.0}
        run = types.SimpleNamespace(samples=found, settings=chosen, facts=facts, skipped={},
                                    notes={}, calibration=[], volume_files=1, part_s={})
        return run, goals.judge(found, chosen)

    def test_all_say_the_regime_and_the_cpu(self):
        run, judged = self.made()
        self.assertTrue(all(line.value is not None for line in judged))
        for report in (text(run, judged), html.page(run, judged), markdown.tables(run, judged)):
            for words in ("wire", "200 MiB/s over all connections", "0.50 core-s/GB", "500 us/op",
                          "many nodes"):
                self.assertIn(words, report)
        cells = json.loads(as_json(run, judged))["cells"]
        self.assertEqual({cell["regime"] for cell in cells}, {"cpu", "wire"})

    def test_the_picture_can_be_drawn_from_the_tables(self):
        page = markdown.tables(*self.made())
        measured = picture.figures(page)
        for row, _ in picture.ROWS:
            self.assertEqual(dict(measured[row])["weir"], 12.0)
            self.assertEqual(dict(measured[row])["JuiceFS"], 12.0)
        picture.draw(page)
        self.assertTrue(re.search(r"\| \*\*weir\*\* \|", page))


class Machine(unittest.TestCase):
    def test_cpu_of_a_process_is_exact(self):
        child = subprocess.Popen(["sh", "-c", "read x; i=0; while [ $i -lt 20000 ]; do "
                                  "i=$((i+1)); done; echo done; read x"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            before = site.cpu_s([child.pid])
            child.stdin.write("go\n")
            child.stdin.flush()
            child.stdout.readline()
            spent = site.cpu_s([child.pid]) - before
        finally:
            child.communicate("end\n")
        self.assertTrue(0 < spent < 10, spent)
        self.assertEqual(site.cpu_s([child.pid]), 0, "one that has ended")


class Jobs(unittest.TestCase):
    def test_each_job_returns_what_it_did(self):
        seconds, values = run_jobs(3, lambda i: i * 10)
        self.assertEqual(values, [0, 10, 20])
        self.assertGreater(seconds, 0)

    def test_a_job_that_fails_fails_the_phase(self):
        def work(i):
            if i == 1:
                raise OSError("disk on fire")
        with self.assertRaisesRegex(RuntimeError, "disk on fire"):
            run_jobs(2, work)


if __name__ == "__main__":
    unittest.main()
