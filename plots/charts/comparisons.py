"""What gates found, each pair of their runs, and two studies beside each other.

A gate's axes are logarithmic; above 1 head is slower. Its pairs stand in the order in which they were made: drift, outliers and two speeds
show there. Two studies may come from two devices; then the ratio compares the devices, not the programs.
"""

from charts import Chart, Missing, about
from charts.rungs import interval
from theme import BAD_INK, BAR, FASTER_INK, GREY, GRID, INK, PLOT, SAVED, SLOWER_INK, SMALL, WHOLE, WIDTH, axis, heading, legend, stacked, text
from words import between, clean, digits3, milliseconds, number_of, percent, plain, shorten, times

MOST_ROWS, MOST_PANELS, MOST_PAIRS, MOST_RUNGS = 40, 24, 500, 60
COLORS = {"REGRESSION": SLOWER_INK, "IMPROVEMENT": FASTER_INK, "SAME": BAR, "INCONCLUSIVE": GREY}
WORDS = {"REGRESSION": "slower", "IMPROVEMENT": "faster", "SAME": "the same", "INCONCLUSIVE": "inconclusive"}
SHAPES = {"REGRESSION": "triangle-right", "IMPROVEMENT": "triangle-left", "SAME": "circle", "INCONCLUSIVE": "cross"}


def word_of(entry):
    return "not usable" if entry.get("unusable") else WORDS[entry["verdict"]]


def said_of(entry):
    lo, hi = interval(entry)
    return times(entry["ratio"]) + ("" if lo is None else f" ({between(lo, hi, times)})")


def loses(entry):
    """Whether its losses differ: then it is a regression, whatever its time."""
    return entry["loss"].get("passed") is False


def gate_rows(gates):
    """One for each gate's entry. A gate without a comparison has one row, with the reason."""
    out = []
    for gate in gates:
        day = f"{clean(gate['created'])[:10]}: " if len(gates) > 1 else ""
        if gate["comparison"] is None:
            out.append({"label": shorten(f"{day}against {gate['against']}", 60), "ratio": None, "lo": None, "hi": None,
                        "reason": shorten(" ".join([gate["said"]["headline"], *gate["said"]["lines"]]), 120)})
            continue
        for entry, noise in zip(gate["comparison"]["entries"], gate["noise"] or [None] * len(gate["comparison"]["entries"])):
            lo, hi = interval(entry)
            name, text = shorten(day + clean(entry["label"]), 60), said_of(entry)
            word, ink = word_of(entry), COLORS[entry["verdict"]]
            said = word
            if loses(entry):
                word, ink = "losses differ", BAD_INK
                said = f"{word} ({shorten(entry['loss']['message'], 100)}), {said}"
            out.append({"label": name, "ratio": entry["ratio"], "lo": lo, "hi": hi,
                        "least": 1 / (1 + gate["min_effect"]), "most": 1 + gate["min_effect"], "one": 1, "reason": "", "text": text,
                        "verdict": entry["verdict"], "word": word, "ink": ink,
                        "aria": f"{name}: {said}, {text}, {milliseconds(entry['base_ms'])} → "
                                f"{milliseconds(entry['head_ms'])}, {number_of(entry['pairs'], 'pair')}"
                                + (f", noise floor {percent(noise['floor'])}" if noise else "")})
    return [{"row": i, **row} for i, row in enumerate(out[:MOST_ROWS])], len(out)


def gate_drawing(data):
    ends = [row[key] for row in data for key in ("ratio", "lo", "hi", "least", "most") if row.get(key)]
    width, step, down = WIDTH - 8, 54, 12
    y = {"field": "row", "type": "ordinal", "axis": None, "scale": {"type": "band", "padding": 0}}
    x = {"field": "ratio", "type": "quantitative", "scale": {"type": "log", "domain": [min([0.98, *ends]) / 1.01, max([1.02, *ends]) * 1.01], "nice": False},
         "axis": axis("head's time / base's", format=".3~f", tickCount=4, grid=False, labelFlush=True)}
    numbers, whiskers = [{"filter": "datum.ratio !== null"}], [{"filter": "datum.lo !== null"}]

    def tick(field, transform, **mark):
        return {"mark": {"type": "tick", "orient": "vertical", "thickness": 1.5, "color": INK, "opacity": 1, "yOffset": down, "aria": False,
                         **mark},
                "transform": transform, "encoding": {"y": y, "x": {**x, "field": field}}}

    colored = {"color": {"field": "ink", "type": "nominal", "scale": None}}
    verdict = text("word", y, {"value": width}, align="right", dy=-12, fontWeight="bold")
    verdict["encoding"].update(colored)
    return {"width": width, "height": step * max(len(data), 1), "data": {"values": data}, "layer": [
        {"mark": {"type": "bar", "height": 24, "color": SAVED, "opacity": 0.5, "yOffset": down, "aria": False},
         "transform": numbers, "encoding": {"y": y, "x": {**x, "field": "least"}, "x2": {"field": "most"}}},
        tick("one", numbers, size=24, thickness=1),
        {"mark": {"type": "rule", "strokeWidth": 1.5, "color": INK, "yOffset": down, "aria": False}, "transform": whiskers,
         "encoding": {"y": y, "x": {**x, "field": "lo"}, "x2": {"field": "hi"}}},
        tick("lo", whiskers, size=9), tick("hi", whiskers, size=9),
        {"mark": {"type": "point", "filled": True, "size": 80, "opacity": 1, "yOffset": down}, "transform": numbers,
         "encoding": {"y": y, "x": x, **colored, "description": {"field": "aria", "type": "nominal"},
                      "shape": {"field": "verdict", "type": "nominal", "legend": None,
                                "scale": {"domain": list(SHAPES), "range": list(SHAPES.values())}}}},
        text("reason", y, {"value": 4}, align="left", color=GREY, fontStyle="italic", limit=width - 4, dy=down),
        text("label", y, {"value": 0}, align="left", dy=-12, limit=width - 330),
        {"transform": numbers, **verdict},
        {"transform": numbers, **text("text", y, {"value": width - 130}, align="right", dy=-12, color=GREY, fontSize=SMALL)}]}


def draw_gate(report):
    gates = report["gates"]
    if not gates:
        return Missing("`ladder gate --help` tells how two programs, or a program and a baseline, are compared; then "
                       "`ladder report STUDY --with FOLDER/gate.json`, of the gate's folder")
    gate, (data, all_rows) = gates[-1], gate_rows(gates)
    marks = [f"green: ±{percent(gate['min_effect'])}, which does not matter"]
    if any(row["lo"] is not None for row in data):
        marks.append(f"whiskers: {percent(gate['comparison']['confidence']) if gate['comparison'] else '95 %'} confidence")
    else:
        marks.append("no interval")
    marks += [f"the first {len(data)} of {all_rows} entries"] if all_rows > len(data) else []
    return Chart(" ".join([clean(gate["said"]["headline"]), *map(clean, gate["said"]["lines"][:1])]), [" · ".join(marks)], about(gate), gate_drawing(data))


# ---- pairs

def points(entry, most):
    """Each pair's ratio, and a colour that says whether it is beyond what matters."""
    runs = list(zip(entry["base_runs_ms"], entry["head_runs_ms"]))[:MOST_PAIRS]
    return [{"pair": i + 1, "ratio": head / base, "ink": SLOWER_INK if head / base > most else FASTER_INK if head / base * most < 1 else BAR,
             "aria": f"pair {i + 1}: {times(head / base)}, {milliseconds(base)} → {milliseconds(head)}"} for i, (base, head) in enumerate(runs)]


def by_sessions(entry):
    """Whether the ratio is to the mean of a baseline's sessions. The pairs are with only one of them."""
    return entry["sessions"] is not None


def panel(entry, most):
    data = points(entry, most)
    ends = [most, 1 / most, entry["ratio"], *(point["ratio"] for point in data)]
    margin = (max(ends) / min(ends)) ** 0.08
    low, high = min(ends) / margin, max(ends) * margin
    every = -(-len(data) // 10)
    x = {"field": "pair", "type": "quantitative", "scale": {"domain": [0.4, len(data) + 0.6], "nice": False},
         "axis": axis("pair", values=[point["pair"] for point in data[::every]], labelExpr=WHOLE, grid=False, labelFlush=False)}
    y = {"type": "quantitative", "scale": {"type": "log", "domain": [low, high], "nice": False},
         "axis": axis("head / base", format=".3~f", tickCount=4, grid=False)}
    layers = [
        {"mark": {"type": "rect", "color": GRID, "aria": False}, "data": {"values": [{"from": 1 / most, "to": most}]},
         "encoding": {"y": {**y, "field": "from"}, "y2": {"field": "to"}}},
        {"mark": {"type": "rule", "color": GREY, "aria": False}, "data": {"values": [{"one": 1}]}, "encoding": {"y": {**y, "field": "one"}}},
        {"mark": {"type": "rule", "color": INK, "strokeWidth": 1.5, "strokeDash": [5, 3], "aria": False},
         "data": {"values": [{"center": entry["ratio"]}]}, "encoding": {"y": {**y, "field": "center"}}},
        {"mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
         "encoding": {"x": x, "y": {**y, "field": "ratio"}, "color": {"field": "ink", "type": "nominal", "scale": None},
                      "description": {"field": "aria", "type": "nominal"}}},
    ]
    said = [said_of(entry), f"head took longer in {entry['slower_pairs']} of {number_of(entry['pairs'], 'pair')}",
            f"sign test p = {plain(entry['sign_test_p'])}"]
    return {"width": PLOT, "height": 120, "data": {"values": data}, "layer": layers,
            "title": heading([shorten(entry["label"], 60)], said)}


def draw_pairs(report):
    gate = report["gates"][-1]
    if gate["comparison"] is None:
        return Missing("a gate that came to a comparison")
    entries, most = gate["comparison"]["entries"], 1 + gate["min_effect"]
    dashes = "head's median over the mean of the baseline's sessions" if any(map(by_sessions, entries)) else "their centre"
    lines = [f"points: head's time over base's in each pair of runs, in the order made · dashes: {dashes} · grey: ±{percent(gate['min_effect'])}"]
    if len(entries) > MOST_PANELS or any(entry["pairs"] > MOST_PAIRS for entry in entries):
        lines.append(f"at most {MOST_PANELS} rungs and {MOST_PAIRS} pairs are drawn")
    return Chart(f"Pair by pair: {number_of(gate['pairs'], 'pair')} of runs", lines, about(gate),
                 stacked([panel(entry, most) for entry in entries[:MOST_PANELS]]))


# ---- two studies

SIDES, SIDE_COLORS, SIDE_SHAPES = ["A", "B"], [INK, BAR], ["circle", "diamond"]


def of_comparison(comparison):
    """The rungs that both studies have."""
    data = []
    for entry in comparison["entries"]:
        text = f"{times(entry['ratio'])}, losses differ" if loses(entry) else said_of(entry)  # then it is no speedup
        word = word_of(entry) + (", disturbed" if entry["flags"] else "")
        data.append({"label": shorten(entry["label"], 60), "A": entry["base_ms"], "B": entry["head_ms"],
                     "both": f"{digits3(entry['base_ms'])} → {milliseconds(entry['head_ms'])}", "text": text, "word": word,
                     "ink": INK if entry["verdict"] == "SAME" else COLORS[entry["verdict"]]})
    return data


def marks_of(data, names):
    """(a mark for each rung's time in each study, the axis' end)"""
    marks = []
    for i, row in enumerate(data):
        row["row"] = i
        for side, name in zip(SIDES, names):
            if row[side] is not None:
                marks.append({"row": i, "side": name, "ms": row[side],
                              "aria": f"{row['label']}, {name}: {milliseconds(row[side])}, {row['word']}, {row['text']}"})
    return marks, max([m["ms"] for m in marks], default=1)


def sides(data, names, marks, end):
    width, step, down = WIDTH - 8, 58, 13
    y = {"field": "row", "type": "ordinal", "axis": None, "scale": {"type": "band", "padding": 0, "domain": [row["row"] for row in data]}}
    x = {"field": "ms", "type": "quantitative", "scale": {"domain": [0, end * 1.03], "nice": False},
         "axis": axis("ms per step", format=",~f", tickCount=5, labelFlush=True, grid=False)}
    look = {channel: {"field": "side", "type": "nominal", "scale": {"domain": names, "range": kinds}, "legend": legend(columns=1, symbolSize=90)}
            for channel, kinds in (("color", SIDE_COLORS), ("shape", SIDE_SHAPES))}
    texts = [text("label", y, {"value": 0}, align="left", dy=-14, limit=width - 360),
             text("both", y, {"value": width - 205}, align="right", dy=-14, fontSize=SMALL, limit=150),
             text("text", y, {"value": width}, align="right", dy=-14, fontSize=SMALL)]
    texts[-1]["encoding"]["color"] = {"field": "ink", "type": "nominal", "scale": None}
    points = [{"data": {"values": [mark for mark in marks if mark["side"] == name]},
               "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1, "yOffset": down + beside},
               "encoding": {"y": y, "x": x, **look, "description": {"field": "aria", "type": "nominal"}}}
              for name, beside in zip(names, (-5, 5))]  # apart where they are equal
    return {"width": width, "height": step * max(len(data), 1), "data": {"values": data}, "layer": [*points, *texts]}


def named(studies):
    """Both sides in the legend: where, when, and by which program if that is all that differs."""
    names = [f"{shorten(study['device']['name'], 40)} · {clean(study['created'])[:10]}" for study in studies]
    if names[0] == names[1]:
        names = [f"{name} · program {shorten(study['environment'].get('git_commit') or 'unknown', 8)}" for name, study in zip(names, studies)]
    return [f"{side}: {name}" for side, name in zip(SIDES, names)]


def draw_side_by_side(report):
    comparison = report["comparison"]
    if len(report["studies"]) != 2 or comparison is None:
        return Missing("`ladder report STUDY STUDY`, of two devices, versions or settings with a recipe in common")
    names = named([part["study"] for part in report["studies"]])
    data = of_comparison(comparison)
    marks, end = marks_of(data[:MOST_RUNGS], names)
    intervals = any(entry["lo"] is not None for entry in comparison["entries"])
    how = "×: B's time / A's, paired, " + (f"with its {percent(comparison['confidence'])} confidence interval" if intervals else "no interval")
    how += f" · the first {MOST_RUNGS} of {len(data)} rungs" if len(data) > MOST_RUNGS else ""
    return Chart(report["said"]["headline"], [how], about(report), sides(data[:MOST_RUNGS], names, marks, end))
