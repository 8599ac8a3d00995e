"""What gates found: for each entry head's time over base's, with its interval, beside 1, the least effect, and the noise floor.

The axis is logarithmic; above 1 is slower. The grey background is not an interval: a change has to lie beyond it to be found in 95 %
of studies. The noise floor comes on top of the least effect (harness/stats/verdict.h).
"""

from charts import Chart, Missing, finding_of
from study import About
from theme import BAD_INK, BAR, FASTER_INK, GREY, GRID, INK, NARROW, SLOWER_INK, axis
from words import between, clean, milliseconds, number_of, percent, shorten, times

NAME, QUESTION = "gate", "Has the change made training slower?"
WIDTH, LABEL_LIMIT, TEXT_ROOM, MOST = 380, 230, 290, 40  # px; MOST: rows
COLORS = {"REGRESSION": SLOWER_INK, "IMPROVEMENT": FASTER_INK, "SAME": BAR, "INCONCLUSIVE": GREY}
SHAPES = {"REGRESSION": "triangle-right", "IMPROVEMENT": "triangle-left", "SAME": "circle", "INCONCLUSIVE": "cross"}


def said_of(ratio, lo, hi):
    return times(ratio) + (f" ({between(lo, hi, times)})" if lo is not None and hi is not None else "")


def bad_remark(entry):
    """What makes the entry bad whatever its time, as losses that differ do; or None."""
    return next((remark for remark in entry["words"]["remarks"] if remark["mood"] == "bad"), None)


def rows(gates):
    """One for each gate's entry. A gate without a comparison has one row, with the reason."""
    out = []
    for gate in gates:
        day = f"{clean(gate['created'])[:10]}: " if len(gates) > 1 else ""
        if gate["comparison"] is None:
            out.append({"label": shorten(f"{day}against {gate['against']}", 60), "ratio": None, "lo": None, "hi": None, "floor_lo": None,
                        "reason": finding_of(gate["words"], NAME)})
            continue
        for entry, noise in zip(gate["comparison"]["entries"], gate["noise"] or [None] * len(gate["comparison"]["entries"])):
            interval = entry["lo"] is not None and entry["hi"] is not None
            found = (1 + gate["min_effect"]) * (1 + noise["floor"]) if noise else None
            name, text = shorten(day + clean(entry["label"]), 60), said_of(entry["ratio"], entry["lo"], entry["hi"])
            word, ink = clean(entry["words"]["verdict"]), COLORS[entry["verdict"]]
            said = word
            if bad := bad_remark(entry):  # a regression, whatever its time
                word, ink = clean(bad["what"]), BAD_INK
                said = f"{word} ({shorten(entry['loss']['message'], 100)}), {said}"
            out.append({"label": name, "ratio": entry["ratio"],
                        "lo": entry["lo"] if interval else None, "hi": entry["hi"] if interval else None,
                        "floor_lo": 1 / found if noise else None, "floor_hi": found,
                        "least": 1 / (1 + gate["min_effect"]), "most": 1 + gate["min_effect"], "one": 1, "reason": "", "text": text,
                        "verdict": entry["verdict"], "word": word, "ink": ink,
                        "aria": f"{name}: {said}, {text}, {milliseconds(entry['base_ms'])} → "
                                f"{milliseconds(entry['head_ms'])}, {number_of(entry['pairs'], 'pair')}"
                                + (f", noise floor {percent(noise['floor'])}" if noise else "")})
    return [{"row": i, **row} for i, row in enumerate(out[:MOST])], len(out)


def drawing(data, narrow):
    ends = [row[key] for row in data for key in ("ratio", "lo", "hi", "floor_lo", "floor_hi", "least", "most") if row.get(key)]
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
        {"mark": {"type": "bar", "height": 22, "color": GRID, "yOffset": down, "aria": False},
         "transform": [{"filter": "datum.floor_lo !== null"}],
         "encoding": {"y": y, "x": {**x, "field": "floor_lo"}, "x2": {"field": "floor_hi"}}},
        tick("least", numbers, size=22, thickness=1, color=GREY), tick("most", numbers, size=22, thickness=1, color=GREY),
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


def is_told(gate):
    """Whether it has all its sentences. An older program's verdict has not."""
    return "how_to_read" in gate.get("words", {}) and (gate["comparison"] is None or "words" in gate["comparison"])


def entries_of(gate):
    return gate["comparison"]["entries"] if gate["comparison"] else []


def side(name, side):
    programs = ", ".join(shorten(p, 12) for p in side["programs"][:3])
    return f"{name}: {shorten(side['source'].rsplit('/', 1)[-1], 50)}" + (f" (program {programs})" if programs else "")


def about(gates):
    """Of several gates: of the last one, without a machine where they are not of one. The others are notes. With what the two sides
    are, where they are compared."""
    gate, origins = gates[-1], [About.of(gate["words"]["origin"]) for gate in gates]
    compared = [side(name, gate["comparison"][name]) for name in ("base", "head")] if gate["comparison"] else []
    return origins[-1]._replace(source=" · ".join([origins[-1].source, *compared]),
                                subject=origins[-1].subject if len({origin.subject for origin in origins}) == 1 else "")


def draw(report):
    gates = report["gates"]
    if not gates:
        return Missing("`ladder gate --help` tells how two programs, or a program and a baseline, are compared; then "
                       "`ladder report STUDY --with FOLDER/gate.json`, of the gate's folder")
    gate, (data, all_rows) = gates[-1], rows(gates)
    marks = [f"grey lines: ±{percent(gate['min_effect'])}, the smallest change that matters"]
    if any(row["lo"] is not None for row in data):
        marks.append(f"whiskers: {percent(gate['comparison']['confidence']) if gate['comparison'] else '95 %'} confidence interval")
    else:
        marks.append("no interval")
    if any(row["floor_lo"] is not None for row in data):
        marks.append("grey background: the same and the noise floor; 95 % of studies find a change beyond it")
    notes = [f"the first {len(data)} of {all_rows} entries are drawn"] if all_rows > len(data) else []
    sources = dict.fromkeys(clean(g["words"]["origin"]["source"]) for g in reversed(gates))  # the last one's is at the foot
    notes += list(sources)[1:]
    return Chart(finding_of(gate["words"], NAME), [" · ".join(marks[:2]), *marks[2:]], notes, about(gates), drawing(data, False), drawing(data, True))


def of_gate(gate):
    """The chart of one gate by itself."""
    return draw({"gates": [gate]})
