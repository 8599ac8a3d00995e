"""A night of experiments in order: each change's ratio with its interval, and the ladder of what was kept."""

from charts import Chart, Missing, about
from theme import BAR, FASTER_INK, GREY, INK, PLOT, SLOWER_INK, axis
from words import clean, number_of, times

COLORS = {"keep": FASTER_INK, "discard": SLOWER_INK, "undecided": GREY}
SHAPES = {"keep": "triangle-up", "discard": "circle", "undecided": "cross"}


def rows(ledger):
    out, together = [], 1.0
    for i, entry in enumerate(ledger["experiments"]):
        judged = entry.get("judgment")
        if not judged or not judged["pairs"]:
            continue
        if judged["verdict"] == "keep":
            together *= judged["ratio"]
        out.append({"n": i + 1, "ratio": judged["ratio"], "lo": judged["lo"], "hi": judged["hi"], "together": together, "ink": COLORS[judged["verdict"]],
                    "verdict": judged["verdict"],
                    "aria": f"{i + 1}: {clean(entry['head'])[:7]}, {judged['verdict']}, {times(judged['ratio'])}, {number_of(judged['pairs'], 'pair')}"})
    return out


def draw_experiments(ledger):
    data = rows(ledger)
    if not data:
        return Missing("")
    ends = [row[key] for row in data for key in ("ratio", "together")]
    low, high = min([0.99, *ends]) / 1.005, max([1.01, *ends]) * 1.005
    for row in data:  # an interval of few pairs reaches far beyond what can be drawn
        if row["lo"] is not None and row["hi"] is not None:
            row["lo"], row["hi"] = min(max(row["lo"], low), high), min(max(row["hi"], low), high)
    x = {"field": "n", "type": "quantitative", "scale": {"domain": [0.4, max(row["n"] for row in data) + 0.6], "nice": False},
         "axis": axis("experiment", tickMinStep=1, format="d", grid=False)}
    y = {"field": "ratio", "type": "quantitative", "scale": {"type": "log", "domain": [low, high], "nice": False},
         "axis": axis("times better", format=".3~f", tickCount=5)}
    kept = [{"n": 0.4, "together": 1}, *data]
    drawing = {"width": PLOT, "height": 260, "data": {"values": data}, "layer": [
        {"data": {"values": kept}, "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2, "color": BAR, "aria": False}, "encoding": {"x": x, "y": {**y, "field": "together"}}},
        {"mark": {"type": "rule", "strokeWidth": 1.2, "color": INK, "opacity": 0.5, "aria": False},
         "transform": [{"filter": "datum.lo !== null && datum.hi !== null"}], "encoding": {"x": x, "y": {**y, "field": "lo"}, "y2": {"field": "hi"}}},
        {"mark": {"type": "point", "filled": True, "size": 44, "opacity": 1},
         "encoding": {"x": x, "y": y, "color": {"field": "ink", "type": "nominal", "scale": None}, "description": {"field": "aria", "type": "nominal"},
                      "shape": {"field": "verdict", "type": "nominal", "legend": None, "scale": {"domain": list(SHAPES), "range": list(SHAPES.values())}}}}]}
    return Chart("What each change gains, and what was kept", ["triangle: kept · circle: discarded · cross: undecided; whiskers: 95 % at every look",
                                                              "The line is the product of what was kept."], about(ledger), drawing)
