"""Bar charts as inline SVG: one bar a target, a line from the least to the greatest value.

The drawing is 360 units wide, which is a phone's width, so that its text stays readable there;
colours come from the page, so that it follows dark, light and print.
"""

from html import escape

from .report import number

WIDTH, LABEL, LINE, TOP = 360, 118, 22, 6
VALUE = 58  # room for the figure right of the bar


def bars(title, unit, entries):
    """`entries`: (label, kind, values); kind is a class of the page's style sheet. Bars start at 0."""
    top = max(max(values) for _, _, values in entries) or 1
    scale = (WIDTH - LABEL - VALUE) / top
    height = TOP * 2 + LINE * len(entries)
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">']
    for i, (label, kind, values) in enumerate(entries):
        ordered = sorted(values)
        median = ordered[len(ordered) // 2] if len(ordered) % 2 else \
            (ordered[len(ordered) // 2 - 1] + ordered[len(ordered) // 2]) / 2
        y = TOP + i * LINE
        middle = y + LINE / 2
        parts.append(
            f'<text x="{LABEL - 6}" y="{middle + 4}" class="label">{escape(label)}</text>'
            f'<rect x="{LABEL}" y="{y + 4}" width="{max(median * scale, 0.7):.1f}" '
            f'height="{LINE - 8}" rx="2" class="{kind}"><title>{escape(label)}: '
            f'{escape(", ".join(number(v) for v in values))} {escape(unit)}</title></rect>')
        if ordered[0] != ordered[-1]:
            low, high = (LABEL + v * scale for v in (ordered[0], ordered[-1]))
            parts.append(f'<path d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 3}v6'
                         f'M{high:.1f} {middle - 3}v6" class="range"/>')
        end = LABEL + max(median, ordered[-1]) * scale
        parts.append(f'<text x="{end + 5:.1f}" y="{middle + 4}">{number(median)}</text>')
    parts.append("</svg>")
    return "".join(parts)
