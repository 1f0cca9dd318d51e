"""One SVG for each workload: a bar for each server's rate, a whisker from its slowest to its quickest round.

Called by report. Written by hand: a few rectangles need no plotting library (Debian's matplotlib brings some 60
packages), and the same result gives the same bytes.
"""

from html import escape

from . import figures

WIDTH, LEFT, BAR, GAP, HEAD = 760, 250, 14, 6, 34
SCALE = WIDTH - LEFT - 90
COLOURS = {"howdah": "#c2571a", "floor": "#9aa0a6", "peer": "#4c78a8"}


def workload(found):
    """The picture of all tables of a workload, one below the other."""
    parts, top = [], 10
    for load in found["loads"]:
        drawn, top = panel(load, top)
        parts += drawn
    style = "font-family:system-ui,sans-serif;font-size:12px"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}" '
            f'style="{style}">\n<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")


def panel(load, top):
    rows = [(row, figures.summary(row, "rate")) for row in load["rows"]]
    rows = [(row, rate) for row, rate in rows if rate]
    most = max((rate["high"] for _, rate in rows), default=1) or 1
    parts = [text(10, top + 16, f"{load['title']}: requests per second", bold=True)]
    top += HEAD
    for row, rate in rows:
        parts += bar(row, rate, top, SCALE / most)
        top += BAR + GAP
    return parts, top + 12


def bar(row, rate, top, scale):
    length, middle = rate["median"] * scale, top + BAR / 2
    low, high = LEFT + rate["low"] * scale, LEFT + rate["high"] * scale
    return [text(LEFT - 8, top + 11, row["title"], anchor="end"),
            f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR}" fill="{COLOURS[row["role"]]}"/>',
            f'<path d="M{low:.1f} {middle:.1f}H{high:.1f}M{low:.1f} {middle - 3:.1f}v6M{high:.1f} {middle - 3:.1f}v6" '
            'stroke="#333" fill="none"/>',
            text(max(high, LEFT + length) + 6, top + 11, f"{rate['median']:,.0f}")]


def text(x, y, words, anchor="start", bold=False):
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#222"{weight}>{escape(words)}</text>'
