"""Where the loss of a short training ends, for each learning rate of a sweep."""

import math

from charts import Chart, about
from theme import BAD_INK, BAR, FASTER_INK, GREY, GRID, INK, NARROW, TEXT, axis, legend
from words import clean, number_of, plain

WIDTH, HEIGHT = 850, 300
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


def drawing(sweep, narrow):
    data, ends, width = points(sweep), edges(sweep), NARROW - 66 if narrow else WIDTH
    rates = [row["rate"] for row in data]
    margin = max((rates[-1] / rates[0]) ** 0.04, 1.1)
    decades = [10.0 ** e for e in range(math.ceil(math.log10(rates[0]) - 1e-9), math.floor(math.log10(rates[-1]) + 1e-9) + 1)]
    x = {"field": "rate", "type": "quantitative", "scale": {"type": "log", "domain": [rates[0] / margin, rates[-1] * margin], "nice": False},
         "axis": axis("learning rate, at its highest", values=decades if len(decades) > 1 else rates, format="~e", grid=False, labelOverlap="greedy")}
    y = {"field": "loss", "type": "quantitative", "scale": {"domain": ends, "zero": False, "nice": False}, "axis": axis("loss at the end, nats", tickCount=6)}
    kinds = [called(reason) for reason in LOOKS if any(row["kind"] == called(reason) for row in data)]
    shown = legend(columns=1 if narrow else 3)
    look = {channel: {"field": "kind", "type": "nominal", "legend": shown,
                      "scale": {"domain": kinds, "range": [of(*LOOKS[reason]) for reason in LOOKS if called(reason) in kinds]}}
            for channel, of in (("color", lambda verdict, _: COLORS[verdict]), ("shape", lambda _, shape: shape))}
    first = [{"at": loss, "text": f"without training {plain(loss)}"} for loss in [before(sweep)] if loss is not None]
    at_first = {**y, "field": "at"}
    layers = [
        {"data": {"values": good_zones(sweep)}, "mark": {"type": "rect", "color": GRID, "opacity": 0.6, "aria": False},
         "encoding": {"x": {**x, "field": "from"}, "x2": {"field": "to"}, "y": {"value": 0}, "y2": {"value": HEIGHT}}},
        {"data": {"values": first}, "mark": {"type": "rule", "strokeDash": [4, 3], "color": GREY, "aria": False}, "encoding": {"y": at_first}},
        {"data": {"values": first}, "mark": {"type": "text", "align": "right", "baseline": "bottom", "dy": -4, "fontSize": TEXT, "color": INK, "aria": False},
         "encoding": {"x": {"value": width - 6}, "y": at_first, "text": {"field": "text", "type": "nominal"}}},
        {"mark": {"type": "line", "strokeWidth": 1, "color": GREY, "aria": False}, "transform": [{"filter": "!datum.beyond"}],
         "encoding": {"x": x, "y": y}},
        {"mark": {"type": "rule", "strokeWidth": 1.5, "color": INK, "aria": False}, "transform": [{"filter": "!datum.beyond"}],
         "encoding": {"x": x, "y": {**y, "field": "lo"}, "y2": {"field": "hi"}}},
        {"mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
         "encoding": {"x": x, "y": y, "description": {"field": "aria", "type": "nominal"}, **look}}]
    return {"width": width, "height": HEIGHT, "data": {"values": data}, "layer": layers}


def draw(sweep):
    which = "loss of held-out text at the end" if "untrained" in sweep else f"mean loss of the last {number_of(sweep['end_steps'], 'step')}"
    lines = [f"{which} · whiskers: how far they swing · grey: good rates"]
    beyond = sum(row["beyond"] for row in points(sweep))
    if beyond:
        lines.append(f"at the upper edge: {number_of(beyond, 'rate')} whose losses ended beyond it, or were not finite")
    return Chart(sweep["said"]["headline"], lines, about(sweep), drawing(sweep, False), drawing(sweep, True))
