"""Results as one HTML page that needs nothing else: the table of goals, then a plot of each row.

Readable on a phone, in print, dark and light; no scripts, no files beside it.
"""

from html import escape

from . import svg
from .report import cells, judged, number, summary, title, verdict
from .settings import PEERS, TARGETS, WEIR

# Sections of plots: rows and what they are called.
SECTIONS = (
    ("Large files", (("write", "sequential write, then fsync"), ("cold", "cold sequential read"),
                     ("cold-4", "cold read by four jobs at once, each"),
                     ("warm", "warm sequential read, page cache dropped"),
                     ("daemon", "warm sequential read through the daemon"),
                     ("random-1", "4 KiB random direct reads, 1 job"),
                     ("random-4", "4 KiB random direct reads, 4 jobs"),
                     ("mmap", "4 KiB random mmap reads"))),
    ("fsync of 4 KiB", tuple((f"fsync-{jobs}-{rank}", f"{who}, {rank}")
                             for jobs, who in ((1, "1 writer"), (8, "8 writers"))
                             for rank in ("p50", "p99", "rate"))),
    ("Small files", tuple((f"{row}-{jobs}", f"{what}, {jobs} thread{'s' * (jobs > 1)}")
                          for row, what in (("create", "create"),
                                            ("durable", "create and flush to the bucket"),
                                            ("stat", "stat"), ("read", "read, resident"),
                                            ("cold-read", "read, cold")) for jobs in (1, 4))),
    ("Linked buckets", (("link-import", "import of small objects"),
                        ("hydrate-large", "hydrate large objects"),
                        ("hydrate-small", "hydrate small objects"),
                        ("linked", "cold sequential read of linked files"),
                        ("linked-4", "the same by four jobs at once, each"),
                        ("linked-4-hydrating", "the same while they are hydrated, each"),
                        ("hydrate-some", "small objects by one weir hydrate"),
                        ("lfs-loop", "small objects by a loop of lfs hsm_restore"))),
    ("Requests", (("puts", "PUTs until all small files are in the bucket"),)),
    ("Large volume", (("mount-empty", "mount, empty volume"), ("mount-full", "mount, large volume"),
                      ("memory-empty", "memory, empty volume"),
                      ("memory-full", "memory, large volume"))),
)
STYLE = """
:root { --ink: #1b2430; --soft: #5a6675; --paper: #fff; --line: #d5dbe2; --own: #0f6fc5;
  --limit: #8a94a0; --peer: #c98a1b; --good: #17713a; --bad: #b3261e; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ef; --soft: #9aa7b5; --paper: #12171d;
  --line: #323c47; --own: #5aa9f0; --limit: #7f8a96; --peer: #dba445; --good: #6fcf8f;
  --bad: #ff8a80; } }
@media print { :root { --ink: #000; --soft: #444; --paper: #fff; --line: #bbb; --own: #0f6fc5;
  --limit: #8a94a0; --peer: #c98a1b; --good: #17713a; --bad: #b3261e; color-scheme: light; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 3rem; max-width: 72rem; color: var(--ink);
  background: var(--paper); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: .95rem; margin: 0; } h3 small, .soft { color: var(--soft); font-weight: normal; }
p { margin: .3rem 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0;
  border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; font-size: .85rem; }
.short, table.goals td:last-child { white-space: nowrap; }
tr.group th { padding-top: 1rem; color: var(--ink); font-size: 1rem; }
.met { color: var(--good); font-weight: 600; } .missed { color: var(--bad); font-weight: 600; }
.plots { display: grid; gap: 1.2rem 2rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); }
figure { margin: 0; break-inside: avoid; }
svg { display: block; width: 100%; max-width: 32rem; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg .label { text-anchor: end; fill: var(--soft); }
svg .own { fill: var(--own); } svg .limit { fill: var(--limit); } svg .peer { fill: var(--peer); }
svg .range { stroke: var(--ink); stroke-width: 1.2; fill: none; }
.key span { white-space: nowrap; margin-right: 1rem; }
.key i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .35em; }
li { overflow-wrap: anywhere; }
@media (max-width: 44rem) {
  table.goals, table.goals tbody, table.goals tr, table.goals th, table.goals td.what {
    display: block; }
  table.goals td { display: inline-block; margin-right: .9rem; }
  table.goals thead { display: none; }
  table.goals tr { padding: .5rem 0; border-bottom: 1px solid var(--line); }
  table.goals td, table.goals th { border: 0; padding: 0; }
  table.goals td[data-name]:not([data-name=""])::before { content: attr(data-name) ": ";
    color: var(--soft); }
  table.goals td.what { font-weight: 600; }
  table.goals td.none { display: none; }
}
@media print { body { max-width: none; font-size: 11px; } h2 { break-after: avoid; } }
"""


def _goals(lines):
    out = ['<table class="goals"><thead><tr><th>what</th><th>at</th><th>weir</th>'
           '<th>limit or peer</th><th>ratio or value</th><th>goal</th><th></th></tr></thead><tbody>']
    group = None
    for line in lines:
        if line.group != group:
            group = line.group
            out.append(f'<tr class="group"><th colspan="7">{escape(group)}</th></tr>')
        mark = {True: "met", False: "missed", None: "soft"}[line.met]
        value = f"{number(line.value)} {line.unit}" if line.value is not None else "-"
        limit = f"{number(line.limit)} {line.against}" if line.limit is not None else line.against
        row = (("what", "", line.what), ("short", "at", f"{line.latency_ms:g} ms"),
               ("short", "weir", value), ("", "limit or peer", limit),
               ("short", "ratio" if line.limit else "value", judged(line)),
               ("short", "goal", line.goal), (mark, "", verdict(line).lower()))
        out.append("<tr>" + "".join(
            f'<td class="{kind if text != "-" else "none"}" data-name="{name}">{escape(text)}</td>'
            for kind, name, text in row) + "</tr>")
    return "".join(out) + "</tbody></table>"


def _plots(run):
    by_row = {}
    for cell in cells(run):
        by_row.setdefault((cell["row"], cell["latency_ms"]), []).append(cell)
    for name, rows in SECTIONS:
        figures = []
        for row, what in rows:
            for (found, latency_ms), entries in by_row.items():
                if found != row:
                    continue
                entries.sort(key=lambda cell: TARGETS.index(cell["target"]))
                unit, less = entries[0]["unit"], entries[0]["better"] == "less"
                bars = [(title(e["target"]), _kind(e["target"]), e["values"]) for e in entries]
                figures.append(
                    f"<figure><h3>{escape(what)} <small>{latency_ms:g} ms, {escape(unit)}"
                    f"{', less is better' if less else ''}</small></h3>"
                    f"{svg.bars(what, unit, bars)}</figure>")
        if figures:
            yield f'<h2>{escape(name)}</h2><div class="plots">{"".join(figures)}</div>'


def _kind(target):
    if target in WEIR:
        return "own"
    return "peer" if target in PEERS else "limit"


def page(run, lines):
    """The whole page."""
    head = summary(run, lines)
    versions = ", ".join(f"{name} {text}" if name not in text.lower() else text
                         for name, text in run.facts["versions"].items())
    notes = [f"{title(name)}: {note}" for name, note in run.notes.items() if note]
    notes += [f"Not measured: {what}: {why}" for what, why in run.skipped.items()]
    notes += [f"Raw store at {c['latency_ms']:g} ms, {c['method']} of large objects, MiB/s by "
              f"connections: " + ", ".join(f"{n}: {s}" for n, s in c["mib_s"].items())
              + f"; used: {c['connections']}" for c in run.calibration]
    if run.volume_files:
        notes.append(f"The large volume has {run.volume_files:,} files.")
    notes.append(f"Versions: {versions}.")
    key = "".join(f'<span><i style="background: var(--{kind})"></i>{word}</span>' for kind, word in
                  (("own", "weir"), ("limit", "limit: local disk, raw store"), ("peer", "peers")))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><title>Weir: numbers to reach</title><style>{STYLE}</style></head>
<body><h1>Weir: numbers to reach</h1>
<p><b>{escape(head["verdict"])}</b></p>
<p class="soft">{escape(head["run"])}<br>{escape(head["machine"])}</p>
<p class="soft">{escape(head["method"])}</p>
<h2>Goals</h2>{_goals(lines)}
<p class="key" style="margin-top: 2rem">{key}<span class="soft">bar: median; line: least to greatest
</span></p>
{"".join(_plots(run))}
<h2>Notes</h2><ul>{"".join(f"<li>{escape(note)}</li>" for note in notes)}</ul>
</body></html>
"""
