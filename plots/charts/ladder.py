"""The ladder, chart and table in one: a row for each rung, with a bar of its tokens per second and its figures beside it.

Bars grow downwards, so late rungs are as well seen as early ones. What a rung gains over the one before it is green within its bar, what
it loses is orange beyond it; both only if the ratio's interval shows it. A thin line is PyTorch compiled, where it was measured beside the
ladder.
"""

from charts import Chart, Missing, about
from charts.rungs import Rows, disturbed, interval, place_ends, row, whiskers_said, with_interval
from study import are_independent, compared as compared_number, compared_unit, faster, has_number, is_of_value, is_usable, memory_unit, mfu, no_interval, own_rungs, runs_said, slower, timed_unit, unclear
from theme import BAR, GREY, INK, PALE_BAR, SAVED, SLOWER_BAR, SLOWER_INK, SMALL, whiskers
from words import clean, count, digits3, memory, milliseconds, percent, times

RATE = "datum.value < 1 ? format(datum.value, '~g') : upper(format(datum.value, '~s'))"  # 10K as in words.count


def compared(what, ratio):
    return with_interval(f"{what} {times(ratio['ratio'])}", *interval(ratio), times) + (", no clear change" if unclear(ratio) else "")


def rate_of(study, rung):
    """Tokens per second; of a command that does not tell its tokens, steps per second. Or the number that the study compares."""
    if is_of_value(study):
        return compared_number(study, rung)
    if rung["tokens_per_s"] is not None:
        return rung["tokens_per_s"]
    ms = rung["ms_per_step"]
    return {"median": 1000 / ms["median"], "lo": ms["hi"] and 1000 / ms["hi"], "hi": ms["lo"] and 1000 / ms["lo"]}


def rate_unit(study):
    if is_of_value(study):
        return compared_unit(study)
    return f"{timed_unit(study)}s/s" if all(rung["tokens_per_s"] is None for rung in own_rungs(study)) and any(has_number(rung) for rung in own_rungs(study)) else "tokens/s"


def rows(study):
    """The chart's data, one object for each rung."""
    unit, by_first = memory_unit(study), are_independent(study)
    out, before = [], None
    for position, rung in enumerate(own_rungs(study)):
        d = row(study, rung, position, rate=None, lo=None, hi=None, text="", change="", before=None, kept=None, step="—", total="—", ms="—",
                memory="—", mfu="—", step_ink=INK, total_ink=INK, link=f"#rung-{rung['index']}")
        out.append(d)
        if not has_number(rung):
            continue
        rate, step, total = rate_of(study, rung), rung["speedup_previous"], rung["speedup_first"]
        d["rate"], (d["lo"], d["hi"]) = rate["median"], interval(rate)
        d["text"] = count(d["rate"]) + disturbed(rung)
        said = [with_interval(f"{d['rung']}: {count(d['rate'])} {rate_unit(study)}", d["lo"], d["hi"], count), milliseconds(rung["ms_per_step"]["median"])]
        if step is not None:
            d["step"] = times(step["ratio"])
            d["change"] = "unclear" if unclear(step) else "gained" if faster(step) and (before or 0) < d["rate"] else \
                "lost" if slower(step) and before is not None and before > d["rate"] else ""
            d["before"] = before if d["change"] in ("gained", "lost") else None
            d["step_ink"] = GREY if unclear(step) or no_interval(step) else SLOWER_INK if slower(step) else INK
            said.append(compared(f"against the {'first' if by_first else 'rung before'}", step))
        if total is not None:
            d["total"] = times(total["ratio"])
            d["total_ink"] = GREY if unclear(total) or no_interval(total) and total["ratio"] != 1 else INK
            if not by_first:
                said.append(compared("so far", total))
        d["kept"] = before if d["change"] == "gained" else d["rate"]
        if not by_first or position == 0:
            before = d["rate"]
        d["ms"] = digits3(rung["ms_per_step"]["median"] / (1000 if timed_unit(study) == "run" else 1))
        if rung["peak_memory_bytes"] is not None:
            d["memory"] = memory(rung["peak_memory_bytes"], unit)
        if mfu(rung) is not None:
            d["mfu"] = percent(mfu(rung))
        d["aria"] = ", ".join(said) + disturbed(rung)
    place_ends(out, "rate")
    if not is_usable(study["said"]):
        for d in out:
            d["change"] = "unclear"
    for d in out:
        d["end"] = d["end"] and max(d["end"], d["before"] or 0)
    return out


def compiled(study):
    """[the line of the fastest compiled peer]; none was measured: []"""
    peers = [rung for rung in study["rungs"] if rung.get("peer", "").endswith("-compile") and has_number(rung)]
    if not peers:
        return []
    best = max(peers, key=lambda rung: rung["tokens_per_s"]["median"])
    rate = best["tokens_per_s"]["median"]
    return [{"peer": rate, "said": f"{clean(best['title'])}d, {count(rate)}"}]


def peer_line(line, x):
    """The line across all rows, with its text above them, on the side that has more room."""
    left = line["peer"] < x["scale"]["domain"][1] / 2
    of, at = {"data": {"values": [line]}}, {"x": {**x, "field": "peer"}}
    return [{**of, "mark": {"type": "rule", "strokeWidth": 1, "color": INK, "aria": False}, "encoding": at},
            {**of, "mark": {"type": "text", "text": line["said"], "align": "left" if left else "right", "dx": -2 if left else 2, "fontSize": SMALL,
                            "color": INK},
             "encoding": {**at, "y": {"value": -30}, "description": {"field": "said", "type": "nominal"}}}]


def drawing(study, data):
    rows_, peers, by_first = Rows(data), compiled(study), are_independent(study)
    x = rows_.x("rate", None, rows_.domain([p["peer"] for p in peers]), labelExpr=RATE, tickCount=4)
    color = {"condition": {"test": "datum.change === 'unclear'", "value": PALE_BAR}, "value": BAR}
    between = {"mark": {"type": "bar", "height": rows_.bar, "yOffset": rows_.down, "aria": False}, "transform": [{"filter": "datum.before !== null"}],
               "encoding": {"y": rows_.y, "x": x, "x2": {"field": "before"},
                            "color": {"condition": {"test": "datum.change === 'lost'", "value": SLOWER_BAR}, "value": SAVED}}}
    columns = [*([] if by_first else [("step", "× step", {"ink": "step_ink"})]),
               ("total", "× first" if by_first else "× total", {"ink": "total_ink", "fontWeight": "bold"}), ("ms", "s" if timed_unit(study) == "run" else "ms", {}),
               ("memory", memory_unit(study)[0], {}), *([("mfu", "MFU", {})] * any(d["mfu"] != "—" for d in data))]
    texts = rows_.texts(columns)
    texts[0]["encoding"]["href"] = {"field": "link", "type": "nominal"}  # a rung's name leads to what is folded of it
    return rows_.view([rows_.blank(), rows_.bars({**x, "field": "kept"}, color), between, *whiskers(x, rows_.y, yOffset=rows_.down), rows_.at_end(x),
                       *(layer for line in peers for layer in peer_line(line, x)), rows_.head(rate_unit(study), 0, align="left"), *texts])


def lines(study, data):
    other = "first" if are_independent(study) else "rung before"
    seen = [words for change, words in (("gained", f"green: gained over the {other}"), ("lost", "orange: lost"), ("unclear", "pale: no clear change"))
            if any(d["change"] == change for d in data)]
    if all(d["rate"] is None for d in data):
        return []
    how = ["× not paired" if study.get("from_logs") else "× paired within repeats"] * any(d["step"] != "—" for d in data) + seen if is_usable(study["said"]) else ["pale: nothing is claimed"]
    return [" · ".join([runs_said(study), whiskers_said(study, data), *how])]


def draw_ladder(part):
    study = part["study"]
    if study["mode"] != "cumulative":
        return Missing("`ladder ablate` switches the optimizations on one after another")
    data = rows(study)
    return Chart(study["said"]["headline"], lines(study, data), about(study), drawing(study, data))
