"""What the charts of a training share: what they are of, and lines over its steps."""

from study import About, cpu_figures, training
from theme import NARROW, WHOLE, axis
from words import clean, number_of, shorten

WIDTH, HEIGHT = 850, 260


def about(document):
    """Of a training's report, a sweep of learning rates, or a study of time to loss."""
    settings, device = document["training"]["settings"], document["device"]
    size = f"B={settings['batch']} T={settings['context']}" + (f" × {settings['accumulation']} micro-steps" if settings["accumulation"] != 1 else "")
    source = [f"{shorten(settings['model'], 40)}, {size}", shorten(settings["data"]["source"], 50), shorten(device["name"], 70),
              clean(document["training"]["created"])[:10], *cpu_figures(device)]
    return About(training(clean(settings["model"]), device), " · ".join(source), "")


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
