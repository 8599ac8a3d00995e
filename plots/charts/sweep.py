"""Speed and memory at each size of a sweep."""

import math

from charts import Chart, Missing, about
from charts.rungs import interval, whiskers_said, with_interval
from study import has_number, measured, memory_unit, reason, runs_said, swept_value
from theme import PLOT, SERIES, SHAPES, axis, legend, whiskers
from words import clean, count, memory, shorten

BESIDE, MOST = 8, 24  # px; BESIDE: at most between the marks of two series at one size; MOST: series
HEADS = {"batch": "batch size, sequences", "context": "context length, tokens", "accumulation": "gradient accumulation, micro-steps per step"}


def rows(study):
    """(points, sizes without a number, how many series there are). The first two have only the first MOST series."""
    what, unit = study["swept"], memory_unit(study)
    data, without = [], []
    for rung in study["rungs"]:
        series = clean(rung["title"])
        if "peer" in rung:
            series += ", " + clean(study["rungs"][rung["against"]]["title"])
        at = swept_value(study, rung)
        series = shorten(series, 60)
        if not has_number(rung):
            without.append({"series": series, "value": rung["workload"][what], "aria": shorten(f"{at}{series}: {reason(rung)}", 110)})
            continue
        rate = rung["tokens_per_s"]
        lo, hi = interval(rate)
        data.append({"series": series, "value": rung["workload"][what], "rate": rate["median"], "lo": lo, "hi": hi,
                     "memory": None if rung["peak_memory_bytes"] is None else rung["peak_memory_bytes"] / unit[1],
                     "said rate": with_interval(f"{at}{series}: {count(rate['median'])} tokens/s", lo, hi, count),
                     "said memory": "" if rung["peak_memory_bytes"] is None else
                     f"{at}{series}: {memory(rung['peak_memory_bytes'], unit)} {unit[0]}"})
    names = list(dict.fromkeys(d["series"] for d in [*data, *without]))
    data, without = ([d for d in of if d["series"] in names[:MOST]] for of in (data, without))
    edge = top(data, "rate")
    for d in data:
        d["from"], d["to"] = d["lo"], None if d["hi"] is None else min(d["hi"], edge)
    return data, without, len(names)


def top(data, field):
    """The axis' end. Every point is well inside; a wide interval may go on beyond it."""
    return 1.25 * max([d[field] for d in data if d[field] is not None], default=0.8)


def looks(names):
    """What each series looks like. There is one shape fewer than colours, so that the ninth series does not look like the first."""
    return {"color": [SERIES[i % len(SERIES)] for i in range(len(names))],
            "shape": [SHAPES[i % (len(SERIES) - 1)] for i in range(len(names))]}


def places(values, series, width=PLOT):
    """(the log axis' domain, the factor between the marks of two series at one size). The marks of a size stay within the panel and
    apart from those of the next size."""
    steps = [math.log(b / a) for a, b in zip(values, values[1:])] or [1.0]
    apart = min(BESIDE, 0.7 * width / series * min(steps) / (sum(steps) + min(steps)))
    edge = 6 + apart * (series - 1) / 2  # px
    whole = math.log(values[-1] / values[0])
    margin = max(math.log(1.1), edge * whole / (width - 2 * edge))
    return [values[0] / math.exp(margin), values[-1] * math.exp(margin)], math.exp(apart * (whole + 2 * margin) / width)


def drawing(study, data, without):
    what = study["swept"]
    unit_name = memory_unit(study)[0]
    names = list(dict.fromkeys(d["series"] for d in [*data, *without]))
    values = sorted({r["workload"][what] for r in study["rungs"]})
    domain, factor = places(values, len(names))

    def beside(points):
        return [{**d, "at": d["value"] * factor ** (names.index(d["series"]) - (len(names) - 1) / 2)} for d in points]

    x = {"field": "at", "type": "quantitative",
         "scale": {"type": "log", "base": 2, "domain": domain, "nice": False},
         "axis": axis(HEADS[what], values=values, format="d", grid=False)}
    shown = legend(columns=1) if len(names) > 1 else None
    look = {channel: {"field": "series", "type": "nominal", "scale": {"domain": names, "range": kinds}, "legend": shown}
            for channel, kinds in looks(names).items()}

    def panel(field, heading, form):
        y = {"field": field, "type": "quantitative", "scale": {"domain": [0, top(data, field)], "nice": False},
             "axis": axis(heading, format=form, tickCount=5)}
        layers = [{"mark": {"type": "line", "strokeWidth": 2, "aria": False}, "encoding": {"x": x, "y": y, "color": look["color"]}},
                  {"mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                   "encoding": {"x": x, "y": y, "description": {"field": f"said {field}", "type": "nominal"}, **look}},
                  {"data": {"values": beside(without)}, "mark": {"type": "text", "text": "×", "fontSize": 15, "baseline": "bottom"},
                   "encoding": {"x": x, "y": {"datum": 0}, "description": {"field": "aria", "type": "nominal"}, "color": look["color"]}}]
        if field == "rate":
            layers += whiskers(x, y, upright=True)  # over the points, so that an interval shorter than its point is seen
        return {"width": PLOT, "height": 260, "layer": layers}

    return {"data": {"values": beside(data)}, "vconcat": [
        panel("rate", "tokens/s", "~s"), panel("memory", f"peak {unit_name}", ",~r" if unit_name == "GiB" else ",.0f")]}


def draw_sweep(part):
    study = part["study"]
    if study["mode"] != "sweep" or len({r["workload"][study["swept"]] for r in study["rungs"]}) < 2:
        return Missing("`ladder ablate --sweep batch=1,2,4 --rung bf16 --rung flash`, also of `context=` and `accumulation=`")
    if not measured(study):
        return Missing("`ladder ablate --sweep` measures it; no rung of this study has a number")
    data, without, series = rows(study)
    lines = [" · ".join([runs_said(study), whiskers_said(study, data), *(["×: no number"] if without else []),
                         *([f"the first {MOST} of {series} series"] if series > MOST else [])])]
    return Chart(study["said"]["headline"], lines, about(study), drawing(study, data, without))
