"""Training and validation loss over the steps, with the spikes."""

from charts import Chart, Missing, about
from charts.course import band, band_said, has_band, line, rows, view, x_of
from theme import BAR, GREY, SERIES, axis
from words import number_of, plain

VALIDATION = SERIES[1]


def where(stretch):
    return f"step {stretch['last']}" if stretch["first"] == stretch["last"] else f"steps {stretch['first']} to {stretch['last']}"


def drawing(report, narrow):
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
    return view(layers, narrow)


def draw(report):
    data = rows(report, "loss")
    if not data:
        return Missing("no loss of this training is finite")
    marks = ["blue: training loss" + (f", {band_said(report)}" if has_band(data) else "")]
    if any(s["validation_loss"] is not None for s in report["stretches"]):
        marks.append("green: loss on text that is not trained on")
    if any(s["spikes"] for s in report["stretches"]):
        marks.append("triangles: spikes")
    return Chart(report["said"]["headline"], [" · ".join(marks)], about(report),
                 drawing(report, False), drawing(report, True))
