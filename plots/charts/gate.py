"""What gates found: for each entry head's time over base's, with its interval, beside 1 and the band that does not matter.

The axis is logarithmic; above 1 is slower.
"""

from charts import Chart, Missing, about
from charts.rungs import interval
from theme import BAD_INK, BAR, FASTER_INK, GREY, INK, NARROW, SAVED, SLOWER_INK, axis
from words import between, clean, milliseconds, number_of, percent, shorten, times

WIDTH, LABEL_LIMIT, TEXT_ROOM, MOST = 380, 230, 290, 40  # px; MOST: rows
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


def rows(gates):
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
    return [{"row": i, **row} for i, row in enumerate(out[:MOST])], len(out)


def drawing(data, narrow):
    ends = [row[key] for row in data for key in ("ratio", "lo", "hi", "least", "most") if row.get(key)]
    width, step, down = (NARROW - 8, 50, 11) if narrow else (WIDTH, 34, 0)
    low, high = min([0.98, *ends]), max([1.02, *ends])
    y = {"field": "row", "type": "ordinal", "axis": None, "scale": {"type": "band", "padding": 0}}
    x = {"field": "ratio", "type": "quantitative", "scale": {"type": "log", "domain": [low / 1.01, high * 1.01], "nice": False},
         "axis": axis("head's time / base's", format=".3~f", tickCount=4, grid=False, labelFlush=narrow)}
    numbers, whiskers = [{"filter": "datum.ratio !== null"}], [{"filter": "datum.lo !== null"}]

    def text(field, at, **mark):
        return {"mark": {"type": "text", "fontSize": 13, "baseline": "middle", "color": INK, "aria": False, **mark},
                "encoding": {"y": y, "x": {"value": at}, "text": {"field": field, "type": "nominal"}}}

    def tick(field, transform, **mark):
        return {"mark": {"type": "tick", "orient": "vertical", "thickness": 1.5, "color": INK, "opacity": 1, "yOffset": down, "aria": False,
                         **mark},
                "transform": transform, "encoding": {"y": y, "x": {**x, "field": field}}}

    colored = {"color": {"field": "ink", "type": "nominal", "scale": None}}
    layers = [
        {"mark": {"type": "bar", "height": step if not narrow else 22, "color": SAVED, "opacity": 0.5, "yOffset": down, "aria": False},
         "transform": numbers, "encoding": {"y": y, "x": {**x, "field": "least"}, "x2": {"field": "most"}}},
        tick("one", numbers, size=22 if narrow else step, thickness=1),
        {"mark": {"type": "rule", "strokeWidth": 1.5, "color": INK, "yOffset": down, "aria": False}, "transform": whiskers,
         "encoding": {"y": y, "x": {**x, "field": "lo"}, "x2": {"field": "hi"}}},
        tick("lo", whiskers, size=9), tick("hi", whiskers, size=9),
        {"mark": {"type": "point", "filled": True, "size": 80, "opacity": 1, "yOffset": down}, "transform": numbers,
         "encoding": {"y": y, "x": x, **colored, "description": {"field": "aria", "type": "nominal"},
                      "shape": {"field": "verdict", "type": "nominal", "legend": None,
                                "scale": {"domain": list(SHAPES), "range": list(SHAPES.values())}}}},
        text("reason", 4, align="left", color=GREY, fontStyle="italic", limit=width + (0 if narrow else TEXT_ROOM) - 4, dy=down),
    ]
    if narrow:
        verdict, ratio = text("word", width, align="right", dy=-11, fontWeight="bold"), None
        layers += [text("label", 0, align="left", dy=-11, limit=width - 100), verdict]
    else:
        verdict = text("word", width + 14, align="left", fontWeight="bold")
        ratio = text("text", width + TEXT_ROOM, align="right", color=GREY)
        layers += [text("label", -10, align="right", limit=LABEL_LIMIT), verdict, ratio]
    verdict["encoding"].update(colored)
    for layer in (verdict, ratio):
        if layer:
            layer["transform"] = numbers
    return {"width": width, "height": step * max(len(data), 1), "data": {"values": data}, "layer": layers}


def draw(report):
    gates = report["gates"]
    if not gates:
        return Missing("`ladder gate --help` tells how two programs, or a program and a baseline, are compared; then "
                       "`ladder report STUDY --with FOLDER/gate.json`, of the gate's folder")
    gate, (data, all_rows) = gates[-1], rows(gates)
    marks = [f"green: ±{percent(gate['min_effect'])}, which does not matter"]
    if any(row["lo"] is not None for row in data):
        marks.append(f"whiskers: {percent(gate['comparison']['confidence']) if gate['comparison'] else '95 %'} confidence")
    else:
        marks.append("no interval")
    marks += [f"the first {len(data)} of {all_rows} entries"] if all_rows > len(data) else []
    return Chart(" ".join([clean(gate["said"]["headline"]), *map(clean, gate["said"]["lines"][:1])]), [" · ".join(marks)], about(gate),
                 drawing(data, False), drawing(data, True))
