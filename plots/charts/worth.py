"""What each optimization is worth, in the modes that ask for it.

The surprising thing: worths are drawn on a logarithmic axis from 1, where twice as fast and half as fast are equally far.
"""

from charts import Chart, Missing
from study import WORTHS, about, confidence, mode, title_of_any, warning_line, worths
from theme import BAR, GREY, INK, NARROW, SLOWER_BAR, axis
from words import clean, number_of, shorten, times

NAME, QUESTION = "worth", "What is each optimization worth?"
WIDTH, LABEL_LIMIT = 460, 220  # px


def rows(study):
    data = []
    for row, worth in enumerate(worths(study)):
        number = worth["ratio"] is not None
        interval = number and worth["lo"] is not None and worth["hi"] is not None
        text = times(worth["ratio"]) if number else ""
        between = f"{times(worth['lo'])} – {times(worth['hi'])}" if interval else ""
        data.append({"row": row, "title": clean(worth["title"]), "ratio": worth["ratio"],
                     "lo": worth["lo"] if interval else None, "hi": worth["hi"] if interval else None,
                     "slower": number and worth["ratio"] < 1, "text": text, "interval": between,
                     "aria": f"{clean(worth['title'])}: {text}" + (f", {between}" if interval else ""),
                     "reason": "" if number else shorten(f"no number: {clean(worth['reason'])}", 120)})
    return data


def drawing(data, narrow):
    ends = [v for d in data for v in (d["ratio"], d["lo"], d["hi"]) if v is not None and v > 0]
    domain = [min([0.95, *ends]) / 1.05, max([1.05, *ends]) * 1.05]
    width, step, down = (NARROW - 8, 52, 11) if narrow else (WIDTH, 34, 0)
    y = {"field": "row", "type": "ordinal", "axis": None, "scale": {"type": "band", "padding": 0}}
    x = {"field": "ratio", "type": "quantitative", "scale": {"type": "log", "domain": domain, "nice": False},
         "axis": axis("times as fast", format="~g", tickCount=5, labelFlush=narrow)}
    whiskers = [{"filter": "datum.lo !== null"}]

    def text(field, at, **mark):
        return {"mark": {"type": "text", "fontSize": 13, "baseline": "middle", "color": INK, "aria": False, **mark},
                "encoding": {"y": y, "x": {"value": at}, "text": {"field": field, "type": "nominal"}}}

    layers = [
        {"mark": {"type": "bar", "height": 18, "yOffset": down}, "transform": [{"filter": "datum.ratio !== null"}],
         "encoding": {"y": y, "x": x, "x2": {"datum": 1}, "description": {"field": "aria", "type": "nominal"},
                      "color": {"condition": {"test": "datum.slower", "value": SLOWER_BAR}, "value": BAR}}},
        {"mark": {"type": "rule", "color": GREY, "aria": False}, "encoding": {"x": {"datum": 1}}},
        {"mark": {"type": "rule", "strokeWidth": 1.5, "color": INK, "yOffset": down, "aria": False}, "transform": whiskers,
         "encoding": {"y": y, "x": {**x, "field": "lo"}, "x2": {"field": "hi"}}},
        *({"mark": {"type": "tick", "orient": "vertical", "size": 9, "thickness": 1.5, "color": INK, "opacity": 1, "yOffset": down,
                    "aria": False},
           "transform": whiskers, "encoding": {"y": y, "x": {**x, "field": end}}} for end in ("lo", "hi")),
        text("reason", 6, align="left", color=GREY, fontStyle="italic", limit=width - 6, dy=down),
    ]
    if narrow:
        layers += [text("title", 0, align="left", dy=-11, limit=width - 160),
                   text("text", width - 104, align="right", dy=-11, fontWeight="bold"),
                   text("interval", width, align="right", dy=-11, color=GREY)]
    else:
        layers += [text("title", -10, align="right", limit=LABEL_LIMIT), text("text", width + 62, align="right", fontWeight="bold"),
                   text("interval", width + 74, align="left", color=GREY)]
    return {"width": width, "height": step * max(len(data), 1), "data": {"values": data}, "layer": layers}


def draw(part):
    study = part["study"]
    if mode(study) not in WORTHS:
        return Missing("`ladder ablate --mode leave-one-out` or `--mode factorial` says what each optimization is worth in other "
                       "company than the ladder's")
    data, name = rows(study), title_of_any(study)
    lines = about(study)
    lines.append(WORTHS[mode(study)][0] if name != WORTHS[mode(study)][0] else WORTHS[mode(study)][1])
    repeats = max([w["repeats"] for w in study["attribution"]], default=0)
    lines.append(f"bars: {number_of(repeats, 'repeat')} · "
                 + (f"whiskers: {confidence(study)} interval; where it includes 1, no clear difference"
                    if any(d["lo"] is not None for d in data) else "no interval")
                 + (" · orange: it costs time" if any(d["slower"] for d in data) else ""))
    return Chart(name, lines + warning_line(study), drawing(data, False), drawing(data, True))
