"""The GPU's energy for each token. It has no interval: the document has only each rung's median."""

from charts import Chart, Missing, about
from charts.rungs import Rows, disturbed, row
from study import has_number, lead, own_rungs
from theme import BAR
from words import clean, digits3, shorten


WIDTH = 600  # px


def known(rung):
    return has_number(rung) and rung.get("joules_per_token") is not None


def unit_of(study):
    """(name, its joules): one unit for all rows."""
    most = max(r["joules_per_token"] for r in own_rungs(study) if known(r))
    return ("J", 1) if most >= 1 else ("mJ", 1e-3)


def why_unknown(rung, runs):
    """What the rung's first run says: "the timed steps took 0.90 s, too short for the energy counter ..."."""
    notes = [((run["conditions"] or {}).get("notes") or {}) for run in runs if run["rung"] == rung["index"]]
    return shorten(clean(next((n["joules_per_token"] for n in notes if "joules_per_token" in n), "not recorded")), 200)


def rows(study, unit, runs):
    name, joules = unit
    out = []
    for position, rung in enumerate(own_rungs(study)):
        d = row(study, rung, position, energy=None, end=None, text="")
        out.append(d)
        if not known(rung):
            d["reason"] = d["reason"] or why_unknown(rung, runs)
            continue
        d["energy"] = d["end"] = rung["joules_per_token"] / joules
        d["text"] = f"{digits3(d['energy'])} {name}{disturbed(rung)}"
        d["aria"] = f"{d['rung']}: {digits3(d['energy'])} {name} per token{disturbed(rung)}"
    return out


def drawing(data, unit_name, narrow):
    rows_ = Rows(data, WIDTH, narrow)
    x = rows_.x("energy", f"{unit_name} per token", rows_.domain(), format=",~r")
    layers = [rows_.blank(), rows_.bars(x, {"value": BAR}), rows_.at_end(x), *rows_.names()]
    return {"data": {"values": data}, **rows_.view(layers)}


def title(study, unit):
    """Of the rung that the study leads with; where it is not known, of no other."""
    ends = [rung for rung in lead(study) or () if known(rung)]
    texts = [digits3(rung["joules_per_token"] / unit[1]) for rung in ends]
    return f"Energy: {' → '.join(texts)} {unit[0]} per token" if len(ends) == 2 else "Energy per token"


def draw(part):
    study = part["study"]
    if not any(known(r) for r in own_rungs(study)):
        if study["device"]["kind"] == "cpu":
            return Missing("`ladder ablate` on a machine with an NVIDIA GPU, whose driver counts its energy")
        return Missing("`ladder ablate` records it where the GPU's driver counts energy and the timed steps take a second or more; "
                       "no run of this study has it")
    unit = unit_of(study)
    data = rows(study, unit, part["runs"])
    lines = ["energy of the whole GPU, not of the machine, median over runs; no interval"]
    return Chart(title(study, unit), lines, about(study), drawing(data, unit[0], False), drawing(data, unit[0], True))
