"""python plots/history.py HISTORY.json OUT_DIR: history.svg, history.png and history.vl.json of a history.

One panel for each series: medians with their intervals in the order of the studies, the level behind them, and a mark
where it changed. As chart.py: every number and every finding stands in the document; here is only where it goes.
The surprising thing: the time axis does not begin at 0, because a change of a few per cent would not be seen; it always
spans a tenth of the time at least, so that noise does not look like a change either.
"""

import json
import sys

import chart
import render
from chart import GREY, INK, clean, shorten
from modes import axis

WIDTH, HEIGHT, LEAST_SPAN = 620, 130, 0.1
COLORS = {"slower": "#a34700", "faster": "#00654a"}
LINE_CHARACTERS = 112  # of a panel's heading


def wrap(text, limit=LINE_CHARACTERS, most=3):
    """Lines of at most `limit` characters, broken at blanks; the last of `most` is shortened."""
    lines = [""]
    for word in clean(text).split(" "):
        word = shorten(word, limit)
        if lines[-1] and len(lines[-1]) + 1 + len(word) > limit:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines if len(lines) <= most else lines[: most - 1] + [shorten(" ".join(lines[most - 1:]), limit)]


def circumstances(series):
    s = series["setting"]
    size = f"{s['model']} B={s['batch']} T={s['context']}" + (f" × {s['accumulation']} micro-steps" if s["accumulation"] != 1 else "")
    device = str(s["device"]) + (f", {s['threads']} threads" if s.get("threads") is not None else "")
    parts = [device, size, f"torch {s['torch']}"] + ([f"driver {s['driver']}"] if s.get("driver") else [])
    return " · ".join([*parts, series["recipe_hash"]])


def panel(series):
    points, color = series["points"], COLORS.get(series["verdict"], INK)
    data = [{"i": i, "day": clean(p["time"])[:10], "ms": p["median"], "lo": p["lo"], "hi": p["hi"], "level": p["level"]}
            for i, p in enumerate(points)]
    low, high = min(min(d["ms"], d["level"]) for d in data), max(max(d["ms"], d["level"]) for d in data)
    margin = max(0.15 * (high - low), (LEAST_SPAN * high - (high - low)) / 2)
    low, high = max(low - margin, 0), high + margin
    marks = [{"i": s["at"] - 0.5, "text": f"{'+' if s['ratio'] >= 1 else '−'}{abs(100 * (s['ratio'] - 1)):.1f} %",
              "slower": s["ratio"] >= 1} for s in series["steps"]]
    every = -(-len(data) // 8)
    ticks = [d["i"] for d in data[::every]]
    days = " : ".join([f"datum.value === {i} ? '{data[i]['day']}'" for i in ticks] + ["''"])
    x = {"field": "i", "type": "quantitative", "scale": {"domain": [-0.6, max(len(data), 2) - 0.4], "nice": False},
         "axis": axis(None, values=ticks, labelExpr=days, grid=False, labelFlush=False, labelOverlap=False)}
    y = {"field": "ms", "type": "quantitative", "scale": {"domain": [low, high], "zero": False, "nice": False},
         "axis": axis("ms per step", tickCount=4, format=",~f" if high >= 100 else ",.3~r")}
    mark = {"field": "i", "type": "quantitative"}
    step_color = {"condition": {"test": "datum.slower", "value": COLORS["slower"]}, "value": COLORS["faster"]}
    layers = [
        {"data": {"values": marks}, "mark": {"type": "rule", "strokeDash": [4, 3], "strokeWidth": 1.5},
         "encoding": {"x": mark, "color": step_color}},
        {"data": {"values": marks}, "mark": {"type": "text", "align": "left", "baseline": "bottom", "dx": -4, "fontSize": 12, "fontWeight": "bold"},
         "encoding": {"x": mark, "y": {"value": -3}, "text": {"field": "text", "type": "nominal"}, "color": step_color}},
        {"mark": {"type": "rule", "strokeWidth": 1.2, "color": chart.BAR, "opacity": 0.4, "clip": True},
         "transform": [{"filter": "datum.lo !== null && datum.hi !== null"}],
         "encoding": {"x": x, "y": {**y, "field": "lo"}, "y2": {"field": "hi"}}},
        {"mark": {"type": "point", "filled": True, "size": 34, "color": chart.BAR, "opacity": 1}, "encoding": {"x": x, "y": y}},
    ]
    if series["verdict"] != "too_few":
        starts = sorted({0, *(s["at"] for s in series["steps"])})
        for begin, end in zip(starts, [*starts[1:], len(data)]):
            layers.append({"data": {"values": data[begin:end]}, "mark": {"type": "line", "strokeWidth": 2, "color": color},
                           "encoding": {"x": x, "y": {**y, "field": "level"}}})
    words = {"slower": "Slower: ", "faster": "Faster: "}.get(series["verdict"], "")
    heading = [shorten(clean(series["label"]), 70) + ("" if series["current"] else " (until the circumstances changed)")]
    lines = wrap(words + series["finding"]) + wrap(circumstances(series), most=2)
    if series["new_because"]:
        lines += wrap("other circumstances than in the panel above: " + "; ".join(series["new_because"]), most=2)
    return {"width": WIDTH, "height": HEIGHT, "data": {"values": data}, "layer": layers,
            "title": {"text": heading, "subtitle": lines, "anchor": "start", "frame": "group", "fontSize": 14, "color": color,
                      "subtitleFontSize": 12, "subtitleColor": INK, "subtitleLineHeight": 16, "subtitlePadding": 4,
                      "offset": 22 if marks else 10}}


def spec(history):
    count = history["studies"]
    lines = [f"{count} {'study' if count == 1 else 'studies'} · points: a study's median, with its interval, which may go on beyond "
             "the edge · line: the level behind them"]
    on_cpu = ["threads" in s["setting"] for s in history["series"]]
    lines.append("the time axes do not begin at 0" + (" · CPU figures, not comparable with a GPU's" if all(on_cpu) else
                                                      " · panels of a CPU are CPU figures, not comparable with a GPU's"
                                                      if any(on_cpu) else ""))
    lines += wrap(history["method"], 118)
    frame = chart.frame(clean(history["finding"]), lines)
    frame["title"]["text"] = wrap(history["finding"], 62)
    return {**frame, "vconcat": [panel(s) for s in history["series"]],
            "spacing": 34, "resolve": {"scale": {"x": "independent", "y": "independent"}}}


def draw(history, path):
    """{file name: bytes}; None for a picture that cannot be drawn here."""
    try:
        import vl_convert
    except ImportError:
        vl_convert = None
    try:
        drawing = spec(history)
        text = json.dumps(drawing, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        svg = vl_convert and vl_convert.vegalite_to_svg(drawing, allowed_base_urls=[]).encode()
        png = vl_convert and vl_convert.vegalite_to_png(drawing, scale=2, allowed_base_urls=[])
        return {"history.svg": svg, "history.png": png, "history.vl.json": text.encode()}
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as e:
        raise render.Refused(f"{path}: does not follow results/schemas/history.v1.json: {type(e).__name__}: {e}") from e


def main(arguments=None):
    return render.run("history.py", "history", "history.svg, history.png, history.vl.json", draw, arguments)


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="surrogateescape")
    sys.exit(main())
