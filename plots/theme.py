"""How every chart looks: colours, sizes, axes, and the frame around a chart that is a file of its own.

The page (report.html) shows the same drawings without frame, wide and narrow, and gives them dark colours by a
rule for each colour below, wherever it stands as an attribute (DARK, page.py): use no others.
"""

from words import wrap

WIDE, NARROW = 960, 366  # px, the whole drawing: a page, and a telephone of 390 px

INK, GREY, GRID, PAPER = "#111827", "#6b7280", "#e8ebef", "white"
# Okabe and Ito's blue and a light orange: apart for every kind of colour vision, and dark against light in black and white.
BAR, SLOWER_BAR, SLOWER_INK, FASTER_INK = "#3b78b5", "#f2b04c", "#a34700", "#00654a"
# For parts of a whole, in their order in the stack: from dark to light, so that neighbours are apart in black and white.
PARTS = ["#1f4e79", "#3b78b5", "#7fb2dd", "#c3dcf0", "#f2b04c", "#d0d5db"]
# For lines, which have a dash or a shape of their own as well (Okabe and Ito).
SERIES = ["#3b78b5", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK, GREY]
DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [4, 2], [1, 3], [10, 2, 2, 2]]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"]

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
TEXT, SMALL = 13, 11  # px
ROOM = 0.84  # of the place for a text, that it may fill: where FONT is missing another, wider one is taken


WHOLE = "datum.value % 1 ? '' : format(datum.value, ',d')"  # an axis' labels where only whole numbers have a meaning


def text_width(text, size=TEXT, bold=False):
    """An upper bound in px for ordinary texts in FONT."""
    return len(text) * size * (0.60 if bold else 0.56)


def axis(text, **more):
    return {"title": text, "titleFontWeight": "normal", "titleColor": GREY, "titleFontSize": 12, "labelColor": GREY,
            "labelFontSize": SMALL, "gridColor": GRID, "domain": False, "ticks": False, **more}


def legend(**more):
    return {"title": None, "orient": "bottom", "labelColor": INK, "labelFontSize": 12, "labelLimit": 330, "symbolStrokeWidth": 2, "columnPadding": 18,
            **more}


def arrow(direction):
    """The mark at the edge where a whisker is cut: its interval goes on."""
    return {"type": "point", "shape": f"triangle-{direction}", "filled": True, "size": 45, "color": INK, "opacity": 1, "aria": False}


def bare(drawing, description):
    """A whole specification of a drawing, without heading and margin: what the page shows."""
    return {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "description": description, "background": PAPER,
            "padding": 2, "config": {"view": {"stroke": None}, "font": FONT}, **drawing}


def framed(drawing, name, lines):
    """The same as a picture that can stand alone: with the finding as its title and the conditions below it. A picture cuts what
    leaves it: its sides have room for texts in a font a sixth wider than FONT."""
    heading = wrap(name, 60)
    return {**bare(drawing, ". ".join([name, *lines])), "padding": {"left": 40, "right": 40, "top": 18, "bottom": 18},
            "title": {"text": heading if len(heading) > 1 else name, "subtitle": [part for line in lines for part in wrap(line, 110)],
                      "anchor": "start", "frame": "bounds", "fontSize": 20, "color": INK,
                      "subtitleFontSize": 12, "subtitleColor": GREY, "subtitleLineHeight": 17, "subtitlePadding": 6, "offset": 26}}


# What each colour above becomes on a dark page.
DARK = {INK: "#e6e8ec", GREY: "#9aa3af", GRID: "#2a303a", PAPER: "#12161c", BAR: "#5b9bd8", SLOWER_BAR: "#e0a04a",
        SLOWER_INK: "#ffb45e", FASTER_INK: "#4fc9a0", "#1f4e79": "#2f6fb0", "#7fb2dd": "#93c2ea", "#c3dcf0": "#d5e6f5",
        "#d0d5db": "#565e6a", "#d55e00": "#ff8a3c", "#009e73": "#35c79a", "#cc79a7": "#e29bc3", "#e69f00": "#f2b632",
        "#56b4e9": "#7cc8f2", "black": "#e6e8ec", "#000": "#e6e8ec", "#888": "#9aa3af", "#ddd": "#2a303a"}
