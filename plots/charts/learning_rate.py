"""The learning rate over the steps."""

from charts import Chart, about
from charts.course import line, view, x_of
from theme import BAR, axis



def drawing(report, narrow):
    data = [{"step": s["last"], "rate": s["learning_rate"]} for s in report["stretches"]]
    y = {"field": "rate", "type": "quantitative", "scale": {"zero": True},
         "axis": axis("learning rate", tickCount=5, labelExpr="datum.value ? format(datum.value, '~e') : '0'")}
    return view([line(data, x_of(report), y, BAR, f"from {data[0]['rate']:.3g} to {data[-1]['rate']:.3g}")], narrow)


def draw(report):
    return Chart("Learning rate", [], about(report), drawing(report, False), drawing(report, True))
