"""Trainings compared: where the loss ends for each learning rate of a sweep, the losses of each of its trainings step by step, and the
validation loss against seconds of training, each rung's median over its seeds, and thinly each training.
"""

import math

from charts import Chart, Missing, about
from charts.losses import INK_OF_LINE, LINES, height_of, stretches, with_names
from theme import BAD_INK, BAR, FASTER_INK, GREY, GRID, INK, PLOT, RAMP, SERIES, WHOLE, axis, legend, text
from words import clean, digits3, number_of, plain, shorten

PANEL = 300  # px
MOST_RATES, MOST_RUNGS, MOST_POINTS = 24, len(SERIES), 6000
COLORS = {"too low": BAR, "good": FASTER_INK, "too high": BAD_INK}
# A look for each reason, in the order of the legend.
LOOKS = {"falls slowly": ("too low", "square"), "still falling": ("too low", "triangle-down"), "near the best": ("good", "circle"),
         "falls behind": ("too high", "diamond"), "oscillates": ("too high", "triangle-up"), "diverged": ("too high", "cross")}


def rate_of(rate):
    """'3.2e-4', as the axis has it."""
    digits, exponent = f"{rate['learning_rate']['max']:.1e}".split("e")
    return f"{digits.removesuffix('.0')}e{int(exponent)}"


def called(reason):
    """'too low: still falling'"""
    verdict = LOOKS[reason][0]
    return verdict if verdict == "good" else f"{verdict}: {reason}"


def before(sweep):
    """The loss without training; none where it is not finite. Of an older sweep the first of the losses."""
    return sweep.get("untrained", sweep["rates"][0]["losses"][0])


def edges(sweep):
    """[from, to] of an axis of losses: from the lowest end to a little above those without training. What diverged may leave it."""
    ends = [rate["end"]["mean"] for rate in sweep["rates"] if rate["end"]]
    first = [loss for loss in [before(sweep)] if loss is not None]
    low, high = min([*ends, *first], default=0), max(first, default=1)
    reach = max(high - low, 0.1)
    return [low - 0.1 * reach, high + 0.15 * reach]


def points(sweep):
    """A row for each rate. What is beyond the edge is drawn there."""
    low, high = edges(sweep)
    out = []
    for rate in sweep["rates"]:
        end = rate["end"]
        beyond = end is None or end["mean"] > high
        out.append({"rate": rate["learning_rate"]["max"], "kind": called(rate["reason"]), "loss": high if beyond else end["mean"], "beyond": beyond,
                    "lo": None if beyond else max(end["mean"] - end["swing"], low), "hi": None if beyond else min(end["mean"] + end["swing"], high),
                    "aria": f"{rate_of(rate)}: {rate['verdict']}: {clean(rate['words'])}"})
    return out


def good_zones(sweep):
    """[{from, to}] of neighbouring good rates: as far as half the way, on the log axis, to the next rate."""
    values = [rate["learning_rate"]["max"] for rate in sweep["rates"]]
    bounds = [values[0], *(math.sqrt(a * b) for a, b in zip(values, values[1:])), values[-1]]
    return [{"from": bounds[i], "to": bounds[i + 1]} for i, rate in enumerate(sweep["rates"]) if rate["verdict"] == "good"]


def sweep_drawing(sweep):
    data, ends = points(sweep), edges(sweep)
    rates = [row["rate"] for row in data]
    margin = max((rates[-1] / rates[0]) ** 0.04, 1.1)
    decades = [10.0 ** e for e in range(math.ceil(math.log10(rates[0]) - 1e-9), math.floor(math.log10(rates[-1]) + 1e-9) + 1)]
    x = {"field": "rate", "type": "quantitative", "scale": {"type": "log", "domain": [rates[0] / margin, rates[-1] * margin], "nice": False},
         "axis": axis("learning rate, at its highest", values=decades if len(decades) > 1 else rates, format="~e", grid=False, labelOverlap="greedy")}
    y = {"field": "loss", "type": "quantitative", "scale": {"domain": ends, "zero": False, "nice": False}, "axis": axis("loss at the end, nats", tickCount=6)}
    kinds = [called(reason) for reason in LOOKS if any(row["kind"] == called(reason) for row in data)]
    shown = legend(columns=2)
    look = {channel: {"field": "kind", "type": "nominal", "legend": shown,
                      "scale": {"domain": kinds, "range": [of(*LOOKS[reason]) for reason in LOOKS if called(reason) in kinds]}}
            for channel, of in (("color", lambda verdict, _: COLORS[verdict]), ("shape", lambda _, shape: shape))}
    first = [{"at": loss, "text": f"without training {plain(loss)}"} for loss in [before(sweep)] if loss is not None]
    at_first = {**y, "field": "at"}
    layers = [
        {"data": {"values": good_zones(sweep)}, "mark": {"type": "rect", "color": GRID, "opacity": 0.6, "aria": False},
         "encoding": {"x": {**x, "field": "from"}, "x2": {"field": "to"}, "y": {"value": 0}, "y2": {"value": PANEL}}},
        {"data": {"values": first}, "mark": {"type": "rule", "strokeDash": [4, 3], "color": GREY, "aria": False}, "encoding": {"y": at_first}},
        {"data": {"values": first}, **text("text", at_first, {"value": PLOT - 6}, align="right", baseline="bottom", dy=-4)},
        {"mark": {"type": "line", "strokeWidth": 1, "color": GREY, "aria": False}, "transform": [{"filter": "!datum.beyond"}],
         "encoding": {"x": x, "y": y}},
        {"mark": {"type": "rule", "strokeWidth": 1.5, "color": INK, "aria": False}, "transform": [{"filter": "!datum.beyond"}],
         "encoding": {"x": x, "y": {**y, "field": "lo"}, "y2": {"field": "hi"}}},
        {"mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
         "encoding": {"x": x, "y": y, "description": {"field": "aria", "type": "nominal"}, **look}}]
    return {"width": PLOT, "height": PANEL, "data": {"values": data}, "layer": layers}


def draw_lr_sweep(sweep):
    which = "loss of held-out text at the end" if "untrained" in sweep else f"mean loss of the last {number_of(sweep['end_steps'], 'step')}"
    lines = [f"{which} · whiskers: how far they swing · grey: good rates"]
    beyond = sum(row["beyond"] for row in points(sweep))
    if beyond:
        lines.append(f"at the upper edge: {number_of(beyond, 'rate')} whose losses ended beyond it, or were not finite")
    return Chart(sweep["said"]["headline"], lines, about(sweep), sweep_drawing(sweep))


# ---- the losses of each rate

def every(sweep):
    """Each how many of the rates is drawn."""
    return -(-len(sweep["rates"]) // MOST_RATES)


def curve_rows(sweep):
    """(the lines' points, the lines: [{name, ink, last}])"""
    shown = sweep["rates"][::every(sweep)]
    most = max(12, MOST_POINTS // len(shown))
    best = sweep["rates"][sweep["best"]] if sweep["best"] is not None else None
    data, lines = [], []
    for position, rate in enumerate(shown):
        ink, finite = RAMP[position * len(RAMP) // len(shown)], [loss for loss in rate["losses"] if loss is not None]
        width = 3 if rate is best else 1.2
        said = f"{rate_of(rate)}: {rate['verdict']}: {clean(rate['words'])}"
        if finite:
            lines.append({"name": f"{rate_of(rate)} {rate['verdict']}", "ink": ink, "last": finite[-1]})
        data += [{"line": line, "step": step, "loss": loss, "alone": alone, "ink": ink, "width": width, "aria": said}
                 for line, step, loss, alone in stretches(position, rate["losses"], most)]
    return data, lines


def curves_drawing(sweep):
    data, lines = curve_rows(sweep)
    low, high = edges(sweep)
    height = height_of(lines)
    lines = [{**line, "end": height * (high - min(max(line["last"], low), high)) / (high - low)} for line in lines]
    x = {"field": "step", "type": "quantitative",
         "scale": {"domain": [1, max([2, *(row["step"] for row in data)])], "range": [0, LINES], "nice": False},
         "axis": axis("step", grid=False, tickCount=6, labelExpr=WHOLE)}
    y = {"field": "loss", "type": "quantitative", "scale": {"domain": [low, high], "zero": False, "nice": False}, "axis": axis("loss, nats", tickCount=6)}
    curves = [{"mark": {"type": "line", "clip": True},
               "encoding": {"x": x, "y": y, "detail": {"field": "line", "type": "nominal"}, "color": INK_OF_LINE,
                            "strokeWidth": {"field": "width", "type": "quantitative", "scale": None}, "description": {"field": "aria", "type": "nominal"}}}]
    if any(row["alone"] for row in data):  # a line of a single step cannot be seen
        curves.append({"mark": {"type": "point", "filled": True, "size": 30, "opacity": 1, "clip": True, "aria": False},
                       "transform": [{"filter": "datum.alone"}], "encoding": {"x": x, "y": y, "color": INK_OF_LINE}})
    return with_names(curves, data, lines, height)


def draw_lr_curves(sweep):
    lines = ["a line for each rate, the best one thick" + (f" · 1 of every {every(sweep)} rates" if every(sweep) > 1 else "")]
    return Chart("The loss at each learning rate", lines, about(sweep), curves_drawing(sweep))


# ---- time to loss

def shown(study):
    """[(place among the rungs, rung)] of those that are drawn."""
    return [(i, rung) for i, rung in enumerate(study["rungs"]) if rung["medians"]][:MOST_RUNGS]


def thin(curve, most):
    """At most about so many points, with the first and the last."""
    length = -(-len(curve) // most)
    return [at for i, at in enumerate(curve) if i % length == 0 or i == len(curve) - 1]


def name_of(rung):
    return shorten(rung["title"], 40)


def loss_rows(study):
    """(the lines' points, the rungs: [{name, seconds}])"""
    rungs = shown(study)
    drawn = [(position, training) for position, (i, _) in enumerate(rungs) for training in study["trainings"] if training["rung"] == i]
    most = max(12, MOST_POINTS // (len(drawn) + len(rungs) + 1))
    data, names = [], []
    for count, (position, training) in enumerate(drawn):
        name = name_of(rungs[position][1])
        said = f"{name}, seed {training['seed']}" + (f": {shorten(training['not_finite'], 60)} is not finite" if training["not_finite"] else "")
        data += [{"line": f"training {count}", "seconds": at["seconds"], "loss": at["loss"], "name": name, "width": 0.7, "aria": said}
                 for at in thin(training["curve"], most)]
    for position, (_, rung) in enumerate(rungs):
        said = f"{name_of(rung)}: {clean(rung['words'])}"
        data += [{"line": f"rung {position}", "seconds": at["seconds"], "loss": at["loss"], "name": name_of(rung), "width": 2.2, "aria": said}
                 for at in thin(rung["medians"], most)]
        names.append({"name": name_of(rung), "seconds": rung["seconds"]})
    return data, names


def loss_drawing(study):
    data, rungs = loss_rows(study)
    losses = [row["loss"] for row in data] + [study["loss"]]
    # What happens about the loss that is to be reached can be seen; the first losses are beyond the upper edge.
    top = min(max(losses), study["loss"] + 3 * max(study["loss"] - min(losses), 0.1))
    reach = max(top - min(losses), 0.1)
    low, high = min(losses) - 0.05 * reach, top + 0.05 * reach
    x = {"field": "seconds", "type": "quantitative", "scale": {"domain": [0, max(row["seconds"] for row in data)], "range": [0, PLOT], "nice": False},
         "axis": axis("seconds of training", grid=False, tickCount=5, format="~s")}
    y = {"field": "loss", "type": "quantitative", "scale": {"domain": [low, high], "zero": False, "nice": False},
         "axis": axis("validation loss, nats", tickCount=6)}
    ink = {"field": "name", "type": "nominal", "legend": legend(columns=1, symbolType="stroke"),
           "scale": {"domain": [rung["name"] for rung in rungs], "range": SERIES[:len(rungs)]}}
    there = sorted((rung for rung in rungs if rung["seconds"]), key=lambda rung: rung["seconds"])
    crossings = [{**rung, "at": study["loss"], "text": f"{digits3(rung['seconds'])} s"} for rung in there]
    panel = [
        {"data": {"values": [{"at": study["loss"]}]}, "mark": {"type": "rule", "strokeDash": [4, 3], "color": GREY, "aria": False}, "encoding": {"y": {**y, "field": "at"}}},
        {"mark": {"type": "line", "clip": True},
         "encoding": {"x": x, "y": y, "detail": {"field": "line", "type": "nominal"}, "color": ink,
                      "strokeWidth": {"field": "width", "type": "quantitative", "scale": None}, "description": {"field": "aria", "type": "nominal"}}},
        {"mark": {"type": "point", "filled": True, "size": 16, "opacity": 1, "clip": True, "aria": False},
         "transform": [{"filter": "datum.width > 1"}], "encoding": {"x": x, "y": y, "color": ink}},
        {"data": {"values": crossings}, "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1, "aria": False},
         "encoding": {"x": x, "y": {**y, "field": "at"}, "color": ink}}]
    panel += [{"data": {"values": crossings[first::2]}, **text("text", {**y, "field": "at"}, x, align=align, dy=down, dx=4 if first else -4)}
              for first, align, down in ((0, "right", 14), (1, "left", -12))]  # neighbours apart
    return {"width": PLOT, "height": 320, "data": {"values": data}, "layer": panel}


def draw_to_loss(study):
    rungs = shown(study)
    if not rungs:
        return Missing("`ladder ablate --resume`: no training of this study has ended well yet")
    all_rungs = sum(bool(rung["medians"]) for rung in study["rungs"])
    lines = [f"dashes: loss {plain(study['loss'])} · thick: median over the seeds · thin: each training · seconds are those of the steps"
             + (f" · {len(rungs)} of {number_of(all_rungs, 'rung')} are drawn" if len(rungs) < all_rungs else "")]
    return Chart(study["said"]["headline"], lines, about(study), loss_drawing(study))
