"""Speed and memory over sizes: a sweep's study."""

from charts import Chart, Missing
from study import about, confidence, has_number, memory_unit, mode, reason, swept_value, title_of_any, warning_line
from theme import NARROW, SERIES, SHAPES, axis, legend
from words import clean, count, shorten

NAME, QUESTION = "sweep", "How do speed and memory change with size?"
PANEL = 380  # px
HEADS = {"batch": "batch, sequences", "context": "context, tokens", "accumulation": "micro-steps per step"}


def rows(study):
    """(points, what has no number)"""
    what, (_, unit) = study["swept"], memory_unit(study)
    data, without = [], []
    for rung in study["rungs"]:
        series = clean(rung["title"])
        if "peer" in rung:
            series += ", " + clean(study["rungs"][rung["against"]]["title"])
        if not has_number(rung):
            without.append(f"{swept_value(study, rung)}{series}: {reason(rung)}")
            continue
        rate = rung["tokens_per_s"]
        data.append({"series": series, "value": rung["workload"][what], "rate": rate["median"], "lo": rate["lo"], "hi": rate["hi"],
                     "memory": None if rung["peak_memory_bytes"] is None else rung["peak_memory_bytes"] / unit,
                     "aria": f"{swept_value(study, rung)}{series}: {count(rate['median'])} tokens/s"})
    return data, without


def top(data, field):
    """So far up that every point is well inside; a wide interval may go on beyond the edge."""
    return 1.25 * max([d[field] for d in data if d[field] is not None], default=0.8)


def drawing(study, data, narrow):
    what = study["swept"]
    unit_name = memory_unit(study)[0]
    names = list(dict.fromkeys(d["series"] for d in data))
    values = sorted({r["workload"][what] for r in study["rungs"]})
    x = {"field": "value", "type": "quantitative",
         "scale": {"type": "log", "base": 2, "domain": [values[0] / 1.1, values[-1] * 1.1], "nice": False},
         "axis": axis(HEADS[what], values=values, format="d", grid=False)}
    color = {"color": {"field": "series", "type": "nominal", "scale": {"domain": names, "range": SERIES[:max(len(names), 1)]},
                       "legend": legend(columns=1 if narrow else 2) if len(names) > 1 else None}}
    style = {**color, "shape": {"field": "series", "type": "nominal", "scale": {"domain": names, "range": SHAPES}, "legend": None}}

    def panel(field, heading, form):
        y = {"field": field, "type": "quantitative", "scale": {"domain": [0, top(data, field)], "nice": False},
             "axis": axis(heading, format=form, tickCount=5)}
        layers = [{"mark": {"type": "line", "strokeWidth": 2, "aria": False}, "encoding": {"x": x, "y": y, **color}},
                  {"mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                   "encoding": {"x": x, "y": y, "description": {"field": "aria", "type": "nominal"}, **style}}]
        if field == "rate":
            layers.append({"mark": {"type": "rule", "strokeWidth": 1.5, "clip": True, "aria": False},
                           "transform": [{"filter": "datum.lo !== null"}], "encoding": {"x": x, "y": {**y, "field": "lo"}, "y2": {"field": "hi"}, **color}})
        return {"width": NARROW - 70 if narrow else PANEL, "height": 260, "layer": layers}

    return {"data": {"values": data}, "vconcat" if narrow else "hconcat": [
        panel("rate", "tokens/s", "~s"), panel("memory", f"peak {unit_name}", ",~r" if unit_name == "GiB" else ",.0f")]}


def draw(part):
    study = part["study"]
    if mode(study) != "sweep":
        return Missing("`ladder ablate --sweep batch=1,2,4 --rung start --rung flash`, also of `context=` and `accumulation=`")
    data, without = rows(study)
    lines = about(study)
    lines.append(f"bars on the points: {confidence(study)} interval over {study['plan']['repeats']} runs"
                 + (", some of them go on beyond the edge" if any(d["hi"] is not None and d["hi"] > top(data, "rate") for d in data) else "")
                 if any(d["lo"] is not None for d in data) else "single runs, no interval")
    if without:
        lines.append("No number: " + shorten(without[0], 110) + (f" (and {len(without) - 1} more)" if len(without) > 1 else ""))
    return Chart(title_of_any(study), lines + warning_line(study), drawing(study, data, False), drawing(study, data, True))
