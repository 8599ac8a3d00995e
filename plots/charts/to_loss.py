"""Validation loss against seconds of training: each rung's median over its seeds, and thinly each training."""

from charts import Chart, Missing, about
from theme import GREY, INK, NARROW, SERIES, TEXT, axis, legend
from words import clean, digits3, number_of, plain, shorten

WIDTH, HEIGHT = 850, 320  # px
MOST_RUNGS, MOST_POINTS = len(SERIES), 6000


def shown(study):
    """[(place among the rungs, rung)] of those that are drawn."""
    return [(i, rung) for i, rung in enumerate(study["rungs"]) if rung["medians"]][:MOST_RUNGS]


def thin(curve, most):
    """At most about so many points, with the first and the last."""
    length = -(-len(curve) // most)
    return [at for i, at in enumerate(curve) if i % length == 0 or i == len(curve) - 1]


def name_of(rung):
    return shorten(rung["title"], 40)


def rows(study):
    """(the lines' points, the rungs: [{name, seconds}])"""
    rungs = shown(study)
    drawn = [(position, training) for position, (i, _) in enumerate(rungs) for training in study["trainings"] if training["rung"] == i]
    most = max(12, MOST_POINTS // (len(drawn) + len(rungs) + 1))
    data, names = [], []
    for count, (position, training) in enumerate(drawn):
        title = shorten(rungs[position][1]["title"], 40)
        said = f"{title}, seed {training['seed']}" + (f": {shorten(training['not_finite'], 60)} is not finite" if training["not_finite"] else "")
        data += [{"line": f"training {count}", "seconds": at["seconds"], "loss": at["loss"], "name": name_of(rungs[position][1]), "width": 0.7, "aria": said}
                 for at in thin(training["curve"], most)]
    for position, (_, rung) in enumerate(rungs):
        said = f"{shorten(rung['title'], 40)}: {clean(rung['words'])}"
        data += [{"line": f"rung {position}", "seconds": at["seconds"], "loss": at["loss"], "name": name_of(rung), "width": 2.2, "aria": said}
                 for at in thin(rung["medians"], most)]
        names.append({"name": name_of(rung), "seconds": rung["seconds"]})
    return data, names


def drawing(study, narrow):
    data, rungs = rows(study)
    losses = [row["loss"] for row in data] + [study["loss"]]
    # What happens about the loss that is to be reached can be seen; the first losses are beyond the upper edge.
    top = min(max(losses), study["loss"] + 3 * max(study["loss"] - min(losses), 0.1))
    reach = max(top - min(losses), 0.1)
    low, high = min(losses) - 0.05 * reach, top + 0.05 * reach
    width = NARROW - 66 if narrow else WIDTH
    x = {"field": "seconds", "type": "quantitative", "scale": {"domain": [0, max(row["seconds"] for row in data)], "range": [0, width], "nice": False},
         "axis": axis("seconds of training", grid=False, tickCount=4 if narrow else 6, format="~s")}
    y = {"field": "loss", "type": "quantitative", "scale": {"domain": [low, high], "zero": False, "nice": False},
         "axis": axis("validation loss, nats", tickCount=6)}
    ink = {"field": "name", "type": "nominal", "legend": legend(columns=1 if narrow else 2, symbolType="stroke"),
           "scale": {"domain": [rung["name"] for rung in rungs], "range": SERIES[:len(rungs)]}}
    there = sorted((rung for rung in rungs if rung["seconds"]), key=lambda rung: rung["seconds"])
    crossings = [{**rung, "at": study["loss"], "text": f"{digits3(rung['seconds'])} s"} for rung in there]
    panel = [
        {"data": {"values": [{"at": study["loss"]}]}, "mark": {"type": "rule", "strokeDash": [4, 3], "color": GREY, "aria": False}, "encoding": {"y": {**y, "field": "at"}}},
        {"mark": {"type": "line", "clip": True},
         "encoding": {"x": x, "y": y, "detail": {"field": "line", "type": "nominal"}, "color": ink,
                      "strokeWidth": {"field": "width", "type": "quantitative", "scale": None}, "description": {"field": "aria", "type": "nominal"}}},
        {"mark": {"type": "point", "filled": True, "size": 16, "opacity": 1, "clip": True, "aria": False},
         "transform": [{"filter": "datum.width > 1"}], "encoding": {"x": x, "y": y, "color": ink}},
        {"data": {"values": crossings}, "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1, "aria": False},
         "encoding": {"x": x, "y": {**y, "field": "at"}, "color": ink}}]
    panel += [{"data": {"values": crossings[first::2]},
               "mark": {"type": "text", "fontSize": TEXT, "color": INK, "aria": False, "align": align, "dy": down, "dx": 4 if first else -4},
               "encoding": {"x": x, "y": {**y, "field": "at"}, "text": {"field": "text", "type": "nominal"}}}
              for first, align, down in ((0, "right", 14), (1, "left", -12))]  # neighbours apart
    return {"width": width, "height": HEIGHT, "data": {"values": data}, "layer": panel}


def draw(study):
    rungs = shown(study)
    if not rungs:
        return Missing("`ladder ablate --resume`: no training of this study has ended well yet")
    all_rungs = sum(bool(rung["medians"]) for rung in study["rungs"])
    lines = [f"dashes: loss {plain(study['loss'])} · thick: median over the seeds · thin: each training · seconds are those of the steps"
             + (f" · {len(rungs)} of {number_of(all_rungs, 'rung')} are drawn" if len(rungs) < all_rungs else "")]
    return Chart(study["said"]["headline"], lines, about(study), drawing(study, False), drawing(study, True))
