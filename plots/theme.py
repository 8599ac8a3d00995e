"""How every chart looks: colours, sizes, axes, texts, whiskers.

A drawing has one width, at which it can be read on a telephone and on a desk. Vega-Lite measures texts in Liberation Sans; a reader's
font may be a sixth wider (DejaVu Sans), so texts have that much room. The page (report.html) and a picture's own file (picture.py) have
a rule for each colour below (DARK), which replaces it on a dark page. So charts use no other colours.
"""

WIDTH, PLOT = 540, 460  # px of a whole drawing, and of a panel with an axis at its left

INK, GREY, GRID, PAPER = "#111827", "#6b7280", "#e8ebef", "white"
# Okabe and Ito's blue and a light orange: they differ for every kind of colour vision, and in black and white.
# Orange is always time that something costs, and green time that it saves. Purple is a doubtful number, red one that does not count.
BAR, PALE_BAR, TEAL = "#3b78b5", "#cbdaea", "#3aa6a0"
SLOWER_BAR, SLOWER_INK, SAVED, FASTER_INK, DOUBT_INK, BAD_INK = "#f2b04c", "#a34700", "#8fd0b5", "#00654a", "#7d3c98", "#a1260d"
# For parts of a whole, in the order of the stack. They go from dark to light, so that neighbours differ in black and white.
PARTS = ["#1f4e79", "#3b78b5", "#7fb2dd", "#c3dcf0", TEAL, "#d0d5db"]
# From low to high, of lines.
# For lines, which also have their own shape or their name beside them.
SERIES = ["#3b78b5", "#009e73", "#cc79a7", "#56b4e9", "#8c7a1f", TEAL, INK, GREY]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"]

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
TEXT, SMALL = 15, 13  # px
WHOLE = "datum.value % 1 ? '' : format(datum.value, ',d')"  # labels of an axis on which only whole numbers have a meaning


def axis(text, **more):
    return {"title": text, "titleFontWeight": "normal", "titleColor": GREY, "titleFontSize": 14, "titlePadding": 12, "labelColor": GREY,
            "labelFontSize": SMALL, "gridColor": GRID, "domain": False, "ticks": False, **more}


def legend(**more):
    return {"title": None, "orient": "bottom", "labelColor": INK, "labelFontSize": 14, "labelLimit": 420, "symbolStrokeWidth": 2, "columnPadding": 30,
            **more}


def text(field, y, x, limit=None, **mark):
    """A layer with that field of each row. `limit`: px."""
    return {"mark": {"type": "text", "fontSize": TEXT, "baseline": "middle", "color": INK, "aria": False, **({"limit": limit * 6 / 7} if limit else {}), **mark},
            "encoding": {"y": y, "x": x, "text": {"field": field, "type": "nominal"}}}


def room(said):
    """px of a bold text, in a wide font."""
    return 0.7 * TEXT * len(said)


def whiskers(x, y, upright=False, **mark):
    """Layers: from `from` to `to` of each row with an interval `lo` to `hi`. Where an interval goes on beyond its whisker there is an arrow."""
    (along, across), cap = (("y", "x"), "horizontal") if upright else (("x", "y"), "vertical")
    of, other = {"x": x, "y": y}[along], {across: {"x": x, "y": y}[across]}
    cap = {"type": "tick", "orient": cap, "size": 9, "thickness": 1.5, "color": INK, "opacity": 1, "aria": False}
    ends = (("from", "lo", "down" if upright else "left"), ("to", "hi", "up" if upright else "right"))
    return [{"mark": {"type": "rule", "strokeWidth": 1.5, "color": INK, "aria": False, **mark}, "transform": [{"filter": "datum.lo !== null"}],
             "encoding": {**other, along: {**of, "field": "from"}, f"{along}2": {"field": "to"}}},
            *({"mark": {**shape, **mark}, "transform": [{"filter": f"datum.lo !== null && datum.{at} {same} datum.{end}"}],
               "encoding": {**other, along: {**of, "field": at}}}
              for at, end, side in ends
              for same, shape in (("===", cap), ("!==", {"type": "point", "shape": f"triangle-{side}", "filled": True, "size": 45, "color": INK, "opacity": 1, "aria": False})))]


def heading(lines, below=(), **more):
    """A panel's title and what stands below it."""
    return {"text": lines, "subtitle": list(below), "anchor": "start", "frame": "group", "fontSize": TEXT, "color": INK, "subtitleFontSize": SMALL,
            "subtitleColor": INK, "subtitleLineHeight": 18, "subtitlePadding": 4, "limit": PLOT * 6 / 7, "offset": 10, **more}


def stacked(panels):
    """Panels below each other, each with its own axes."""
    return {"vconcat": panels, "spacing": 34, "resolve": {"scale": {"x": "independent", "y": "independent"}}}


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
