"""The charts of a report, each answering one question; one file each.

A chart's file has NAME (of its files and of its place in the page), QUESTION, and draw(), which takes a report's study
({"study", "runs", "losses", ...}, results/schemas/report.v1.json) or, for OF_REPORT, the whole report, and returns a Chart or,
where there is nothing to draw, a Missing. draw() computes no statistic: times, intervals and verdicts stand in the document.
"""

import importlib
from typing import Any, NamedTuple

from study import About


class Chart(NamedTuple):
    finding: str            # the title: what is seen
    lines: list[str]        # two at most: how to read marks and whiskers
    notes: list[str]        # below the drawing: how it was counted, what is left out
    about: About            # what it is of
    wide: dict[str, Any]    # Vega-Lite without frame (theme.bare completes it), theme.WIDE px at most
    narrow: dict[str, Any]  # the same for theme.NARROW px


class Missing(NamedTuple):
    run: str  # the command that makes what it lacks, or why there is none: Markdown's `code` marks commands


LEADING = ["ladder", "attribution", "sweep"]  # each of other modes
OF_STUDY = [*LEADING, "peers", "throughput", "memory", "phases", "steps", "losses", "energy"]
OF_REPORT = ["side_by_side", "orders", "roofline", "history", "gate"]


def module(name):
    return importlib.import_module(f"charts.{name}")
