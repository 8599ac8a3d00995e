"""What the pages of a training (results/schemas/training_report.v1.json), of a sweep of learning rates (lr_sweep.v1.json) and of a study
of time to loss (to_loss.v1.json) show.

Computes nothing. All have the same templates.
"""

from typing import NamedTuple

import charts
from charts.lr_sweep import rate_of
from documents import Refused
from study import about
from view import drawn, flatten
from words import digits3, times

PAGE, TEMPLATE, HAS_MARKDOWN = "report", "training", True
# The names of the charts, and the document's file.
KINDS = {"training_report": (charts.OF_TRAINING, "report.json"), "lr_sweep": (charts.OF_LR_SWEEP, "lr_sweep.json"),
         "to_loss": (charts.OF_TO_LOSS, "to_loss.json")}


class Table(NamedTuple):
    anchor: str
    title: str
    heads: list[tuple[str, bool]]  # the text, and whether figures stand below it
    rows: list[list[str]]


def rates(document):
    def figures(rate):
        return [f"{rate['end'][name]:.{digits}f}" for name, digits in (("mean", 3), ("fall", 2), ("swing", 2))] if rate["end"] else ["—"] * 3

    return Table("rates", "Rate by rate",
                 [("learning rate", True), ("ends at", True), ("falls by", True), ("swings by", True), ("verdict", False), ("why", False)],
                 [[rate_of(rate), *figures(rate), rate["verdict"], rate["words"]] for rate in document["rates"]])


def rungs(document):
    def row(index, rung):
        quality = rung["quality"] or ("skipped" if rung["status"] != "planned" else "reference" if index == document["reference"] else "—")
        return [rung["title"], digits3(rung["seconds"]) if rung["seconds"] else "—", times(rung["speedup"]["mean"]) if rung["counts"] else "—",
                f"{rung['loss']:.4f}" if rung["loss"] is not None else "—", quality, rung["words"]]

    return Table("rungs", "Rung by rung",
                 [("rung", False), ("seconds to the loss", True), ("speedup", True), ("ends at", True), ("quality", False), ("what was seen", False)],
                 [row(index, rung) for index, rung in enumerate(document["rungs"])])


TABLES = {"lr_sweep": rates, "to_loss": rungs}
# Settings that differ from one training of the document to another.
OWN = {"lr_sweep": ("learning_rate.max", "learning_rate.min"), "to_loss": ("recipe.", "seed")}


def view(document):
    """The templates' variables."""
    if "origin" not in document["words"]:
        raise Refused("the document is an older program's, without all its sentences; `ladder report` makes them")
    said, training, kind = document["words"], document["training"], document["kind"]
    names, source = KINDS[kind]
    table = TABLES[kind](document) if kind in TABLES else None
    pictures = [one for one in drawn(names, document) if one.chart]
    settings = [*flatten(training["settings"]), ("recipe_from", training["recipe_from"]), ("parameters", training["parameters"])]
    settings = [(name, value) for name, value in settings if not name.startswith(OWN.get(kind, ()))]
    samples = document.get("samples", [])
    sections = [("numbers", "In numbers"), *((f"chart-{one.name}", one.question) for one in pictures),
                *([("samples", "What it writes")] if samples else []),
                *([(table.anchor, table.title)] if table else []), ("how", "How to read this"), ("settings", "Settings")]
    return {"said": said, "about": about(document), "charts": pictures,
            "samples": samples, "prompt": training.get("samples", {}).get("prompt", ""), "table": table, "settings": settings,
            "environment": flatten(training["environment"]), "source": source,
            "contents": [{"anchor": anchor, "text": text, "inner": []} for anchor, text in sections]}


def chart_names():
    """The names of all charts that any of them may have."""
    return [name for names, _ in KINDS.values() for name in names]


def all_charts(shown):
    """shown: view's dict."""
    return shown["charts"]
