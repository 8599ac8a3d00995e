"""Our rungs beside the same work in PyTorch: a group for each rung, with a bar for ours and a lighter bar for each of PyTorch's.

The ratios are not the quotients of the bars. They are paired within repeats, because the runs were interleaved.
"""

from charts import Chart, Missing, about
from charts.rungs import disturbed, interval, place_ends, whiskers_said, with_interval
from study import has_number, label, no_interval, peers, reason, runs_said, slower, unclear
from theme import BAR, GREY, INK, PARTS, SLOWER_INK, SMALL, TEXT, WIDTH, axis, room, text, whiskers
from words import clean, milliseconds, shorten, times, wrap

RIGHT, NAME, LINE, BAR_ROW, HEAD, GAP = WIDTH - 16, 20, 18, 22, 30, 16  # px; NAME: of a bar, above it; LINE: of a reason; HEAD: a group's name
OURS = "ladder"


def rows(study):
    """[{group: our rung's name}], each followed by its bars: ours, then its peers'."""
    out, shown = [], None
    for own, pair, peer in peers(study):
        if own is not shown:
            out.append({"group": shorten(label(study, own), 80)})
        for rung in [peer] if own is shown else [own, peer]:
            ours = rung is own
            d = {"rung": OURS if ours else shorten(peer["title"], 80), "ours": ours, "reason": "" if has_number(rung) else shorten(reason(rung), 110),
                 "ms": None, "lo": None, "hi": None, "text": "", "ratio": "", "ink": INK, "aria": ""}
            out.append(d)
            if d["reason"]:
                continue
            d["ms"], (d["lo"], d["hi"]) = rung["ms_per_step"]["median"], interval(rung["ms_per_step"])
            d["text"] = milliseconds(d["ms"]) + disturbed(rung)
            d["aria"] = with_interval(f"{label(study, own)}, {d['rung']}: {milliseconds(d['ms'])}", d["lo"], d["hi"], milliseconds)
            if not ours and pair["ratio"] is not None:
                d["ratio"] = times(pair["ratio"]) + (" (one run)" if no_interval(pair) else "")
                d["ink"] = GREY if unclear(pair) or no_interval(pair) else SLOWER_INK if slower(pair) else INK
                d["aria"] += ", ours is " + with_interval(d["ratio"], *interval(pair), times) + " as fast"
        shown = own
    place_ends([d for d in out if "group" not in d], "ms")
    return out


def placed(data):
    """(the rows with their places in px, the lines of text in place of missing bars, the whole height)"""
    y, out, reasons = 0, [], []
    for i, d in enumerate(data):
        if "group" in d:
            y += (GAP if i else 0) + HEAD
            out.append({**d, "y": y - 12})
            continue
        y += NAME
        said = wrap(d["reason"], 60) if d["reason"] else []
        high = LINE * len(said) + 8 if said else BAR_ROW
        out.append({**d, "y": y + high / 2, "name_y": y - 8})
        reasons += [{"y": y + 4 + LINE * (line + 0.5), "text": text} for line, text in enumerate(said)]
        y += high
    return out, reasons, y


def drawing(data):
    placed_rows, reasons, height = placed(data)
    heads, bars = ([d for d in placed_rows if ("group" in d) == of] for of in (True, False))
    free = RIGHT - 14 - max([room(d["text"]) for d in bars], default=0)
    end = max([d["end"] for d in bars if d["end"]], default=0) * RIGHT / max(free, RIGHT / 4) or 1
    y = {"field": "y", "type": "quantitative", "axis": None, "scale": {"domain": [0, height], "range": [0, height], "nice": False}}
    name_y, numbers = {**y, "field": "name_y"}, [d for d in bars if not d["reason"]]
    x = {"field": "ms", "type": "quantitative", "scale": {"domain": [0, end], "range": [0, RIGHT], "nice": False, "zero": True},
         "axis": axis("ms per step", format=",~f", tickCount=5, labelFlush=True, grid=False) if numbers else None}
    ratios = text("ratio", name_y, {"value": RIGHT}, align="right", fontWeight="bold")
    ratios["encoding"]["color"] = {"field": "ink", "type": "nominal", "scale": None}
    of_numbers = [
        {"mark": {"type": "bar", "height": 16, "cornerRadiusEnd": 2},
         "encoding": {"y": y, "x": x, "x2": {"datum": 0}, "color": {"condition": {"test": "datum.ours", "value": BAR}, "value": PARTS[3]},
                      "description": {"field": "aria", "type": "nominal"}}},
        *whiskers(x, y), text("text", y, {**x, "field": "end"}, align="left", dx=9, fontWeight="bold"), ratios]
    layers = [
        *({"data": {"values": numbers}, **layer} for layer in of_numbers),
        {"data": {"values": heads}, **text("group", y, {"value": 0}, align="left", fontWeight="bold", limit=RIGHT)},
        {"data": {"values": bars}, **text("rung", name_y, {"value": 0}, align="left", limit=RIGHT - 130)},
        {"data": {"values": reasons}, **text("text", y, {"value": 4}, align="left", fontSize=TEXT - 1, color=GREY, fontStyle="italic")},
        {"data": {"values": [{"head": "our speedup", "y": 4}]}, **text("head", y, {"value": RIGHT}, align="right", fontSize=SMALL, color=GREY)}]
    return {"width": RIGHT, "height": height, "data": {"values": data}, "layer": layers}


def title(study):
    """Of the last rung that could be compared, with the fastest of its peers."""
    pairs = [(own, pair, peer) for own, pair, peer in peers(study) if pair["ratio"] is not None]
    if not pairs:
        return "Next to PyTorch"
    own, pair, peer = min((p for p in pairs if p[0] is pairs[-1][0]), key=lambda p: p[1]["ratio"])
    alone = ", one run each" if no_interval(pair) else ", no clear difference" if unclear(pair) else ""
    return f"Next to PyTorch: {times(pair['ratio'])} as fast as {clean(peer['title'])}{alone}"


def draw_peers(part):
    study = part["study"]
    if not peers(study):
        return Missing("`ladder ablate --with-peer pytorch` runs the same work in plain PyTorch, between our runs")
    data = rows(study)
    bars = [d for d in data if "group" not in d]
    said = ["muted: plain PyTorch, the same recipe, tokens and weights",
            f"{runs_said(study)}, {whiskers_said(study, bars)}" + (" · grey ×: no clear difference" if any(d["ink"] == GREY for d in bars) else "")]
    return Chart(title(study), said, about(study), drawing(data))
