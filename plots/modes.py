"""Charts of the modes beside the cumulative ladder: what each optimization is worth, and speed and memory over sizes.

As chart.py: every number stands in the study. The surprising thing: worths are drawn on a logarithmic axis from 1, where
twice as fast and half as fast are equally far.
"""

import shlex

import chart
from chart import GREY, INK, clean, shorten

SERIES = ["#3b78b5", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#111827", "#6b7280"]  # Okabe and Ito
WORDS = {
    "leave-one-out": ("What is lost without each optimization", "Time of a step without it, divided by the time with everything on."),
    "one-at-a-time": ("What each optimization brings alone", "Time of the reference's step, divided by the time with it alone."),
    "factorial": ("What each optimization brings, averaged over all orders of switching them on",
                  "Its Shapley value: what it takes off the logarithm of the time, averaged over all orders; the worths multiply up "
                  "to the whole speedup."),
}
LETTERS = {"batch": "B", "context": "T", "accumulation": "micro-steps"}
WIDTH, LINE_HEIGHT, PANEL = 520, 34, 330  # px


def mode(study):
    return study.get("mode", "cumulative")


def worths(study):
    """Of the mode's own method, the first; largest first, those without a number last."""
    listed = study.get("attribution", [])
    own = [w for w in listed if w["method"] == listed[0]["method"]]
    return sorted(own, key=lambda w: (w["ratio"] is None, -(w["ratio"] or 0)))


def worth_words(study):
    return WORDS.get(mode(study), ("", ""))[1]


def peers(study):
    """[(our rung, the comparison, the peer's rung)]"""
    rungs = {r["index"]: r for r in study["rungs"]}
    return [(own, p, rungs[p["rung"]]) for own in study["rungs"] for p in own.get("peers", [])]


def swept_value(study, rung):
    what = study.get("swept")
    return f"{LETTERS[what]}={rung['workload'][what]} " if what else ""


def command_line(study):
    """What has to stand after `ladder ablate --ladder NAME` for a study of this mode."""
    words = []
    if "swept" in study:
        values = list(dict.fromkeys(str(r["workload"][study["swept"]]) for r in study["rungs"]))
        words += ["--sweep", f"{study['swept']}={','.join(values)}"]
    elif mode(study) != "cumulative":
        words += ["--mode", mode(study)]
    if mode(study) == "factorial":
        words += ["--factors", ",".join(clean(w["optimization"]) for w in study["attribution"] if w["method"] == "shapley")]
    if peers(study):
        words += ["--with-peer", "pytorch"]
    return "".join(" " + shlex.quote(word) for word in words)


def title(study):
    if mode(study) == "cumulative" or study["headline"] is not None:
        return chart.title(study)
    if mode(study) != "sweep":
        return WORDS[mode(study)][0]
    measured = [r for r in chart.own_rungs(study) if chart.has_number(r)]
    if not measured:
        return "No rung has a number"
    best = max(measured, key=lambda r: r["tokens_per_s"]["median"])
    return shorten(f"Up to {chart.count(best['tokens_per_s']['median'])} tokens/s, at {swept_value(study, best)}"
                   f"({clean(best['title'])})", 84)


def spec(study):
    """The Vega-Lite specification of any study, with its data inside."""
    if mode(study) == "cumulative":
        return chart.spec(study)
    return sweep_spec(study) if mode(study) == "sweep" else worth_spec(study)


def axis(text, **more):
    return {"title": text, "titleFontWeight": "normal", "titleColor": GREY, "titleFontSize": 12, "labelColor": GREY,
            "labelFontSize": 11, "gridColor": "#e8ebef", "domain": False, "ticks": False, **more}


def worth_spec(study):
    data = []
    for row, worth in enumerate(worths(study)):
        number = worth["ratio"] is not None
        interval = number and worth["lo"] is not None and worth["hi"] is not None
        text = chart.times(worth["ratio"]) if number else ""
        data.append({"row": row, "title": clean(worth["title"]), "ratio": worth["ratio"],
                     "lo": worth["lo"] if interval else None, "hi": worth["hi"] if interval else None,
                     "slower": number and worth["ratio"] < 1, "text": text,
                     "interval": f"{chart.times(worth['lo'])} – {chart.times(worth['hi'])}" if interval else "",
                     "reason": "" if number else shorten(f"no number: {clean(worth['reason'])}", 120)})
    ends = [v for d in data for v in (d["ratio"], d["lo"], d["hi"]) if v is not None and v > 0]
    domain = [min([0.95, *ends]) / 1.05, max([1.05, *ends]) * 1.05]
    y = {"field": "row", "type": "ordinal", "axis": None, "scale": {"type": "band", "padding": 0}}
    x = {"field": "ratio", "type": "quantitative", "scale": {"type": "log", "domain": domain, "nice": False},
         "axis": axis("times as fast", format="~g", tickCount=5)}
    whiskers = [{"filter": "datum.lo !== null"}]

    def text(field, at, **mark):
        return {"mark": {"type": "text", "fontSize": 13, "baseline": "middle", "color": INK, **mark},
                "encoding": {"y": y, "x": {"value": at}, "text": {"field": field, "type": "nominal"}}}

    layers = [
        {"mark": {"type": "bar", "height": 18}, "transform": [{"filter": "datum.ratio !== null"}],
         "encoding": {"y": y, "x": x, "x2": {"datum": 1},
                      "color": {"condition": {"test": "datum.slower", "value": chart.SLOWER_BAR}, "value": chart.BAR}}},
        {"mark": {"type": "rule", "color": GREY}, "encoding": {"x": {"datum": 1}}},
        {"mark": {"type": "rule", "strokeWidth": 1.5, "color": INK}, "transform": whiskers,
         "encoding": {"y": y, "x": {**x, "field": "lo"}, "x2": {"field": "hi"}}},
        *({"mark": {"type": "tick", "orient": "vertical", "size": 9, "thickness": 1.5, "color": INK, "opacity": 1},
           "transform": whiskers, "encoding": {"y": y, "x": {**x, "field": end}}} for end in ("lo", "hi")),
        text("title", -10, align="right", limit=chart.LABEL_LIMIT),
        text("text", WIDTH + 62, align="right", fontWeight="bold"),
        text("interval", WIDTH + 74, align="left", color=GREY),
        text("reason", 6, align="left", color=GREY, fontStyle="italic", limit=WIDTH),
    ]
    lines = chart.about(study)
    name = title(study)
    lines.append(WORDS[mode(study)][0] if name != WORDS[mode(study)][0] else WORDS[mode(study)][1])
    repeats = max([w["repeats"] for w in worths(study)], default=0)
    lines.append(f"bars: {repeats} repeat{'' if repeats == 1 else 's'} · "
                 + (f"whiskers: {chart.confidence(study)} interval; where it includes 1, no clear difference"
                    if any(d["lo"] is not None for d in data) else "no interval")
                 + (" · orange: it costs time" if any(d["slower"] for d in data) else ""))
    return {**chart.frame(name, lines + chart.warning_line(study)), "width": WIDTH, "height": LINE_HEIGHT * max(len(data), 1),
            "data": {"values": data}, "layer": layers}


def sweep_spec(study):
    what = study["swept"]
    unit_name, unit = chart.memory_unit(study)
    data, without = [], []
    for rung in study["rungs"]:
        series = clean(rung["title"]) if "peer" not in rung else f"{clean(rung['title'])}, {clean(study['rungs'][rung['against']]['title'])}"
        if not chart.has_number(rung):
            without.append(f"{swept_value(study, rung)}{series}: {chart.reason(rung)}")
            continue
        rate = rung["tokens_per_s"]
        data.append({"series": series, "value": rung["workload"][what], "rate": rate["median"], "lo": rate["lo"], "hi": rate["hi"],
                     "memory": None if rung["peak_memory_bytes"] is None else rung["peak_memory_bytes"] / unit})
    names = list(dict.fromkeys(d["series"] for d in data))
    values = sorted({r["workload"][what] for r in study["rungs"]})
    x = {"field": "value", "type": "quantitative",
         "scale": {"type": "log", "base": 2, "domain": [values[0] / 1.1, values[-1] * 1.1], "nice": False},
         "axis": axis({"batch": "batch, sequences", "context": "context, tokens", "accumulation": "micro-steps per step"}[what],
                      values=values, format="d", grid=False)}
    style = {"color": {"field": "series", "type": "nominal", "scale": {"domain": names, "range": SERIES[:max(len(names), 1)]},
                       "legend": {"title": None, "orient": "bottom", "columns": 2, "labelLimit": 400, "symbolStrokeWidth": 2}
                       if len(names) > 1 else None},
             "shape": {"field": "series", "type": "nominal", "scale": {"domain": names}, "legend": None}}
    color = {"color": style["color"]}

    def top(field):
        """So far up that every point is well inside; a wide interval may go on beyond the edge."""
        return 1.25 * max([d[field] for d in data if d[field] is not None], default=0.8)

    def panel(field, heading, form):
        y = {"field": field, "type": "quantitative", "scale": {"domain": [0, top(field)], "nice": False},
             "axis": axis(heading, format=form, tickCount=5)}
        layers = [{"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"x": x, "y": y, **color}},
                  {"mark": {"type": "point", "filled": True, "size": 60, "opacity": 1}, "encoding": {"x": x, "y": y, **style}}]
        if field == "rate":
            layers.append({"mark": {"type": "rule", "strokeWidth": 1.5, "clip": True},
                           "transform": [{"filter": "datum.lo !== null"}], "encoding": {"x": x, "y": {**y, "field": "lo"}, "y2": {"field": "hi"}, **color}})
        return {"width": PANEL, "height": 260, "layer": layers}

    lines = chart.about(study)
    lines.append(f"bars on the points: {chart.confidence(study)} interval over {study['plan']['repeats']} runs"
                 + (", some of them go on beyond the edge" if any(d["hi"] is not None and d["hi"] > top("rate") for d in data) else "")
                 if any(d["lo"] is not None for d in data) else "single runs, no interval")
    if without:
        lines.append("No number: " + shorten(without[0], 110) + (f" (and {len(without) - 1} more)" if len(without) > 1 else ""))
    return {**chart.frame(title(study), lines + chart.warning_line(study)), "data": {"values": data},
            "hconcat": [panel("rate", "tokens/s", "~s"), panel("memory", f"peak {unit_name}", ",~r" if unit_name == "GiB" else ",.0f")]}
