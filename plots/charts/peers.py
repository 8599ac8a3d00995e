"""Our rungs beside the same work in PyTorch: a group for each rung, with a bar for ours and a lighter bar for each of PyTorch's.

The ratios are not the quotients of the bars. They are paired within repeats, because the runs were interleaved.
"""

from charts import Chart, Missing, about
from charts.rungs import disturbed, interval, place_ends, whiskers_said, with_interval
from letters import cut, text_width, wrapped
from study import has_number, label, no_interval, peers, reason, runs_said, slower, unclear
from theme import BAR, GREY, INK, NARROW, PARTS, SLOWER_INK, SMALL, TEXT, arrow, axis
from words import clean, milliseconds, shorten, times

WIDTH, NAMES, RATIOS, LINE, ROW, HEAD, GAP = 470, 210, 110, 16, 30, 30, 16  # px; LINE: of a reason; HEAD: a group's name
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


def placed(data, narrow, width):
    """(the rows with their places in px, the lines of text in place of missing bars, the whole height)"""
    y, out, reasons = 0, [], []
    for i, d in enumerate(data):
        if "group" in d:
            y += (GAP if i else 0) + HEAD
            out.append({**d, "y": y - 12})
            continue
        if narrow:
            y += 15
        said = wrapped(d["reason"], width - 8, TEXT - 1, most=40) if d["reason"] else []
        high = max(ROW, LINE * len(said) + 8)
        middle = y + (ROW if not said else high) / 2
        out.append({**d, "y": middle, "name_y": y - 2 if narrow else y + ROW / 2, "rung": cut(d["rung"], (width - 90 if narrow else NAMES), TEXT)})
        reasons += [{"y": y + 4 + LINE * (line + 0.5), "text": text} for line, text in enumerate(said)]
        y += high
    return out, reasons, y


def drawing(data, narrow):
    width = NARROW - 16 if narrow else WIDTH
    placed_rows, reasons, height = placed(data, narrow, width if narrow else WIDTH + RATIOS)
    heads, bars = ([d for d in placed_rows if ("group" in d) == of] for of in (True, False))
    room = width - 14 - max([text_width(d["text"], TEXT, bold=True) for d in bars], default=0)
    end = max([d["end"] for d in bars if d["end"]], default=0) * width / max(room, width / 4) or 1
    y = {"field": "y", "type": "quantitative", "axis": None, "scale": {"domain": [0, height], "range": [0, height], "nice": False}}
    numbers = [d for d in bars if not d["reason"]]
    x = {"field": "ms", "type": "quantitative", "scale": {"domain": [0, end], "range": [0, width], "nice": False, "zero": True},
         "axis": axis("ms per step", format=",~f", tickCount=5, labelFlush=narrow, grid=False) if numbers else None}
    right = width if narrow else width + RATIOS

    def text(field, at, of, height="y", **mark):
        return {"data": {"values": of}, "mark": {"type": "text", "fontSize": TEXT, "baseline": "middle", "color": INK, "aria": False, **mark},
                "encoding": {"y": {**y, "field": height}, "x": at, "text": {"field": field, "type": "nominal"}}}

    whiskers = [d for d in numbers if d["lo"] is not None]
    cap = {"type": "tick", "orient": "vertical", "size": 9, "thickness": 1.5, "color": INK, "opacity": 1, "aria": False}
    ratios = text("ratio", {"value": right}, numbers, "name_y", align="right", fontWeight="bold")
    ratios["encoding"]["color"] = {"field": "ink", "type": "nominal", "scale": None}
    layers = [
        {"data": {"values": numbers}, "mark": {"type": "bar", "height": 18, "cornerRadiusEnd": 2},
         "encoding": {"y": y, "x": x, "x2": {"datum": 0}, "color": {"condition": {"test": "datum.ours", "value": BAR}, "value": PARTS[3]},
                      "description": {"field": "aria", "type": "nominal"}}},
        {"data": {"values": whiskers}, "mark": {"type": "rule", "strokeWidth": 1.5, "color": INK, "aria": False},
         "encoding": {"y": y, "x": {**x, "field": "from"}, "x2": {"field": "to"}}},
        *({"data": {"values": [d for d in whiskers if test(d)]}, "mark": mark, "encoding": {"y": y, "x": {**x, "field": at}}}
          for at, mark, test in (("from", cap, lambda d: d["from"] == d["lo"]), ("to", cap, lambda d: d["to"] == d["hi"]),
                                 ("to", arrow("right"), lambda d: d["to"] != d["hi"]))),
        text("text", {**x, "field": "end"}, numbers, align="left", dx=9, fontWeight="bold"),
        text("group", {"value": 0 if narrow else -NAMES}, heads, align="left", fontWeight="bold", limit=right if narrow else NAMES + width),
        text("rung", {"value": 0 if narrow else -10}, bars, "name_y", align="left" if narrow else "right"),
        text("text", {"value": 4}, reasons, align="left", fontSize=TEXT - 1, color=GREY, fontStyle="italic"),
        ratios,
        text("head", {"value": right}, [{"head": "our speedup", "y": 4}], align="right", fontSize=SMALL, color=GREY),
    ]
    return {"width": width, "height": height, "data": {"values": data}, "layer": layers}


def title(study):
    """Of the last rung that could be compared, with the fastest of its peers."""
    pairs = [(own, pair, peer) for own, pair, peer in peers(study) if pair["ratio"] is not None]
    if not pairs:
        return "Next to PyTorch"
    own, pair, peer = min((p for p in pairs if p[0] is pairs[-1][0]), key=lambda p: p[1]["ratio"])
    alone = ", one run each" if no_interval(pair) else ", no clear difference" if unclear(pair) else ""
    return f"Next to PyTorch: {times(pair['ratio'])} as fast as {clean(peer['title'])}{alone}"


def draw(part):
    study = part["study"]
    if not peers(study):
        return Missing("`ladder ablate --with-peer pytorch` runs the same work in plain PyTorch, between our runs")
    data = rows(study)
    bars = [d for d in data if "group" not in d]
    said = ["muted: plain PyTorch, the same recipe, tokens and weights",
            f"{runs_said(study)}, {whiskers_said(study, bars)}" + (" · grey ×: no clear difference" if any(d["ink"] == GREY for d in bars) else "")]
    return Chart(title(study), said, about(study), drawing(data, False), drawing(data, True))
