"""How far each part of a step is from what the device can do, of the latest trace with a roofline.

Only matrix products have FLOPs (model/costs.h), so only they have a place under the roofs. The other parts are only in the second
panel: a bar for the measured time, with a mark at the time at the limit.
"""

import itertools
import math

from charts import Chart, Missing, finding_of, notes_of
from charts.phases import COLORS
from letters import text_width
from study import About
from theme import GREY, INK, NARROW, PAPER, SHAPES, SMALL, axis, legend
from words import digits3, milliseconds, rate, shorten, times

NAME, QUESTION = "roofline", "How far is each part from the device's limits?"
WIDTH, HEIGHT, BARS, ROW, MOST_ROWS, MOST_LABELS, LABEL, MOST_BY_ITSELF = 370, 300, 290, 24, 14, 16, 160, 60  # px, numbers of things
AWAY = [11, 19, 28, 38, 49, 61, 74, 88, 103]  # px from a point to its label, the nearest first


def name_of(part):
    return shorten(part["phase"] if part["phase"] == part["part"] else f"{part['phase']} {part['part']}", 40)


def rows(roofline):
    """(points under the roofs, the parts with most time)"""
    points, bars = [], []
    for part in sorted(roofline["parts"], key=lambda p: -(p["measured_ms"] or 0)):
        if part["measured_ms"] is None:
            continue
        name = name_of(part)
        far = "" if part["distance"] is None else f", {times(part['distance'])} its ideal of {milliseconds(part['limit_ms'])}"
        bound = f", bound by {part['bound_by']}" if part["bound_by"] != "none" else ""
        row = {"part": name, "label": shorten(part["part"], 24), "phase": shorten(part["phase"], 20), "ink": COLORS.get(part["phase"], GREY),
               "ms": part["measured_ms"], "limit": part["limit_ms"] or None, "row": len(bars) if len(bars) < MOST_ROWS else None,
               "aria": f"{name}: {milliseconds(part['measured_ms'])} per step{far}{bound}"}
        if part.get("flops_per_byte") and part.get("flops_per_s"):
            points.append({**row, "x": part["flops_per_byte"], "y": part["flops_per_s"],
                           "aria": f"{row['aria']}, {digits3(part['flops_per_byte'])} FLOP per byte, {rate(part['flops_per_s'], 'FLOP/s')}"})
        if row["row"] is not None:
            bars.append({**row, "text": milliseconds(part["measured_ms"])
                         + ("" if part["distance"] is None else f" · {times(part['distance'])}")})
    return points, bars


def edges(limits, points):
    """The ends of the axes of intensity and of speed. Both roofs can be seen."""
    x, y = [limits["flops_per_byte"], *(p["x"] for p in points)], [p["y"] for p in points]
    # The limits are measured, so a part may be above them.
    return [min(x) / 3, max(x) * 4], [min([limits["flops_per_s"] / 6, *(v / 2.5 for v in y)]), max([limits["flops_per_s"], *y]) * 2]


def place(value, ends, length):
    """px along an axis of `ends`."""
    return length * math.log(value / ends[0]) / math.log(ends[1] / ends[0])


def labels(limits, points, of_x, of_y, width, taken):
    """[{text, x, y, and the ends of a line to its point}] of the points with most time, in the axes' units. A label stands as near to its
    point as the other labels, the points, the roofs and `taken` leave room. A point without room has no label."""
    def back(px, ends, length):
        return ends[0] * (ends[1] / ends[0]) ** (px / length)

    def roof(x):
        return HEIGHT - place(min(limits["flops_per_s"], limits["bytes_per_s"] * back(x, of_x, width)), of_y, HEIGHT)

    at = [(place(p["x"], of_x, width), HEIGHT - place(p["y"], of_y, HEIGHT)) for p in points]
    taken = [*taken, *((x - 8, x + 8, y - 8, y + 8) for x, y in at)]
    out = []

    def free(box, above):
        left, right, top, bottom = box
        inside = left >= 0 and right <= width and top >= 0 and bottom <= HEIGHT
        beside_roof = all(bottom + 3 < roof(x) if above else top - 3 > roof(x) for x in (left, (left + right) / 2, right))
        return inside and beside_roof and not any(left < r and l < right and top < b and t < bottom for l, r, t, b in taken)

    for point, (x, y) in list(zip(points, at))[:MOST_LABELS]:
        wide = text_width(point["label"], SMALL)
        for away, turn in itertools.product(AWAY, range(16)):
            middle, sign = y + away * math.sin(turn * math.pi / 8), math.cos(turn * math.pi / 8)
            left = x + away * sign - (0 if sign > 0.3 else wide if sign < -0.3 else wide / 2)
            box = left, left + wide, middle - 7, middle + 7
            if free(box, y < roof(x)):
                taken.append(box)
                end = min(max(x, left), left + wide), min(max(y, middle - 5), middle + 5)
                out.append({"text": point["label"], "x": back(left, of_x, width), "y": back(HEIGHT - middle, of_y, HEIGHT),
                            "from_x": point["x"], "from_y": point["y"], "to_x": back(end[0], of_x, width),
                            "to_y": back(HEIGHT - end[1], of_y, HEIGHT), "away": away > AWAY[0]})
                break
    return out


def ticks(ends):
    """Of a logarithmic axis: powers of ten; if these are few, also 2 and 5 times them."""
    tens = range(math.floor(math.log10(ends[0])), math.ceil(math.log10(ends[1])) + 1)
    every = [m * 10.0 ** n for n in tens for m in (1, 2, 5) if ends[0] <= m * 10.0 ** n <= ends[1]]
    whole = [t for t in every if math.isclose(math.log10(t) % 1, 0, abs_tol=1e-9)]
    return whole if len(whole) > 2 else every


def by_itself(report, trace):
    """Micro benchmarks of the trace's device and number type that have a place under the roofs."""
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


def roof_names(limits, ends, width):
    """[(text, x, y, turned by)]: each along its roof; above the panel if a roof is short."""
    of_x, of_y = ends
    ridge, top = limits["flops_per_byte"], limits["flops_per_s"]
    speed, flow = rate(top, "FLOP/s"), rate(limits["bytes_per_s"], "B/s")
    end = place(ridge, of_x, width), place(top, of_y, HEIGHT)
    steepness = HEIGHT / math.log(of_y[1] / of_y[0]) * math.log(of_x[1] / of_x[0]) / width  # px up for each px to the right
    start = max(0.0, end[0] - end[1] / steepness), max(0.0, end[1] - end[0] * steepness)
    flat, slope = width - end[0], math.hypot(end[0] - start[0], end[1] - start[1])
    if flat < 110 or slope < 90:
        return [{"text": f"roofs: {flow} and {speed}", "x": width, "y": -6, "turn": 0, "align": "right"}]
    return [{"text": speed, "x": width - 6, "y": HEIGHT - end[1] - 6, "turn": 0, "align": "right"},
            {"text": flow, "x": (start[0] + end[0]) / 2 - 4, "y": HEIGHT - (start[1] + end[1]) / 2 - 8,
             "turn": -math.degrees(math.atan(steepness)), "align": "center"}]


def box_of(name):
    """(left, right, top, bottom) around a roof's name."""
    wide, turn = text_width(name["text"], 12), math.radians(-name["turn"])
    if name["align"] == "right":
        return name["x"] - wide, name["x"], name["y"] - 15, name["y"]
    across, up = wide / 2 * math.cos(turn) + 8, wide / 2 * math.sin(turn) + 8
    return name["x"] - across - 6, name["x"] + across - 6, name["y"] - up - 6, name["y"] + up - 6


def roofs(limits, points, alone, ends, width):
    """The panel of points."""
    (x_from, x_to), (low, high) = ends
    ridge, top = limits["flops_per_byte"], limits["flops_per_s"]
    x = {"field": "x", "type": "quantitative", "scale": {"type": "log", "domain": [x_from, x_to], "nice": False},
         "axis": axis("arithmetic intensity, FLOP per byte", format="~g", values=ticks(ends[0]))}
    y = {"field": "y", "type": "quantitative", "scale": {"type": "log", "domain": [low, high], "nice": False},
         "axis": axis("FLOP/s", format="~s", values=ticks(ends[1]))}
    line = [{"x": x_from, "y": x_from * limits["bytes_per_s"]}, {"x": ridge, "y": top}, {"x": x_to, "y": top}]
    phases = list(dict.fromkeys(p["phase"] for p in points))
    look = {channel: {"field": "phase", "type": "nominal", "sort": None, "legend": legend(columns=3, symbolSize=90),
                      "scale": {"domain": phases, "range": [kinds(i, phase) for i, phase in enumerate(phases)]}}
            for channel, kinds in (("color", lambda i, phase: COLORS.get(phase, GREY)), ("shape", lambda i, phase: SHAPES[i % len(SHAPES)]))}
    size = {"field": "ms", "type": "quantitative", "legend": None,
            "scale": {"domain": [0, max(p["ms"] for p in points)], "range": [30, 200]}}
    roofs_named = roof_names(limits, ends, width)
    named = labels(limits, points, *ends, width, [box_of(name) for name in roofs_named])
    return {"width": width, "height": HEIGHT, "data": {"values": points}, "layer": [
        {"data": {"values": line}, "mark": {"type": "line", "strokeWidth": 2, "color": INK, "clip": True, "aria": False},
         "encoding": {"x": x, "y": y}},
        *({"data": {"values": [name]},
           "mark": {"type": "text", "align": name["align"], "baseline": "bottom", "fontSize": 12, "color": INK, "angle": name["turn"] % 360,
                    "aria": False},
           "encoding": {"x": {"value": name["x"]}, "y": {"value": name["y"]}, "text": {"field": "text", "type": "nominal"}}}
          for name in roofs_named),
        {"data": {"values": [label for label in named if label["away"]]}, "mark": {"type": "rule", "color": GREY, "strokeWidth": 0.8, "aria": False},
         "encoding": {"x": {**x, "field": "from_x"}, "y": {**y, "field": "from_y"}, "x2": {"field": "to_x"}, "y2": {"field": "to_y"}}},
        *([{"data": {"values": alone},
            "mark": {"type": "point", "filled": False, "shape": "diamond", "size": 40, "color": GREY, "strokeWidth": 1.5, "opacity": 1},
            "encoding": {"x": x, "y": y, "description": {"field": "aria", "type": "nominal"}}}] if alone else []),
        {"mark": {"type": "point", "filled": True, "opacity": 1, "stroke": PAPER, "strokeWidth": 0.5},
         "encoding": {"x": x, "y": y, **look, "size": size, "description": {"field": "aria", "type": "nominal"}}},
        {"data": {"values": named}, "mark": {"type": "text", "align": "left", "baseline": "middle", "fontSize": SMALL, "color": INK, "aria": False},
         "encoding": {"x": x, "y": y, "text": {"field": "text", "type": "nominal"}}}]}


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
        {"mark": {"type": "bar", "height": 14, "yOffset": down},
         "encoding": {"y": y, "x": x, "color": {"field": "ink", "type": "nominal", "scale": None},
                      "description": {"field": "aria", "type": "nominal"}}},
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
        panels.append(roofs(limits, points, alone, edges(limits, points + alone), NARROW - 66 if narrow else WIDTH))
    panels.append(times_panel(bars, NARROW - (66 if points else 16) if narrow else BARS, narrow))
    return {"vconcat" if narrow else "hconcat": panels, "spacing": 26, "resolve": {"scale": {"x": "independent", "y": "independent"}}}


def draw(report):
    traces = [t for t in report["traces"] if t.get("roofline") and any(p["measured_ms"] is not None for p in t["roofline"]["parts"])]
    if not traces or "flops_per_byte" not in traces[-1]["roofline"]["limits"]:
        return Missing(("Operations by themselves are drawn under a trace's roofs: " if report["micro"] else "")
                       + "`ladder profile --trace --roofline --rung RUNG --out DIR`, then "
                         "`ladder report STUDY --with DIR/RUNG.trace.json`")
    trace = traces[-1]
    roofline = trace["roofline"]
    points, bars = rows(roofline)
    alone = by_itself(report, trace) if points else []
    lines = ["first: matrix products under the device's two roofs" + ("; hollow diamonds: single operations (micro benchmarks)" if alone else "")] \
        if points else []
    lines.append(("second: " if points else "") + "measured time; black: ideal, the least that the limits and the work allow; ×: measured / ideal")
    left_out = len([p for p in roofline["parts"] if p["measured_ms"] is not None]) - len(bars)
    notes = notes_of(report, NAME) + ([f"{left_out} smaller parts are left out of the second"] if left_out > 0 else [])
    return Chart(finding_of(report, NAME), lines, notes, About.of(report["origins"][NAME]), drawing(roofline["limits"], points, alone, bars, False),
                 drawing(roofline["limits"], points, alone, bars, True))
