"""Losses of all rungs over the reference's, and their deviation from it with what the guard allows.

The surprising thing: the deviations' axis is logarithmic in both directions from 0 (symlog), so that a deviation of a
hundredth of what is allowed is seen beside the limit. A void rung's line may leave the panel.
"""

import math
from collections import Counter
from itertools import accumulate

from charts import Chart, Missing
from charts.steps import thinned
from study import about, label, own_rungs, warning_line
from theme import BAR, DASHES, GREY, GRID, INK, NARROW, SERIES, SLOWER_INK, TEXT, WHOLE, axis, legend
from words import number_of, plain, shorten

NAME, QUESTION = "losses", "Does every rung learn what the reference learns?"
HEIGHT, WIDTHS = 260, (252, 540)  # px: the losses coincide where all is well, their deviations tell more
MOST_SERIES, MOST_LINES, MOST_POINTS = 6, 40, 3600
REFERENCE = "the reference"


def guarded(part):
    """[(label, rung, its entry of part["losses"])]"""
    of = {entry["rung"]: entry for entry in part["losses"]}
    return [(shorten(label(part["study"], rung), 60), rung, of[rung["index"]]) for rung in own_rungs(part["study"])
            if rung["index"] in of and rung.get("guard")]


def is_void(rung):
    return not rung["guard"]["passed"]


def drawn_first(entries):
    """Those that are drawn: void ones before the others, in the study's order."""
    return [e for e in entries if is_void(e[1])][:MOST_LINES // 2] + [e for e in entries if not is_void(e[1])][:MOST_LINES // 2]


def stretches(line, losses, most):
    """[(line's name, step, loss, whether it is alone)] of what is finite; a line that is not finite for a while goes on under another
    name, or its ends would be joined."""
    gaps = list(accumulate(int(loss is None) for loss in losses))
    kept = thinned([(step, loss) for step, loss in enumerate(losses, 1) if loss is not None], most)
    names = [f"{line}, {gaps[step - 1]}" for step, _ in kept]
    count = Counter(names)
    return [(name, step, loss, count[name] == 1) for name, (step, loss) in zip(names, kept)]


def rows(entries):
    """(data, names, {name: (color, dash, width)}): a line's name is what the legend calls it."""
    shown = drawn_first(entries)
    most = max(12, MOST_POINTS // (len(shown) + 1))
    passing = [e for e in shown if not is_void(e[1])]
    styles = {REFERENCE: (INK, [], 4)}
    data, done = [], set()
    colors = [SERIES[0], *SERIES[2:6], GREY]
    for position, (name, rung, entry) in enumerate(shown):
        if entry["guarded_by"] not in done:
            done.add(entry["guarded_by"])
            data += [{"line": line, "name": REFERENCE, "step": step, "loss": loss, "deviation": None, "alone": alone,
                      "aria": "the reference's loss"}
                     for line, step, loss, alone in stretches(f"reference {entry['guarded_by']}", entry["reference"], most)]
        if is_void(rung):
            called, style = f"void: {shorten(name, 34)}", (SLOWER_INK, [7, 3], 2.5)
        elif len(passing) > MOST_SERIES:
            called, style = "rungs that pass", (BAR, [], 1)
        else:
            at = [e[1]["index"] for e in passing].index(rung["index"])
            called, style = shorten(name, 40), (colors[at], DASHES[at + 1], 2)
            if called in styles:
                called = f"{called} (rung {rung['index']})"
        styles[called] = style
        guard = rung["guard"]
        said = f"{name}: largest deviation {nats(guard)}, {plain(guard['tolerance'])} allowed" + (", void" if is_void(rung) else "")
        for field in ("loss", "deviation"):
            data += [{"line": line, "name": called, "step": step, "loss": None, "deviation": None, "alone": alone, "aria": said, field: x}
                     for line, step, x, alone in stretches(position, entry[field], most)]
    return data, styles


def nats(guard):
    return "not finite" if guard["max_deviation"] is None else f"{plain(guard['max_deviation'])} nats"


def beyond(entries, edge):
    """Some line leaves the panel of deviations."""
    return any(x is not None and abs(x) > edge for _, _, entry in entries for x in entry["deviation"])


def panel_edge(entries):
    return max(rung["guard"]["tolerance"] for _, rung, _ in entries) * (6 if any(is_void(rung) for _, rung, _ in entries) else 2)


def drawing(entries, narrow):
    data, styles = rows(entries)
    names, steps = list(styles), max([row["step"] for row in data], default=1)
    tolerances = sorted({rung["guard"]["tolerance"] for _, rung, _ in entries})
    edge, limit = panel_edge(entries), tolerances[-1]
    widths = (NARROW - 76,) * 2 if narrow else WIDTHS
    shown = legend(columns=1 if narrow else 3, symbolType="stroke", symbolSize=500, labelLimit=290, columnPadding=40)
    scale = {"color": [s[0] for s in styles.values()], "strokeDash": [s[1] for s in styles.values()],
             "strokeWidth": [s[2] for s in styles.values()]}
    look = {channel: {"field": "name", "type": "nominal", "sort": None, "scale": {"domain": names, "range": values},
                      "legend": shown} for channel, values in scale.items()}
    x = {"field": "step", "type": "quantitative", "scale": {"domain": [0.5, max(steps, 2) + 0.5], "nice": False},
         "axis": axis("step", grid=False, tickCount=6, labelExpr=WHOLE)}

    def lines(field, y):
        return {"mark": {"type": "line", "clip": True}, "transform": [{"filter": f"datum.{field} !== null"}],
                "encoding": {"x": x, "y": y, "detail": {"field": "line", "type": "nominal"}, **look,
                             "description": {"field": "aria", "type": "nominal"}}}

    def points(field, y):  # a line of a single step is not seen
        look_of_points = {"color": {**look["color"], "legend": None}}
        return {"mark": {"type": "point", "filled": True, "size": 40, "opacity": 1, "clip": True, "aria": False},
                "transform": [{"filter": f"datum.{field} !== null && datum.alone"}], "encoding": {"x": x, "y": y, **look_of_points}}

    ten = 10 ** math.floor(math.log10(limit)) if limit > 0 else 1
    ticks = [t for t in (limit, *(t for t in (ten, ten / 10) if t < 0.6 * limit)) if t > 0]
    loss = {"field": "loss", "type": "quantitative", "scale": {"zero": False}, "axis": axis("loss, nats per token", tickCount=5)}
    deviation = {"field": "deviation", "type": "quantitative",
                 "scale": {"type": "symlog", "constant": (limit or 1) / 100, "domain": [-(edge or 1), edge or 1], "nice": False},
                 "axis": axis("deviation, nats", values=[-t for t in ticks] + [0] + ticks[::-1], format="~g", titlePadding=18)}
    allowed = [
        {"data": {"values": [{"lo": -limit, "hi": limit}]}, "mark": {"type": "rect", "color": GRID, "aria": False},
         "encoding": {"y": {**deviation, "field": "lo"}, "y2": {"field": "hi"}}},
        {"data": {"values": [{"at": sign * t} for t in tolerances[:3] for sign in (-1, 1)]},
         "mark": {"type": "rule", "strokeDash": [4, 3], "color": INK, "aria": False}, "encoding": {"y": {**deviation, "field": "at"}}},
        {"data": {"values": [{"at": 0}]}, "mark": {"type": "rule", "strokeWidth": 2, "color": INK, "aria": False},
         "encoding": {"y": {**deviation, "field": "at"}}},
        {"data": {"values": [{"at": -t, "text": f"allowed{'' if t == limit else ' for some'}: ±{plain(t)} nats"}
                             for t in tolerances[:3] if t == limit or 0.1 < t / limit < 0.6]},
         "mark": {"type": "text", "align": "right", "baseline": "top", "dy": 4, "fontSize": TEXT - 1, "color": INK, "aria": False},
         "encoding": {"x": {"value": widths[1] - 4}, "y": {**deviation, "field": "at"}, "text": {"field": "text", "type": "nominal"}}},
    ]
    left, right = [lines("loss", loss)], [*allowed, lines("deviation", deviation)]
    if any(row["alone"] for row in data):
        left.append(points("loss", loss))
        right.append(points("deviation", deviation))
    panels = [{"width": width, "height": HEIGHT, "layer": layer} for width, layer in zip(widths, (left, right))]
    return {"data": {"values": data}, "vconcat" if narrow else "hconcat": panels, "spacing": 24}


def title(entries):
    void = [(name, rung["guard"]) for name, rung, _ in entries if is_void(rung)]
    if void:
        name, guard = max(void, key=lambda v: (v[1]["max_deviation"] is None, v[1]["max_deviation"] or 0))
        what = "its loss is not finite" if guard["max_deviation"] is None else \
            f"off the reference by {nats(guard)}, {plain(guard['tolerance'])} allowed"
        count = f"{len(void)} of {number_of(len(entries), 'rung')} {'is' if len(void) == 1 else 'are'} void"
        return f"{count}: “{shorten(name.removeprefix('+ '), 40)}”, {what}"
    guard = max((rung["guard"] for _, rung, _ in entries), key=lambda g: g["max_deviation"] or 0)
    who = f"“{shorten(entries[0][0].removeprefix('+ '), 40)}” learns" if len(entries) == 1 else f"All {len(entries)} rungs learn"
    return f"{who} what the reference learns: at most {nats(guard)} off, {plain(guard['tolerance'])} allowed"


def not_finite(entries):
    """Why lines break, where some do."""
    said = [f"{shorten(name, 40)}, {entry['loss'].count(None)} of {number_of(len(entry['loss']), 'step')}"
            for name, _, entry in entries if None in entry["loss"]]
    said += ["the reference"] if any(None in entry["reference"] for *_, entry in entries) else []
    more = f" (and {len(said) - 3} more)" if len(said) > 3 else ""
    return ["a line breaks where the loss is not finite: " + "; ".join(said[:3]) + more] if said else []


def draw(part):
    study, entries = part["study"], guarded(part)
    if not entries:
        return Missing("`ladder report STUDY` with the study's whole folder: the losses stand in its records, and a ladder of two "
                       "measured rungs at least has something to compare")
    lines = about(study)
    lines.append("first: training loss of each rung's run that deviates most · second: its deviation from the reference, on a log "
                 "scale both ways from 0")
    lines.append("grey background: what the guard allows")
    if any(rung["guard"]["known_offset"] for _, rung, _ in entries):
        lines[-1] += ", on top of the offset that a padded vocabulary is known to add to the loss"
    void = [(name, rung) for name, rung, _ in entries if is_void(rung)]
    if void:
        first = f"void: {void[0][0]}: {shorten(void[0][1]['guard']['message'], 110)}"
        lines.append(first + (f" (and {len(void) - 1} more)" if len(void) > 1 else "")
                     + (" · it goes on beyond the edge" if beyond(entries, panel_edge(entries)) else ""))
    lines += not_finite(drawn_first(entries))
    if len(drawn_first(entries)) < len(entries):
        lines.append(f"{len(drawn_first(entries))} of {number_of(len(entries), 'rung')} are drawn, void ones first")
    return Chart(title(entries), lines + warning_line(study), drawing(entries, False), drawing(entries, True))
