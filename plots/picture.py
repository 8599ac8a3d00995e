"""A chart as a picture of its own. At the top: what it is of, what it shows, and how to read it. At the foot: its source.

The drawing is the one that the page shows (theme.bare). An SVG follows the reader's dark mode; a PNG is light.
"""

import json
import math
import re
from html import escape

import theme
from letters import fitted, text_width, wrapped
from words import clean

MARGIN, LEAST_WIDTH, TITLE = 24, 760, 20  # px


def title(chart, width=math.inf):
    """'Training GPT-2 124M on an NVIDIA H100: peak memory 31.0 → 19.0 GiB', in one line if the width has room for it."""
    finding = chart.finding
    if re.match(r"[A-Z][a-z]+\b", finding):  # an ordinary word, no name
        finding = finding[0].lower() + finding[1:]
    subject = chart.about.subject
    whole = f"{subject}: {finding}" if subject else chart.finding
    if not subject or text_width(whole, TITLE, bold=True) <= width:
        return wrapped(whole, width, TITLE, bold=True)
    return wrapped(f"{subject}:", width, TITLE, bold=True, most=1) + wrapped(finding, width, TITLE, bold=True, most=2)


def foot(chart):
    """[(line, colour)]: notes, the source, warnings by name."""
    lines = [(line, theme.GREY) for line in [*chart.notes, chart.about.source] if line]
    return lines + ([(chart.about.warnings, theme.DOUBT_INK)] if chart.about.warnings else [])


def specification(chart):
    """As Vega-Lite. That has no place for a foot, so it stands in the description."""
    return {**theme.bare(chart.wide, ". ".join([*title(chart), *chart.lines, *(line for line, _ in foot(chart))])), "padding": MARGIN,
            "title": {"text": title(chart, theme.WIDE), "subtitle": chart.lines, "anchor": "start", "frame": "bounds", "fontSize": TITLE, "color": theme.INK,
                      "subtitleFontSize": 13, "subtitleColor": theme.GREY, "subtitleLineHeight": 18, "subtitlePadding": 6, "offset": 20}}


def framed(chart, drawing):
    """`drawing`: the SVG of theme.bare(chart.wide)."""
    head, inner = re.match(r"<svg [^>]*>", drawing.strip())[0], drawing.strip()
    width, height = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', head).groups())
    inner = re.sub(r"^<rect [^>]*/>", "", inner.removeprefix(head).removesuffix("</svg>"))
    room = max(width, LEAST_WIDTH)
    texts, y = [], MARGIN - 6

    def put(line, size, color, height, bold=False):
        nonlocal y
        y += height
        weight = ' font-weight="bold"' if bold else ""
        texts.append(f'<text x="{MARGIN}" y="{y:g}" font-family="{theme.FONT}" font-size="{size}px"{weight} fill="{color}">{escape(line, quote=False)}</text>')

    for line in title(chart, room):
        put(line, TITLE, theme.INK, 25, bold=True)
    y += 4
    for line in chart.lines:
        for part in wrapped(line, room, 13):
            put(part, 13, theme.GREY, 18)
    top = y + 16
    y = top + height + 10
    rule = f'<line x1="{MARGIN}" x2="{MARGIN + room:g}" y1="{y:g}" y2="{y:g}" stroke="{theme.GRID}"/>'
    y += 4
    for line, color in foot(chart):
        for part in wrapped(line, room, theme.SMALL):
            put(part, theme.SMALL, color, 15)
    size = f"{room + 2 * MARGIN:g}", f"{y + MARGIN - 6:g}"
    label = escape(clean(". ".join([*title(chart), *chart.lines])))
    return fitted(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="{label}">'
        f"<style>@media screen and (prefers-color-scheme: dark) {{ {theme.dark_rules()} }}</style>"
        f'<rect width="{size[0]}" height="{size[1]}" fill="{theme.PAPER}"/>{"".join(texts)}{rule}'
        f'<g transform="translate({MARGIN},{top:g})">{inner}</g></svg>')


def files(name, chart):
    """{file name: bytes}. None instead of a picture that cannot be drawn here."""
    try:
        import vl_convert
    except ImportError:
        vl_convert = None
    vega_lite = (json.dumps(specification(chart), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
    if vl_convert is None:
        return {f"{name}.svg": None, f"{name}.png": None, f"{name}.vl.json": vega_lite}
    drawing = vl_convert.vegalite_to_svg(theme.bare(chart.wide, chart.finding), allowed_base_urls=[])
    svg = framed(chart, drawing)
    return {f"{name}.svg": svg.encode(), f"{name}.png": vl_convert.svg_to_png(svg, scale=2), f"{name}.vl.json": vega_lite}
