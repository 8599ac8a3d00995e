"""Peak memory of each rung, and what it is made of.

The parts do not add up to the peak. They are counted one by one, at different moments, so together they may be more than it. So
the peak is an outline around the stack of parts, and "other" is what they leave of it.
"""

from charts import Chart, Missing, about
from charts.rungs import BARS, Rows, row
from study import MEMORY_PARTS, has_number, lead, memory_parts, memory_unit, own_rungs
from theme import BAR, GREY, INK, PARTS, SERIES
from words import memory


WIDTH = 520  # px
COLORS = {**dict(zip(MEMORY_PARTS.values(), [*PARTS[:3], SERIES[2], PARTS[3]])), "other": PARTS[5]}


def known(rung):
    return has_number(rung) and rung["peak_memory_bytes"] is not None


def split(rung):
    """{part: bytes} of the parts that take room."""
    return {name: size for name, size in memory_parts(rung).items() if size > 0}


def rows(study):
    """(one object for each rung, one for each part of each rung)"""
    unit = memory_unit(study)
    out, parts = [], []
    for position, rung in enumerate(own_rungs(study)):
        d = row(study, rung, position, peak=None, reserved=None, text="—", reserved_text="—")
        out.append(d)
        if not known(rung):
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


def drawing(data, parts, unit_name, narrow):
    rows_ = Rows(data, WIDTH, narrow)
    ends = [*rows_.stacked(parts), *(d[field] for d in data for field in ("peak", "reserved") if d[field] is not None)]
    x = rows_.x("peak", unit_name, [0, 1.04 * max(ends) or 1], format="~g" if unit_name == "GiB" else ",~r")
    layers = [rows_.blank()]
    if parts:
        layers.append(rows_.stack(parts, x, COLORS))
        layers.append(rows_.bars(x, {"value": None}, height=rows_.bar + 4, cornerRadiusEnd=0, fill=None, stroke=INK, strokeWidth=1.5))
    else:
        layers.append(rows_.bars(x, {"value": BAR}))
    has_reserved = any(d["reserved"] is not None for d in data)
    if has_reserved:
        layers.append({"mark": {"type": "tick", "orient": "vertical", "size": rows_.bar + 4, "thickness": 2.5, "color": GREY, "opacity": 1,
                                "yOffset": rows_.down, "aria": False},
                       "transform": [{"filter": BARS + " && datum.reserved !== null"}],
                       "encoding": {"y": rows_.y, "x": {**x, "field": "reserved"}}})
    right = rows_.width
    if narrow:
        layers += [*rows_.names(right - (130 if has_reserved else 70)),
                   *rows_.column("text", "peak", right - 62 if has_reserved else right, fontWeight="bold")]
    else:
        layers += [*rows_.names(), *rows_.column("text", f"peak {unit_name}", right + 70, fontWeight="bold")]
    if has_reserved:
        layers += rows_.column("reserved_text", "reserved", right if narrow else right + 140)
    return {"data": {"values": data}, **rows_.view(layers)}


def title(study):
    """Of the rung that the study leads with."""
    ends = [memory(rung["peak_memory_bytes"], memory_unit(study)) for rung in lead(study) or () if known(rung)]
    return "Peak memory" + (f" {' → '.join(dict.fromkeys(ends))} {memory_unit(study)[0]}" if len(ends) == 2 else "")


def draw(part):
    study = part["study"]
    peaks = [rung["peak_memory_bytes"] for rung in own_rungs(study) if known(rung)]
    if not peaks:
        return Missing("`ladder ablate` measures it; no rung of this study has a number")
    is_known = any(2 * sum(size for name, size in split(rung).items() if name != "other") > rung["peak_memory_bytes"] for rung in own_rungs(study) if known(rung))
    if not is_known and max(peaks) < 1.1 * min(peaks):
        return Missing("")  # a column of the ladder says it
    (data, parts), unit_name = rows(study), memory_unit(study)[0]
    return Chart(title(study), [explained(data, parts)], about(study),
                 drawing(data, parts, unit_name, False), drawing(data, parts, unit_name, True))
