"""Tokens per second over the steps."""

from charts import Chart, about
from charts.course import line, view, x_of
from theme import BAR, axis
from words import count



def drawing(report, narrow):
    data = [{"step": s["last"], "rate": s["tokens_per_s"]} for s in report["stretches"]]
    rates = sorted(row["rate"] for row in data)
    least, most = rates[-(-len(rates) // 100)] if len(rates) > 2 else 0, rates[-1]  # the first step is far below all others
    y = {"field": "rate", "type": "quantitative", "scale": {"domain": [max(least - max(most - least, most / 10) / 4, 0), most or 1]}, "axis": axis("tokens/s", tickCount=5, format="~s")}
    said = f"tokens per second, from {count(data[0]['rate'])} to {count(data[-1]['rate'])}"
    layer = line(data, x_of(report), y, BAR, said)
    return view([{**layer, "mark": {**layer["mark"], "clip": True}}], narrow)


def draw(report):
    return Chart("Tokens per second", ["of the steps alone, without validation and checkpoints · the slowest hundredth may be below the axis"], about(report),
                 drawing(report, False), drawing(report, True))
