"""Every step of every run: one panel for each rung, and beside it the medians of its runs in the order they were made.

The surprising thing: a panel's time axis does not begin at 0 and does not reach to the slowest step. It shows the runs'
medians and the middle 80 % of the timed steps, and as much again on both sides, at least 5 %; timed steps beyond are counted
and marked at the edge.
"""

import trust
from charts import Chart, Missing
from study import STATUS_WORDS, about, label, own_rungs, reason, warning_line
from theme import BAR, GREY, GRID, INK, NARROW, ROOM, SLOWER_INK, WHOLE, axis
from words import milliseconds, number_of, shorten, wrap

NAME, QUESTION = "steps", "How long did each step take?"
MOST_PANELS, MOST_RUNS, MOST_POINTS, MOST_MARKS = 24, 200, 4800, 40  # of the chart, of its lines; MARKS: of a panel
AXIS, MEDIANS, HEIGHT = 62, 84, 120  # px; AXIS: title and labels
KINDS = ["as planned", "disturbed", "failed"]
COLORS, SHAPES, DASHES = [BAR, SLOWER_INK, GREY], ["circle", "triangle-up", "square"], [[], [5, 2], [2, 2]]


def edges(timed, medians):
    """[from, to] of a panel's time axis."""
    ordered = sorted(timed)
    tenth = len(ordered) // 10
    low, high = min([ordered[tenth], *medians]), max([ordered[-1 - tenth], *medians])
    beyond = max(high - low, 0.05 * high)
    margin = 0.025 * high
    return [max(low - beyond, ordered[0] - margin, 0), min(high + beyond, ordered[-1] + margin)]


def thinned(numbered, most):
    """Of [(step's number, value)] all, or of each stretch of equal length the least and the most, so that none of these is lost."""
    if len(numbered) <= most:
        return numbered
    length = -(-2 * len(numbered) // most)
    out = []
    for begin in range(0, len(numbered), length):
        stretch = numbered[begin:begin + length]
        out += sorted({min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])})
    return out


def kind_of(run):
    return KINDS[2] if run["status"] != "ok" else KINDS[1] if run["flags"] else KINDS[0]


def panels(part, rungs, most):
    """What each rung's panel shows; those of rungs without runs have a reason instead."""
    study, out = part["study"], []
    medians = {run["id"]: run["median_ms"] for run in study["runs"]}
    for rung in rungs:
        runs = [r for r in part["runs"] if r["rung"] == rung["index"] and r["step_ms"]]
        timed = [ms for r in runs for ms in r["step_ms"][r["warmup_steps"]:]] or [ms for r in runs for ms in r["step_ms"]]
        panel = {"title": label(study, rung), "reason": "", "runs": runs}
        short = shorten(panel["title"], 24)
        out.append(panel)
        if not runs:
            panel["reason"] = reason(rung) if rung["status"] != "measured" else "its runs' records are not there"
            continue
        known = [(r, medians.get(r["id"])) for r in runs]
        low, high = panel["edges"] = edges(timed, [ms for _, ms in known if ms is not None])
        if rung["status"] != "measured":
            panel["title"] = f"{STATUS_WORDS.get(rung['status'], rung['status'])}: {panel['title']}"
        panel["warmup"] = max(r["warmup_steps"] for r in runs)
        panel["length"] = max(len(r["step_ms"]) for r in runs)
        panel["steps"], panel["beyond"], panel["early"], panel["timed"] = [], [], 0, len(timed)
        for run in runs:
            kind, name = kind_of(run), shorten(run["id"], 60)
            said = f"run {name}, {kind}, {number_of(len(run['step_ms']), 'step')}"
            said += f": {shorten(run['flags'][0], 100)}" if run["flags"] else ""
            panel["steps"] += [{"run": name, "kind": kind, "step": step, "ms": ms, "aria": said}
                               for step, ms in thinned(list(enumerate(run["step_ms"], 1)), most)]
            for step, ms in enumerate(run["step_ms"], 1):
                if low <= ms <= high:
                    continue
                if step <= run["warmup_steps"]:
                    panel["early"] += 1
                else:
                    panel["beyond"].append({"step": step, "ms": ms, "at": high if ms > high else low, "up": ms > high,
                                            "aria": f"{short}, run {name}, step {step}: {milliseconds(ms)}, beyond the edge"})
        panel["marks"] = sorted(panel["beyond"], key=lambda b: -abs(b["ms"] - b["at"]))[:MOST_MARKS]
        panel["medians"] = [{"position": r["position"], "ms": ms, "kind": kind_of(r),
                             "aria": f"{short}, run {shorten(r['id'], 60)}, number {r['position'] + 1} of the study, "
                                     f"{kind_of(r)}: median {milliseconds(ms)}"} for r, ms in known if ms is not None]
    return out


def cell(panel, width, last):
    steps_width = width - AXIS - MEDIANS - 14
    heading = {"text": shorten(panel["title"], 44), "anchor": "start", "frame": "group", "fontSize": 13, "fontWeight": "bold", "color": INK,
               "offset": 6, "limit": int(ROOM * (width - AXIS))}
    if panel["reason"]:
        texts = [{"text": text, "line": i} for i, text in enumerate(wrap(panel["reason"], 40, most=4))]
        return {"width": width - AXIS, "height": HEIGHT, "title": heading, "data": {"values": texts}, "mark": {
            "type": "text", "align": "left", "fontSize": 12, "fontStyle": "italic", "color": GREY, "aria": False},
            "encoding": {"x": {"value": 0}, "y": {"field": "line", "type": "quantitative", "scale": {"domain": [6, -1]},
                               "axis": axis(" ", labels=False, grid=False, minExtent=AXIS - 22, maxExtent=AXIS - 22)},
                         "text": {"field": "text", "type": "nominal"}}}
    styles = {"color": {"field": "kind", "type": "nominal", "scale": {"domain": KINDS, "range": COLORS}, "legend": None}}
    form = ",~r" if panel["edges"][1] >= 1000 else ",.4~r"
    y = {"field": "ms", "type": "quantitative", "scale": {"domain": panel["edges"], "zero": False, "nice": False},
         "axis": axis("ms per step", tickCount=4, format=form, minExtent=AXIS - 22, maxExtent=AXIS - 22)}
    bare_y = {**y, "axis": axis(None, labels=False, tickCount=4)}
    x = {"field": "step", "type": "quantitative", "scale": {"domain": [0.5, panel["length"] + 0.5], "nice": False},
         "axis": axis("step", grid=False, tickCount=4, labelExpr=WHOLE, labelFlush=True)}
    steps = [
        {"data": {"values": [{"from": 0.5, "to": panel["warmup"] + 0.5}]}, "mark": {"type": "rect", "color": GRID, "aria": False},
         "encoding": {"x": {**x, "field": "from"}, "x2": {"field": "to"}}},
        {"data": {"values": [{"to": panel["warmup"] + 0.5}]}, "mark": {"type": "rule", "strokeDash": [3, 3], "color": GREY, "aria": False},
         "encoding": {"x": {**x, "field": "to"}}},
        {"mark": {"type": "line", "strokeWidth": 1.3, "clip": True},
         "encoding": {"x": x, "y": y, "detail": {"field": "run", "type": "nominal"}, **styles,
                      "strokeDash": {"field": "kind", "type": "nominal", "scale": {"domain": KINDS, "range": DASHES}, "legend": None},
                      "description": {"field": "aria", "type": "nominal"}}},
    ]
    if panel["length"] == 1:
        steps.append({"mark": {"type": "point", "filled": True, "size": 40, "opacity": 1, "aria": False},
                      "encoding": {"x": x, "y": y, **styles}})
    if panel["marks"]:
        steps.append({"data": {"values": panel["marks"]}, "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1, "color": INK},
                      "encoding": {"x": x, "y": {**y, "field": "at"}, "description": {"field": "aria", "type": "nominal"},
                                   "shape": {"condition": {"test": "datum.up", "value": "triangle-up"}, "value": "triangle-down"}}})
    order = {"field": "position", "type": "quantitative", "scale": {"domain": [-0.5, max(last, 1) + 0.5], "nice": False},
             "axis": axis("run", values=[0, last] if last else [0], labelExpr="format(datum.value + 1, ',d')", grid=False, labelFlush=True)}
    medians = {"width": MEDIANS, "height": HEIGHT, "data": {"values": panel["medians"]},
               "mark": {"type": "point", "filled": True, "size": 36, "opacity": 1},
               "encoding": {"x": order, "y": bare_y, **styles, "description": {"field": "aria", "type": "nominal"},
                            "shape": {"field": "kind", "type": "nominal", "scale": {"domain": KINDS, "range": SHAPES}, "legend": None}}}
    return {"title": heading, "spacing": 10, "resolve": {"scale": {"x": "independent", "y": "independent"}},
            "hconcat": [{"width": steps_width, "height": HEIGHT, "data": {"values": panel["steps"]}, "layer": steps}, medians]}


def drawing(shown, last, narrow):
    columns, width = (1, NARROW - 8) if narrow else (3, 298)
    cells = [cell(panel, width, last) for panel in shown]
    return {"concat": cells, "columns": columns, "align": "each",
            "spacing": {"row": 20, "column": 12}, "resolve": {"scale": {"x": "independent", "y": "independent", "color": "independent"}}}


def undisturbed(part):
    """What the finding says of runs that are not disturbed, as far as that is known."""
    if trust.disturbed_runs(part) or any(trust.unwatched_runs(part)):
        return ""
    again = trust.made_again(part)
    return f"; no run counted is disturbed ({len(again)} made again)" if again else "; no run was disturbed"


def draw(part):
    study = part["study"]
    if not any(run["step_ms"] for run in part["runs"]):
        return Missing("`ladder report STUDY` with the study's whole folder: its records have the times of single steps")
    rungs = own_rungs(study)
    own = {rung["index"] for rung in rungs}
    runs = [run for run in part["runs"] if run["rung"] in own and run["step_ms"]]
    of_a_rung = max(len([r for r in runs if r["rung"] == rung["index"]]) for rung in rungs)
    most_panels = max(4, min(MOST_PANELS, MOST_RUNS // max(of_a_rung, 1)))
    shown = panels(part, rungs[:most_panels], max(12, MOST_POINTS // max(of_a_rung * min(most_panels, len(rungs)), 1)))
    drawn = [panel for panel in shown if panel["runs"]]
    beyond, timed = sum(len(p["beyond"]) for p in drawn), sum(p["timed"] for p in drawn)
    early = sum(p["early"] for p in drawn)
    disturbed = [r for r in runs if r["flags"]]
    if disturbed:
        finding = f"{len(disturbed)} of {number_of(len(runs), 'run')} {'was' if len(disturbed) == 1 else 'were'} disturbed"
    elif beyond:
        finding = f"{beyond:,} of {number_of(timed, 'timed step')} {'is an outlier' if beyond == 1 else 'are outliers'}" + undisturbed(part)
    else:
        finding = f"No outlier in {number_of(timed, 'timed step')}" + undisturbed(part)
    lines = about(study)
    lines.append("lines: one for each run; grey background: warm-up, not timed · right: each run's median, in the order of the runs")
    raised = sum(panel["edges"][0] > 0 for panel in drawn)
    marks = [f"{'the' if raised == len(drawn) else 'some'} ms axes do not begin at 0"] if raised else []
    if beyond:
        marks.append(f"black triangles: {number_of(beyond, 'timed step')} beyond the edge"
                     + (f", the farthest {MOST_MARKS} of a panel are marked" if any(len(p["beyond"]) > MOST_MARKS for p in drawn) else ""))
    if early:
        marks.append(f"{number_of(early, 'warm-up step')} beyond the edge, not marked")
    if disturbed:
        marks.append("dashed, a triangle on the right: disturbed runs (" + shorten(disturbed[0]["flags"][0], 80) + ")")
    if any(r["status"] != "ok" for r in runs):
        marks.append("dotted, a square on the right: failed runs")
    lines += [" · ".join(marks)] if marks else []
    if len(rungs) > most_panels:
        lines.append(f"the first {most_panels} of {number_of(len(rungs), 'rung')} are drawn")
    last = max([run["position"] for run in study["runs"]], default=0)
    return Chart(shorten(finding, 100), lines + warning_line(study), drawing(shown, last, False), drawing(shown, last, True))
