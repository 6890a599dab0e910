"""Tests of what the table rests on: statistics, verdicts, jobs."""

import types
import unittest

from . import goals, picture, samples, settings
from .jobs import run_jobs
from .report import number, verdict


def table(*cells):
    """Samples of (row, target, values by repeat)."""
    found = samples.Samples()
    for row, target, values in cells:
        for repeat, value in enumerate(values):
            found.add(samples.Sample(row, target, 0.0, repeat, value, "", bytes=10**9,
                                     seconds=1.0, cpu_s=value))
    return found


def lines(found):
    chosen = types.SimpleNamespace(rows=settings.ROWS, latencies_ms=(0.0,),
                                   targets=settings.TARGETS)
    return {(line.what, line.against): line for line in goals.judge(found, chosen)}


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
        found = lines(table(("cold", "weir", [50, 100, 400]), ("cold", "raw", [100, 500, 50])))
        self.assertAlmostEqual(found[self.cold].ratio, 0.5)
        self.assertIs(found[self.cold].met, False)
        self.assertEqual(verdict(found[self.cold]), "NOT MET")

    def test_a_bound_that_is_reached_is_met(self):
        found = lines(table(("cold", "weir", [90]), ("cold", "raw", [100])))
        self.assertIs(found[self.cold].met, True)

    def test_less_is_better_where_the_goal_says_so(self):
        found = lines(table(("fsync-1-p50", "weir", [2.3]), ("fsync-1-p50", "raw", [1.0])))
        self.assertIs(found[("fsync of 4 KiB, 1 writer, p50", "one PUT of 4 KiB")].met, False)

    def test_what_was_not_measured_is_neither_met_nor_missed(self):
        found = lines(table(("cold", "weir", [90])))
        self.assertIsNone(found[self.cold].met)
        self.assertIn("the limit was not measured", verdict(found[self.cold]))
        self.assertIn("the value was not measured",
                      verdict(found[("sequential write, then fsync",
                                     "slower of local disk and parallel PUTs")]))

    def test_the_limit_of_a_write_is_the_slower_side(self):
        found = lines(table(("write", "weir", [95]), ("write", "local", [1000]),
                            ("write", "raw", [100])))
        line = found[("sequential write, then fsync", "slower of local disk and parallel PUTs")]
        self.assertAlmostEqual(line.ratio, 0.95)

    def test_the_best_peer_is_a_shared_file_system(self):
        found = lines(table(("create-1", "weir", [1000]), ("create-1", "juicefs", [100]),
                            ("create-1", "rclone", [250]), ("create-1", "s3backer", [9000])))
        self.assertAlmostEqual(found[("small files: create, 1 thread", "best peer")].ratio, 4)

    def test_cpu_is_for_a_gigabyte(self):
        found = lines(table(("cold", "weir", [1.3])))
        line = found[("daemon CPU, cold read", "-")]
        self.assertAlmostEqual(line.value, 1.3)
        self.assertIs(line.met, False)


class Picture(unittest.TestCase):
    def test_it_is_what_the_tables_say(self):
        drawn = picture.draw(picture.PAGE.read_text())
        self.assertEqual(drawn, picture.PICTURE.read_text(), "draw it anew: python3 -m perf.picture")

    def test_it_has_every_figure_of_its_rows(self):
        measured = dict(picture.figures(picture.PAGE.read_text())["write + fsync, MiB/s"])
        self.assertEqual(set(measured), set(picture.KINDS))
        self.assertGreater(measured["rclone"], measured["weir"])


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
