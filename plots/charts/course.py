"""What the charts of a training share: lines over its steps."""

from theme import NARROW, WHOLE, axis
from words import number_of

WIDTH, HEIGHT = 850, 260


def rows(report, field):
    """[{step, lo, mean, hi}]: a point for each stretch of steps where there is such a value."""
    return [{"step": stretch["last"], **stretch[field]} for stretch in report["stretches"] if stretch[field] is not None]


def has_band(data):
    return any(row["lo"] < row["hi"] for row in data)


def band_said(report):
    """What a band shows: 'band: lowest and highest of 20 steps'."""
    first = report["stretches"][0]
    return f"band: lowest and highest of {number_of(first['last'] - first['first'] + 1, 'step')}"


def x_of(report):
    last = report["stretches"][-1]["last"]
    return {"field": "step", "type": "quantitative", "scale": {"domain": [min(1, last), max(last, 2)], "nice": False},
            "axis": axis("step", grid=False, tickCount=6, labelExpr=WHOLE)}


def line(data, x, y, color, said):
    return {"data": {"values": data}, "mark": {"type": "line", "strokeWidth": 2, "color": color},
            "encoding": {"x": x, "y": y, "description": {"value": said}}}


def band(data, x, y, color):
    """From lowest to highest."""
    return {"data": {"values": data}, "mark": {"type": "area", "color": color, "opacity": 0.25, "aria": False},
            "encoding": {"x": x, "y": {**y, "field": "lo"}, "y2": {"field": "hi"}}}


def view(layers, narrow):
    return {"width": NARROW - 66 if narrow else WIDTH, "height": HEIGHT, "layer": layers}
