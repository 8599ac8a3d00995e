"""What each rung costs beside its time: its peak memory, what that is made of, and the GPU's energy for each token.

The parts of the memory do not add up to the peak. They are counted one by one, at different moments, so together they may be more than
it. So the peak is an outline around the stack of parts, and "other" is what they leave of it. The energy has no interval: the document
has only each rung's median.
"""

from charts import Chart, Missing, about
from charts.rungs import BARS, Rows, disturbed, row
from study import MEMORY_PARTS, has_number, lead, memory_parts, memory_unit, own_rungs
from theme import BAR, GREY, INK, PARTS, SERIES
from words import clean, digits3, memory, shorten

COLORS = {**dict(zip(MEMORY_PARTS.values(), [*PARTS[:3], SERIES[2], PARTS[3]])), "other": PARTS[5]}


def known_peak(rung):
    return has_number(rung) and rung["peak_memory_bytes"] is not None


def split(rung):
    """{part: bytes} of the parts that take room."""
    return {name: size for name, size in memory_parts(rung).items() if size > 0}


def memory_rows(study):
    """(one object for each rung, one for each part of each rung)"""
    unit = memory_unit(study)
    out, parts = [], []
    for position, rung in enumerate(own_rungs(study)):
        d = row(study, rung, position, peak=None, reserved=None, text="—", reserved_text="—")
        out.append(d)
        if not known_peak(rung):
            d["reason"] = d["reason"] or "its peak is not known"
            continue
        d["peak"], d["text"] = rung["peak_memory_bytes"] / unit[1], memory(rung["peak_memory_bytes"], unit)
        d["aria"] = f"{d['rung']}: peak {d['text']} {unit[0]}"
        reserved = (rung.get("memory") or {}).get("reserved_peak_bytes")
        if reserved is not None:
            d["reserved"], d["reserved_text"] = reserved / unit[1], memory(reserved, unit)
            d["aria"] += f", reserved {d['reserved_text']} {unit[0]}"
        for order, (name, size) in enumerate(split(rung).items()):
            parts.append({"row": position, "part": name, "order": order, "size": size / unit[1],
                          "aria": f"{d['rung']}: {name} {memory(size, unit)} {unit[0]}"})
    return out, parts


def explained(data, parts):
    if not parts:
        return "bars: peak of all runs; no interval"
    return "outline: peak of all runs" + ("; grey tick: peak reserved by the allocator" if any(d["reserved"] is not None for d in data) else "")


def memory_drawing(data, parts, unit_name):
    rows_ = Rows(data)
    ends = [*rows_.stacked(parts), *(d[field] for d in data for field in ("peak", "reserved") if d[field] is not None)]
    x = rows_.x("peak", unit_name, [0, 1.04 * max(ends) or 1], format="~g" if unit_name == "GiB" else ",~r")
    layers = [rows_.blank()]
    if parts:
        layers.append(rows_.stack(parts, x, COLORS))
        layers.append(rows_.bars(x, {"value": None}, height=rows_.bar + 4, cornerRadiusEnd=0, fill=None, stroke=INK, strokeWidth=1.5))
    else:
        layers.append(rows_.bars(x, {"value": BAR}))
    columns = [("text", "peak", {"fontWeight": "bold"})]
    if any(d["reserved"] is not None for d in data):
        layers.append({"mark": {"type": "tick", "orient": "vertical", "size": rows_.bar + 4, "thickness": 2.5, "color": GREY, "opacity": 1,
                                "yOffset": rows_.down, "aria": False},
                       "transform": [{"filter": BARS + " && datum.reserved !== null"}],
                       "encoding": {"y": rows_.y, "x": {**x, "field": "reserved"}}})
        columns.append(("reserved_text", "reserved", {}))
    return rows_.view([*layers, *rows_.texts(columns, wide=72)])


def memory_title(study):
    """Of the rung that the study leads with."""
    ends = [memory(rung["peak_memory_bytes"], memory_unit(study)) for rung in lead(study) or () if known_peak(rung)]
    return "Peak memory" + (f" {' → '.join(dict.fromkeys(ends))} {memory_unit(study)[0]}" if len(ends) == 2 else "")


def draw_memory(part):
    study = part["study"]
    peaks = [rung["peak_memory_bytes"] for rung in own_rungs(study) if known_peak(rung)]
    if not peaks:
        return Missing("`ladder ablate` measures it; no rung of this study has a number")
    is_known = any(2 * sum(size for name, size in split(rung).items() if name != "other") > rung["peak_memory_bytes"] for rung in own_rungs(study) if known_peak(rung))
    if not is_known and max(peaks) < 1.1 * min(peaks):
        return Missing("")  # a column of the ladder says it
    data, parts = memory_rows(study)
    return Chart(memory_title(study), [explained(data, parts)], about(study), memory_drawing(data, parts, memory_unit(study)[0]))


# ---- energy

def known_energy(rung):
    return has_number(rung) and rung.get("joules_per_token") is not None


def energy_unit(study):
    """(name, its joules): one unit for all rows."""
    most = max(r["joules_per_token"] for r in own_rungs(study) if known_energy(r))
    return ("J", 1) if most >= 1 else ("mJ", 1e-3)


def why_unknown(rung, runs):
    """What the rung's first run says: "the timed steps took 0.90 s, too short for the energy counter ..."."""
    notes = [((run["conditions"] or {}).get("notes") or {}) for run in runs if run["rung"] == rung["index"]]
    return shorten(clean(next((n["joules_per_token"] for n in notes if "joules_per_token" in n), "not recorded")), 200)


def energy_rows(study, unit, runs):
    name, joules = unit
    out = []
    for position, rung in enumerate(own_rungs(study)):
        d = row(study, rung, position, energy=None, end=None, text="")
        out.append(d)
        if not known_energy(rung):
            d["reason"] = d["reason"] or why_unknown(rung, runs)
            continue
        d["energy"] = d["end"] = rung["joules_per_token"] / joules
        d["text"] = f"{digits3(d['energy'])} {name}{disturbed(rung)}"
        d["aria"] = f"{d['rung']}: {digits3(d['energy'])} {name} per token{disturbed(rung)}"
    return out


def energy_drawing(data, unit_name):
    rows_ = Rows(data)
    x = rows_.x("energy", f"{unit_name} per token", rows_.domain(), format=",~r")
    return rows_.view([rows_.blank(), rows_.bars(x, {"value": BAR}), rows_.at_end(x), *rows_.texts()])


def energy_title(study, unit):
    """Of the rung that the study leads with; where it is not known, of no other."""
    ends = [rung for rung in lead(study) or () if known_energy(rung)]
    texts = [digits3(rung["joules_per_token"] / unit[1]) for rung in ends]
    return f"Energy: {' → '.join(texts)} {unit[0]} per token" if len(ends) == 2 else "Energy per token"


def draw_energy(part):
    study = part["study"]
    if not any(known_energy(r) for r in own_rungs(study)):
        if study["device"]["kind"] == "cpu":
            return Missing("`ladder ablate` on a machine with an NVIDIA GPU, whose driver counts its energy")
        return Missing("`ladder ablate` records it where the GPU's driver counts energy and the timed steps take a second or more; "
                       "no run of this study has it")
    unit = energy_unit(study)
    return Chart(energy_title(study, unit), ["energy of the whole GPU, not of the machine, median over runs; no interval"], about(study),
                 energy_drawing(energy_rows(study, unit, part["runs"]), unit[0]))
