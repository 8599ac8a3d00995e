"""Validation loss against seconds of training: each rung's median over its seeds, and thinly each training."""

from charts import Chart, Missing, about
from charts.losses import LINE, spread
from letters import cut
from theme import GREY, INK, SERIES, SMALL, TEXT, axis
from words import clean, digits3, number_of, plain, shorten

WIDTH, NARROW_WIDTH, NAMES, NARROW_NAMES, LEAST_HEIGHT = 600, 192, 250, 116, 320  # px
MOST_RUNGS, MOST_POINTS = 24, 6000


def shown(study):
    """[(place among the rungs, rung)] of those that are drawn."""
    return [(i, rung) for i, rung in enumerate(study["rungs"]) if rung["medians"]][:MOST_RUNGS]


def ink_of(position):
    return SERIES[position % len(SERIES)]


def thin(curve, most):
    """At most about so many points, with the first and the last."""
    length = -(-len(curve) // most)
    return [at for i, at in enumerate(curve) if i % length == 0 or i == len(curve) - 1]


def rows(study):
    """(the lines' points, the rungs: [{name, ink, last}])"""
    rungs = shown(study)
    drawn = [(position, training) for position, (i, _) in enumerate(rungs) for training in study["trainings"] if training["rung"] == i]
    most = max(12, MOST_POINTS // (len(drawn) + len(rungs) + 1))
    data, names = [], []
    for count, (position, training) in enumerate(drawn):
        title = shorten(rungs[position][1]["title"], 40)
        said = f"{title}, seed {training['seed']}" + (f": {shorten(training['not_finite'], 60)} is not finite" if training["not_finite"] else "")
        data += [{"line": f"training {count}", "seconds": at["seconds"], "loss": at["loss"], "ink": ink_of(position), "width": 0.7, "aria": said}
                 for at in thin(training["curve"], most)]
    for position, (_, rung) in enumerate(rungs):
        said = f"{shorten(rung['title'], 40)}: {clean(rung['words'])}"
        data += [{"line": f"rung {position}", "seconds": at["seconds"], "loss": at["loss"], "ink": ink_of(position), "width": 2.2, "aria": said}
                 for at in thin(rung["medians"], most)]
        names.append({"name": clean(rung["title"]) + (f" · {digits3(rung['seconds'])} s" if rung["seconds"] else ""), "ink": ink_of(position), "last": rung["medians"][-1]["loss"]})
    return data, names


def drawing(study, narrow):
    data, rungs = rows(study)
    losses = [row["loss"] for row in data] + [study["loss"]]
    # What happens about the loss that is to be reached can be seen; the first losses are beyond the upper edge.
    top = min(max(losses), study["loss"] + 3 * max(study["loss"] - min(losses), 0.1))
    reach = max(top - min(losses), 0.1)
    low, high = min(losses) - 0.05 * reach, top + 0.05 * reach
    width, room = (NARROW_WIDTH, NARROW_NAMES) if narrow else (WIDTH, NAMES)
    height = max(LEAST_HEIGHT, LINE * (len(rungs) + 1))
    last = [height * (high - rung["last"]) / (high - low) for rung in rungs]
    size = SMALL if narrow else SMALL + 1
    labels = [{**rung, "text": cut(rung["name"], room - 24, size), "from": at, "to": to} for rung, at, to in zip(rungs, last, spread(last, height))]
    x = {"field": "seconds", "type": "quantitative", "scale": {"domain": [0, max(row["seconds"] for row in data)], "range": [0, width], "nice": False},
         "axis": axis("seconds of training", grid=False, tickCount=4 if narrow else 6, format="~s")}
    y = {"field": "loss", "type": "quantitative", "scale": {"domain": [low, high], "zero": False, "nice": False},
         "axis": axis("validation loss, nats", tickCount=6)}
    px = {"type": "quantitative", "axis": None, "scale": {"domain": [0, height], "range": [0, height], "nice": False}}
    ink = {"field": "ink", "type": "nominal", "scale": None}
    goal = [{"at": study["loss"], "text": f"loss {plain(study['loss'])}"}]
    panel = [
        {"data": {"values": goal}, "mark": {"type": "rule", "strokeDash": [4, 3], "color": GREY, "aria": False}, "encoding": {"y": {**y, "field": "at"}}},
        {"data": {"values": goal},
         "mark": {"type": "text", "align": "right", "baseline": "bottom", "dy": -4, "fontSize": TEXT, "color": INK, "aria": False},
         "encoding": {"x": {"value": width - 6}, "y": {**y, "field": "at"}, "text": {"field": "text", "type": "nominal"}}},
        {"mark": {"type": "line", "clip": True},
         "encoding": {"x": x, "y": y, "detail": {"field": "line", "type": "nominal"}, "color": ink,
                      "strokeWidth": {"field": "width", "type": "quantitative", "scale": None}, "description": {"field": "aria", "type": "nominal"}}},
        {"mark": {"type": "point", "filled": True, "size": 16, "opacity": 1, "clip": True, "aria": False},
         "transform": [{"filter": "datum.width > 1"}], "encoding": {"x": x, "y": y, "color": ink}}]
    crossings = [{"seconds": rung["seconds"], "at": study["loss"], "ink": ink_of(position)}
                 for position, (_, rung) in enumerate(shown(study)) if rung["seconds"]]
    panel += [{"data": {"values": crossings}, "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1, "aria": False},
               "encoding": {"x": x, "y": {**y, "field": "at"}, "color": ink}}]
    names = [{"mark": {"type": "rule", "strokeWidth": 2.2, "aria": False},
              "encoding": {"x": {"value": 2}, "x2": {"value": 18}, "y": {**px, "field": "from"}, "y2": {"field": "to"}, "color": ink}},
             {"mark": {"type": "text", "align": "left", "baseline": "middle", "fontSize": size, "color": INK, "aria": False},
              "encoding": {"x": {"value": 22}, "y": {**px, "field": "to"}, "text": {"field": "text", "type": "nominal"}}}]
    return {"spacing": 0, "bounds": "flush", "resolve": {"scale": {"x": "independent", "y": "independent"}}, "hconcat": [
        {"width": width, "height": height, "data": {"values": data}, "layer": panel},
        {"width": room, "height": height, "data": {"values": labels}, "layer": names}]}


def draw(study):
    rungs = shown(study)
    if not rungs:
        return Missing("`ladder ablate --resume`: no training of this study has ended well yet")
    all_rungs = sum(bool(rung["medians"]) for rung in study["rungs"])
    lines = ["thick: median over the seeds · thin: each training · seconds are those of the steps"
             + (f" · {len(rungs)} of {number_of(all_rungs, 'rung')} are drawn" if len(rungs) < all_rungs else "")]
    return Chart(study["said"]["headline"], lines, about(study), drawing(study, False), drawing(study, True))
