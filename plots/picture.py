"""A chart as a picture of its own. At the top: what it shows, and how to read it. At the foot: its source.

The drawing is the one that the page shows (theme.bare). An SVG follows the reader's dark mode; a PNG is light.
"""

import json
import re
from functools import cache
from html import escape, unescape

import page
import theme
from letters import fitted, is_guessed, wrapped
from words import clean

MARGIN, LEAST_WIDTH, TITLE = 24, 760, 20  # px


def foot(chart):
    """[(line, colour)]: the source, and what makes it doubtful."""
    return [(chart.about.source, theme.GREY)] + ([(chart.about.warnings, theme.DOUBT_INK)] if chart.about.warnings else [])


def specification(chart):
    """As Vega-Lite. That has no place for a foot, so it stands in the description."""
    return {**theme.bare(chart.wide, clean(". ".join([chart.title, *chart.lines, *(line for line, _ in foot(chart))]))), "padding": MARGIN,
            "title": {"text": wrapped(chart.title, theme.WIDE, TITLE, bold=True), "subtitle": chart.lines, "anchor": "start", "frame": "bounds", "fontSize": TITLE, "color": theme.INK,
                      "subtitleFontSize": 13, "subtitleColor": theme.GREY, "subtitleLineHeight": 18, "subtitlePadding": 6, "offset": 20}}


def framed(chart, drawing):
    """`drawing`: the SVG of theme.bare(chart.wide). A link of the page leads nowhere here."""
    inner = re.sub(r"</?a\b[^>]*>", "", drawing.strip())
    head = re.match(r"<svg [^>]*>", inner)[0]
    width, height = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', head).groups())
    inner = re.sub(r"^<rect [^>]*/>", "", inner.removeprefix(head).removesuffix("</svg>"))
    room = max(width, LEAST_WIDTH)
    texts, y = [], MARGIN - 6

    def put(line, size, color, height, bold=False):
        nonlocal y
        y += height
        weight = ' font-weight="bold"' if bold else ""
        texts.append(f'<text x="{MARGIN}" y="{y:g}" font-family="{theme.FONT}" font-size="{size}px"{weight} fill="{color}">{escape(line, quote=False)}</text>')

    for line in wrapped(chart.title, room, TITLE, bold=True):
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
    label = escape(clean(". ".join([chart.title, *chart.lines])))
    return fitted(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="{label}">'
        f"<style>@media screen and (prefers-color-scheme: dark) {{ {theme.dark_rules()} }}</style>"
        f'<rect width="{size[0]}" height="{size[1]}" fill="{theme.PAPER}"/>{"".join(texts)}{rule}'
        f'<g transform="translate({MARGIN},{top:g})">{inner}</g></svg>')


@cache
def can_draw():
    """Whether the packages for pictures and pages are installed."""
    try:
        import jinja2  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError:
        return False
    return True


def boxes(pictures):
    """The letters of SVGs that no font here has."""
    import vl_convert

    letters = sorted({letter for svg in pictures for letter in unescape(svg.decode()) if is_guessed(letter) and letter.isprintable()})
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><text y="30" font-size="30px" font-family="{theme.FONT}">'
    box, *drawn = (vl_convert.svg_to_png(f"{head}{letter}</text></svg>") for letter in ("\U0010fffd", *letters[:40]))  # the first has none
    return "".join(letter for letter, png in zip(letters, drawn) if png == box)


def files(name, chart):
    """{file name: bytes}. None instead of a picture that cannot be drawn here."""
    vega_lite = (json.dumps(specification(chart), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
    if not can_draw():
        return {f"{name}.svg": None, f"{name}.png": None, f"{name}.vl.json": vega_lite}
    import vl_convert

    svg = framed(chart, page.drawn(chart.wide, chart.title))
    return {f"{name}.svg": svg.encode(), f"{name}.png": vl_convert.svg_to_png(svg, scale=2), f"{name}.vl.json": vega_lite}
