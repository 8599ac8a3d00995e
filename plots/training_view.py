"""The pages of a training (results/schemas/training_report.v1.json), of a sweep of learning rates (lr_sweep.v1.json) and of a study of
time to loss (to_loss.v1.json). Computes nothing.
"""

import re

import charts
from charts.lr_sweep import rate_of
from sections import Beside, Cell, Code, Fold, Line, Page, Table, figures, flatten, folded, remarks, values
from words import clean, digits3, times

NAME, CHARTS = "report", charts.OF_TRAINING + charts.OF_LR_SWEEP + charts.OF_TO_LOSS
TERMS = {
    "training_report": ["**Loss**: mean over a step's tokens, in nats; exp(loss) is the perplexity. At the end it is the mean of the last tenth of the steps.",
                        "**Validation loss**: on text that is not trained on. When it rises while the loss falls, the model learns the text by heart.",
                        "**Norm**: of all gradients together, before clipping.",
                        "**Spike**: a loss far above those before it (docs/training.md)."],
    "lr_sweep": ["**Ends at**: the loss of held-out text, the same for all rates. **Falls, swings**: the last quarter's losses. A rate is good if it ends at most the margin above the best one.",
                 "**Too low**: below the best, and ends further above it. **Too high**: above the best, and ends further above it, oscillates or diverges.",
                 "A short training finds the order of magnitude. A long one often needs a lower rate."],
    "to_loss": ["**Seconds**: those of the steps, without validation. The loss is reached where the validation loss is first at or below it.",
                "**Same quality**: the whole interval of the difference at the end lies below the margin (non-inferiority; Piaggio et al. 2012).",
                "**Speedup**: the reference's seconds over the rung's, geometric mean over seeds. It counts only with the same quality."]}


def rates(document):
    def row(rate):
        figures = [f"{rate['end'][name]:.{digits}f}" for name, digits in (("mean", 3), ("fall", 2), ("swing", 2))] if rate["end"] else ["—"] * 3
        return [rate_of(rate), *figures, rate["verdict"], clean(rate["words"])]

    return Fold("rates", ["Rate by rate"], [Table("Rate by rate", [("learning rate", False), ("ends at", True), ("falls by", True), ("swings by", True),
                                                                   ("verdict", False), ("why", False)], [row(rate) for rate in document["rates"]])])


def rungs(document):
    def row(index, rung):
        quality = rung["quality"] or ("skipped" if rung["status"] != "planned" else "reference" if index == document["reference"] else "—")
        return [clean(rung["title"]), digits3(rung["seconds"]) if rung["seconds"] else "—", Cell(times(rung["speedup"]["mean"]), mood="strong") if rung["counts"] else "—",
                f"{rung['loss']:.4f}" if rung["loss"] is not None else "—", quality, clean(rung["words"])]

    return Table("Rung by rung", [("rung", False), ("seconds to the loss", True), ("speedup", True), ("ends at", True), ("quality", False), ("what was seen", False)],
                 [row(index, rung) for index, rung in enumerate(document["rungs"])])


TABLES = {"lr_sweep": rates, "to_loss": rungs}
SOURCES = {"training_report": "report.json", "lr_sweep": "lr_sweep.json", "to_loss": "to_loss.json"}
OF = {"training_report": charts.OF_TRAINING, "lr_sweep": charts.OF_LR_SWEEP, "to_loss": charts.OF_TO_LOSS}
# Settings that differ from one training of the document to another.
OWN = {"lr_sweep": ("learning_rate.max", "learning_rate.min"), "to_loss": ("recipe.", "seed")}


def samples(document):
    """What the model wrote: the last text first. Empty lines in a row are one."""
    texts = [(s["step"], re.sub(r"\n\s*\n(\s*\n)+", "\n\n", s["text"])) for s in document.get("samples", [])]
    if not texts:
        return []
    (step, text), earlier = texts[-1], texts[:-1]
    blocks = [block for when, said in earlier for block in (Line(f"**After step {when}**"), Code(said))]
    return [Fold("sample", [f"What it writes after step {step}"], [Code(text)]), *([Fold("samples", ["What it wrote before"], blocks)] if blocks else [])]


def view(document):
    kind, training = document["kind"], document["training"]
    drawn, _ = figures(OF[kind], document)
    blocks = [drawn.pop(OF[kind][0])] if OF[kind][0] in drawn else []
    if kind == "training_report" and len(drawn) >= 2:
        blocks.append(Beside([drawn.pop(name) for name in list(drawn)[:2]]))
    blocks += samples(document)
    if kind in TABLES:
        blocks.append(TABLES[kind](document))
    blocks += [folded(figure) for figure in drawn.values()]
    settings = [*flatten(training["settings"]), ("recipe_from", training["recipe_from"]), ("parameters", training["parameters"])]
    settings = [(name, value) for name, value in settings if not name.startswith(OWN.get(kind, ()))]
    blocks += [Fold("terms", ["Words"], [*remarks(document["said"]), *map(Line, TERMS[kind])]),
               Fold("settings", ["Settings"], [values("Settings", settings)]),
               Fold("environment", ["Environment"], [values("Environment", flatten(training["environment"]))])]
    return Page(document["said"], blocks, SOURCES[kind])
