"""The norm of all gradients together over the steps, before clipping. The axis is logarithmic."""

import math

from charts import Chart, Missing, about
from charts.course import band, band_said, has_band, line, rows, view, x_of
from theme import BAR, INK, axis
from words import plain



def positive(report):
    """The points that a logarithmic axis can show."""
    return [row for row in rows(report, "norm") if row["lo"] > 0]


def ticks(low, high):
    """1, 2 and 5 of each decade between."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [x for e in range(first, last + 1) for x in (10.0 ** e, 2 * 10.0 ** e, 5 * 10.0 ** e) if low <= x <= high]


def drawing(report, narrow):
    data, x, clip = positive(report), x_of(report), report["training"]["settings"]["clip"]
    ends = [end for row in data for end in (row["lo"], row["hi"])] + ([clip] if clip else [])
    y = {"field": "mean", "type": "quantitative", "scale": {"type": "log", "domain": [min(ends) / 1.2, max(ends) * 1.2], "nice": False},
         "axis": axis("norm of the gradients", values=ticks(min(ends) / 1.2, max(ends) * 1.2), format="~g")}
    layers = [band(data, x, y, BAR)] if has_band(data) else []
    layers.append(line(data, x, y, BAR, f"norm of the gradients, from {plain(data[0]['mean'])} to {plain(data[-1]['mean'])}"))
    if clip:
        layers.append({"data": {"values": [{"clip": clip}]}, "mark": {"type": "rule", "strokeDash": [4, 3], "color": INK, "aria": False},
                       "encoding": {"y": {**y, "field": "clip"}}})
    return view(layers, narrow)


def draw(report):
    data = positive(report)
    if not data:
        return Missing("no norm of this training's gradients is finite")
    marks = ["blue: norm of all gradients together, before clipping" + (f", {band_said(report)}" if has_band(data) else "")]
    clip = report["training"]["settings"]["clip"]
    marks += [f"dashes: clipped to {plain(clip)}"] if clip else []
    return Chart("Norm of the gradients", [" · ".join([*marks, "log scale"])], about(report), drawing(report, False), drawing(report, True))
