"""A rung's time over stored studies: one panel for each series, with its level and a mark where it changed.

The time axis does not begin at 0, because then a change of a few per cent could not be seen. It always spans at least a tenth of
the time, so that noise does not look like a change.
"""

from charts import About, Chart, Missing
from theme import BAR, DOUBT_INK, FASTER_INK, INK, PARTS, PLOT, SLOWER_INK, SMALL, axis, heading, stacked
from words import clean, milliseconds, number_of, shorten, wrap

LEAST_SPAN, MOST_PANELS, CHARACTERS = 0.1, 24, 58  # CHARACTERS: of a line of a panel's heading
COLORS = {"slower": SLOWER_INK, "faster": FASTER_INK}


def circumstances(series):
    s = series["setting"]
    size = f"{s['model']} B={s['batch']} T={s['context']}" + (f" × {s['accumulation']} micro-steps" if s["accumulation"] != 1 else "")
    device = str(s["device"]) + (f", {s['threads']} threads" if s.get("threads") is not None else "")
    parts = [device, size, f"torch {s['torch']}"] + ([f"driver {s['driver']}"] if s.get("driver") else [])
    return " · ".join([*parts, series["recipe_hash"]])


def panel(series):
    points, color = series["points"], COLORS.get(series["verdict"], INK)
    data = [{"i": i, "day": clean(p["time"])[:10], "ms": p["median"], "lo": p["lo"], "hi": p["hi"], "level": p["level"],
             "disturbed": p["disturbed"],
             "aria": f"{clean(p['time'])[:10]}, {shorten(p['study'], 40)}: {milliseconds(p['median'])}"
                     + (f" ({milliseconds(p['lo'])} to {milliseconds(p['hi'])})" if p["lo"] is not None and p["hi"] is not None else "")
                     + (", disturbed" if p["disturbed"] else "")} for i, p in enumerate(points)]
    low, high = min(min(d["ms"], d["level"]) for d in data), max(max(d["ms"], d["level"]) for d in data)
    margin = max(0.15 * (high - low), (LEAST_SPAN * high - (high - low)) / 2)
    low, high = max(low - margin, 0), high + margin
    for d in data:  # an interval may reach far beyond what can be drawn
        if d["lo"] is not None and d["hi"] is not None:
            d["lo"], d["hi"] = max(d["lo"], low), min(d["hi"], high)
    marks = [{"i": s["at"] - 0.5, "text": f"{'+' if s['ratio'] >= 1 else '−'}{abs(100 * (s['ratio'] - 1)):.1f} %",
              "slower": s["ratio"] >= 1} for s in series["steps"]]
    every = -(-len(data) // 4)
    ticks = [d["i"] for d in data[::every]]
    days = " : ".join([f"datum.value === {i} ? '{data[i]['day']}'" for i in ticks] + ["''"])
    x = {"field": "i", "type": "quantitative", "scale": {"domain": [-0.6, max(len(data), 2) - 0.4], "nice": False},
         "axis": axis(None, values=ticks, labelExpr=days, grid=False, labelFlush=False, labelOverlap=False)}
    y = {"field": "ms", "type": "quantitative", "scale": {"domain": [low, high], "zero": False, "nice": False},
         "axis": axis("ms per step", tickCount=4, format=",~f" if high >= 100 else ",.3~r")}
    mark = {"field": "i", "type": "quantitative"}
    step_color = {"condition": {"test": "datum.slower", "value": COLORS["slower"]}, "value": COLORS["faster"]}
    layers = [
        {"data": {"values": marks}, "mark": {"type": "rule", "strokeDash": [4, 3], "strokeWidth": 1.5, "aria": False},
         "encoding": {"x": mark, "color": step_color}},
        {"data": {"values": marks}, "mark": {"type": "text", "align": "left", "baseline": "bottom", "dx": -4, "fontSize": SMALL,
                                             "fontWeight": "bold", "aria": False},
         "encoding": {"x": mark, "y": {"value": -3}, "text": {"field": "text", "type": "nominal"}, "color": step_color}},
        {"mark": {"type": "rule", "strokeWidth": 1.2, "color": PARTS[2], "clip": True, "aria": False},
         "transform": [{"filter": "datum.lo !== null && datum.hi !== null"}],
         "encoding": {"x": x, "y": {**y, "field": "lo"}, "y2": {"field": "hi"}}},
        {"mark": {"type": "point", "filled": True, "size": 36, "opacity": 1},
         "encoding": {"x": x, "y": y, "description": {"field": "aria", "type": "nominal"},
                      "color": {"condition": {"test": "datum.disturbed", "value": DOUBT_INK}, "value": BAR},
                      "shape": {"condition": {"test": "datum.disturbed", "value": "triangle-up"}, "value": "circle"}}},
    ]
    if series["verdict"] != "too_few":
        starts = sorted({0, *(s["at"] for s in series["steps"])})
        for begin, end in zip(starts, [*starts[1:], len(data)]):
            layers.append({"data": {"values": data[begin:end]}, "mark": {"type": "line", "strokeWidth": 2, "color": color, "aria": False},
                           "encoding": {"x": x, "y": {**y, "field": "level"}}})
    words = {"slower": "Slower: ", "faster": "Faster: "}.get(series["verdict"], "")
    ended = (" (not known in the newest study)" if series.get("missed") else " (not measured any more)" if series.get("dropped")
             else "" if series["current"] else " (until the setting changed)")
    label = [shorten(clean(series["label"]), 50) + ended]
    lines = wrap(words + series["finding"], CHARACTERS) + wrap(circumstances(series), CHARACTERS, most=2)
    if series["new_because"]:
        lines += wrap("setting changed since the panel above: " + "; ".join(series["new_because"]), CHARACTERS, most=2)
    return {"width": PLOT, "height": 130, "data": {"values": data}, "layer": layers, "title": heading(label, lines, color=color, offset=24 if marks else 10)}


def of_history(history):
    count = history["studies"]
    lines = ["points: each study's median, with its interval, which may go on beyond the edge · line: the estimated level"]
    on_cpu = ["threads" in s["setting"] for s in history["series"]]
    cpu = "CPU figures, not comparable with a GPU's"
    source = " · ".join([f"{count} {'study' if count == 1 else 'studies'} until {clean(history['created'])[:10]}",
                         *([cpu] if all(on_cpu) else [f"panels of a CPU are {cpu}"] if any(on_cpu) else [])])
    # Series with a change come first.
    def unimportance(series):
        return series["verdict"] not in COLORS, not (series["steps"] or series["drift"])

    kept = sorted(range(len(history["series"])), key=lambda i: unimportance(history["series"][i]))[:MOST_PANELS]
    shown = [history["series"][i] for i in sorted(kept)]
    if any(p["disturbed"] for s in shown for p in s["points"]):
        lines.append("purple triangles: disturbed runs")
    if len(shown) < len(history["series"]):
        lines.append(f"{len(shown)} of {number_of(len(history['series']), 'panel')} are drawn, those with a change first")

    return Chart(clean(history["finding"]), lines, About(source, ""), stacked([panel(series) for series in shown]))


def draw_history(report):
    if not report["histories"]:
        return Missing("`ladder history FOLDER --out DIR`, then `ladder report STUDY --with DIR/history.json`")
    return of_history(report["histories"][-1])
