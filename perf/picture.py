"""docs/performance.svg, drawn from the tables of docs/performance.md: `python3 -m perf.picture`.

The figures are those of the page, which says how they came about; a test holds the picture to them.
"""

import re
from pathlib import Path

from . import svg

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
PICTURE = PAGE.with_suffix(".svg")
TABLE = "With 20 ms a round trip"
# Rows of the table, and what they are called. Where peers are ahead is shown as well.
ROWS = (("cold read, MiB/s", "Cold read, MiB/s"),
        ("write + fsync, MiB/s", "Write, then fsync, MiB/s"),
        ("open and read, cold, 1 thread, /s", "Small files read cold, 1 thread, /s"),
        ("create and flush them, 1 thread, /s", "Small files made and flushed, 1 thread, /s"),
        ("fsync of 4 KiB, p50, ms", "fsync of 4 KiB, ms (less is better)"))
KINDS = {"raw store": "limit", "weir": "own", "JuiceFS": "peer", "JuiceFS writeback": "peer",
         "rclone": "peer", "s3fs": "peer"}
NOTE = ("20 ms a round trip, 80 MiB/s a connection, 2 CPUs, one S3 server in memory, 2026-11-21.",
        "raw store: the same by GETs and PUTs alone. A bar that is missing was not measured.",
        "rclone and JuiceFS writeback: fsync does not reach the bucket.")
STYLE = """svg { font: 12px system-ui, sans-serif; }
text { fill: #1b2430; } .label { text-anchor: end; fill: #5a6675; } .note { fill: #5a6675; font-size: 11px; }
.head { font-weight: 600; } .own { fill: #0f6fc5; } .limit { fill: #8a94a0; } .peer { fill: #c98a1b; }
@media (prefers-color-scheme: dark) { text { fill: #e4e9ef; } .label, .note { fill: #9aa7b5; }
  .own { fill: #5aa9f0; } .limit { fill: #7f8a96; } .peer { fill: #dba445; } }"""
GAP, HEAD = 24, 20


def figures(page):
    """Of each row of the table: (column, value) of what was measured."""
    lines = page[page.index(TABLE):].splitlines()
    table = []
    for line in lines[1:]:
        if line.startswith("|"):
            table.append([cell.strip(" *") for cell in line.strip("|").split("|")])
        elif table:
            break
    names = [re.sub(r" \(\d\)$", "", cell) for cell in table[0]]
    return {row[0]: [(name, float(cell.replace(",", ""))) for name, cell in zip(names, row)
                     if name in KINDS and cell != "-"] for row in table[2:]}


def draw(page):
    measured = figures(page)
    parts, bottom = [], [0, 0]
    for i, (row, title) in enumerate(ROWS):
        entries = [(name, KINDS[name], [value]) for name, value in measured[row]]
        column = i % 2
        x, y = column * (svg.WIDTH + GAP), bottom[column]
        bars = svg.bars(title, "", entries).replace(
            "<svg ", f'<svg x="{x}" y="{y + HEAD}" width="{svg.WIDTH}" ', 1)
        bars = re.sub(r'(viewBox="0 0 \d+ (\d+)")', r'\1 height="\2"', bars, count=1)
        parts.append(f'<text x="{x}" y="{y + 14}" class="head">{title}</text>{bars}')
        bottom[column] = y + HEAD + int(re.search(r'viewBox="0 0 \d+ (\d+)"', bars)[1]) + 10
    x = (len(ROWS) % 2) * (svg.WIDTH + GAP)
    y = bottom[len(ROWS) % 2] + 30
    for note in NOTE:
        words, line = note.split(), ""
        for word in words + [""]:
            if not word or len(line) + len(word) > 58:
                parts.append(f'<text x="{x}" y="{y}" class="note">{line.strip()}</text>')
                y, line = y + 16, ""
            line += word + " "
    width, height = 2 * svg.WIDTH + GAP, max(*bottom, y)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="Weir beside its limits and peers">'
            f"<style>{STYLE}</style>" + "\n".join(parts) + "</svg>\n")


if __name__ == "__main__":
    PICTURE.write_text(draw(PAGE.read_text()))
