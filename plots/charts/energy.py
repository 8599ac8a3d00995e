"""The GPU's energy for each token. No interval: the document has a rung's median alone."""

from charts import Chart, Missing
from charts.rungs import Rows, change, disturbed, row
from study import TITLE_LENGTH, about, has_number, own_rungs, swept_value
from theme import BAR
from words import clean, digits3, shorten

NAME, QUESTION = "energy", "How much energy does a token take?"

WIDTH = 600  # px


def known(rung):
    return has_number(rung) and rung.get("joules_per_token") is not None


def unit_of(study):
    """(name, its joules): one unit for all rows."""
    most = max(r["joules_per_token"] for r in own_rungs(study) if known(r))
    return ("J", 1) if most >= 1 else ("mJ", 1e-3)


def rows(study, unit):
    name, joules = unit
    out = []
    for position, rung in enumerate(own_rungs(study)):
        d = row(study, rung, position, energy=None, end=None, text="")
        out.append(d)
        if not known(rung):
            d["reason"] = d["reason"] or "not recorded"
            continue
        d["energy"] = d["end"] = rung["joules_per_token"] / joules
        d["text"] = f"{digits3(d['energy'])} {name}{disturbed(rung)}"
        d["aria"] = f"{d['rung']}: {digits3(d['energy'])} {name} per token{disturbed(rung)}"
    return out


def finding(study, unit):
    name, joules = unit
    first, last = change(study, known)
    if first is not None:
        return f"{digits3(first['joules_per_token'] / joules)} → {digits3(last['joules_per_token'] / joules)} {name} per token"
    numbers = [r for r in own_rungs(study) if known(r)]
    least = min(numbers, key=lambda r: r["joules_per_token"])
    words = f"{digits3(least['joules_per_token'] / joules)} {name} per token"
    if len(numbers) == 1:
        return words
    return shorten(f"Least energy: {words}, {swept_value(study, least)}{clean(least['title'])}", TITLE_LENGTH)


def drawing(data, unit_name, narrow):
    rows_ = Rows(data, WIDTH, narrow)
    x = rows_.x("energy", f"{unit_name} per token", rows_.domain(), format=",~r")
    layers = [rows_.blank(), rows_.bars(x, {"value": BAR}), rows_.at_end(x), *rows_.names()]
    return {"data": {"values": data}, **rows_.view(layers)}


def draw(part):
    study = part["study"]
    if not any(known(r) for r in own_rungs(study)):
        if study["device"]["kind"] == "cpu":
            return Missing("`ladder ablate` on a machine with an NVIDIA GPU, whose driver counts its energy")
        return Missing("`ladder ablate` records it where the GPU's driver counts energy and the timed steps take a second or more; "
                       "no run of this study has it")
    unit = unit_of(study)
    data = rows(study, unit)
    lines = ["bars: energy of the whole GPU, not of the machine, median over the runs that have it; no interval"]
    return Chart(finding(study, unit), lines, [], about(study), drawing(data, unit[0], False), drawing(data, unit[0], True))
