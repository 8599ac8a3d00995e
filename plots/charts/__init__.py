"""The charts of a report: one file for each. A chart answers one question.

A chart's file has NAME (of its files, and of its place in the page), QUESTION and draw(). draw() takes a report's study
({"study", "runs", "losses", ...}, results/schemas/report.v1.json) or, for the other lists below, the whole document. It returns a
Chart, or a Missing if there is nothing to draw. It computes no statistic and no title: both are in the document.
"""

import importlib
from typing import Any, NamedTuple

from study import About
from words import clean


class Chart(NamedTuple):
    finding: str            # the title: what the chart shows
    lines: list[str]        # at most two: how to read marks and whiskers
    notes: list[str]        # below the drawing: how it was counted, what is left out
    about: About
    wide: dict[str, Any]    # Vega-Lite without frame (theme.bare completes it), at most theme.WIDE px
    narrow: dict[str, Any]  # the same for theme.NARROW px


class Missing(NamedTuple):
    run: str  # the command that makes what is missing, or why there is none; commands stand in `code`


LEADING = ["ladder", "attribution", "sweep"]  # one for each group of modes
OF_STUDY = [*LEADING, "peers", "throughput", "memory", "phases", "steps", "losses", "energy"]
OF_REPORT = ["side_by_side", "orders", "roofline", "history", "gate"]
OF_TRAINING = ["training_loss", "learning_rate", "norm", "training_speed"]
OF_LR_SWEEP = ["lr_sweep", "lr_curves"]
OF_TO_LOSS = ["to_loss"]


def finding_of(words, name):
    """The title of the chart of that name, as the program made it. words: a study's, a gate's, a training's, or a report."""
    return clean(words["findings"][name])


def notes_of(words, name):
    """What the program says below the chart of that name."""
    return [clean(note) for note in words["chart_notes"].get(name, [])]


def module(name):
    return importlib.import_module(f"charts.{name}")
