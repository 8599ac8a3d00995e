"""Every timed step of every run: a row for each rung, in it a line of points for each run, in the order in which they were made.

All rows share one axis: a step's time divided by its rung's number, so that rungs of unequal speed can be compared. The axis does
not reach to the slowest step. It shows the runs' medians, the middle 80 % of the steps of every rung, and half as much again on both
sides. Steps beyond it are marked at the edge and counted.
"""

from charts import Chart, Missing, about
from charts.rungs import Rows, row
from study import has_number, own_rungs, timed_unit
from theme import BAR, DOUBT_INK, GREY, INK
from words import milliseconds, number_of, shorten

NAMES, LEAST_ROW, RUN, MOST_ROWS, MOST_POINTS = 22, 30, 7, 24, 1200  # px and numbers of things; RUN: a run's line of points
KINDS = ["as planned", "disturbed", "failed"]
COLORS, SHAPES = [BAR, DOUBT_INK, GREY], ["circle", "triangle-up", "square"]


def kind_of(run):
    return KINDS[2] if run["status"] != "ok" else KINDS[1] if run["flags"] else KINDS[0]


def edges(of_rungs):
    """[from, to] of the axis. of_rungs: for each rung the relative times of its steps and of its runs' medians."""
    lows, highs, least, most = [], [], [], []
    for steps, medians in of_rungs:
        ordered = sorted(steps)
        tenth = len(ordered) // 10
        lows.append(min([ordered[tenth], *medians]))
        highs.append(max([ordered[-1 - tenth], *medians]))
        least.append(ordered[0])
        most.append(ordered[-1])
    low, high = min([1, *lows]), max([1, *highs])
    beyond = max(0.5 * (high - low), 0.03)
    return [max(min(low - beyond, 0.97), min(least) - 0.02, 0), min(high + beyond, max([*most, 1.03]) + 0.02)]


def thinned(steps, most):
    """All steps of a run, or `most` of them that are spread alike; the fastest and the slowest are among them."""
    if len(steps) <= most:
        return steps
    ordered = sorted(steps, key=lambda step: step[1])
    return [ordered[round(i * (len(ordered) - 1) / (most - 1))] for i in range(most)]


def rows(part, rungs):
    """(a row for each rung, the points of its steps, the points of its runs' medians, how many steps there are)"""
    study, out, points, medians, timed = part["study"], [], [], [], 0
    number = {run["id"]: run["median_ms"] for run in study["runs"]}
    runs = {rung["index"]: [r for r in part["runs"] if r["rung"] == rung["index"] and r["step_ms"]] for rung in rungs}
    most = max(8, MOST_POINTS // max(sum(map(len, runs.values())), 1))
    for position, rung in enumerate(rungs):
        d = row(study, rung, position, ms=None, text="", runs=len(runs[rung["index"]]))
        out.append(d)
        if not has_number(rung):
            continue
        if not d["runs"]:
            d["reason"] = "its runs' records are not there"
            continue
        d["ms"] = rung["ms_per_step"]["median"] or 1
        d["text"] = milliseconds(rung["ms_per_step"]["median"])
        for line, run in enumerate(runs[rung["index"]]):
            kind, name = kind_of(run), shorten(run["id"], 60)
            said = f"{shorten(d['rung'], 24)}, run {name}" + ("" if kind == KINDS[0] else f", {kind}")
            said += f": {shorten(run['flags'][0], 100)}" if run["flags"] else ""
            steps = list(enumerate(run["step_ms"], 1))[run["warmup_steps"]:]
            timed += len(steps)
            points += [{"row": position, "line": line, "x": ms / d["ms"], "kind": kind, "aria": f"{said}, step {step}: {milliseconds(ms)}"}
                       for step, ms in thinned(steps, most)]
            if number.get(run["id"]) is not None:
                medians.append({"row": position, "line": line, "x": number[run["id"]] / d["ms"], "kind": kind,
                                "aria": f"{said}, number {run['position'] + 1} of the study: median {milliseconds(number[run['id']])}"})
    return out, points, medians, timed


def cut(points, low, high):
    """Moves points that are beyond the edge to the edge, and returns how many they are."""
    for point in points:
        point["beyond"] = "" if low <= point["x"] <= high else "right" if point["x"] > high else "left"
        if point["beyond"]:
            point["x"], point["aria"] = (high if point["beyond"] == "right" else low), point["aria"] + ", beyond the edge"
    return sum(point["beyond"] != "" for point in points)


def drawing(data, points, medians, ends):
    rows_ = Rows(data)
    lines = max([d["runs"] for d in data], default=1)
    run = RUN if lines <= 12 else max(2, RUN * 12 / lines)
    rows_.step = max(LEAST_ROW, run * lines + 10) + NAMES
    rows_.down = NAMES / 2
    reach = (rows_.step - NAMES) / 2

    def at(of):
        return [{**p, "y": (p["row"] + 0.5) * rows_.step + rows_.down + (p["line"] - (data[p["row"]]["runs"] - 1) / 2) * run} for p in of]

    height = rows_.step * max(len(data), 1)
    y = {"field": "y", "type": "quantitative", "axis": None, "scale": {"domain": [0, height], "range": [0, height], "nice": False}}
    x = {**rows_.x("x", "a step's time / its rung's number", ends, format=".2~f"), "scale": {"domain": ends, "nice": False, "zero": False}}
    described = {"description": {"field": "aria", "type": "nominal"}}
    look = {channel: {"field": "kind", "type": "nominal", "legend": None, "scale": {"domain": KINDS, "range": kinds}}
            for channel, kinds in (("color", COLORS), ("shape", SHAPES))}
    arrows = {"shape": {"condition": {"test": "datum.beyond === 'left'", "value": "triangle-left"}, "value": "triangle-right"}}
    inside, beyond = at([p for p in points if not p["beyond"]]), at([p for p in points if p["beyond"]])
    layers = [
        rows_.blank(),
        {"data": {"values": [{"row": d["row"], "one": 1, "y": (d["row"] + 0.5) * rows_.step + rows_.down - reach,
                              "y2": (d["row"] + 0.5) * rows_.step + rows_.down + reach} for d in data if not d["reason"]]},
         "mark": {"type": "rule", "color": GREY, "strokeWidth": 1, "strokeDash": [3, 3], "aria": False},
         "encoding": {"x": {**x, "field": "one"}, "y": y, "y2": {"field": "y2"}}},
        {"data": {"values": inside}, "mark": {"type": "point", "filled": True, "size": 18, "opacity": 0.6},
         "encoding": {"x": x, "y": y, **look, **described}},
        {"data": {"values": beyond}, "mark": {"type": "point", "filled": True, "size": 30, "opacity": 1},
         "encoding": {"x": x, "y": y, "color": look["color"], **arrows, **described}},
        {"data": {"values": at(medians)}, "mark": {"type": "tick", "orient": "vertical", "size": max(run, 6), "thickness": 2.5, "color": INK, "opacity": 1},
         "encoding": {"x": x, "y": y, **described}},
    ]
    texts = rows_.texts([("text", "rung's number", {"fontWeight": "bold"})])
    for name in (texts[0], texts[2]):
        name["mark"]["dy"] = -rows_.step / 2 + 11
    return rows_.view([*layers, *texts])


def draw_steps(part):
    study = part["study"]
    rungs = own_rungs(study)
    if timed_unit(study) == "run":
        return Missing("")  # a whole run is one step
    data, points, medians, timed = rows(part, rungs[:MOST_ROWS])
    if not points:
        return Missing("`ladder report STUDY` with the study's whole folder: its records have the times of single steps")
    ends = edges([([p["x"] for p in points if p["row"] == d["row"]], [m["x"] for m in medians if m["row"] == d["row"]])
                  for d in data if not d["reason"]])
    beyond = cut(points, *ends)
    cut(medians, *ends)
    own = {rung["index"] for rung in rungs}
    flagged = any(run["rung"] in own and run["step_ms"] and kind_of(run) == "disturbed" for run in part["runs"])
    lines = ["a line of points for each run, in the order made; each point a timed step; tick: the run's median",
             " · ".join([*([f"at the edge: {number_of(beyond, 'step')} beyond it"] if beyond else []), *(["purple triangles: disturbed runs"] if flagged else []),
                         *([f"{len(points):,} of {timed:,} steps drawn"] if len(points) < timed else []),
                         *([f"the first {MOST_ROWS} of {number_of(len(rungs), 'rung')}"] if len(rungs) > MOST_ROWS else [])])]
    counted = sum(run["status"] == "ok" for run in part["runs"])
    return Chart(f"Every step: {number_of(timed, 'timed step')} of {number_of(counted, 'run')}", [line for line in lines if line], about(study),
                 drawing(data, points, medians, ends))
