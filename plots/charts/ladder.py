"""One row per rung, in the study's order: its time, its own step, the speedup so far.

One layered view, not columns side by side: the text columns share the bars' y scale and so cannot drift away from them.
"""

from charts import Chart, Missing
from study import about, confidence, has_number, label, memory_unit, mode, own_rungs, reason, runs_said, title, unclear, warning_line
from theme import BAR, GREY, INK, NARROW, PAPER, SLOWER_BAR, SLOWER_INK, axis
from words import count, memory, milliseconds, shorten, times

NAME, QUESTION = "ladder", "What did each optimization bring?"

BAR_WIDTH = 440   # px of the plotting area; everything else is placed around it
LABEL_LIMIT = 220


def rows(study):
    """The chart's data: one flat object per rung, numbers as they stand, texts ready to be drawn."""
    unit = memory_unit(study)
    out = []
    for position, rung in enumerate(own_rungs(study)):
        row = {"row": position, "rung": label(rung, position), "runs": rung["runs_ok"], "slower": False, "step_ink": INK,
               "ms": None, "lo": None, "hi": None, "end": None, "time": "", "reason": "",
               "step": "—", "total": "—", "tokens": "—", "memory": "—"}
        out.append(row)
        if not has_number(rung):
            row["reason"] = shorten(reason(rung), 200)
            row["aria"] = f"{row['rung']}: {row['reason']}"
            continue
        ms, step, total = rung["ms_per_step"], rung["speedup_previous"], rung["speedup_first"]
        row["ms"], row["lo"], row["hi"] = ms["median"], ms["lo"], ms["hi"]
        if row["lo"] is None or row["hi"] is None:
            row["lo"] = row["hi"] = None
        row["end"] = max(ms["median"], row["hi"] or 0)
        row["time"] = milliseconds(ms["median"])
        if step is not None:
            row["step"] = times(step["ratio"])
            row["slower"] = step["ratio"] < 1
            row["step_ink"] = GREY if unclear(step) else SLOWER_INK if row["slower"] else INK
            if row["slower"]:
                row["time"] += " · slower?" if unclear(step) else " · slower"
        if rung.get("flags"):
            row["time"] += " · disturbed"
        if total is not None:
            row["total"] = times(total["ratio"])
        if rung["tokens_per_s"] is not None:
            row["tokens"] = count(rung["tokens_per_s"]["median"])
        if rung["peak_memory_bytes"] is not None:
            row["memory"] = memory(rung["peak_memory_bytes"], unit)
        interval = f" ({milliseconds(row['lo'])} to {milliseconds(row['hi'])})" if row["lo"] is not None else ""
        row["aria"] = f"{row['rung']}: {row['time']}{interval}" + (f", this step {row['step']}, so far {row['total']}"
                                                                   if total is not None and step is not None else "")
    return out


def domain(data, width):
    """[0, end] of the time axis: far enough that the text at each bar's end stays inside the plotting area."""
    ends = [r["end"] * width / (width - 12 - 7.6 * len(r["time"])) for r in data if r["end"]]
    return [0, max(ends, default=1)]


def lines(study, data):
    out = about(study)
    bars = [r for r in data if r["ms"] is not None]
    if bars:
        whiskers = any(r["lo"] is not None for r in bars)
        out.append(f"bars: {runs_said(study)} · " + (f"whiskers: {confidence(study)} interval" if whiskers else "no interval"))
    marks = []
    if any(r["slower"] for r in data):
        marks.append("orange: this step took longer")
    if any(r["step_ink"] == GREY for r in bars):
        marks.append("grey ×: the interval includes 1, no clear change")
    if marks:
        out[-1] += " · " + " · ".join(marks)
    return out + warning_line(study)


def drawing(study, data, narrow):
    number = any(r["ms"] is not None for r in data)
    width = NARROW - 8 if narrow else BAR_WIDTH
    step = 48 if narrow else 34 if len(data) <= 40 else 24
    bar = 15 if narrow or step < 34 else 20
    down = 12 if narrow else 0  # of the bars below the middle of their rows, whose upper half has the labels
    y = {"field": "row", "type": "ordinal", "axis": None, "scale": {"type": "band", "padding": 0}}
    x = {"field": "ms", "type": "quantitative", "scale": {"domain": domain(data, width), "nice": False, "zero": True},
         "axis": axis("ms per step", format=",~f", tickCount=5, labelFlush=narrow) if number else None}
    only_bars, only_whiskers = [{"filter": "datum.ms !== null"}], [{"filter": "datum.lo !== null"}]

    def text(field, x_channel, **mark):
        return {"mark": {"type": "text", "fontSize": 13, "baseline": "middle", "color": INK, "aria": False, **mark},
                "encoding": {"y": y, "x": x_channel, "text": {"field": field, "type": "nominal"}}}

    def cap(field):
        return {"transform": only_whiskers,
                "mark": {"type": "tick", "orient": "vertical", "size": 9, "thickness": 1.5, "color": INK, "opacity": 1,
                         "yOffset": down, "aria": False},
                "encoding": {"y": y, "x": {**x, "field": field}}}

    layers = [
        # No grid lines behind a reason's text; the line at 0 stays.
        {"mark": {"type": "bar", "height": step, "color": PAPER, "aria": False}, "transform": [{"filter": "datum.ms === null"}],
         "encoding": {"y": y, "x": {"value": 1}, "x2": {"value": width}}},
        {"mark": {"type": "bar", "height": bar, "cornerRadiusEnd": 2, "yOffset": down}, "transform": only_bars,
         "encoding": {"y": y, "x": x, "description": {"field": "aria", "type": "nominal"},
                      "color": {"condition": {"test": "datum.slower", "value": SLOWER_BAR}, "value": BAR}}},
        {"mark": {"type": "rule", "strokeWidth": 1.5, "color": INK, "yOffset": down, "aria": False}, "transform": only_whiskers,
         "encoding": {"y": y, "x": {**x, "field": "lo"}, "x2": {"field": "hi"}}},
        cap("lo"),
        cap("hi"),
        {**text("time", {**x, "field": "end"}, align="left", dx=9, dy=down, fontWeight="bold"), "transform": only_bars},
        text("reason", {"value": 4}, align="left", color=GREY, fontStyle="italic", limit=width - 4, dy=down),
    ]
    if narrow:
        layers += [text("rung", {"value": 0}, align="left", dy=-9, limit=width - 120),
                   {**text("total", {"value": width}, align="right", dy=-9, fontWeight="bold"), "transform": only_bars},
                   {**text("step", {"value": width - 62}, align="right", dy=-9), "transform": only_bars}]
        layers[-1]["encoding"]["color"] = {"field": "step_ink", "type": "nominal", "scale": None}
        heads = [("this step", width - 62), ("so far", width)]
    else:
        layers.append(text("rung", {"value": -10}, align="right", limit=LABEL_LIMIT))
        columns = [("step", "this step", 70, "normal"), ("total", "so far", 130, "bold"),
                   ("tokens", "tokens/s", 200, "normal"), ("memory", f"peak {memory_unit(study)[0]}", 272, "normal")]
        for field, _, offset, weight in columns:
            layer = text(field, {"value": BAR_WIDTH + offset}, align="right", fontWeight=weight)
            if field == "step":
                layer["encoding"]["color"] = {"field": "step_ink", "type": "nominal", "scale": None}
            layers.append(layer)
        heads = [(head, BAR_WIDTH + offset) for _, head, offset, _ in columns]
    for head, at in heads:
        layers.append({"data": {"values": [{"head": head}]},
                       "mark": {"type": "text", "align": "right", "fontSize": 11, "color": GREY, "aria": False},
                       "encoding": {"x": {"value": at}, "y": {"value": -12}, "text": {"field": "head", "type": "nominal"}}})
    return {"width": width, "height": step * max(len(data), 1), "data": {"values": data}, "layer": layers}


def draw(part):
    study = part["study"]
    if mode(study) != "cumulative":
        return Missing("`ladder ablate` switches the optimizations on one after another")
    data = rows(study)
    return Chart(title(study), lines(study, data), drawing(study, data, False), drawing(study, data, True))
