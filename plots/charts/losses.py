"""How far each rung's losses are from the reference's: the median that the guard judges, against its limit, and single steps behind it.

The axis is logarithmic in both directions from 0 (symlog), so that a hundredth of the limit can be seen beside it.
"""

import math
from collections import Counter
from itertools import accumulate
from statistics import median

from charts import Chart, Missing, about
from study import label, own_rungs
from theme import BAD_INK, GREY, GRID, INK, SERIES, SMALL, WHOLE, WIDTH, axis, text
from words import judged_deviation, number_of, plain, shorten

NAMES, LEAST_HEIGHT, LINE = 180, 280, 19  # px
LINES = WIDTH - NAMES - 76  # px of the panel beside the names
MOST_SERIES, MOST_LINES, MOST_POINTS = 8, 40, 3600
JUDGED_STEPS = 16  # study/guard.h
THE_OTHERS = "the other rungs"
INK_OF_LINE = {"field": "ink", "type": "nominal", "scale": None}
OPACITY = {"condition": {"test": "datum.faint", "value": 0.3}, "value": 1}


def guarded(part):
    """[(label, rung, its entry of part["losses"])]"""
    of = {entry["rung"]: entry for entry in part["losses"]}
    return [(shorten(label(part["study"], rung), 60), rung, of[rung["index"]]) for rung in own_rungs(part["study"])
            if rung["index"] in of and rung.get("guard")]


def is_void(rung):
    return not rung["guard"]["passed"]


def unit(rungs):
    """A command's loss may be any number."""
    return "" if any("command" in rung for rung in rungs) else " nats"


def nats(rung):
    judged = judged_deviation(rung["guard"])
    return "not finite" if judged is None else f"{plain(judged)}{unit([rung])}"


def drawn_first(entries):
    """Those that are drawn, void ones first, otherwise in the study's order."""
    return [e for e in entries if is_void(e[1])][:MOST_LINES // 2] + [e for e in entries if not is_void(e[1])][:MOST_LINES // 2]


def thinned(numbered, most):
    """All of [(step's number, value)], or only the least and the most of each stretch of equal length."""
    if len(numbered) <= most:
        return numbered
    length = -(-2 * len(numbered) // most)
    out = []
    for begin in range(0, len(numbered), length):
        stretch = numbered[begin:begin + length]
        out += sorted({min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])})
    return out


def stretches(line, losses, most):
    """[(line's name, step, loss, whether it is alone)] of finite losses. A line gets another name after a gap, or the drawing would join
    its ends."""
    gaps = list(accumulate(int(loss is None) for loss in losses))
    kept = thinned([(step, loss) for step, loss in enumerate(losses, 1) if loss is not None], most)
    names = [f"{line}, {gaps[step - 1]}" for step, _ in kept]
    count = Counter(names)
    return [(name, step, loss, count[name] == 1) for name, (step, loss) in zip(names, kept)]


def running_median(deviation):
    """Of the steps so far, as far as the guard judges. It ends with what is judged."""
    return [median(deviation[:step]) for step in range(1, min(len(deviation), JUDGED_STEPS) + 1) if None not in deviation[:step]]


def rows(entries):
    """(the lines' points, the lines from top to bottom: [{name, ink, width, last}]). After the first few, passing rungs share one name and
    look. Single steps are `faint`."""
    shown = drawn_first(entries)
    most = max(12, MOST_POINTS // (len(shown) + 1))
    passing = [entry for entry in shown if not is_void(entry[1])]
    apart = passing if len(passing) <= MOST_SERIES else passing[:MOST_SERIES - 1]
    inks = [*SERIES[:6], INK, GREY]
    data, lines = [], []
    for position, (name, rung, entry) in enumerate(shown):
        if is_void(rung):
            called, ink, width = f"void: {name}", BAD_INK, 2.5
        elif any(rung is own for _, own, _ in apart):
            called, ink, width = name, inks[len([line for line in lines if line["ink"] != BAD_INK])], 2
        else:
            called, ink, width = THE_OTHERS, GREY, 1
        judged = running_median(entry["deviation"])
        if judged and called not in [line["name"] for line in lines]:
            lines.append({"name": called, "ink": ink, "width": width, "last": judged[-1]})
        said = f"{name}: median signed difference {nats(rung)}, limit {plain(rung['guard']['tolerance'])}" + (", void" if is_void(rung) else "")
        for kind, of in (("steps", entry["deviation"]), ("median", judged)):
            faint = kind == "steps"
            data += [{"line": line, "name": called, "step": step, "deviation": x, "alone": alone, "ink": ink, "width": 1 if faint else width,
                      "faint": faint, "aria": f"{name}: single steps" if faint else said}
                     for line, step, x, alone in stretches(f"{position} {kind}", of, most)]
    return sorted(data, key=lambda row: not row["faint"]), sorted(lines, key=lambda line: -line["last"])


def panel_edge(entries):
    return max(abs(x) for _, rung, entry in entries for x in (2 * rung["guard"]["tolerance"], *entry["deviation"]) if x is not None)


def spread(wanted, height):
    """The places of labels: at least LINE px apart, and otherwise as near as possible to the wanted places."""
    order, at = sorted(range(len(wanted)), key=lambda i: wanted[i]), {}
    groups = []  # [sum of (wanted - LINE * position), labels, the first one's position]
    for position, i in enumerate(order):
        groups.append([wanted[i] - LINE * position, 1, position])
        while len(groups) > 1 and groups[-2][0] / groups[-2][1] > groups[-1][0] / groups[-1][1]:
            total, count, _ = groups.pop()
            groups[-1][0] += total
            groups[-1][1] += count
    for total, count, first in groups:
        for position in range(first, first + count):
            least, most = LINE * position, height - LINE * (len(order) - 1 - position)
            at[order[position]] = min(max(total / count + LINE * position, least), most)
    return [at[i] for i in range(len(wanted))]


def with_names(layers, data, lines, height):
    """A panel, and beside it each line's name, as near as possible to where the line ends: its `end`, px from the top."""
    labels = [{**line, "text": line["name"].removeprefix("+ "), "from": line["end"], "to": to}
              for line, to in zip(lines, spread([line["end"] for line in lines], height))]
    px = {"type": "quantitative", "axis": None, "scale": {"domain": [0, height], "range": [0, height], "nice": False}}
    names = [
        {"mark": {"type": "rule", "strokeWidth": 1.5, "aria": False}, "encoding": {
            "x": {"value": 2}, "x2": {"value": 18}, "y": {**px, "field": "from"}, "y2": {"field": "to"}, "color": INK_OF_LINE}},
        text("text", {**px, "field": "to"}, {"value": 22}, align="left", fontSize=SMALL, limit=NAMES - 24)]
    return {"spacing": 0, "bounds": "flush", "resolve": {"scale": {"x": "independent", "y": "independent"}}, "hconcat": [
        {"width": LINES, "height": height, "data": {"values": data}, "layer": layers},
        {"width": NAMES, "height": height, "data": {"values": labels}, "layer": names}]}


def height_of(lines):
    return max(LEAST_HEIGHT, LINE * (len(lines) + 1))


def drawing(entries):
    data, lines = rows(entries)
    steps = max([row["step"] for row in data], default=1)
    tolerances = sorted({rung["guard"]["tolerance"] for _, rung, _ in entries})
    edge, limit = panel_edge(entries) or 1, tolerances[-1]
    height = height_of(lines)
    constant = (limit or 1) / 100

    def down(x):
        """px from the panel's top."""
        def symlog(x):
            return math.copysign(math.log1p(abs(x) / constant), x)
        return height / 2 * (1 - symlog(min(max(x, -edge), edge)) / symlog(edge))

    x = {"field": "step", "type": "quantitative", "scale": {"domain": [0.5, max(steps, 2)], "range": [0, LINES], "nice": False},
         "axis": axis("step", grid=False, tickCount=6, labelExpr=WHOLE)}
    ten = 10 ** math.floor(math.log10(limit)) if limit > 0 else 1
    ticks = [t for t in (limit, *(t for t in (ten, ten / 10) if t < 0.4 * limit)) if t > 0]
    y = {"field": "deviation", "type": "quantitative",
         "scale": {"type": "symlog", "constant": constant, "domain": [-edge, edge], "nice": False},
         "axis": axis("loss minus the reference's" + unit([rung for _, rung, _ in entries]).replace(" ", ", "), values=[-t for t in ticks] + [0] + ticks[::-1], labelExpr="datum.value ? format(datum.value, '+.2~g') : '0'", grid=False)}
    panel = [
        {"data": {"values": [{"lo": -t, "hi": t}]}, "mark": {"type": "rect", "color": GRID, "opacity": 0.6, "aria": False},
         "encoding": {"x": {"value": 0}, "x2": {"value": LINES}, "y": {**y, "field": "lo"}, "y2": {"field": "hi"}}} for t in tolerances[-3:]]
    panel += [
        {"data": {"values": [{"at": 0}]}, "mark": {"type": "rule", "strokeWidth": 1.5, "color": INK, "aria": False},
         "encoding": {"x": {"value": 0}, "x2": {"value": LINES}, "y": {**y, "field": "at"}}},
        {"mark": {"type": "line", "clip": True}, "encoding": {
            "x": x, "y": y, "detail": {"field": "line", "type": "nominal"}, "color": INK_OF_LINE, "opacity": OPACITY, "strokeWidth": {"field": "width", "type": "quantitative", "scale": None},
            "description": {"field": "aria", "type": "nominal"}}}]
    if any(row["alone"] for row in data):  # a line of a single step cannot be seen
        panel.append({"mark": {"type": "point", "filled": True, "size": 40, "clip": True, "aria": False},
                      "transform": [{"filter": "datum.alone"}], "encoding": {"x": x, "y": y, "color": INK_OF_LINE, "opacity": OPACITY}})
    return with_names(panel, data, [{**line, "end": down(line["last"])} for line in lines], height)


def limits(entries):
    """'±0.005 or ±0.01'"""
    return " or ".join(f"±{plain(limit)}" for limit in sorted({rung["guard"]["tolerance"] for _, rung, _ in entries})[-3:])


def title(entries):
    void = [name for name, rung, _ in entries if is_void(rung)]
    if void:
        return f"Losses: {number_of(len(void), 'rung')} of {len(entries)} void, {void[0].removeprefix('+ ')}"
    judged = [judged_deviation(rung["guard"]) for _, rung, _ in entries]
    return f"Losses: {number_of(len(entries), 'rung')} follow{'s' * (len(entries) == 1)} the reference, median signed difference {plain(max(x or 0 for x in judged))}{unit([rung for _, rung, _ in entries])} at most"


def draw_losses(part):
    entries = guarded(part)
    if not entries:
        return Missing("`ladder report STUDY` with the study's whole folder, because the losses are in its records; at least two "
                       "measured rungs are needed to compare")
    lines = [f"lines: the median of the steps so far, up to the {JUDGED_STEPS} that are judged · grey: the limit, {limits(entries)}{unit([rung for _, rung, _ in entries])} · faint: single steps · symlog"]
    if len(drawn_first(entries)) < len(entries):
        lines.append(f"{len(drawn_first(entries))} of {number_of(len(entries), 'rung')} are drawn, void ones first")
    return Chart(title(entries), lines, about(part["study"]), drawing(entries))
