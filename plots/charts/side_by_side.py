"""Two studies beside each other: the rungs that both have, with the ratio of their times and its interval. The others are named.

The two studies may come from two devices. Then the ratio compares the devices, not the programs.
"""

from charts import Chart, Missing, about
from charts.gate import COLORS as INKS, loses, said_of, word_of
from theme import BAR, INK, NARROW, axis, legend
from words import clean, digits3, milliseconds, percent, shorten, times

WIDTH, LABEL_LIMIT, TEXT_ROOM, MOST = 380, 220, 336, 60  # px; MOST: rungs
SIDES, COLORS, SHAPES = ["A", "B"], [INK, BAR], ["circle", "diamond"]


def of_comparison(comparison):
    """The rungs that both studies have."""
    data = []
    for entry in comparison["entries"]:
        text = f"{times(entry['ratio'])}, losses differ" if loses(entry) else said_of(entry)  # then it is no speedup
        word = word_of(entry) + (", disturbed" if entry["flags"] else "")
        data.append({"label": shorten(entry["label"], 60), "A": entry["base_ms"], "B": entry["head_ms"],
                     "both": f"{digits3(entry['base_ms'])} → {milliseconds(entry['head_ms'])}", "text": text, "word": word,
                     "ink": INK if entry["verdict"] == "SAME" else INKS[entry["verdict"]]})
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
    else:
        texts = [text("label", -10, align="right", limit=LABEL_LIMIT), text("both", width + 142, align="right", limit=134),
                 text("text", width + TEXT_ROOM, align="right")]
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


def draw(report):
    comparison = report["comparison"]
    if len(report["studies"]) != 2 or comparison is None:
        return Missing("`ladder report STUDY STUDY`, of two devices, versions or settings with a recipe in common")
    names = named([part["study"] for part in report["studies"]])
    data = of_comparison(comparison)
    marks, end = marks_of(data[:MOST], names)
    intervals = any(entry["lo"] is not None for entry in comparison["entries"])
    how = "×: B's time / A's, paired, " + (f"with its {percent(comparison['confidence'])} confidence interval" if intervals else "no interval")
    how += f" · the first {MOST} of {len(data)} rungs" if len(data) > MOST else ""
    return Chart(report["said"]["headline"], [how], about(report), *(drawing(data[:MOST], names, marks, end, narrow) for narrow in (False, True)))
