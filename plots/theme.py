"""How every chart looks: colours, sizes, axes.

The page (report.html) shows each drawing wide and narrow; a file of its own has it in a frame (picture.py). Both have a rule for each
colour below (DARK), which replaces it on a dark page. So charts use no other colours.
"""

WIDE, NARROW = 960, 366  # px of the whole drawing: on a page, and on a telephone of 390 px

INK, GREY, GRID, PAPER = "#111827", "#6b7280", "#e8ebef", "white"
# Okabe and Ito's blue and a light orange: they differ for every kind of colour vision, and in black and white.
# Orange is always time that something costs, and green time that it saves. Purple is a doubtful number, red one that does not count.
BAR, PALE_BAR, TEAL = "#3b78b5", "#cbdaea", "#3aa6a0"
SLOWER_BAR, SLOWER_INK, SAVED, FASTER_INK, DOUBT_INK, BAD_INK = "#f2b04c", "#a34700", "#8fd0b5", "#00654a", "#7d3c98", "#a1260d"
# For parts of a whole, in the order of the stack. They go from dark to light, so that neighbours differ in black and white.
PARTS = ["#1f4e79", "#3b78b5", "#7fb2dd", "#c3dcf0", TEAL, "#d0d5db"]
# From low to high, of lines.
RAMP = ["#c3dcf0", "#7fb2dd", "#3b78b5", "#1f4e79", INK]
# For lines, which also have their own shape or their name beside them.
SERIES = ["#3b78b5", "#009e73", "#cc79a7", "#56b4e9", "#8c7a1f", TEAL, INK, GREY]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"]

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
TEXT, SMALL = 13, 11  # px
WHOLE = "datum.value % 1 ? '' : format(datum.value, ',d')"  # labels of an axis on which only whole numbers have a meaning


def axis(text, **more):
    return {"title": text, "titleFontWeight": "normal", "titleColor": GREY, "titleFontSize": 12, "labelColor": GREY,
            "labelFontSize": SMALL, "gridColor": GRID, "domain": False, "ticks": False, **more}


def legend(**more):
    return {"title": None, "orient": "bottom", "labelColor": INK, "labelFontSize": 12, "labelLimit": 330, "symbolStrokeWidth": 2, "columnPadding": 18,
            **more}


def arrow(direction):
    """The mark at the edge where a whisker is cut because its interval goes on."""
    return {"type": "point", "shape": f"triangle-{direction}", "filled": True, "size": 45, "color": INK, "opacity": 1, "aria": False}


def bare(drawing, description):
    """The whole specification of a drawing as the page shows it, without heading and margin."""
    return {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "description": description, "background": PAPER,
            "padding": 2, "config": {"view": {"stroke": None}, "font": FONT}, **drawing}


# Each colour above, on a dark page.
DARK = {INK: "#e6e8ec", GREY: "#9aa3af", GRID: "#2a303a", PAPER: "#12161c", BAR: "#5b9bd8", PALE_BAR: "#33475e", TEAL: "#4fc0b8",
        SLOWER_BAR: "#e0a04a", SLOWER_INK: "#ffb45e", SAVED: "#3f8f74", FASTER_INK: "#4fc9a0", DOUBT_INK: "#cda4e3", BAD_INK: "#ff8095",
        "#1f4e79": "#8cc4f5", "#7fb2dd": "#3d6f9e", "#c3dcf0": "#2c4a66", "#d0d5db": "#565e6a", "#009e73": "#35c79a", "#cc79a7": "#e29bc3",
        "#56b4e9": "#7cc8f2", "#8c7a1f": "#c9b552", "black": "#e6e8ec", "#000": "#e6e8ec", "#888": "#9aa3af", "#ddd": "#2a303a"}


def dark_rules(of=""):
    """Rules of a style sheet that give dark colours to what `of` selects."""
    return "\n".join(f'{of}[{attribute}="{light}"] {{ {attribute}: {dark}; }}' for light, dark in DARK.items() for attribute in ("fill", "stroke"))
