"""Where a step's time goes: the phases of the rung that leads, and the time in which the device did nothing; also of every rung.

A bar is as long as the rung's own step in the ladder. The traced step may be slower or faster: only its division is taken.
Operations that run at the same time count twice. Idle time is what the busy time leaves.
"""

from charts import Chart, Missing, about
from charts.rungs import Rows, disturbed, row
from study import has_number, label, lead, own_rungs
from theme import GREY, PARTS
from words import digits3, milliseconds, shorten

OTHER, IDLE = "other", "idle"
COLORS = {**dict(zip(["data", "forward", "backward", "clip", "update"], PARTS)), OTHER: GREY, IDLE: PARTS[5]}


def traced(rung):
    return has_number(rung) and rung.get("profile") is not None


def share(x):
    return "—" if x is None else f"{x:.3g} %"


def parts_of(rung):
    """[(part, what the trace calls it, ms)] in the order of a step."""
    step = rung["profile"]["step"]
    phases = [(p["phase"] if p["phase"] in COLORS and p["phase"] != IDLE else OTHER, p["phase"] or "no phase", p["ms"])
              for p in step["by_phase"]]
    return sorted([*phases, (IDLE, IDLE, step["idle_ms"] or 0)], key=lambda part: list(COLORS).index(part[0]))


def rows(study, rungs, ideal=None):
    """(one object for each rung, one for each part of each rung). `ideal`: (a rung's title, {phase: the least ms}); its row is the last."""
    out, parts = [], []
    for rung in rungs:
        d = row(study, rung, len(out), ms=None, busy=share(rung["profile"]["busy_percent"]))
        out.append(d)
        for order, (part, name, ms) in enumerate(parts_of(rung)):
            if ms > 0:
                parts.append({"row": d["row"], "part": part, "order": order, "size": ms,
                              "aria": f"{d['rung']}: {shorten(name, 40)} {milliseconds(ms)}{disturbed(rung)}"})
    if ideal and any(ideal[0] in (r["title"], r["label"]) for r in rungs):
        d = {"row": len(out), "rung": "its ideal" if len(rungs) == 1 else f"ideal for {ideal[0].removeprefix('+ ')}", "reason": "", "ms": None, "busy": "—"}
        out.append(d)
        parts += [{"row": d["row"], "part": part if part in COLORS else OTHER, "order": order, "size": ms, "aria": f"{d['rung']}: {part} {milliseconds(ms)}"}
                  for order, (part, ms) in enumerate(sorted(ideal[1].items(), key=lambda p: list(COLORS).index(p[0]) if p[0] in COLORS else 99)) if ms > 0]
    return out, parts


def drawing(data, parts):
    rows_ = Rows(data)
    x = rows_.x("ms", "ms per step", [0, 1.02 * max(rows_.stacked(parts), default=0) or 1], format=",~f")
    return rows_.view([rows_.blank(), *([rows_.stack(parts, x, COLORS)] if parts else []), *rows_.texts([("busy", "busy", {"fontWeight": "bold"})])])


def draw_phases(part, every=False):
    study = part["study"]
    rungs = [rung for rung in own_rungs(study) if traced(rung)]
    if len(rungs) <= every:
        return Missing("`ladder ablate --explain` traces each rung, too")
    counts = ([rung for rung in (lead(study) or ())[1:] if traced(rung)] or rungs)[-1:]  # the rung that the study leads with, or the last traced one
    data, parts = rows(study, rungs if every else counts, part.get("ideal"))
    name, _, ms = max(parts_of(counts[0]), key=lambda p: p[2])
    title = "Where the time of each rung goes" if every else f"Where the time goes: {name} {digits3(ms)} of {milliseconds(counts[0]['profile']['step']['ms'])}"
    without = [label(study, rung) for rung in own_rungs(study) if every and has_number(rung) and rung not in rungs]
    lines = ["the measured step, split as in one traced run · busy: share of the step in which anything ran" + f" · not traced: {', '.join(without)}" * bool(without)]
    return Chart(title, lines, about(study), drawing(data, parts))


def draw_phases_of_all(part):
    return draw_phases(part, every=True)
