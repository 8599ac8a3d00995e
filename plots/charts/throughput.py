"""Tokens per second, and how much of the device's peak they use (MFU).

MFU may fall while the speed rises, because another number type has another peak. So each row names its own peak.
"""

from charts import Chart, Missing, finding_of, notes_of
from charts.rungs import BARS, Rows, disturbed, interval, place_ends, row, whiskers_said, with_interval
from study import about, has_number, own_rungs
from theme import BAR, GREY, INK, PARTS, axis
from words import clean, count, percent

NAME, QUESTION = "throughput", "How many tokens per second, and how much of the device's peak is that?"

WIDTH, WIDTH_BESIDE_MFU, MFU_WIDTH = 560, 300, 170  # px
LABEL = "datum.value < 1 ? format(datum.value, '~g') : upper(format(datum.value, '~s'))"  # 10K as in words.count


def speed(rung):
    return has_number(rung) and rung["tokens_per_s"] is not None


def mfu(rung):
    """None if it has no value."""
    known = rung.get("mfu") or {}
    return known if known.get("value") is not None else None


def peak(known):
    return f"{known['peak_flops'] / 1e12:.4g} TFLOP/s {clean(known['type'])}"


def rows(study):
    out = []
    for position, rung in enumerate(own_rungs(study)):
        d = row(study, rung, position, rate=None, lo=None, hi=None, text="", mfu=None, share="—", peak="")
        out.append(d)
        if not speed(rung):
            d["reason"] = d["reason"] or "no tokens per second"
            continue
        rate, known = rung["tokens_per_s"], mfu(rung)
        d["rate"], (d["lo"], d["hi"]) = rate["median"], interval(rate)
        said = with_interval(f"{d['rung']}: {count(d['rate'])} tokens/s", d["lo"], d["hi"], count)
        if known:
            d["mfu"], d["share"] = known["value"], percent(known["value"])
            d["peak"] = f"of {peak(known)}" if known["peak_flops"] is not None else clean(known["type"])
            d["mfu_aria"] = f"{d['rung']}: MFU {d['share']} {d['peak']}"
        d["text"] = count(d["rate"]) + disturbed(rung)
        d["aria"] = said + (f", MFU {d['share']} {d['peak']}" if known else "") + disturbed(rung)
    place_ends(out, "rate")
    return out


def drawing(data, narrow):
    has_mfu = any(d["mfu"] is not None for d in data)
    beside = has_mfu and not narrow
    rows_ = Rows(data, WIDTH_BESIDE_MFU if beside else WIDTH, narrow, WIDTH_BESIDE_MFU + MFU_WIDTH if beside else None)
    x = rows_.x("rate", "tokens/s", rows_.domain(), labelExpr=LABEL, tickCount=4)
    layers = [rows_.blank(), rows_.bars(x, {"value": BAR}), *rows_.whiskers(x), rows_.at_end(x), *rows_.names(rows_.width - 170)]
    if not has_mfu:
        return {"data": {"values": data}, **rows_.view(layers)}
    if narrow:
        layers += [*rows_.column("peak", "", rows_.width, color=GREY, fontSize=11),
                   *rows_.column("share", "MFU, of the peak", rows_.width - 118, fontWeight="bold")]
        return {"data": {"values": data}, **rows_.view(layers)}
    return {"data": {"values": data}, "spacing": 28, "bounds": "flush", "hconcat": [rows_.view(layers), shares(data)]}


def shares(data):
    """The panel of MFU, up to the limit at 100 %."""
    rows_ = Rows(data, MFU_WIDTH, False)
    end = max([1, *(d["mfu"] for d in data if d["mfu"] is not None)])
    x = {"field": "mfu", "type": "quantitative", "scale": {"domain": [0, end], "nice": False, "zero": True},
         "axis": axis("MFU", format="~%", values=[0, 0.5, 1], grid=False, labelFlush=False)}
    known = [{"filter": "datum.mfu !== null"}]
    bars = rows_.bars(x, {"value": PARTS[2]}, stroke=BAR, strokeWidth=1)
    bars["transform"], bars["encoding"]["description"]["field"] = known, "mfu_aria"
    limit = {"mark": {"type": "tick", "orient": "vertical", "size": rows_.step - 6, "thickness": 2, "color": INK, "opacity": 1,
                      "aria": False},
             "transform": known, "encoding": {"y": rows_.y, "x": {"datum": 1, "type": "quantitative", "scale": x["scale"]}}}
    layers = [bars, limit, *rows_.column("share", "MFU", MFU_WIDTH + 54, fontWeight="bold"),
              *rows_.column("peak", "100 % = the device's peak", MFU_WIDTH + 62, align="left", fontSize=12, color=GREY)]
    for layer in layers[2::2]:
        layer["transform"] = [{"filter": BARS}]
    return rows_.view(layers)


def draw(part):
    study = part["study"]
    if not any(speed(r) for r in own_rungs(study)):
        return Missing("`ladder ablate` measures it; no rung of this study has a number")
    data = rows(study)
    lines = [f"bars: {study['words']['runs']} · {whiskers_said(study, data)}"]
    return Chart(finding_of(study["words"], NAME), lines, notes_of(study["words"], NAME), about(study), drawing(data, False), drawing(data, True))
