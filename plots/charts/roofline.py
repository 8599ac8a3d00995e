"""How far each part of a step is from what the device can do, of the latest trace with a roofline.

The surprising thing: only matrix products have FLOPs (model/costs.h), and so only they have a place under the roofs. The
other parts stand in the second panel only: their measured time against the time at the limit, a mark on the bar.
"""

import math

from charts import Chart, Missing
from theme import BAR, GREY, INK, NARROW, PARTS, SHAPES, SLOWER_BAR, axis, legend
from words import clean, digits3, milliseconds, number_of, rate, shorten, times

NAME, QUESTION = "roofline", "How far is each part from the device's limits?"
WIDTH, HEIGHT, BARS, ROW, MOST_ROWS, LABEL, MOST_BY_ITSELF = 370, 300, 290, 24, 14, 160, 60  # px, numbers of things
COLORS = [BAR, SLOWER_BAR, PARTS[2], INK, GREY]  # of phases, with a shape each


def name_of(part):
    return shorten(part["phase"] if part["phase"] == part["part"] else f"{part['phase']} {part['part']}", 40)


def rows(roofline):
    """(points under the roofs, the parts with most time): numbers as they stand. A point's row: its bar's, or None."""
    points, bars = [], []
    for part in sorted(roofline["parts"], key=lambda p: -(p["measured_ms"] or 0)):
        if part["measured_ms"] is None:
            continue
        name = name_of(part)
        far = "" if part["distance"] is None else f", {times(part['distance'])} its ideal of {milliseconds(part['limit_ms'])}"
        bound = f", bound by {part['bound_by']}" if part["bound_by"] != "none" else ""
        row = {"part": name, "phase": shorten(part["phase"], 20), "ms": part["measured_ms"], "limit": part["limit_ms"] or None,
               "row": len(bars) if len(bars) < MOST_ROWS else None,
               "aria": f"{name}: {milliseconds(part['measured_ms'])} per step{far}{bound}"}
        if part.get("flops_per_byte") and part.get("flops_per_s"):
            points.append({**row, "x": part["flops_per_byte"], "y": part["flops_per_s"],
                           "aria": f"{row['aria']}, {digits3(part['flops_per_byte'])} FLOP per byte, {rate(part['flops_per_s'], 'FLOP/s')}"})
        if row["row"] is not None:
            bars.append({**row, "text": milliseconds(part["measured_ms"])
                         + ("" if part["distance"] is None else f" · {times(part['distance'])}")})
    return points, bars


def edges(limits, points):
    """Of the axes of intensity and of speed: both roofs are seen."""
    x, y = [limits["flops_per_byte"], *(p["x"] for p in points)], [p["y"] for p in points]
    # The limits are measured: a part may stand above them.
    return [min(x) / 3, max(x) * 4], [min([limits["flops_per_s"] / 6, *(v / 2.5 for v in y)]), max([limits["flops_per_s"], *y]) * 2]


def numbered(points, bars, of_x, of_y, width):
    """Gives the points that have a bar and no other point near them, and their bars, a number."""
    def px(value, ends, length):
        return length * math.log(value / ends[0]) / math.log(ends[1] / ends[0])

    at, names = [(px(p["x"], of_x, width), px(p["y"], of_y, HEIGHT)) for p in points], {}
    for i, (x, y) in enumerate(at):
        apart = all(abs(x - u) > 34 or abs(y - v) > 16 for j, (u, v) in enumerate(at) if j != i)
        if apart and points[i]["row"] is not None:
            names[points[i]["row"]] = str(len(names) + 1)
    return ([{**p, "number": names.get(p["row"], "")} for p in points],
            [{**b, "part": f"{names[b['row']]} {b['part']}" if b["row"] in names else b["part"]} for b in bars])


def by_itself(report, trace):
    """Micro benchmarks of the trace's device and number type that have a place under the roofs, each call by itself."""
    recipe, out = trace.get("recipe", {}), []
    kind = recipe.get("autocast", "off")
    if kind == "off":
        kind = "tf32" if recipe.get("matmul_precision") == "high" and trace["device"]["kind"] == "cuda" else "float32"
    for document in report["micro"]:
        for one in document["benchmarks"]:
            parts = one["name"].split("/")
            of_the_device = not one.get("launch_bound") and parts[2:4] == [kind, trace["device"]["kind"]]
            if of_the_device and "flops_per_byte" in one and one.get("flops_per_second"):
                out.append({"x": one["flops_per_byte"], "y": one["flops_per_second"],
                            "aria": f"{shorten(' '.join(parts[:3]), 60)}, by itself: {rate(one['flops_per_second'], 'FLOP/s')}, "
                                    f"{digits3(one['flops_per_byte'])} FLOP per byte"})
    return out[:MOST_BY_ITSELF]


def roofs(limits, points, alone, ends, width):
    """The panel of points."""
    (x_from, x_to), (low, high) = ends
    ridge, top = limits["flops_per_byte"], limits["flops_per_s"]
    x = {"field": "x", "type": "quantitative", "scale": {"type": "log", "domain": [x_from, x_to], "nice": False},
         "axis": axis("arithmetic intensity, FLOP per byte", format="~g", tickCount=4)}
    y = {"field": "y", "type": "quantitative", "scale": {"type": "log", "domain": [low, high], "nice": False},
         "axis": axis("FLOP/s", format="~s", tickCount=4)}
    line = [{"x": x_from, "y": x_from * limits["bytes_per_s"]}, {"x": ridge, "y": top}, {"x": x_to, "y": top}]
    phases = list(dict.fromkeys(p["phase"] for p in points))
    look = {channel: {"field": "phase", "type": "nominal", "sort": None, "legend": legend(columns=3, symbolSize=90),
                      "scale": {"domain": phases, "range": [kinds[i % len(kinds)] for i in range(len(phases))]}}
            for channel, kinds in (("color", COLORS), ("shape", SHAPES))}
    size = {"field": "ms", "type": "quantitative", "legend": None,
            "scale": {"domain": [0, max(p["ms"] for p in points)], "range": [30, 260]}}
    return {"width": width, "height": HEIGHT, "data": {"values": points}, "layer": [
        {"data": {"values": line}, "mark": {"type": "line", "strokeWidth": 2, "color": INK, "clip": True, "aria": False},
         "encoding": {"x": x, "y": y}},
        {"data": {"values": [{"text": f"roofs: {rate(limits['bytes_per_s'], 'B/s')} and {rate(top, 'FLOP/s')}"}]},
         "mark": {"type": "text", "align": "right", "baseline": "bottom", "fontSize": 12, "color": INK, "aria": False},
         "encoding": {"x": {"value": width}, "y": {"value": -5}, "text": {"field": "text", "type": "nominal"}}},
        *([{"data": {"values": alone},
            "mark": {"type": "point", "filled": False, "shape": "diamond", "size": 40, "color": GREY, "strokeWidth": 1.5, "opacity": 1},
            "encoding": {"x": x, "y": y, "description": {"field": "aria", "type": "nominal"}}}] if alone else []),
        {"mark": {"type": "point", "filled": True, "opacity": 1, "stroke": "white", "strokeWidth": 0.5},
         "encoding": {"x": x, "y": y, **look, "size": size, "description": {"field": "aria", "type": "nominal"}}},
        {"mark": {"type": "text", "align": "left", "dx": 12, "fontSize": 11, "fontWeight": "bold", "color": INK, "aria": False},
         "encoding": {"x": x, "y": y, "text": {"field": "number", "type": "nominal"}}}]}


def times_panel(bars, width, narrow):
    y = {"field": "row", "type": "ordinal", "axis": None, "scale": {"type": "band", "padding": 0}}
    end = max([b["ms"] for b in bars] + [b["limit"] or 0 for b in bars])
    x = {"field": "ms", "type": "quantitative", "scale": {"domain": [0, end * width / (width - 118)], "nice": False},
         "axis": axis("ms per step", format=",~f", tickCount=3, labelFlush=narrow)}
    limited, down = [{"filter": "datum.limit !== null"}], 9 if narrow else 0

    def text(field, channel, **mark):
        return {"mark": {"type": "text", "fontSize": 12, "color": INK, "baseline": "middle", "aria": False, **mark},
                "encoding": {"y": y, "x": channel, "text": {"field": field, "type": "nominal"}}}

    return {"width": width, "height": (40 if narrow else ROW) * len(bars), "data": {"values": bars}, "layer": [
        {"mark": {"type": "bar", "height": 14, "color": BAR, "yOffset": down},
         "encoding": {"y": y, "x": x, "description": {"field": "aria", "type": "nominal"}}},
        {"mark": {"type": "tick", "orient": "vertical", "size": 20, "thickness": 3, "color": INK, "opacity": 1, "yOffset": down,
                  "aria": False},
         "transform": limited, "encoding": {"y": y, "x": {**x, "field": "limit"}}},
        {"transform": [{"calculate": "max(datum.ms, datum.limit)", "as": "end"}],
         **text("text", {**x, "field": "end"}, align="left", dx=7, dy=down)},
        text("part", {"value": 2}, align="left", dy=-9, limit=width) if narrow else
        text("part", {"value": -8}, align="right", limit=LABEL)]}


def drawing(limits, points, alone, bars, narrow):
    panels = []
    if points:
        width, ends = NARROW - 66 if narrow else WIDTH, edges(limits, points + alone)
        points, bars = numbered(points, bars, *ends, width)
        panels.append(roofs(limits, points, alone, ends, width))
    panels.append(times_panel(bars, NARROW - (66 if points else 16) if narrow else BARS, narrow))
    return {"vconcat" if narrow else "hconcat": panels, "spacing": 26, "resolve": {"scale": {"x": "independent", "y": "independent"}}}


def draw(report):
    traces = [t for t in report["traces"] if t.get("roofline") and any(p["measured_ms"] is not None for p in t["roofline"]["parts"])]
    if not traces or "flops_per_byte" not in traces[-1]["roofline"]["limits"]:
        return Missing(("Operations by themselves are drawn under a trace's roofs: " if report["micro"] else "")
                       + "`ladder profile --trace --roofline --rung RUNG --out DIR`, then "
                         "`ladder report STUDY --with DIR/RUNG.trace.json`")
    trace = traces[-1]
    roofline, work, device = trace["roofline"], trace["workload"], trace["device"]
    points, bars = rows(roofline)
    whole = [p for p in roofline["parts"] if p["ms_above"] is not None]
    worst = max(whole, key=lambda p: p["ms_above"])
    finding = f"Most to gain: {name_of(worst)}, {milliseconds(worst['measured_ms'])} per step"
    if worst["distance"] is not None:
        finding += f", {milliseconds(worst['limit_ms'])} ideal"
    sizes = f" · B={work['batch']} T={work['context']}" if "batch" in work and "context" in work else ""
    lines = [shorten(trace["title"], 80) + sizes,
             f"{shorten(device['name'], 70)} · {clean(trace['created'])[:10]}" + (" · CPU figures, not comparable with a GPU's"
                                                                                  if device["kind"] == "cpu" else ""),
             f"limits: {shorten(roofline['limits']['source'], 120)}"]
    lines.append(("first: matrix products under the device's two roofs, with their bars' numbers where they stand apart · second: "
                  if points else "") + "measured time; black: ideal, the least that the limits and the work allow; ×: measured / ideal")
    above = [name_of(p) for p in roofline["parts"] if p["distance"] is not None and p["measured_ms"] and p["distance"] < 1]
    if above:
        more = f" and {len(above) - 3} more" if len(above) > 3 else ""
        lines.append(f"faster than ideal, so the measured roof is too low for {'it' if len(above) == 1 else 'them'}: "
                     f"{', '.join(above[:3])}{more}")
    left_out = len([p for p in roofline["parts"] if p["measured_ms"] is not None]) - len(bars)
    lines.append(f"median of {number_of(trace['summary']['steps'], 'traced step')} of one run, no interval"
                 + (f" · {left_out} smaller parts are left out of the second" if left_out > 0 else ""))
    alone = by_itself(report, trace) if points else []
    if alone:
        lines.append("hollow diamonds: single operations (micro benchmarks) of the same data type")
    return Chart(finding, lines, drawing(roofline["limits"], points, alone, bars, False),
                 drawing(roofline["limits"], points, alone, bars, True))
