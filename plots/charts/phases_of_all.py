"""Where a step's time goes, of every traced rung."""

from charts import phases


def draw(part):
    return phases.draw(part, every=True)
