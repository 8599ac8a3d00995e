"""A chart as a picture of its own, under a title, how to read it, its source, and what makes it doubtful.

The drawing is the one that the page shows (theme.bare). An SVG follows the reader's dark mode; a PNG is light.
"""

import json
import re
from functools import cache
from html import unescape

import theme
from words import clean, wrap


def specification(chart):
    """As Vega-Lite."""
    below = [*chart.lines, *filter(None, chart.about)]
    return {**theme.bare(chart.drawing, clean(". ".join([chart.title, *below]))), "padding": 20,
            "title": theme.heading(wrap(chart.title, 42), [part for line in below for part in wrap(line, 74, most=8)], frame="bounds", fontSize=20,
                                   subtitleColor=theme.GREY, limit=theme.WIDTH, offset=20)}


def rendered(specification):
    """Vega's SVG. Vega makes a place in the page a place on its own site."""
    import vl_convert

    return re.sub(r' xlink:href="[^"#]*#', ' href="#', vl_convert.vegalite_to_svg(specification, allowed_base_urls=[]))


def alone(chart):
    """The SVG of a file of its own, with the colours of a dark page."""
    head, rest = rendered(specification(chart)).split(">", 1)
    return f"{head}><style>@media screen and (prefers-color-scheme: dark) {{ {theme.dark_rules()} }}</style>{rest}"


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

    letters = sorted({letter for svg in pictures for letter in unescape(svg.decode()) if not letter.isascii() and letter.isprintable()})
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><text y="30" font-size="30px" font-family="{theme.FONT}">'
    box, *drawn = (vl_convert.svg_to_png(f"{head}{letter}</text></svg>") for letter in ("\U0010fffd", *letters[:40]))  # the first has none
    return "".join(letter for letter, png in zip(letters, drawn) if png == box)


def files(name, chart):
    """{file name: bytes}. None instead of a picture that cannot be drawn here."""
    vega_lite = (json.dumps(specification(chart), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
    if not can_draw():
        return {f"{name}.svg": None, f"{name}.png": None, f"{name}.vl.json": vega_lite}
    import vl_convert

    svg = alone(chart)
    return {f"{name}.svg": svg.encode(), f"{name}.png": vl_convert.svg_to_png(svg, scale=3), f"{name}.vl.json": vega_lite}
