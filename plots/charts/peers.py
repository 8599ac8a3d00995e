"""Our rungs beside the same work in PyTorch: a bar for ours, a lighter one below it for each of PyTorch's.

The surprising thing: the ratios are not the bars' own; they are paired within repeats, because the runs were interleaved.
"""

from charts import Chart, Missing
from charts.rungs import Rows, disturbed, interval, place_ends, row, whiskers_said, with_interval
from study import TITLE_LENGTH, about, has_number, label, no_interval, own_rungs, peers, runs_said, slower, swept_value, unclear, warning_line
from theme import BAR, GREY, INK, PARTS, SLOWER_INK
from words import milliseconds, shorten, times

NAME, QUESTION = "peers", "Is it faster than PyTorch?"
WIDTH = 520  # px


def rows(study):
    """Each of our rungs that has peers, then its peers."""
    out, shown = [], None
    for own, pair, peer in peers(study):
        for rung in [peer] if own is shown else [own, peer]:
            ours = rung is own
            d = row(study, rung, rung["index"], ours=ours, ms=None, lo=None, hi=None, text="", ratio="", ink=INK)
            d["row"] = len(out)
            d["rung"] = shorten(label(study, own) if ours else peer["title"], 80)
            out.append(d)
            if not has_number(rung):
                continue
            d["ms"], (d["lo"], d["hi"]) = rung["ms_per_step"]["median"], interval(rung["ms_per_step"])
            d["text"] = milliseconds(d["ms"]) + disturbed(rung)
            d["aria"] = with_interval(f"{d['rung']}: {milliseconds(d['ms'])}", d["lo"], d["hi"], milliseconds)
            if not ours and pair["ratio"] is not None:
                d["ratio"] = times(pair["ratio"])
                d["ink"] = GREY if unclear(pair) else SLOWER_INK if slower(pair) else INK
                d["aria"] += ", ours is " + with_interval(d["ratio"], *interval(pair), times) + " as fast"
        shown = own
    place_ends(out, "ms")
    return out


def finding(study):
    """The last rung that could be compared, by name where it is not the ladder's end, with the fastest of its peers. Times that
    a title has no room for are left to the bars."""
    compared = [(own, pair, peer) for own, pair, peer in peers(study)
                if pair["ratio"] is not None and has_number(own) and has_number(peer)]
    if not compared:
        return "No rung could be compared with PyTorch"
    own, pair, peer = min((one for one in compared if one[0] is compared[-1][0]), key=lambda one: one[1]["ratio"])
    name, speedup = shorten(peer["title"], 30), f"{times(pair['ratio'])} as fast"
    if study["mode"] != "cumulative" or own is not own_rungs(study)[-1]:
        name += f" at “{shorten(swept_value(study, own) + own['title'], 22)}”"
    if why := no_interval(pair):
        words = shorten(f"{speedup} as {name}", TITLE_LENGTH - len(why) - 2) + f", {why}"
    else:
        words = f"No clear difference from {name}, {speedup}" if unclear(pair) else f"{speedup} as {name}"
    ms = f"{milliseconds(own['ms_per_step']['median'])} against {milliseconds(peer['ms_per_step']['median'])}"
    whole = f"{words}: {ms} per step"
    return whole if len(whole) <= TITLE_LENGTH else shorten(words, TITLE_LENGTH)


def drawing(data, narrow):
    rows_ = Rows(data, WIDTH, narrow)
    x = rows_.x("ms", "ms per step", rows_.domain("text"), format=",~f")
    color = {"condition": {"test": "datum.ours", "value": BAR}, "value": PARTS[3]}
    right = rows_.width + (0 if narrow else 110)
    return {"data": {"values": data}, **rows_.view([
        rows_.blank(), rows_.bars(x, color), *rows_.whiskers(x), rows_.at_end(x), *rows_.names(right - 110 if narrow else None),
        *rows_.column("ratio", "our speedup", right, "ink", fontWeight="bold")])}


def draw(part):
    study = part["study"]
    if not peers(study):
        return Missing("`ladder ablate --with-peer pytorch` runs the same work in plain PyTorch, between our runs")
    data = rows(study)
    said = [f"dark bars: ours · light bars: PyTorch, the same recipe, tokens and weights · {runs_said(study)}",
            whiskers_said(study, data) + " · ×: paired within repeats, above 1 ours is faster"]
    if any(d["ink"] == GREY for d in data):
        said[1] += "; grey: the interval includes 1"
    return Chart(finding(study), about(study) + said + warning_line(study), drawing(data, False), drawing(data, True))
