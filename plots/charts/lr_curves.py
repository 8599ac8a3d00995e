"""The losses of each training of a sweep of learning rates, step by step."""

from charts import Chart, about
from charts.losses import INK_OF_LINE, LINE, stretches, with_names
from charts.lr_sweep import edges, rate_of
from theme import RAMP, WHOLE, axis
from words import clean

WIDTH, NARROW_WIDTH, NAMES, NARROW_NAMES, LEAST_HEIGHT = 640, 192, 210, 116, 320  # px
MOST_LINES, MOST_POINTS = 24, 6000


def every(sweep):
    """Each how many of the rates is drawn."""
    return -(-len(sweep["rates"]) // MOST_LINES)


def rows(sweep):
    """(the lines' points, the lines: [{name, ink, last}])"""
    shown = sweep["rates"][::every(sweep)]
    most = max(12, MOST_POINTS // len(shown))
    best = sweep["rates"][sweep["best"]] if sweep["best"] is not None else None
    data, lines = [], []
    for position, rate in enumerate(shown):
        ink, finite = RAMP[position * len(RAMP) // len(shown)], [loss for loss in rate["losses"] if loss is not None]
        width = 3 if rate is best else 1.2
        said = f"{rate_of(rate)}: {rate['verdict']}: {clean(rate['words'])}"
        if finite:
            lines.append({"name": f"{rate_of(rate)} {rate['verdict']}", "ink": ink, "last": finite[-1]})
        data += [{"line": line, "step": step, "loss": loss, "alone": alone, "ink": ink, "width": width, "aria": said}
                 for line, step, loss, alone in stretches(position, rate["losses"], most)]
    return data, lines


def drawing(sweep, narrow):
    data, lines = rows(sweep)
    low, high = edges(sweep)
    width, room = (NARROW_WIDTH, NARROW_NAMES) if narrow else (WIDTH, NAMES)
    height = max(LEAST_HEIGHT, LINE * (len(lines) + 1))
    last = [height * (high - min(max(line["last"], low), high)) / (high - low) for line in lines]
    x = {"field": "step", "type": "quantitative",
         "scale": {"domain": [1, max([2, *(row["step"] for row in data)])], "range": [0, width], "nice": False},
         "axis": axis("step", grid=False, tickCount=6, labelExpr=WHOLE)}
    y = {"field": "loss", "type": "quantitative", "scale": {"domain": [low, high], "zero": False, "nice": False}, "axis": axis("loss, nats", tickCount=6)}
    curves = [{"mark": {"type": "line", "clip": True},
               "encoding": {"x": x, "y": y, "detail": {"field": "line", "type": "nominal"}, "color": INK_OF_LINE,
                            "strokeWidth": {"field": "width", "type": "quantitative", "scale": None}, "description": {"field": "aria", "type": "nominal"}}}]
    if any(row["alone"] for row in data):  # a line of a single step cannot be seen
        curves.append({"mark": {"type": "point", "filled": True, "size": 30, "opacity": 1, "clip": True, "aria": False},
                       "transform": [{"filter": "datum.alone"}], "encoding": {"x": x, "y": y, "color": INK_OF_LINE}})
    drawn = {"width": width, "height": height, "data": {"values": data}, "layer": curves}
    return with_names(drawn, lines, last, room, narrow)


def draw(sweep):
    lines = ["a line for each rate, the best one thick" + (f" · 1 of every {every(sweep)} rates" if every(sweep) > 1 else "")]
    return Chart("The loss at each learning rate", lines, about(sweep), drawing(sweep, False), drawing(sweep, True))
