"""The charts of a page. A chart answers one question.

draw_NAME(), in the file of that name or of FILES, takes a report's study ({"study", "runs", "losses", ...},
results/schemas/report.v1.json) or, for the other lists below, the whole document. It returns a Chart, or a Missing if there is nothing
to draw. It computes no statistic.
"""

import importlib
from typing import Any, NamedTuple

from words import clean, shorten


class About(NamedTuple):
    """What a chart is of, below the title of a picture."""
    source: str    # what was measured, where and when
    warnings: str  # what makes it doubtful; may be empty


class Chart(NamedTuple):
    title: str               # what it shows
    lines: list[str]         # at most two: how to read marks and whiskers
    about: About
    drawing: dict[str, Any]  # Vega-Lite without title (theme.bare completes it), at most theme.WIDTH px


class Missing(NamedTuple):
    run: str  # the command that makes what is missing, or why there is none; commands stand in `code`; empty: it would show nothing


LEADING = ["ladder", "attribution", "sweep"]  # one for each group of modes
OF_STUDY = [*LEADING, "peers", "memory", "phases", "phases_of_all", "steps", "losses", "energy"]
OF_REPORT = ["side_by_side", "roofline", "history", "gate"]
OF_TRAINING = ["training_loss", "training_speed", "learning_rate", "norm"]
OF_GATE = ["gate", "pairs"]
OF_LEDGER = ["experiments"]
FILES = {**dict.fromkeys(["gate", "pairs", "side_by_side"], "comparisons"), **dict.fromkeys(["memory", "energy"], "costs"), "phases_of_all": "phases",
         **dict.fromkeys(OF_TRAINING, "training")}


def draw(name, argument):
    return getattr(importlib.import_module(f"charts.{FILES.get(name, name)}"), f"draw_{name}")(argument)


def about(document):
    """Of a study, a gate, a training and so on: document["said"]."""
    said = document["said"]
    doubts = [remark["text"] for remark in said["remarks"] if remark["severity"] in ("warn", "bad")]
    more = f" (and {len(doubts) - 2} more)" if len(doubts) > 2 else ""
    return About(clean(said["title"]), " ".join(shorten(text, 160) for text in doubts[:2]) + more)
