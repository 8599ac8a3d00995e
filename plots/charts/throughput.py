"""Tokens per second, and how much of the device's peak they use (MFU)."""

from charts import Chart, Missing, finding_of, notes_of
from charts.rungs import Rows, disturbed, interval, place_ends, row, whiskers_said, with_interval
from study import about, has_mfu, has_number, own_rungs
from theme import BAR
from words import count, percent

NAME, QUESTION = "throughput", "How many tokens per second, and how much of the device's peak is that?"

WIDTH = 560  # px
LABEL = "datum.value < 1 ? format(datum.value, '~g') : upper(format(datum.value, '~s'))"  # 10K as in words.count


def speed(rung):
    return has_number(rung) and rung["tokens_per_s"] is not None


def rows(study):
    out = []
    for position, rung in enumerate(own_rungs(study)):
        d = row(study, rung, position, rate=None, lo=None, hi=None, text="")
        out.append(d)
        if not speed(rung):
            d["reason"] = d["reason"] or "no tokens per second"
            continue
        rate, share = rung["tokens_per_s"], (rung.get("mfu") or {}).get("value")
        d["rate"], (d["lo"], d["hi"]) = rate["median"], interval(rate)
        more = (f" · {percent(share)}" if share is not None else "") + disturbed(rung)
        d["text"] = count(d["rate"]) + more
        d["aria"] = with_interval(f"{d['rung']}: {count(d['rate'])} tokens/s", d["lo"], d["hi"], count) + more
    place_ends(out, "rate")
    return out


def drawing(data, narrow):
    rows_ = Rows(data, WIDTH, narrow)
    x = rows_.x("rate", "tokens/s", rows_.domain(), labelExpr=LABEL, tickCount=4)
    layers = [rows_.blank(), rows_.bars(x, {"value": BAR}), *rows_.whiskers(x), rows_.at_end(x), *rows_.names()]
    return {"data": {"values": data}, **rows_.view(layers)}


def draw(part):
    study = part["study"]
    if not any(speed(r) for r in own_rungs(study)):
        return Missing("`ladder ablate` measures it; no rung of this study has a number")
    data = rows(study)
    lines = [f"bars: {study['words']['runs']} · {whiskers_said(study, data)}" + (" · %: MFU" if has_mfu(study) else "")]
    return Chart(finding_of(study["words"], NAME), lines, notes_of(study["words"], NAME), about(study), drawing(data, False), drawing(data, True))
