"""Results as one HTML page that needs nothing else: the table of goals, then a plot of each row.

Readable on a phone, in print, dark and light; no scripts, no files beside it.
"""

import re
from html import escape

from . import svg
from .report import COLUMNS, absent, cells, columns, spent, summary, title
from .settings import PEERS, SHOWN, WEIR
from .table import TABLE

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


def _words(text):
    """Text of the table of rows, in which programs stand between backquotes."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _goals(lines):
    out = ['<table class="goals"><thead><tr>', *(f"<th>{name}</th>" for name in COLUMNS),
           "</tr></thead><tbody>"]
    classes = ("what", "short", "short", "short", "", "short", "short")
    group = None
    for line in lines:
        if line.group != group:
            group = line.group
            out.append(f'<tr class="group"><th colspan="{len(COLUMNS)}">{escape(group)}</th></tr>')
        mark = {True: "met", False: "missed", None: "soft"}[line.met]
        out.append("<tr>" + "".join(
            f'<td class="{kind if text != "-" else "none"}" '
            f'data-name="{name if name != "what" else ""}">{_words(text)}</td>'
            for kind, name, text in zip((*classes, mark), COLUMNS, columns(line))) + "</tr>")
    return "".join(out) + "</tbody></table>"


def _plots(run):
    by_row = {}
    for cell in cells(run):
        by_row.setdefault((cell["row"], cell["regime"]), []).append(cell)
    for name in dict.fromkeys(row.section for row in TABLE):
        figures = []
        for row in (row for row in TABLE if row.section == name):
            for (found, regime), entries in by_row.items():
                if found != row.name:
                    continue
                entries.sort(key=lambda cell: SHOWN.index(cell["target"]))
                bars = [(title(e["target"]), _kind(e["target"]), e["values"]) for e in entries]
                cost = "; ".join(f"{title(e['target'])} {spent(e['cpu'])}" for e in entries
                                 if e["cpu"] and e["cpu"][0])
                figures.append(
                    f"<figure><h3>{_words(row.title)} <small>{regime}, {escape(row.unit)}"
                    f"{', less is better' if row.less else ''}</small></h3>"
                    f"{svg.bars(row.title, row.unit, bars)}"
                    + (f'<p class="soft"><small>CPU: {escape(cost)}</small></p>' if cost else "") + "</figure>")
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
    notes += [f"Not measured: {what}: {why}" for what, why in absent(run)]
    notes += [f"Raw store in {c['regime']}, {c['method']} of large objects, MiB/s by "
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
