"""Two studies beside each other: the rungs that both have, with the ratio of their times and its interval. The others are named.

The two studies may come from two devices. Then the ratio compares the devices, not the programs.
"""

from charts import Chart, Missing, finding_of
from charts.gate import bad_remark, said_of
from study import About, about, confidence, has_number, measured, own_rungs
from theme import BAR, GREY, INK, NARROW, arrow, axis, legend
from words import between, clean, digits3, milliseconds, percent, shorten, times

NAME, QUESTION = "side_by_side", "How do the two studies compare?"
WIDTH, LABEL_LIMIT, TEXT_ROOM, MOST = 380, 220, 336, 60  # px; MOST: rungs
SIDES, COLORS, SHAPES = ["first", "second"], [INK, BAR], ["circle", "diamond"]


def of_comparison(comparison):
    """The rungs that both studies have."""
    data = []
    for entry in comparison["entries"]:
        name = shorten(entry["label"], 60)
        text, bad = said_of(entry["ratio"], entry["lo"], entry["hi"]), bad_remark(entry)
        if bad:  # then the ratio is no speedup
            text = f"{times(entry['ratio'])}, {clean(bad['what'])}"
        word = ", ".join(map(clean, [entry["words"]["verdict"], *(r["what"] for r in entry["words"]["remarks"] if r["mood"] == "warn")]))
        data.append({"label": name, "first": entry["base_ms"], "second": entry["head_ms"], "reason": "",
                     "both": f"{digits3(entry['base_ms'])} → {milliseconds(entry['head_ms'])}",
                     "text": text, "word": word})
    return data


def of_studies(studies):
    """The rungs of both ladders, matched by their names. They have no ratio."""
    data, at = [], {}
    for side, study in zip(SIDES, studies):
        for position, rung in enumerate(own_rungs(study)):
            name = shorten(rung["label"], 60)
            if (name, side) in at:
                name = f"{name} ({position})"
            row = at.get((name, SIDES[0]))
            if row is None:
                row = {"label": name, "first": None, "second": None, "both": "", "text": "", "word": "", "reason": ""}
                data.append(row)
            at[name, side] = row
            if has_number(rung):
                ms = rung["ms_per_step"]
                row[side] = ms["median"]
                if ms["lo"] is not None and ms["hi"] is not None:
                    row[f"{side} interval"] = (ms["lo"], ms["hi"])
            else:
                row["reason"] += ("; " if row["reason"] else "") + f"{side}: {clean(rung['words']['status'])}"
    for name, row in ((row["label"], row) for row in data):
        absent = [side for side in SIDES if (name, side) not in at]
        row["reason"] += ("; " if row["reason"] and absent else "") + "; ".join(f"{side}: no such rung" for side in absent)
        known = [milliseconds(row[side]) if row[side] is not None else "—" for side in SIDES]
        row["both"] = " → ".join(known) if known != ["—", "—"] else ""
    return data


def goes_on(mark):
    return mark["to"] != mark["hi"]


def marks_of(data, names):
    """(a mark for each rung's time in each study, the axis' end). Takes the intervals out of the rows."""
    marks = []
    for i, row in enumerate(data):
        row["row"] = i
        for side, name in zip(SIDES, names):
            if row[side] is not None:
                lo, hi = row.pop(f"{side} interval", (None, None))
                said = "" if lo is None else f" ({between(lo, hi, milliseconds, ' to ')})"
                marks.append({"row": i, "side": name, "ms": row[side], "lo": lo, "hi": hi,
                              "aria": f"{row['label']}, {name}: {milliseconds(row[side])}{said}"
                              + (f", {row['word']}, {row['text']}" if row["text"] else "")})
    slowest = max([m["ms"] for m in marks], default=1)
    end = min(max([m["hi"] or m["ms"] for m in marks], default=1), 1.5 * slowest)
    for m in marks:  # a wide interval may go on beyond the edge
        m["to"] = None if m["hi"] is None else min(m["hi"], end)
    return marks, end


def drawing(data, names, marks, end, narrow):
    width, step, down = (NARROW - 8, 56, 12) if narrow else (WIDTH, 34, 0)
    y = {"field": "row", "type": "ordinal", "axis": None, "scale": {"type": "band", "padding": 0, "domain": [row["row"] for row in data]}}
    x = {"field": "ms", "type": "quantitative", "scale": {"domain": [0, end * 1.03], "nice": False},
         "axis": axis("ms per step", format=",~f", tickCount=5, labelFlush=narrow, grid=not narrow)}
    key = legend(columns=1, symbolSize=90, labelLimit=320 if narrow else 620)
    look = {channel: {"field": "side", "type": "nominal", "scale": {"domain": names, "range": kinds}, "legend": key}
            for channel, kinds in (("color", COLORS), ("shape", SHAPES))}

    def text(field, at, **mark):
        return {"mark": {"type": "text", "fontSize": 13, "baseline": "middle", "color": INK, "aria": False, **mark},
                "encoding": {"y": y, "x": {"value": at}, "text": {"field": field, "type": "nominal"}}}

    if narrow:
        texts = [text("label", 0, align="left", dy=-14, limit=width - 170), text("text", width, align="right", dy=-14, fontSize=12)]
        reason = text("reason", width, align="right", dy=-14, fontSize=12, color=GREY, fontStyle="italic", limit=160)
    else:
        texts = [text("label", -10, align="right", limit=LABEL_LIMIT), text("both", width + 142, align="right", limit=134),
                 text("text", width + TEXT_ROOM, align="right", color=GREY)]
        reason = text("reason", width + 146, align="left", color=GREY, fontStyle="italic", limit=TEXT_ROOM - 146)
    intervals = [([mark for mark in marks if mark["side"] == name and mark["lo"] is not None], down + beside)
                 for name, beside in zip(names, (-5, 5))]
    whiskers = [{"data": {"values": of}, "mark": {"type": "rule", "strokeWidth": 1.5, "color": INK, "yOffset": offset, "aria": False},
                 "encoding": {"y": y, "x": {**x, "field": "lo"}, "x2": {"field": "to"}}} for of, offset in intervals]
    whiskers += [{"data": {"values": cut}, "mark": {**arrow("right"), "yOffset": offset}, "encoding": {"y": y, "x": {**x, "field": "to"}}}
                 for of, offset in intervals if (cut := [mark for mark in of if goes_on(mark)])]
    points = [{"data": {"values": [mark for mark in marks if mark["side"] == name]},
               "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1, "yOffset": down + beside},
               "encoding": {"y": y, "x": x, **look, "description": {"field": "aria", "type": "nominal"}}}
              for name, beside in zip(names, (-5, 5))]  # apart where they are equal
    return {"width": width, "height": step * max(len(data), 1), "data": {"values": data}, "layer": [*whiskers, *points, *texts, reason]}


def named(study, which):
    """One side in the legend: what, where, when, by which program."""
    commit = study["environment"].get("git_commit")
    parts = [shorten(study["device"]["name"], 40), clean(study["created"])[:10]]
    return f"{which}: " + " · ".join(parts + ([f"program {shorten(commit, 8)}"] if isinstance(commit, str) and commit else []))


def draw(report):
    if len(report["studies"]) != 2:
        return Missing("`ladder report STUDY STUDY`, of two devices, versions or settings")
    studies, comparison = [part["study"] for part in report["studies"]], report["comparison"]
    names = [named(study, side) for study, side in zip(studies, SIDES)]
    data = of_comparison(comparison) if comparison else of_studies(studies)
    marks, end = marks_of(data[:MOST], names)
    if comparison:
        intervals = any(entry["lo"] is not None for entry in comparison["entries"])
        how = "×: time in the second / in the first, paired, " + (f"with its {percent(comparison['confidence'])} confidence interval" if intervals else
                                                        "no interval")
    else:
        how = "each rung's own median, no ratio"
        intervals = [f"{confidence(study)} in the {which}" for which, study in zip(SIDES, studies)
                     if any(r["ms_per_step"]["lo"] is not None for r in measured(study))]
        arrows = ", arrow: it goes on" if any(goes_on(mark) for mark in marks) else ""
        how += f" · lines: interval, {', '.join(intervals)}{arrows}" if intervals else " · no interval"
    of = [about(study) for study in studies]
    notes = [clean(note) for note in comparison["words"]["notes"]] if comparison else []
    if len(data) > MOST:
        notes.append(f"the first {MOST} of {len(data)} rungs are drawn")
    both = About(of[0].subject if of[0].subject == of[1].subject else "", "", "; ".join(filter(None, (one.warnings for one in of))))
    notes += [f"{which}: {one.source}" for which, one in zip(SIDES, of)]
    return Chart(finding_of(report, NAME), [how], notes, both, *(drawing(data[:MOST], names, marks, end, narrow) for narrow in (False, True)))
