"""The charts of one training, each a line over its steps: the losses with their spikes, tokens per second, the learning rate, and the
norm of all gradients together before clipping.
"""

import math

from charts import Chart, Missing, about
from theme import BAR, GREY, INK, PLOT, SERIES, WHOLE, axis
from words import count, number_of, plain

VALIDATION = SERIES[1]


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


def view(layers):
    return {"width": PLOT, "height": 240, "layer": layers}


def where(stretch):
    return f"step {stretch['last']}" if stretch["first"] == stretch["last"] else f"steps {stretch['first']} to {stretch['last']}"


def training_loss_drawing(report):
    data, x = rows(report, "loss"), x_of(report)
    y = {"field": "mean", "type": "quantitative", "scale": {"zero": False}, "axis": axis("loss, nats", tickCount=6)}
    validation = [{"step": s["last"], "mean": s["validation_loss"], "aria": f"{where(s)}: validation loss {s['validation_loss']:.3f}"}
                  for s in report["stretches"] if s["validation_loss"] is not None]
    spikes = [{"step": s["last"], "mean": s["loss"]["hi"], "aria": f"{where(s)}: {number_of(s['spikes'], 'spike')}, highest loss {plain(s['loss']['hi'])}"}
              for s in report["stretches"] if s["spikes"] and s["loss"] is not None]
    described = {"description": {"field": "aria", "type": "nominal"}}
    layers = [band(data, x, y, BAR)] if has_band(data) else []
    layers.append(line(data, x, y, BAR, f"training loss, from {plain(data[0]['mean'])} to {plain(data[-1]['mean'])}"))
    if validation:
        layers += [{"data": {"values": validation}, "mark": {"type": "line", "strokeWidth": 2, "color": VALIDATION, "aria": False},
                    "encoding": {"x": x, "y": y}},
                   {"data": {"values": validation}, "mark": {"type": "point", "filled": True, "size": 40, "opacity": 1, "color": VALIDATION},
                    "encoding": {"x": x, "y": y, **described}}]
    if spikes:
        layers.append({"data": {"values": spikes},
                       "mark": {"type": "point", "shape": "triangle-up", "filled": False, "size": 24, "opacity": 1, "color": GREY},
                       "encoding": {"x": x, "y": y, **described}})
    return view(layers)


def draw_training_loss(report):
    data = rows(report, "loss")
    if not data:
        return Missing("no loss of this training is finite")
    marks = ["blue: training loss" + (f", {band_said(report)}" if has_band(data) else "")]
    if any(s["validation_loss"] is not None for s in report["stretches"]):
        marks.append("green: loss on text that is not trained on")
    if any(s["spikes"] for s in report["stretches"]):
        marks.append("triangles: spikes")
    return Chart(report["said"]["headline"], [" · ".join(marks)], about(report), training_loss_drawing(report))


def training_speed_drawing(report):
    data = [{"step": s["last"], "rate": s["tokens_per_s"]} for s in report["stretches"]]
    rates = sorted(row["rate"] for row in data)
    least, most = rates[-(-len(rates) // 100)] if len(rates) > 2 else 0, rates[-1]  # the first step is far below all others
    y = {"field": "rate", "type": "quantitative", "scale": {"domain": [max(least - max(most - least, most / 10) / 4, 0), most or 1]}, "axis": axis("tokens/s", tickCount=5, format="~s")}
    said = f"tokens per second, from {count(data[0]['rate'])} to {count(data[-1]['rate'])}"
    layer = line(data, x_of(report), y, BAR, said)
    return view([{**layer, "mark": {**layer["mark"], "clip": True}}])


def draw_training_speed(report):
    return Chart("Tokens per second", ["of the steps alone, without validation and checkpoints · the slowest hundredth may be below the axis"], about(report), training_speed_drawing(report))


def learning_rate_drawing(report):
    data = [{"step": s["last"], "rate": s["learning_rate"]} for s in report["stretches"]]
    y = {"field": "rate", "type": "quantitative", "scale": {"zero": True},
         "axis": axis("learning rate", tickCount=5, labelExpr="datum.value ? format(datum.value, '~e') : '0'")}
    return view([line(data, x_of(report), y, BAR, f"from {data[0]['rate']:.3g} to {data[-1]['rate']:.3g}")])


def draw_learning_rate(report):
    return Chart("Learning rate", [], about(report), learning_rate_drawing(report))


def positive(report):
    """The points that a logarithmic axis can show."""
    return [row for row in rows(report, "norm") if row["lo"] > 0]


def ticks(low, high):
    """1, 2 and 5 of each decade between."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [x for e in range(first, last + 1) for x in (10.0 ** e, 2 * 10.0 ** e, 5 * 10.0 ** e) if low <= x <= high]


def norm_drawing(report):
    data, x, clip = positive(report), x_of(report), report["training"]["settings"]["clip"]
    ends = [end for row in data for end in (row["lo"], row["hi"])] + ([clip] if clip else [])
    y = {"field": "mean", "type": "quantitative", "scale": {"type": "log", "domain": [min(ends) / 1.2, max(ends) * 1.2], "nice": False},
         "axis": axis("norm of the gradients", values=ticks(min(ends) / 1.2, max(ends) * 1.2), format="~g")}
    layers = [band(data, x, y, BAR)] if has_band(data) else []
    layers.append(line(data, x, y, BAR, f"norm of the gradients, from {plain(data[0]['mean'])} to {plain(data[-1]['mean'])}"))
    if clip:
        layers.append({"data": {"values": [{"clip": clip}]}, "mark": {"type": "rule", "strokeDash": [4, 3], "color": INK, "aria": False},
                       "encoding": {"y": {**y, "field": "clip"}}})
    return view(layers)


def draw_norm(report):
    data = positive(report)
    if not data:
        return Missing("no norm of this training's gradients is finite")
    marks = ["blue: norm of all gradients together, before clipping" + (f", {band_said(report)}" if has_band(data) else "")]
    clip = report["training"]["settings"]["clip"]
    marks += [f"dashes: clipped to {plain(clip)}"] if clip else []
    return Chart("Norm of the gradients", [" · ".join([*marks, "log scale"])], about(report), norm_drawing(report))
