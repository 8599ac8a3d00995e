"""What each optimization is worth, by every method that the study has: in the ladder's order, averaged over all orders
(Shapley), on top of all others, alone.

The axis is logarithmic and begins at 1: twice as fast and half as fast are equally far from it.
"""

from charts import Chart, Missing, about
from study import CALLED, METHODS, confidence, slower, unclear
from theme import BAR, GREY, INK, PALE_BAR, PARTS, SLOWER_BAR, SMALL, TEAL, WIDTH, axis, legend, text, whiskers
from words import between, clean, number_of, shorten, times

RIGHT, RATIO, INTERVAL = WIDTH - 8, 62, 130  # px; with the texts on the right: a ratio, and its interval
COLORS = {"cumulative": INK, "shapley": BAR, "leave_one_out": TEAL, "one_at_a_time": PARTS[2]}  # of each method
SHAPES = dict(zip(COLORS, ["circle", "square", "triangle-up", "diamond"]))


def rows(listed, first_method, called):
    """(lines, heads): a line for each optimization and method. `called`: the words for the methods. Lines of one optimization stand
    together; the largest by `first_method` is first."""
    def size(of):
        own = next((w for w in of if w["method"] == first_method), None)
        return (own is None or own["ratio"] is None, -(own["ratio"] or 0) if own else 0)

    together = {}
    for worth in listed:
        together.setdefault(worth["optimization"], []).append(worth)
    lines, heads = [], []
    for group, of in enumerate(sorted(together.values(), key=size)):
        heads.append({"group": group, "title": shorten(of[0]["title"], 50), "lines": len(of)})
        for worth in sorted(of, key=lambda w: list(COLORS).index(w["method"])):
            number = worth["ratio"] is not None
            interval = number and worth["lo"] is not None and worth["hi"] is not None and between(worth["lo"], worth["hi"], times) != "unknown"
            text = (f"{worth['ratio']:.2f}×" if unclear(worth) else times(worth["ratio"])) if number else ""
            said = between(worth["lo"], worth["hi"], times) if interval else ""
            lines.append({"group": group, "method": called[worth["method"]], "ratio": worth["ratio"],
                          "lo": worth["lo"] if interval else None, "hi": worth["hi"] if interval else None,
                          "slower": slower(worth), "unclear": number and unclear(worth), "text": text, "interval": said,
                          "reason": "" if number else shorten(f"no number: {clean(worth['reason'])}", 120),
                          "aria": f"{shorten(worth['title'], 80)}, {called[worth['method']]}: {text}"
                                  + (f", {said}" if interval else "")})
    return lines, heads


def placed(lines, heads):
    """Gives every line and head its height in px; returns the whole height."""
    y, middle = 0, 11 if any(head["lines"] > 1 for head in heads) else 12
    for head in heads:
        head["y"], y = y + 15, y + 27
        for line in (line for line in lines if line["group"] == head["group"]):
            line |= {"y": y + middle, "top": y, "bottom": y + 2 * middle}
            y += 2 * middle
        y += 6
    return max(y, 30)


def drawing(listed, first_method, called):
    lines, heads = rows(listed, first_method, called)
    height = placed(lines, heads)
    methods = [m for m in COLORS if any(w["method"] == m for w in listed)]
    ratios = [d["ratio"] for d in lines if d["ratio"] is not None]
    least, most = min([0.95, *ratios]) / 4, max([1.05, *ratios]) * 4
    for d in lines:  # a wide interval goes on beyond the edge
        d["from"], d["to"] = (None, None) if d["lo"] is None else (max(d["lo"], least), min(d["hi"], most))
    ends = [v for d in lines for v in (d["ratio"], d["from"], d["to"]) if v is not None]
    plot = RIGHT - RATIO - (INTERVAL if any(d["interval"] for d in lines) else 0)
    y = {"field": "y", "type": "quantitative", "axis": None, "scale": {"domain": [0, height], "range": [0, height], "nice": False}}
    x = {"field": "ratio", "type": "quantitative",
         "scale": {"type": "log", "domain": [min([0.95, *ends]) / 1.05, max([1.05, *ends]) * 1.05], "range": [0, plot], "nice": False},
         "axis": axis("speedup" if ratios else None, labels=bool(ratios), format="~g", tickCount=5, labelFlush=True, titleAnchor="start", grid=False)}

    def numbers(mark, **encoding):
        return {"mark": mark, "transform": [{"filter": "datum.ratio !== null"}],
                "encoding": {"y": y, "x": x, "description": {"field": "aria", "type": "nominal"}, **encoding}}

    one = {"mark": {"type": "rule", "color": GREY, "aria": False}, "transform": [{"filter": "datum.ratio !== null"}],
           "encoding": {"x": {"datum": 1}, "y": {**y, "field": "top"}, "y2": {"field": "bottom"}}}
    if len(methods) == 1:
        marks = [numbers({"type": "bar", "height": 18}, x2={"datum": 1},
                         color={"condition": [{"test": "datum.slower", "value": SLOWER_BAR}, {"test": "datum.unclear", "value": PALE_BAR}], "value": BAR}),
                 one, *whiskers(x, y)]
    else:
        look = {channel: {"field": "method", "type": "nominal", "sort": None, "legend": legend(columns=1, symbolSize=90),
                          "scale": {"domain": [called[m] for m in methods], "range": [of[m] for m in methods]}}
                for channel, of in (("color", COLORS), ("shape", SHAPES))}
        marks = [one, *whiskers(x, y), numbers({"type": "point", "filled": True, "size": 80, "opacity": 1}, **look)]
    return {"width": RIGHT, "height": height, "data": {"values": lines}, "layer": [
        *marks,
        text("reason", y, {"value": 6}, align="left", color=GREY, fontStyle="italic", limit=RIGHT - 6),
        text("text", y, {"value": plot + RATIO}, align="right", fontWeight="bold"),
        text("interval", y, {"value": RIGHT}, align="right", color=GREY, fontSize=SMALL),
        {"data": {"values": heads}, **text("title", y, {"value": 0}, align="left", limit=RIGHT)}]}


def draw_attribution(part):
    study = part["study"]
    if study["mode"] not in METHODS:
        return Missing("`ladder ablate --mode leave-one-out` or `--mode factorial --factors A,B,C` says what each optimization is worth in "
                       "another order than the ladder's")
    listed, method = study["attribution"], METHODS[study["mode"]]
    several = len({w["method"] for w in listed}) > 1
    repeats = max([w["repeats"] for w in listed], default=0)
    marks = [number_of(repeats, "repeat"), f"whiskers: {confidence(study)}" if any(w["lo"] is not None for w in listed) else "no interval"]
    if not several:
        marks += ["pale: no clear difference"] * any(unclear(w) for w in listed if w["ratio"] is not None)
        marks += ["orange: it costs time"] * any(slower(w) for w in listed)
    return Chart(study["said"]["headline"], [" · ".join(marks)], about(study), drawing(listed, method, CALLED))
