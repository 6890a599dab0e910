"""Results as the tables of docs/performance.md, to be put there after a full run."""

from .report import COLUMNS, absent, cells, columns, number, summary
from .settings import SHOWN
from .table import TABLE

# Peers' names as the page, and the picture drawn from it, have them.
NAMES = {"local": "ext4", "raw": "raw store", "weir": "**weir**", "weir-file": "weir file://",
         "juicefs": "JuiceFS", "juicefs-wb": "JuiceFS writeback", "rclone": "rclone (1)",
         "s3fs": "s3fs", "seaweedfs": "SeaweedFS (2)", "s3backer": "s3backer + ext4 (3)"}


def _table(head, rows):
    return ["| " + " | ".join(row) + " |" for row in
            (head, ["---"] * len(head), *rows)]


def _goals(lines):
    marks = {True: "met", False: "**missed**", None: ""}
    rows = [[*columns(line)[:-1], marks[line.met] or line.why] for line in lines]
    return _table(COLUMNS, rows)


def _beside(run, regime, of, name_of):
    """Targets beside each other in one regime, a row of the page for each of theirs."""
    found = {(cell["row"], cell["target"]): cell for cell in cells(run)
             if cell["regime"] == regime and of(cell) is not None}
    targets = [name for name in SHOWN if name in NAMES and any(t == name for _, t in found)]
    rows = [[name_of(row), *(number(of(found[row.name, name])) if (row.name, name) in found else "-"
                           for name in targets)]
            for row in TABLE if row.beside and any((row.name, name) in found for name in targets)]
    return _table(["", *(NAMES[name] for name in targets)], rows) if rows else []


def _cpu(cell):
    return cell["cpu"][0] if cell["cpu"] and cell["cpu"][0] else None


def tables(run, lines):
    """All of them, with the conditions of the run."""
    head = summary(run, lines)
    out = [head["run"] + ".", head["machine"] + ".", head["method"], "", *_goals(lines), "",
           head["verdict"] + ".", ""]
    out += [f"- Not measured: {what}: {why}" for what, why in absent(run)] + [""]
    for regime in run.settings.regimes:
        words = "With " + regime.words()
        out += [f"{words}:", "", *_beside(run, regime.name, lambda cell: cell["median"],
                                          lambda row: row.beside), ""]
        out += [f"{words}, CPU of the daemons:", "", *_beside(
            run, regime.name, _cpu, lambda row: f"{row.beside.rsplit(', ', 1)[0]}, {row.cpu}"), ""]
    return "\n".join(out)
