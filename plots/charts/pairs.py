"""Each pair of a gate's runs, in the order in which they were made. Drift, outliers and two speeds show here.

The axis is logarithmic and does not reach to 0. It always contains the band of changes that are too small to matter.
"""

from charts import Chart, Missing, about
from charts.gate import said_of
from theme import BAR, FASTER_INK, GREY, GRID, INK, NARROW, SLOWER_INK, WHOLE, axis
from words import milliseconds, number_of, percent, plain, shorten, times

WIDTH, HEIGHT, MOST_PANELS, MOST_PAIRS = 800, 120, 24, 500


def points(entry, most):
    """Each pair's ratio, and a colour that says whether it is beyond what matters."""
    runs = list(zip(entry["base_runs_ms"], entry["head_runs_ms"]))[:MOST_PAIRS]
    return [{"pair": i + 1, "ratio": head / base, "ink": SLOWER_INK if head / base > most else FASTER_INK if head / base * most < 1 else BAR,
             "aria": f"pair {i + 1}: {times(head / base)}, {milliseconds(base)} → {milliseconds(head)}"} for i, (base, head) in enumerate(runs)]


def by_sessions(entry):
    """Whether the ratio is to the mean of a baseline's sessions. The pairs are with only one of them."""
    return entry["sessions"] is not None


def panel(entry, most, narrow):
    data = points(entry, most)
    ends = [most, 1 / most, entry["ratio"], *(point["ratio"] for point in data)]
    margin = (max(ends) / min(ends)) ** 0.08
    low, high = min(ends) / margin, max(ends) * margin
    every = -(-len(data) // (6 if narrow else 16))
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
    width = NARROW - 60 if narrow else WIDTH
    said = [said_of(entry), f"head took longer in {entry['slower_pairs']} of {number_of(entry['pairs'], 'pair')}",
            f"sign test p = {plain(entry['sign_test_p'])}"]
    return {"width": width, "height": HEIGHT, "data": {"values": data}, "layer": layers,
            "title": {"text": shorten(entry["label"], 40 if narrow else 90), "subtitle": said if narrow else " · ".join(said), "anchor": "start",
                      "frame": "group", "fontSize": 14, "color": INK, "subtitleFontSize": 12, "subtitleColor": INK, "subtitleLineHeight": 16,
                      "subtitlePadding": 4, "limit": width, "offset": 10}}


def draw(report):
    gate = report["gates"][-1]
    if gate["comparison"] is None:
        return Missing("a gate that came to a comparison")
    entries, most = gate["comparison"]["entries"], 1 + gate["min_effect"]
    dashes = "head's median over the mean of the baseline's sessions" if any(map(by_sessions, entries)) else "their centre"
    lines = [f"points: head's time over base's in each pair of runs, in the order made · dashes: {dashes} · grey: ±{percent(gate['min_effect'])}"]
    if len(entries) > MOST_PANELS or any(entry["pairs"] > MOST_PAIRS for entry in entries):
        lines.append(f"at most {MOST_PANELS} rungs and {MOST_PAIRS} pairs are drawn")

    def drawing(narrow):
        return {"vconcat": [panel(entry, most, narrow) for entry in entries[:MOST_PANELS]],
                "spacing": 34, "resolve": {"scale": {"x": "independent", "y": "independent"}}}

    return Chart(f"Pair by pair: {number_of(gate['pairs'], 'pair')} of runs", lines, about(gate), drawing(False), drawing(True))
