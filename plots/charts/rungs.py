"""What the charts with a row for each rung share: the rows' places, names, reasons, text columns and whiskers.

All of a row is in one layered view: the text columns share the y scale of the bars, so they stay in line with them. In a narrow
drawing the names stand above the bars.
"""

from letters import cut, is_guessed, text_width
from study import confidence, has_number, label, reason
from theme import GREY, INK, NARROW, PAPER, SMALL, TEXT, arrow, axis, legend
from words import between, shorten

LABEL_LIMIT = 220  # px
NAME_LENGTH = 80   # characters: a renderer takes minutes to cut thousands of them to a width
BARS = "datum.reason === ''"


def row(study, rung, position, **fields):
    """One rung of the chart's data. Every row has a reason or a bar."""
    name = shorten(label(study, rung), NAME_LENGTH)
    return {"row": position, "rung": cut(name, LABEL_LIMIT, TEXT) if is_guessed(name) else name,
            "reason": "" if has_number(rung) else shorten(reason(rung), 200), **fields}


def interval(estimate):
    """(lo, hi), both or neither: one that tells nothing is not drawn."""
    lo, hi = estimate["lo"], estimate["hi"]
    return (lo, hi) if lo is not None and hi is not None and between(lo, hi, str) != "unknown" else (None, None)


def with_interval(text, lo, hi, form):
    return text if lo is None else f"{text} ({between(lo, hi, form, to=' to ')})"


def disturbed(rung):
    return " · disturbed" if rung.get("flags") else ""


def whiskers_said(study, data):
    """What the whiskers are, for rows that place_ends() has placed."""
    if all(d["lo"] is None for d in data):
        return "no interval"
    return f"whiskers: {confidence(study)}" + (", arrow: it goes on" if any(d["to"] != d["hi"] for d in data) else "")


def place_ends(data, field):
    """Adds where each whisker is drawn and where the bar's text begins. An interval far beyond all bars ends in an arrow."""
    most = 1.5 * max((d[field] for d in data if d[field] is not None), default=0)
    for d in data:
        d["from"] = d["to"] = d["end"] = None
        if d[field] is not None:
            d["end"] = d[field]
        if d["lo"] is not None:
            d["from"], d["to"] = max(d["lo"], 0), min(d["hi"], most)
            d["end"] = max(d[field], d["to"])


class Rows:
    """The places of a drawing's rows. `reach`: the px that a reason's text may take."""

    def __init__(self, data, width, narrow, reach=None):
        self.data, self.narrow = data, narrow
        self.width = NARROW - 16 if narrow else width
        self.step = 44 if narrow else 30 if len(data) <= 40 else 24
        self.bar = 14 if narrow or self.step < 30 else 18
        self.down = 11 if narrow else 0  # how far the bars are below the middle of their rows: the names are in the upper half
        self.reach = self.width if narrow or reach is None else reach
        self.y = {"field": "row", "type": "ordinal", "axis": None,
                  "scale": {"type": "band", "padding": 0, "domain": [d["row"] for d in data]}}

    def domain(self, text="text", others=()):
        """[0, end] of the axis. The text at each bar's end stays inside the plotting area."""
        room = {len(d[text]): max(self.width - 12 - text_width(d[text], TEXT, bold=True), self.width / 8) for d in self.data}
        ends = [d["end"] * self.width / room[len(d[text])] for d in self.data if d["end"]]
        return [0, max([*ends, *(1.05 * x for x in others)], default=0) or 1]

    def x(self, field, title, domain, **more):
        """The bars' axis, which is not drawn if no row has a bar."""
        bars = any(not d["reason"] for d in self.data)
        return {"field": field, "type": "quantitative", "scale": {"domain": domain, "nice": False, "zero": True},
                "axis": axis(title, **{"tickCount": 5, "labelFlush": self.narrow, "labelBound": self.narrow, **more}) if bars else None}

    def text(self, field, x, **mark):
        return {"mark": {"type": "text", "fontSize": TEXT, "baseline": "middle", "color": INK, "aria": False, **mark},
                "encoding": {"y": self.y, "x": x, "text": {"field": field, "type": "nominal"}}}

    def at_end(self, x, field="text"):
        """The bold text at each bar's end."""
        return {**self.text(field, {**x, "field": "end"}, align="left", dx=9, dy=self.down, fontWeight="bold"),
                "transform": [{"filter": BARS}]}

    def blank(self):
        """Hides the grid lines behind a reason's text, except for the line at 0."""
        return {"mark": {"type": "bar", "height": self.step, "color": PAPER, "aria": False},
                "transform": [{"filter": f"!({BARS})"}], "encoding": {"y": self.y, "x": {"value": 1}, "x2": {"value": self.width}}}

    def bars(self, x, color, **mark):
        return {"mark": {"type": "bar", "height": self.bar, "cornerRadiusEnd": 2, "yOffset": self.down, **mark},
                "transform": [{"filter": BARS}],
                "encoding": {"y": self.y, "x": x, "description": {"field": "aria", "type": "nominal"}, "color": color}}

    def whiskers(self, x):
        def at(end, mark, test):
            return {"mark": {**mark, "yOffset": self.down}, "transform": [{"filter": f"{there} && {test}"}],
                    "encoding": {"y": self.y, "x": {**x, "field": end}}}

        there = "datum.lo !== null"
        cap = {"type": "tick", "orient": "vertical", "size": 9, "thickness": 1.5, "color": INK, "opacity": 1, "aria": False}
        return [{"mark": {"type": "rule", "strokeWidth": 1.5, "color": INK, "yOffset": self.down, "aria": False},
                 "transform": [{"filter": there}], "encoding": {"y": self.y, "x": {**x, "field": "from"}, "x2": {"field": "to"}}},
                at("from", cap, "datum.from === datum.lo"), at("to", cap, "datum.to === datum.hi"),
                at("to", arrow("right"), "datum.to !== datum.hi")]

    def stack(self, parts, x, colors):
        """A bar of parts for each row, in the order of `colors`. A part: {row, part, order, size, aria}."""
        used = [name for name in colors if any(part["part"] == name for part in parts)]
        color = {"field": "part", "type": "nominal", "scale": {"domain": used, "range": [colors[name] for name in used]},
                 "legend": legend(orient="top", columns=3 if self.narrow else 8, symbolType="square", symbolStrokeWidth=0, offset=22)}
        return {"data": {"values": parts},
                "mark": {"type": "bar", "height": self.bar, "yOffset": self.down, "stroke": PAPER, "strokeWidth": 1},
                "encoding": {"y": self.y, "x": {**x, "field": "size", "stack": "zero"}, "color": color,
                             "order": {"field": "order", "type": "quantitative"},
                             "description": {"field": "aria", "type": "nominal"}}}

    @staticmethod
    def stacked(parts):
        """How far each row's stack reaches. It is used for the axis, and not shown as a figure."""
        ends = {}
        for part in parts:
            ends[part["row"]] = ends.get(part["row"], 0) + part["size"]
        return list(ends.values())

    def names(self, free=None):
        """Names and reasons. `free`: the px that columns leave to the names of a narrow drawing."""
        reasons = self.text("reason", {"value": 4}, align="left", color=GREY, fontStyle="italic", limit=self.reach, dy=self.down)
        if self.narrow:
            return [self.text("rung", {"value": 0}, align="left", dy=-9, limit=free or self.width), reasons]
        room = max((text_width(d["rung"], TEXT) for d in self.data if is_guessed(d["rung"])), default=0)  # for a font that is only the reader's
        return [self.text("rung", {"value": -10}, align="right", limit=LABEL_LIMIT), reasons,
                *([{"mark": {"type": "rule", "opacity": 0, "aria": False}, "encoding": {"x": {"value": -10 - room}, "x2": {"value": 0}}}] if room else [])]

    def column(self, field, head, right, ink=None, **mark):
        """A column of text that ends `right` px from the left, with its head above."""
        layer = self.text(field, {"value": right}, **{"align": "right", "dy": -9 if self.narrow else 0, **mark})
        if self.narrow:
            layer["transform"] = [{"filter": BARS}]
        if ink:
            layer["encoding"]["color"] = {"field": ink, "type": "nominal", "scale": None}
        return [layer, {"data": {"values": [{"head": head}]},
                        "mark": {"type": "text", "align": mark.get("align", "right"), "fontSize": SMALL, "color": GREY, "aria": False},
                        "encoding": {"x": {"value": right}, "y": {"value": -12}, "text": {"field": "head", "type": "nominal"}}}]

    def view(self, layers):
        return {"width": self.width, "height": self.step * max(len(self.data), 1), "layer": layers}
