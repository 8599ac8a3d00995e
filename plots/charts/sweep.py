"""Speed and memory over sizes: a sweep's study."""

from charts import Chart, Missing
from study import TITLE_LENGTH, about, confidence, has_number, measured, memory_unit, reason, swept_value, warning_line
from theme import INK, NARROW, SERIES, SHAPES, axis, legend
from words import clean, count, memory, shorten

NAME, QUESTION = "sweep", "How do speed and memory change with size?"
PANEL = 380  # px
HEADS = {"batch": "batch size, sequences", "context": "context length, tokens", "accumulation": "gradient accumulation, micro-steps per step"}


def rows(study):
    """(points, what has no number): of both the data, of the latter also why."""
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
        data.append({"series": series, "value": rung["workload"][what], "rate": rate["median"], "lo": rate["lo"], "hi": rate["hi"],
                     "memory": None if rung["peak_memory_bytes"] is None else rung["peak_memory_bytes"] / unit[1],
                     "said rate": f"{at}{series}: {count(rate['median'])} tokens/s"
                                  + ("" if rate["lo"] is None or rate["hi"] is None else f", {count(rate['lo'])} to {count(rate['hi'])}"),
                     "said memory": "" if rung["peak_memory_bytes"] is None else
                     f"{at}{series}: {memory(rung['peak_memory_bytes'], unit)} {unit[0]}"})
    return data, without


def top(data, field):
    """So far up that every point is well inside; a wide interval may go on beyond the edge."""
    return 1.25 * max([d[field] for d in data if d[field] is not None], default=0.8)


def drawing(study, data, without, narrow):
    what = study["swept"]
    unit_name = memory_unit(study)[0]
    names = list(dict.fromkeys(d["series"] for d in [*data, *without]))
    values = sorted({r["workload"][what] for r in study["rungs"]})
    x = {"field": "value", "type": "quantitative",
         "scale": {"type": "log", "base": 2, "domain": [values[0] / 1.1, values[-1] * 1.1], "nice": False},
         "axis": axis(HEADS[what], values=values, format="d", grid=False)}
    color = {"color": {"field": "series", "type": "nominal", "scale": {"domain": names, "range": SERIES[:max(len(names), 1)]},
                       "legend": legend(columns=1 if narrow else 2, labelLimit=290 if narrow else 330) if len(names) > 1 else None}}
    style = {**color, "shape": {"field": "series", "type": "nominal", "scale": {"domain": names, "range": SHAPES}, "legend": None}}

    def panel(field, heading, form):
        y = {"field": field, "type": "quantitative", "scale": {"domain": [0, top(data, field)], "nice": False},
             "axis": axis(heading, format=form, tickCount=5)}
        layers = [{"mark": {"type": "line", "strokeWidth": 2, "aria": False}, "encoding": {"x": x, "y": y, **color}},
                  {"mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                   "encoding": {"x": x, "y": y, "description": {"field": f"said {field}", "type": "nominal"}, **style}},
                  {"data": {"values": without}, "mark": {"type": "text", "text": "×", "fontSize": 15, "baseline": "bottom"},
                   "encoding": {"x": x, "y": {"datum": 0}, "description": {"field": "aria", "type": "nominal"}, "color": color["color"]}}]
        if field == "rate":
            # Over the points, in the ink: an interval shorter than its point is high is seen in it.
            only = [{"filter": "datum.lo !== null && datum.hi !== null"}]
            layers.append({"mark": {"type": "rule", "strokeWidth": 1.5, "color": INK, "clip": True, "aria": False}, "transform": only,
                           "encoding": {"x": x, "y": {**y, "field": "lo"}, "y2": {"field": "hi"}}})
            cap = {"type": "tick", "orient": "horizontal", "size": 9, "thickness": 1.5, "color": INK, "opacity": 1, "clip": True,
                   "aria": False}
            layers += [{"mark": cap, "transform": only, "encoding": {"x": x, "y": {**y, "field": end}}} for end in ("lo", "hi")]
        return {"width": NARROW - 70 if narrow else PANEL, "height": 260, "layer": layers}

    return {"data": {"values": data}, "vconcat" if narrow else "hconcat": [
        panel("rate", "tokens/s", "~s"), panel("memory", f"peak {unit_name}", ",~r" if unit_name == "GiB" else ",.0f")]}


def finding(study):
    numbers = measured(study)
    if not numbers:
        return "No rung has a number"
    best = max(numbers, key=lambda r: r["tokens_per_s"]["median"])
    return shorten(f"Up to {count(best['tokens_per_s']['median'])} tokens/s, at {swept_value(study, best)}"
                   f"({clean(best['title'])})", TITLE_LENGTH)


def draw(part):
    study = part["study"]
    if study["mode"] != "sweep":
        return Missing("`ladder ablate --sweep batch=1,2,4 --rung bf16 --rung flash`, also of `context=` and `accumulation=`")
    data, without = rows(study)
    lines = about(study)
    cut = any(d["hi"] is not None and d["hi"] > top(data, "rate") for d in data)
    lines.append(f"whiskers: {confidence(study)} interval over {study['plan']['repeats']} runs"
                 + (", some of them go on beyond the edge" if cut else "")
                 if any(d["lo"] is not None for d in data) else "single runs, no interval")
    if without:
        lines.append("×: no number: " + without[0]["aria"] + (f" (and {len(without) - 1} more)" if len(without) > 1 else ""))
    return Chart(finding(study), lines + warning_line(study), drawing(study, data, without, False),
                 drawing(study, data, without, True))
