"""What holds for every chart: sizes, colours, and texts that neither overlap nor leave the picture."""

import html
import json
import re
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest

import charts
import picture
import theme

COLORS = set(theme.DARK) - {"black", "#000", "#888", "#ddd"}  # these are Vega's own


def values(node, key):
    """All values of this key, at every depth."""
    if isinstance(node, dict):
        yield from (inner for name, inner in node.items() if name == key)
        node = list(node.values())
    if isinstance(node, list):
        for inner in node:
            yield from values(inner, key)


def data(drawing):
    """All rows of data that a drawing is made of."""
    return [row for rows in values(drawing, "values") if isinstance(rows, list) for row in rows if isinstance(row, dict)]


def rows_of(drawing):
    """Those of the drawing itself: a row for each rung."""
    return drawing["data"]["values"]


def texts(svg):
    """[(text, left, right, y)] on the picture. The width is the least that the letters may take."""
    out = []

    def walk(node, x, y):
        for dx, dy in re.findall(r"translate\(([-\d.e]+),\s*([-\d.e]+)\)", node.get("transform", "")):
            x, y = x + float(dx), y + float(dy)
        if node.tag.endswith("}text") and node.text and node.get("opacity") != "0":  # 0: an axis label without room
            x, y = x + float(node.get("x", 0)), y + float(node.get("y", 0))
            width = 0.42 * float(node.get("font-size", "10px").removesuffix("px")) * len(node.text)
            if "rotate(" in node.get("transform", ""):  # an axis' title, which is turned: as wide as its letters are high
                width /= len(node.text)
            left = x - {"end": width, "middle": width / 2}.get(node.get("text-anchor"), 0)
            out.append((node.text, left, left + width, y))
        for child in node:
            walk(child, x, y)

    walk(ET.fromstring(svg), 0, 0)
    return out


def drawn(chart):
    """Checks a chart, and returns its drawing as SVG."""
    assert isinstance(chart, charts.Chart), chart
    pytest.importorskip("vl_convert")
    for line in [*chart.lines, *chart.about]:
        assert line.isprintable() and len(line) <= 700, line
    assert len(chart.lines) <= 2, chart.lines
    text = json.dumps(chart.drawing, allow_nan=False)
    assert set(re.findall(r"#[0-9a-fA-F]{3,8}\b", text.replace('"#rung-', '"'))) <= COLORS
    assert not [size for key in ("fontSize", "labelFontSize", "titleFontSize") for size in values(chart.drawing, key) if size < theme.SMALL]
    for mark in values(chart.drawing, "mark"):
        assert mark.get("aria") is False or mark["type"] in ("bar", "point", "line", "tick") or "text" in mark, mark
    svg = picture.rendered(theme.bare(chart.drawing, chart.title))
    width = float(re.search(r'viewBox="0 0 ([\d.]+) ', svg)[1])
    assert width <= theme.WIDTH
    assert not re.search(r"NaN|undefined|>null<|<script", svg)
    on_picture = texts(svg)
    cut = [t for t in on_picture if t[1] < -1 or t[2] > width + 1]
    assert not cut, cut
    over = [(a, b) for a, b in combinations(on_picture, 2) if abs(a[3] - b[3]) < 8 and a[1] < b[2] and b[1] < a[2]]
    assert not over, over
    return svg


def on_picture(svg):
    return [html.unescape(text) for text, *_ in texts(svg)]


def said(svg):
    """What a screen reader reads out for the marks."""
    return re.findall(r'aria-label="([^"]*)"', svg)


def spoken(svg):
    """The same as one text."""
    return " ".join(said(svg))
