"""How far each part of a step is from what the device can do, of the latest trace with a roofline.

Only matrix products have FLOPs (ablations/techniques/step_table.h), so only they have a place under the roofs. The other parts are only in the second
panel: a bar for the measured time, with a mark at the time at the limit.
"""

import math

from charts import About, Chart, Missing
from charts.phases import COLORS
from theme import GREY, INK, PAPER, PLOT, SHAPES, SMALL, axis, heading, legend, room, stacked, text
from words import clean, digits3, milliseconds, rate, shorten, times, wrap

HEIGHT, MOST_ROWS, MOST_LABELS = 300, 14, 3  # px, numbers of things
PLAIN = {"c_attn": "QKV", "attn_proj": "attention projection", "c_fc": "MLP up", "mlp_proj": "MLP down", "embed": "embedding", "head_loss": "head and loss"}


def name_of(part):
    return shorten(part["phase"] if part["phase"] == part["part"] else f"{part['phase']} {PLAIN.get(part['part'], part['part'])}", 40)


def rows(roofline):
    """(points under the roofs, the parts with most time)"""
    points, bars = [], []
    for part in sorted(roofline["parts"], key=lambda p: -(p["measured_ms"] or 0)):
        if part["measured_ms"] is None:
            continue
        name = name_of(part)
        far = "" if part["distance"] is None else f", {times(part['distance'])} its ideal of {milliseconds(part['limit_ms'])}"
        bound = f", bound by {part['bound_by']}" if part["bound_by"] != "none" else ""
        row = {"part": name, "label": shorten(PLAIN.get(part["part"], part["part"]), 24), "phase": shorten(part["phase"], 20), "ink": COLORS.get(part["phase"], GREY),
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


def ticks(ends):
    """Of a logarithmic axis: powers of ten; if these are few, also 2 and 5 times them."""
    tens = range(math.floor(math.log10(ends[0])), math.ceil(math.log10(ends[1])) + 1)
    every = [m * 10.0 ** n for n in tens for m in (1, 2, 5) if ends[0] <= m * 10.0 ** n <= ends[1]]
    whole = [t for t in every if math.isclose(math.log10(t) % 1, 0, abs_tol=1e-9)]
    return whole if len(whole) > 2 else every


def roofs(limits, points):
    """The panel of points. Those with most time have names, as far as there is room."""
    (x_from, x_to), (low, high) = edges(limits, points)
    ridge, top = limits["flops_per_byte"], limits["flops_per_s"]
    x = {"field": "x", "type": "quantitative", "scale": {"type": "log", "domain": [x_from, x_to], "nice": False},
         "axis": axis("arithmetic intensity, FLOP per byte", format="~g", values=ticks([x_from, x_to]))}
    y = {"field": "y", "type": "quantitative", "scale": {"type": "log", "domain": [low, high], "nice": False},
         "axis": axis("FLOP/s", format="~s", values=ticks([low, high]))}
    line = [{"x": x_from, "y": x_from * limits["bytes_per_s"]}, {"x": ridge, "y": top}, {"x": x_to, "y": top}]
    phases = list(dict.fromkeys(p["phase"] for p in points))
    look = {channel: {"field": "phase", "type": "nominal", "sort": None, "legend": legend(columns=4, symbolSize=90),
                      "scale": {"domain": phases, "range": [kinds(i, phase) for i, phase in enumerate(phases)]}}
            for channel, kinds in (("color", lambda i, phase: COLORS.get(phase, GREY)), ("shape", lambda i, phase: SHAPES[i % len(SHAPES)]))}
    size = {"field": "ms", "type": "quantitative", "legend": None, "scale": {"domain": [0, max(p["ms"] for p in points)], "range": [30, 200]}}
    named, line_height = [], math.log(high / low) * 17 / HEIGHT
    for p in points:
        if len(named) < MOST_LABELS and all(abs(math.log(p["y"] / other["y"])) > line_height for other in named):
            named.append(p)
    middle = math.sqrt(x_from * x_to)  # a name stands on the side with more room
    sides = [("left", 9, [p for p in named if p["x"] <= middle]), ("right", -9, [p for p in named if p["x"] > middle])]
    return {"width": PLOT, "height": HEIGHT, "data": {"values": points},
            "title": heading(wrap(f"Matrix products under the roofs: {rate(limits['bytes_per_s'], 'B/s')}, {rate(top, 'FLOP/s')}", 60), fontWeight="normal"), "layer": [
        {"data": {"values": line}, "mark": {"type": "line", "strokeWidth": 2, "color": INK, "clip": True, "aria": False}, "encoding": {"x": x, "y": y}},
        {"mark": {"type": "point", "filled": True, "opacity": 1, "stroke": PAPER, "strokeWidth": 0.5},
         "encoding": {"x": x, "y": y, **look, "size": size, "description": {"field": "aria", "type": "nominal"}}},
        *({"data": {"values": of}, **text("label", y, x, align=align, dx=dx, fontSize=SMALL, limit=PLOT / 2 - 12)} for align, dx, of in sides)]}


def times_panel(bars):
    y = {"field": "row", "type": "ordinal", "axis": None, "scale": {"type": "band", "padding": 0}}
    end = max([b["ms"] for b in bars] + [b["limit"] or 0 for b in bars])
    x = {"field": "ms", "type": "quantitative", "scale": {"domain": [0, end * PLOT / (PLOT - max(room(b["text"]) for b in bars))], "nice": False},
         "axis": axis("ms per step", format=",~f", tickCount=4, labelFlush=True)}
    return {"width": PLOT, "height": 42 * len(bars), "data": {"values": bars}, "title": heading("Measured, and the ideal (tick)", fontWeight="normal"), "layer": [
        {"mark": {"type": "bar", "height": 14, "yOffset": 10},
         "encoding": {"y": y, "x": x, "color": {"field": "ink", "type": "nominal", "scale": None},
                      "description": {"field": "aria", "type": "nominal"}}},
        {"mark": {"type": "tick", "orient": "vertical", "size": 20, "thickness": 3, "color": INK, "opacity": 1, "yOffset": 10,
                  "aria": False},
         "transform": [{"filter": "datum.limit !== null"}], "encoding": {"y": y, "x": {**x, "field": "limit"}}},
        {"transform": [{"calculate": "max(datum.ms, datum.limit)", "as": "end"}], **text("text", y, {**x, "field": "end"}, align="left", dx=7, dy=10)},
        text("part", y, {"value": 2}, align="left", dy=-9, limit=PLOT)]}


def latest(report):
    """The last trace whose parts were measured; None: there is none."""
    traces = [t for t in report["traces"] if t.get("roofline") and "flops_per_byte" in t["roofline"]["limits"]
              and any(p["measured_ms"] is not None for p in t["roofline"]["parts"])]
    return traces[-1] if traces else None


def draw_roofline(report):
    trace = latest(report)
    if trace is None:
        return Missing("`ladder profile --trace --roofline --rung RUNG --out DIR`, then `ladder report STUDY --with DIR/RUNG.trace.json`")
    roofline = trace["roofline"]
    points, bars = rows(roofline)
    worst = max((p for p in roofline["parts"] if p.get("ms_above") is not None and p["measured_ms"] is not None and p["limit_ms"]), key=lambda p: p["ms_above"], default=None)
    title = f"Distance from the device's limits, {clean(trace['title']).removeprefix('+ ')}"
    if worst and not roofline["limits"].get("refuted"):
        title += f": {name_of(worst)} has most to gain, {milliseconds(worst['measured_ms'])} against {milliseconds(worst['limit_ms'])} ideal"
    left_out = len([p for p in roofline["parts"] if p["measured_ms"] is not None]) - len(bars)
    lines = ["×: measured / ideal, the least that the limits and the work allow" + (f" · {left_out} smaller parts are left out" if left_out > 0 else "")]
    about = About(f"{clean(trace['title'])} · {clean(trace['device']['name'])} · {clean(trace['created'])[:10]}", "; ".join(map(clean, trace.get("flags") or [])))
    panels = [*([roofs(roofline["limits"], points)] if points else []), times_panel(bars)]
    return Chart(title, lines, about, stacked(panels))
