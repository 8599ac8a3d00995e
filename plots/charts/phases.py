"""Where a step's time goes: the phases of each traced rung, and the time in which the device did nothing.

A bar is as long as the rung's own step in the ladder. The traced step may be slower or faster: only its division is taken.
Operations that run at the same time count twice. Idle time is what the busy time leaves.
"""

from charts import Chart, Missing, finding_of
from charts.rungs import Rows, disturbed, row
from study import about, has_number, own_rungs
from theme import GREY, PARTS
from words import milliseconds, shorten

NAME, QUESTION = "phases", "Where does a step's time go?"

WIDTH = 540  # px
OTHER, IDLE = "other", "idle"
COLORS = {**dict(zip(["data", "forward", "backward", "clip", "update"], PARTS)), OTHER: GREY, IDLE: PARTS[5]}


def traced(rung):
    return has_number(rung) and rung.get("profile") is not None


def share(x):
    return "—" if x is None else f"{x:.3g} %"


def step_of(rung):
    """The rung's own step, divided as the traced one is. Older studies have only the traced step."""
    return rung["profile"].get("step") or rung["profile"]


def parts_of(rung):
    """[(part, what the trace calls it, ms)] in the order of a step."""
    profile = step_of(rung)
    phases = [(p["phase"] if p["phase"] in COLORS and p["phase"] != IDLE else OTHER, p["phase"] or "no phase", p["ms"])
              for p in profile["by_phase"]]
    return sorted([*phases, (IDLE, IDLE, profile["idle_ms"] or 0)], key=lambda part: list(COLORS).index(part[0]))


def rows(study):
    """(one object for each rung, one for each part of each rung)"""
    out, parts = [], []
    for position, rung in enumerate(r for r in own_rungs(study) if traced(r)):
        d = row(study, rung, position, ms=None, busy="—", launch="—")
        out.append(d)
        d["busy"], d["launch"] = share(rung["profile"]["busy_percent"]), share(rung["profile"]["launch_bound_percent"])
        for order, (part, name, ms) in enumerate(parts_of(rung)):
            if ms > 0:
                parts.append({"row": position, "part": part, "order": order, "size": ms,
                              "aria": f"{d['rung']}: {shorten(name, 40)} {milliseconds(ms)}{disturbed(rung)}"})
    return out, parts


def drawing(data, parts, narrow):
    rows_ = Rows(data, WIDTH, narrow)
    x = rows_.x("ms", "ms per step", [0, 1.02 * max(rows_.stacked(parts), default=0) or 1], format=",~f")
    layers = [rows_.blank(), *([rows_.stack(parts, x, COLORS)] if parts else [])]
    launch = any(d["launch"] != "—" for d in data)
    right = rows_.width
    if narrow:
        layers += [*rows_.names(right - (150 if launch else 75)),
                   *rows_.column("busy", "busy", right - 84 if launch else right, fontWeight="bold")]
    else:
        layers += [*rows_.names(), *rows_.column("busy", "busy", right + 70, fontWeight="bold")]
    if launch:
        layers += rows_.column("launch", "launch-bound", right if narrow else right + 156)
    return {"data": {"values": data}, **rows_.view(layers)}


def draw(part):
    study = part["study"]
    if not any(traced(r) for r in own_rungs(study)):
        return Missing("`ladder ablate --explain` traces each rung, too")
    data, parts = rows(study)
    own = [rung for rung in own_rungs(study) if traced(rung)]
    launch = any(rung["profile"]["launch_bound_percent"] is not None for rung in own)
    scaled = all("step" in rung["profile"] for rung in own)
    bars = ("bars: the rung's median step, which was not traced, divided as in one traced run" if scaled
            else "bars: median step of one traced run, which is not a rung's time")
    lines = [bars + "; overlapping operations count twice; no interval",
             "busy: share of a step in which anything ran"
             + (" · launch-bound: share of the traced time in which it waited for the host's next call" if launch else "")]
    return Chart(finding_of(study["words"], NAME), lines, [], about(study), drawing(data, parts, False), drawing(data, parts, True))
