"""The ladder: a row for each rung, with its time, what it saved or cost compared with the rung before it, and the speedup so far.

Saved and lost time is coloured only if the ratio's interval shows it. The colour reaches to where the bar before it ended.
Published figures are hollow diamonds below the bars. Nothing that was measured here looks like them. A thin line is PyTorch compiled,
where it was measured beside the ladder.
"""

from charts import Chart, Missing, finding_of
from charts.rungs import Rows, disturbed, interval, place_ends, row, whiskers_said, with_interval
from study import about, faster, has_number, memory_unit, own_rungs, slower, unclear
from theme import BAR, GREY, INK, PALE_BAR, PAPER, SAVED, SLOWER_BAR, SLOWER_INK, SMALL
from words import count, memory, milliseconds, shorten, times

NAME, QUESTION = "ladder", "What did each optimization bring?"

BAR_WIDTH = 440  # px of the bars; everything else is placed around them
PUBLISHED_MODEL = {"gpt2-124m": "GPT-2 124M"}  # as results/published.json calls it


def compared(what, ratio):
    return with_interval(f"{what} {times(ratio['ratio'])}", *interval(ratio), times) + (", no clear change" if unclear(ratio) else "")


def rows(study):
    """The chart's data, one object for each rung."""
    unit = memory_unit(study)
    out, before = [], None
    for position, rung in enumerate(own_rungs(study)):
        d = row(study, rung, position, runs=rung["runs_ok"], slower=False, step_ink=INK, total_ink=INK, ms=None, lo=None, hi=None, time="",
                change="", before=None, kept=None, step="—", total="—", tokens="—", memory="—")
        out.append(d)
        if not has_number(rung):
            continue
        ms, step, total = rung["ms_per_step"], rung["speedup_previous"], rung["speedup_first"]
        d["ms"], (d["lo"], d["hi"]) = ms["median"], interval(ms)
        d["time"] = milliseconds(ms["median"])
        said = [with_interval(f"{d['rung']}: {d['time']}", d["lo"], d["hi"], milliseconds)]
        if step is not None:
            d["step"] = times(step["ratio"])
            d["slower"] = slower(step)
            d["change"] = "unclear" if unclear(step) else "saved" if faster(step) and (before or 0) > d["ms"] else \
                "lost" if d["slower"] and before is not None and before < d["ms"] else ""
            d["before"] = before if d["change"] in ("saved", "lost") else None
            d["step_ink"] = GREY if unclear(step) else SLOWER_INK if d["slower"] else INK
            if d["slower"]:
                d["time"] += " · slower"
            said.append(compared("vs previous", step))
        if total is not None:
            d["total"] = times(total["ratio"])
            d["total_ink"] = GREY if unclear(total) else INK
            said.append(compared("so far", total))
        d["kept"] = before if d["change"] == "lost" else d["ms"]
        before = d["ms"]
        d["time"] += disturbed(rung)
        if rung["tokens_per_s"] is not None:
            d["tokens"] = count(rung["tokens_per_s"]["median"])
        if rung["peak_memory_bytes"] is not None:
            d["memory"] = memory(rung["peak_memory_bytes"], unit)
        d["aria"] = ", ".join(said) + disturbed(rung)
    place_ends(out, "ms")
    for d in out:
        d["end"] = d["end"] and max(d["end"], d["before"] or 0)
    return out


def same_work(entry, work):
    """Whether its time of a step can be compared with ours. What the source does not say is taken as equal; the mark says so."""
    return (PUBLISHED_MODEL.get(work["model"]) == entry["model"] and entry["B"] in (None, work["batch"])
            and entry["T"] in (None, work["context"]) and entry["tokens_per_step"] in (None, work["tokens_per_step"]))


def published(part):
    """(marks of figures that others have published of the same work, a line that names their sources)"""
    study = part["study"]
    places, marks, sources = {}, [], {}
    for position, rung in enumerate(own_rungs(study)):
        places.setdefault(rung["optimization"] or "start", position)
    for entry in part.get("published", []):
        if entry["rung"] not in places or entry["ms_per_step"] is None or not same_work(entry, study["workload"]):
            continue
        source = f"{shorten(entry['source'], 60)} ({shorten(entry['gpu'], 30)}{', B not stated' if entry['B'] is None else ''})"
        sources[source] = True
        what = f"{milliseconds(entry['ms_per_step'])}, {source}, {shorten(entry['stack'], 60)}"
        marks.append({"row": places[entry["rung"]], "published_ms": entry["ms_per_step"], "aria": f"published, not measured here: {what}"})
    named = list(sources)
    more = f" (and {len(named) - 2} more)" if len(named) > 2 else ""
    return marks, [f"◊ published elsewhere, not measured here: {'; '.join(named[:2])}{more}"] if marks else []


def compiled(study):
    """[the line of the fastest compiled peer]; none was measured: []"""
    peers = [rung for rung in study["rungs"] if rung.get("peer") == "pytorch-compile" and has_number(rung)]
    if not peers:
        return []
    best = min(rung["ms_per_step"]["median"] for rung in peers)
    return [{"peer_ms": best, "said": f"PyTorch compiled, {milliseconds(best)}"}]


COLOURS = {"saved": "green: time that a rung saves against the one before", "lost": "orange: time that it costs",
           "unclear": "pale, grey ×: no clear change"}


def lines(study, data):
    seen = [words for change, words in COLOURS.items() if any(d["change"] == change for d in data)]
    bars = [d for d in data if d["ms"] is not None]
    if not bars:
        return []
    if COLOURS["unclear"] not in seen and any(GREY in (d["step_ink"], d["total_ink"]) for d in bars):
        seen.append("grey ×: no clear change")
    return [" · ".join(said) for said in (seen, [f"bars: {study['words']['runs']}", whiskers_said(study, data)]) if said]


def peer_line(line, x, rows_):
    """The line across all rows, with its text above them, on the side that has more room."""
    left = line["peer_ms"] < x["scale"]["domain"][1] / 2
    of, at = {"data": {"values": [line]}}, {"x": {**x, "field": "peer_ms"}}
    return [{**of, "mark": {"type": "rule", "strokeWidth": 1, "color": INK, "aria": False}, "encoding": at},
            {**of, "mark": {"type": "text", "text": line["said"], "align": "left" if left else "right", "dx": -2 if left else 2, "fontSize": SMALL,
                            "color": INK},
             "encoding": {**at, "y": {"value": -26 if rows_.narrow else -12}, "description": {"field": "said", "type": "nominal"}}}]


def drawing(data, marks, peers, unit_name, narrow):
    rows_ = Rows(data, BAR_WIDTH, narrow)
    x = rows_.x("ms", "ms per step", rows_.domain("time", [m["published_ms"] for m in marks] + [p["peer_ms"] for p in peers]), format=",~f")
    color = {"condition": {"test": "datum.change === 'unclear'", "value": PALE_BAR}, "value": BAR}
    bars = rows_.bars({**x, "field": "kept"}, color)
    between = {"mark": {"type": "bar", "height": rows_.bar, "yOffset": rows_.down, "aria": False}, "transform": [{"filter": "datum.before !== null"}],
               "encoding": {"y": rows_.y, "x": x, "x2": {"field": "before"},
                            "color": {"condition": {"test": "datum.change === 'lost'", "value": SLOWER_BAR}, "value": SAVED}}}
    layers = [rows_.blank(), bars, between, *rows_.whiskers(x), rows_.at_end(x, "time")]
    if marks:
        below = rows_.down + rows_.bar / 2 + 4
        layers.append({"data": {"values": marks},
                       "mark": {"type": "point", "shape": "diamond", "size": 36, "filled": False, "fill": PAPER, "color": GREY,
                                "strokeWidth": 1.5, "opacity": 1, "yOffset": below},
                       "encoding": {"y": rows_.y, "x": {**x, "field": "published_ms"},
                                    "description": {"field": "aria", "type": "nominal"}}})
    layers += [layer for line in peers for layer in peer_line(line, x, rows_)]
    right = rows_.width
    if narrow:
        layers += [*rows_.names(right - 120), *rows_.column("step", "vs previous", right - 62, "step_ink"),
                   *rows_.column("total", "so far", right, "total_ink", fontWeight="bold")]
    else:
        layers += [*rows_.names(), *rows_.column("step", "vs previous", right + 70, "step_ink"),
                   *rows_.column("total", "so far", right + 130, "total_ink", fontWeight="bold"),
                   *rows_.column("tokens", "tokens/s", right + 200), *rows_.column("memory", f"peak {unit_name}", right + 272)]
    return {"data": {"values": data}, **rows_.view(layers)}


def draw(part):
    study = part["study"]
    if study["mode"] != "cumulative":
        return Missing("`ladder ablate` switches the optimizations on one after another")
    data, (marks, sources), peers, unit_name = rows(study), published(part), compiled(study), memory_unit(study)[0]
    return Chart(finding_of(study["words"], NAME), lines(study, data), sources, about(study),
                 drawing(data, marks, peers, unit_name, False), drawing(data, marks, peers, unit_name, True))
