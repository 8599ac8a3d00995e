"""A study as a Vega-Lite chart: one row per rung, in the study's order (other modes: modes.py). Pure: a dict in, a dict out.

Every number drawn stands in the study; here are only its formatting, units and the axis' domain. One layered view, not
columns side by side: the text columns share the bars' y scale and so cannot drift away from them.
Text of a study is untrusted: clean() before it reaches a chart (a control character makes an SVG unreadable).
"""

import re
import unicodedata

BAR_WIDTH = 440  # px, the plotting area; everything else is placed around it
LABEL_LIMIT = 270  # px, row labels; Vega shortens what is longer
INK, GREY, SLOWER_INK = "#111827", "#6b7280", "#a34700"
# Okabe and Ito's blue and a light orange: apart for every kind of colour vision, and dark against light in black and white.
BAR, SLOWER_BAR = "#3b78b5", "#f2b04c"

STATUS_WORDS = {
    "not_applicable": "not applicable",
    "not_measured": "not measured",
    "failed": "failed",
    "unproven": "unproven",
    "void": "void",
    "missing": "not run yet",
}


def clean(text):
    """One line without control, format or unpaired surrogate characters; those that are no blanks become U+FFFD."""
    out = []
    for c in str(text):
        category = unicodedata.category(c)
        if c.isspace() or category in ("Zl", "Zp"):
            out.append(" ")
        elif category in ("Cc", "Cs", "Cn") or c in "\ufffe\uffff":
            out.append("\ufffd")
        elif category != "Cf":
            out.append(c)
    return re.sub(" +", " ", "".join(out)).strip()


def shorten(text, limit):
    text = clean(text)
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def digits3(x):
    """Three significant digits, never fewer than the whole number: 1,512  579  57.9  0.579."""
    if x == 0:
        return "0"
    for decimals, from_ in ((0, 99.95), (1, 9.995), (2, 0.9995), (3, 0.09995)):
        if abs(x) >= from_:
            return f"{x:,.{decimals}f}"
    return f"{x:.3g}"


def plain(x):
    """A figure that is no time: 12,345  12  0.0031."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def milliseconds(x):
    return digits3(x) + " ms"


def energy(x):
    """Joules: 1.23 J  45.6 mJ."""
    return f"{digits3(x)} J" if x >= 1 else f"{digits3(1e3 * x)} mJ"


def times(x, *, sign="×"):
    """2.61×. A change that two decimals would hide keeps three: 0.998×."""
    if abs(x) >= 99.95:
        return f"{x:,.0f}{sign}"
    if abs(x) >= 9.995:
        return f"{x:.1f}{sign}"
    if abs(x) < 0.0995 and x != 0:
        return digits3(x) + sign
    return f"{x:.{3 if x != 1 and f'{x:.2f}' == '1.00' else 2}f}{sign}"


def count(x):
    """16.4K: three significant digits with K, M, G, T."""
    for unit, name in ((1, ""), (1e3, "K"), (1e6, "M"), (1e9, "G"), (1e12, "T")):
        if abs(x) < 999.5 * unit or name == "T":
            return digits3(x / unit) + name


def own_rungs(study):
    """Without those of other programs, which are no rungs of the ladder."""
    return [r for r in study["rungs"] if "peer" not in r]


def memory_unit(study):
    """(name, bytes): one unit for the whole column, so that its figures can be compared down the page."""
    known = [r["peak_memory_bytes"] for r in own_rungs(study) if r["status"] == "measured" and r["peak_memory_bytes"] is not None]
    return ("MiB", 2**20) if known and max(known) < 2**30 else ("GiB", 2**30)


def memory(x, unit):
    name, size = unit
    smallest, decimals = (0.05, 1) if name == "GiB" else (0.5, 0)
    if 0 < x / size < smallest:
        return "<0.1" if decimals else "<1"
    return f"{x / size:,.{decimals}f}"


def confidence(study):
    return f"{study['statistics']['confidence'] * 100:.4g} %"


def has_number(rung):
    return rung["status"] == "measured" and rung["ms_per_step"] is not None


def label(rung, position):
    if "label" in rung:
        return clean(rung["label"])
    return ("" if position == 0 else "+ ") + clean(rung["title"])


def reason(rung):
    """Why a rung has no number: 'failed: exit status 3'."""
    word = "out of memory" if rung.get("out_of_memory") else STATUS_WORDS.get(rung["status"], "no number")
    why = clean(rung["reason"])
    if not why or why.lower().startswith(word):
        return why or word
    return f"{word}: {why}"


def unclear(ratio):
    """True where the interval includes 1: the data do not say which way it went."""
    return ratio["lo"] is not None and ratio["hi"] is not None and ratio["lo"] <= 1 <= ratio["hi"]


def finding(study):
    """(words, from, to): ('2.61× faster', first rung, last rung); without a headline ('No valid speedup: why', None, None)."""
    rungs = {r["index"]: r for r in study["rungs"]}
    head = study["headline"]
    if head is None or head["first"] == head["last"]:
        measured = [r for r in own_rungs(study) if has_number(r)]
        if not measured:
            others = [r for r in own_rungs(study) if r["status"] != "not_applicable"]
            why = f"no rung has a number ({reason(others[0])})" if others else "no rung has a number"
        elif len(measured) == 1:
            why = f"only “{clean(measured[0]['title'])}” has a number"
        else:
            why = "no rung could be compared with the reference rung"
        return f"No valid speedup: {why}", None, None
    ratio = head["speedup"]
    if unclear(ratio):
        words = f"No clear change, {times(ratio['ratio'])}"
    else:
        words = f"{times(ratio['ratio'])} faster" if ratio["ratio"] >= 1 else f"Slower, {times(ratio['ratio'])} the speed"
    return words, rungs[head["first"]], rungs[head["last"]]


def title(study):
    words, first, last = finding(study)
    if first is None:
        return shorten(words, 84)
    return f"{words}: {digits3(first['ms_per_step']['median'])} → {milliseconds(last['ms_per_step']['median'])} per step"


def about(study):
    """Two lines: what was measured, and where."""
    work, device, plan = study["workload"], study["device"], study["plan"]
    sizes = {"batch": f"B={work['batch']}", "context": f"T={work['context']}"}
    if work["accumulation"] != 1:
        sizes["accumulation"] = f"× {work['accumulation']} micro-steps"
    sizes.pop(study.get("swept"), None)
    return [
        " · ".join([shorten(study["ladder"]["title"], 70), shorten(work["model"], 40), " ".join(sizes.values())]),
        " · ".join([shorten(device["name"], 70), clean(study["created"])[:10]]
                   + (["CPU figures, not comparable with a GPU's"] if device["kind"] == "cpu" else [])
                   + ([] if study["finished"] else [f"unfinished: {plan['runs_ok']} of {plan['runs_planned']} runs"])),
    ]


def warning_line(study):
    if not study["warnings"]:
        return []
    more = len(study["warnings"]) - 1
    return ["Warning: " + shorten(study["warnings"][0], 110) + (f" (and {more} more, see the report)" if more else "")]


def frame(name, lines):
    """What every chart of a study has: heading, background, font."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": ". ".join([name, *lines]),
        "background": "white",
        "padding": 18,
        "title": {"text": name, "subtitle": lines, "anchor": "start", "frame": "bounds", "fontSize": 20, "color": INK,
                  "subtitleFontSize": 12, "subtitleColor": GREY, "subtitleLineHeight": 17, "subtitlePadding": 6, "offset": 26},
        "config": {"view": {"stroke": None}, "font": "Liberation Sans, Arial, Helvetica, sans-serif"},
    }


def subtitle(study, rows):
    lines = about(study)
    bars = [r for r in rows if r["ms"] is not None]
    if bars:
        runs = {r["runs"] for r in bars}
        only = min(runs) if len(runs) == 1 else None
        said = "a single run" if only == 1 else f"median of {only} runs" if only else f"median of up to {max(runs)} runs"
        whiskers = any(r["lo"] is not None for r in bars)
        lines.append(f"bars: {said} · " + (f"whiskers: {confidence(study)} interval" if whiskers else "no interval"))
    marks = []
    if any(r["slower"] for r in rows):
        marks.append("orange: this step took longer")
    if any(r["step_ink"] == GREY for r in bars):
        marks.append("grey ×: the interval includes 1, no clear change")
    if marks:
        lines[-1] += " · " + " · ".join(marks)
    return lines + warning_line(study)


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
        row["aria"] = f"{row['rung']}: {row['time']}"
    return out


def domain(data):
    """[0, end] of the time axis: far enough that the text at each bar's end stays inside the plotting area."""
    ends = [r["end"] * BAR_WIDTH / (BAR_WIDTH - 12 - 7.6 * len(r["time"])) for r in data if r["end"]]
    return [0, max(ends, default=1)]


def spec(study):
    """The Vega-Lite specification with its data inside."""
    data = rows(study)
    number = any(r["ms"] is not None for r in data)
    step = 34 if len(data) <= 40 else 24
    y = {"field": "row", "type": "ordinal", "axis": None, "scale": {"type": "band", "padding": 0}}
    x = {"field": "ms", "type": "quantitative", "scale": {"domain": domain(data), "nice": False, "zero": True},
         "axis": {"title": "ms per step", "titleFontWeight": "normal", "titleColor": GREY, "titleFontSize": 12,
                  "labelColor": GREY, "labelFontSize": 11, "format": ",~f", "tickCount": 5, "gridColor": "#e8ebef",
                  "domain": False, "ticks": False, "labelFlush": False} if number else None}
    only_bars, only_whiskers = [{"filter": "datum.ms !== null"}], [{"filter": "datum.lo !== null"}]

    def text(field, x_channel, **mark):
        return {"mark": {"type": "text", "fontSize": 13, "baseline": "middle", "color": INK, "aria": False, **mark},
                "encoding": {"y": y, "x": x_channel, "text": {"field": field, "type": "nominal"}}}

    def cap(field):
        return {"transform": only_whiskers,
                "mark": {"type": "tick", "orient": "vertical", "size": 9, "thickness": 1.5, "color": INK, "opacity": 1,
                         "aria": False},
                "encoding": {"y": y, "x": {**x, "field": field}}}

    layers = [
        # No grid lines behind a reason's text; the line at 0 stays.
        {"mark": {"type": "bar", "height": step, "color": "white", "aria": False}, "transform": [{"filter": "datum.ms === null"}],
         "encoding": {"y": y, "x": {"value": 1}, "x2": {"value": BAR_WIDTH}}},
        {"mark": {"type": "bar", "height": 20 if step == 34 else 15, "cornerRadiusEnd": 2}, "transform": only_bars,
         "encoding": {"y": y, "x": x, "description": {"field": "aria", "type": "nominal"},
                      "color": {"condition": {"test": "datum.slower", "value": SLOWER_BAR}, "value": BAR}}},
        {"mark": {"type": "rule", "strokeWidth": 1.5, "color": INK, "aria": False}, "transform": only_whiskers,
         "encoding": {"y": y, "x": {**x, "field": "lo"}, "x2": {"field": "hi"}}},
        cap("lo"),
        cap("hi"),
        {**text("time", {**x, "field": "end"}, align="left", dx=9, fontWeight="bold"), "transform": only_bars},
        text("reason", {"value": 4}, align="left", color=GREY, fontStyle="italic", limit=BAR_WIDTH - 4),
        text("rung", {"value": -10}, align="right", limit=LABEL_LIMIT),
    ]
    columns = [("step", "this step", 90, "normal"), ("total", "so far", 165, "bold"),
               ("tokens", "tokens/s", 245, "normal"), ("memory", f"peak {memory_unit(study)[0]}", 325, "normal")]
    for field, head, offset, weight in columns:
        layer = text(field, {"value": BAR_WIDTH + offset}, align="right", fontWeight=weight)
        if field == "step":
            layer["encoding"]["color"] = {"field": "step_ink", "type": "nominal", "scale": None}
        layers.append(layer)
        layers.append({"data": {"values": [{"head": head}]},
                       "mark": {"type": "text", "align": "right", "fontSize": 11, "color": GREY, "aria": False},
                       "encoding": {"x": {"value": BAR_WIDTH + offset}, "y": {"value": -12},
                                    "text": {"field": "head", "type": "nominal"}}})
    name, lines = title(study), subtitle(study, data)
    return {
        **frame(name, lines),
        "width": BAR_WIDTH,
        "height": step * max(len(data), 1),
        "data": {"values": data},
        "layer": layers,
    }
