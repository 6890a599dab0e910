"""Results as text for a terminal and as JSON for programs."""

import dataclasses
import json

from .goals import ELSEWHERE
from .runner import CLASSES
from .samples import cpu, middle, spread
from .table import GB, ROWS


def number(value):
    """A figure with three digits that mean something."""
    if value is None:
        return "-"
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.3g}"


def title(name):
    return CLASSES[name].title


def verdict(line):
    if line.met is None:
        return f"not measured: {line.why}" if line.why else "-"
    return "met" if line.met else "NOT MET"


def spent(cpu_of):
    """CPU and what for."""
    return f"{number(cpu_of[0])} {cpu_of[1]}" if cpu_of else "-"


def columns(line):
    """A line of the table of goals, for people: the same in every report."""
    value = f"{number(line.value)} {line.unit}".strip() if line.value is not None else "-"
    limit = f"{number(line.limit)} {line.against}" if line.limit is not None else line.against
    cost = "-" if line.unit == GB else spent(line.cpu)  # it is the value there
    return (line.what, line.regime, value, cost, limit, judged(line), line.goal,
            verdict(line))


COLUMNS = ("what", "regime", "weir", "its CPU", "limit or peer", "ratio or value", "goal", "")


def judged(line):
    """The ratio, or the value where there is no limit to divide by, and half the spread."""
    text = number(line.value) if line.ratio is None else f"{number(line.ratio)}x"
    return text if line.spread is None else f"{text} ±{line.spread * 50:.0f}%"


def summary(run, lines):
    """What every report says in its head."""
    facts, settings = run.facts, run.settings
    met = sum(line.met is True for line in lines)
    missed = sum(line.met is False for line in lines)
    open_ = sum(line.met is None and bool(line.why) for line in lines)
    load = ", ".join(f"{facts[when][0]:.1f} {word}" for when, word in
                     (("load_before", "before"), ("load_after", "after")))
    regimes = "; ".join(f"{regime.name}: {regime.words()}" for regime in settings.regimes)
    return {
        "verdict": f"{met} met, {missed} not met, {open_} not measured",
        "machine": f"{facts['cpus']} x {facts['cpu']}, {facts['memory_mib']:,} MiB, kernel "
                   f"{facts['kernel']}, load {load}",
        "run": f"{facts['date']}, {facts['versions'].get('weir', 'weir')}, "
               f"{'smoke run: sizes too small for conclusions' if settings.smoke else 'full run'}"
               f", {settings.repeats} repeat{'s' * (settings.repeats > 1)}, {facts['seconds']:.0f} s",
        "method": f"Bucket: {facts['versions'].get('versitygw', 'versitygw')} on loopback, objects "
                  f"{'in memory' if settings.store == 'memory' else 'on the same disk'}. Regimes: "
                  f"{regimes}; near rows in the first. Large file {settings.large_mib:,} MiB "
                  f"(peers but JuiceFS {settings.peer_mib:,}), {settings.files:,} small files of "
                  f"{settings.file_kib} KiB, phases end after {settings.box_s:g} s to twice that. "
                  "Data does not compress. Page cache dropped before each read. Values are medians, "
                  "± is half of (max - min) / median, ratios are medians of the ratios within each "
                  "repeat and round. CPU is that of weir's daemon.",
    }


def text(run, lines):
    """The table of goals."""
    head = summary(run, lines)
    out = [head["run"], head["machine"], head["method"], ""]
    table = [COLUMNS, *map(columns, lines)]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]) - 1)]
    for i, row in enumerate(table):
        out.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths)) + "  " + row[-1])
        if i == 0:
            out.append("-" * (sum(widths) + 2 * len(widths) + 7))
    out += ["", head["verdict"]]
    if run.volume_files and run.volume_files < run.settings.volume_files:
        out.append(f"The large volume has {run.volume_files:,} files, not "
                   f"{run.settings.volume_files:,}: making more took too long.")
    out += [f"not measured: {what}: {why}" for what, why in absent(run)]
    return "\n".join(out)


def absent(run):
    """What was not measured, and why."""
    yield from run.skipped.items()
    for what, against, goal in ELSEWHERE:
        yield f"many nodes: {what} (goal: {goal} of {against})", "nodes need a machine each"


def cells(run):
    """Medians and single values of every row, target and regime."""
    for (row, target, regime), samples in run.samples.cells().items():
        values = [sample.value for sample in samples]
        yield {"row": row, "target": target, "regime": regime, "unit": ROWS[row].unit,
               "better": "less" if ROWS[row].less else "more", "median": middle(values),
               "spread": spread(values), "cpu": cpu(samples), "values": values}


def as_json(run, lines):
    """Everything: machine, settings, goals, medians, single values with their costs."""
    return json.dumps({
        "format": 2, "machine": run.facts, "settings": dataclasses.asdict(run.settings),
        "raw_connections": run.calibration, "volume_files": run.volume_files,
        "seconds_by_part": run.part_s, "not_measured": dict(absent(run)), "notes": run.notes,
        "goals": [dataclasses.asdict(line) for line in lines], "cells": list(cells(run)),
        "samples": [dataclasses.asdict(sample) for sample in run.samples.all]}, indent=1)
