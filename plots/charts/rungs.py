"""What the charts with a row for each rung share: the rows' places, names, reasons, columns of figures and whiskers.

All of a row is in one layered view: the texts share the y scale of the bars, so they stay in line with them.
"""

from study import confidence, has_number, label, reason
from theme import GREY, PAPER, SMALL, TEXT, WIDTH, axis, legend, room, text
from words import between, shorten

COLUMN = 52        # px of a column of figures
NAME_LENGTH = 80   # characters: a renderer takes minutes to cut thousands of them to a width
BARS = "datum.reason === ''"


def row(study, rung, position, **fields):
    """One rung of the chart's data. Every row has a reason or a bar."""
    return {"row": position, "rung": shorten(label(study, rung), NAME_LENGTH), "reason": "" if has_number(rung) else shorten(reason(rung), 200), **fields}


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
    """The places of a drawing's rows: in each the rung's name, with columns of figures at its right, and the bar below it."""
    width, step, bar, down = WIDTH - 16, 48, 16, 12  # px; down: how far the bars are below the middle of their rows

    def __init__(self, data):
        self.data = data
        self.y = {"field": "row", "type": "ordinal", "axis": None,
                  "scale": {"type": "band", "padding": 0, "domain": [d["row"] for d in data]}}

    def domain(self, others=()):
        """[0, end] of the axis. The text at each bar's end stays inside the plotting area."""
        ends = [d["end"] * self.width / max(self.width - 12 - room(d["text"]), self.width / 8) for d in self.data if d["end"]]
        return [0, max([*ends, *(1.05 * x for x in others)], default=0) or 1]

    def x(self, field, title, domain, **more):
        """The bars' axis, which is not drawn if no row has a bar."""
        bars = any(not d["reason"] for d in self.data)
        return {"field": field, "type": "quantitative", "scale": {"domain": domain, "nice": False, "zero": True},
                "axis": axis(title, **{"tickCount": 5, "labelFlush": True, "labelBound": True, **more}) if bars else None}

    def at_end(self, x):
        """The bold text at each bar's end."""
        return {**text("text", self.y, {**x, "field": "end"}, align="left", dx=9, dy=self.down, fontWeight="bold"),
                "transform": [{"filter": BARS}]}

    def blank(self):
        """Hides the grid lines behind a reason's text, except for the line at 0."""
        return {"mark": {"type": "bar", "height": self.step, "color": PAPER, "aria": False},
                "transform": [{"filter": f"!({BARS})"}], "encoding": {"y": self.y, "x": {"value": 1}, "x2": {"value": self.width}}}

    def bars(self, x, color, **mark):
        return {"mark": {"type": "bar", "height": self.bar, "cornerRadiusEnd": 2, "yOffset": self.down, **mark},
                "transform": [{"filter": BARS}],
                "encoding": {"y": self.y, "x": x, "description": {"field": "aria", "type": "nominal"}, "color": color}}

    def stack(self, parts, x, colors):
        """A bar of parts for each row, in the order of `colors`. A part: {row, part, order, size, aria}."""
        used = [name for name in colors if any(part["part"] == name for part in parts)]
        color = {"field": "part", "type": "nominal", "scale": {"domain": used, "range": [colors[name] for name in used]},
                 "legend": legend(orient="top", columns=4 if len(max(used, key=len)) < 12 else 3, symbolType="square", symbolStrokeWidth=0, offset=28)}
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

    def texts(self, columns=(), wide=COLUMN):
        """Names, reasons, and columns of figures with their heads: (field, head, what differs of the mark); `ink` is a field."""
        layers = [text("rung", self.y, {"value": 0}, align="left", dy=-9, fontSize=TEXT - 1, limit=self.width - wide * len(columns)),
                  text("reason", self.y, {"value": 4}, align="left", color=GREY, fontStyle="italic", fontSize=TEXT - 1, limit=self.width, dy=self.down)]
        for position, (field, head, mark) in enumerate(columns, 1 - len(columns)):
            at = self.width + wide * position
            layer = text(field, self.y, {"value": at}, align="right", dy=-9, fontSize=SMALL, **{k: v for k, v in mark.items() if k != "ink"})
            layer["transform"] = [{"filter": BARS}]
            if "ink" in mark:
                layer["encoding"]["color"] = {"field": mark["ink"], "type": "nominal", "scale": None}
            layers += [layer, self.head(head, at)]
        return layers

    @staticmethod
    def head(said, at, align="right"):
        """A text above the rows."""
        return {"data": {"values": [{"head": said}]}, **text("head", {"value": -12}, {"value": at}, align=align, fontSize=SMALL, color=GREY)}

    def view(self, layers):
        return {"width": self.width, "height": self.step * max(len(self.data), 1), "data": {"values": self.data}, "layer": layers}
