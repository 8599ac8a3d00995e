"""What the pages of a training (results/schemas/training_report.v1.json) and of a sweep of learning rates (lr_sweep.v1.json) show.

Computes nothing. Both have the same templates.
"""

import charts
import study as of
from charts.course import about
from charts.lr_sweep import rate_of
from view import drawn, flatten

PAGE, TEMPLATE, HAS_MARKDOWN = "report", "training", True


def rates(document):
    """(heads, rows) of the table of a sweep. A training has none."""
    if document["kind"] != "lr_sweep":
        return [], []

    def figures(rate):
        return [f"{rate['end'][name]:.{digits}f}" for name, digits in (("mean", 3), ("fall", 2), ("swing", 2))] if rate["end"] else ["—"] * 3

    return (["learning rate", "ends at", "falls by", "swings by", "verdict", "why"],
            [[rate_of(rate), *figures(rate), rate["verdict"], rate["words"]] for rate in document["rates"]])


def view(document):
    """The templates' variables."""
    said, training = document["words"], document["training"]
    heads, rows = rates(document)
    pictures = [one for one in drawn(charts.OF_LR_SWEEP if heads else charts.OF_TRAINING, document) if one.chart]
    settings = [*flatten(training["settings"]), ("recipe_from", training["recipe_from"]), ("parameters", training["parameters"])]
    if heads:  # each rate has its own
        settings = [(name, value) for name, value in settings if name not in ("learning_rate.max", "learning_rate.min")]
    samples = document.get("samples", [])
    sections = [("numbers", "In numbers"), *((f"chart-{one.name}", one.question) for one in pictures),
                *([("samples", "What it writes")] if samples else []),
                *([("rates", "Rate by rate")] if heads else []), ("how", "How to read this"), ("settings", "Settings")]
    return {"said": said, "about": about(document), "subject": of.training(training["settings"]["model"], document["device"]), "charts": pictures,
            "samples": samples, "prompt": training.get("samples", {}).get("prompt", ""), "heads": heads, "rows": rows, "settings": settings, "environment": flatten(training["environment"]),
            "source": "lr_sweep.json" if heads else "report.json",
            "contents": [{"anchor": anchor, "text": text, "inner": []} for anchor, text in sections]}


def chart_names():
    """The names of all charts that either may have."""
    return charts.OF_TRAINING + charts.OF_LR_SWEEP


def all_charts(shown):
    """shown: view's dict."""
    return shown["charts"]
