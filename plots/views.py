"""The pages of a gate's verdict (results/schemas/gate.v1.json), of a training (training_report.v1.json), of a sweep of learning rates
(lr_sweep.v1.json) and of a study of time to loss (to_loss.v1.json). Computes nothing.
"""

import re

import charts
from charts.comparisons import word_of
from charts.trainings import rate_of
from sections import Beside, Cell, Code, Fold, Line, Page, Table, figures, flatten, folded, remarks, values
from study_view import interval
from words import clean, digits3, memory, number_of, percent, times, unit_of


def entries_of(gate):
    return gate["comparison"]["entries"] if gate["comparison"] else []


def gate_numbers(gate):
    unit = unit_of([entry["memory"]["head_bytes"] for entry in entries_of(gate) if entry["memory"]])

    def row(e):
        peak = "—" if e["memory"] is None else f"{memory(e['memory']['base_bytes'], unit)} → {memory(e['memory']['head_bytes'], unit)}"
        return [clean(e["label"]), digits3(e["base_ms"]), digits3(e["head_ms"]), Cell(times(e["ratio"]), interval(e, times), "strong"), word_of(e),
                f"{e['slower_pairs']} of {number_of(e['pairs'], 'pair')}", peak, clean(e["loss"]["message"]) or ("agree" if e["loss"]["compared"] else "not compared")]

    heads = [("rung", False), ("base ms", True), ("head ms", True), ("head / base", True), ("verdict", False), ("slower", False), (f"peak {unit[0]}", True), ("losses", False)]
    return Table("Rung by rung", heads, [row(e) for e in entries_of(gate)])


def common_setting(entries):
    """[(name, value)] of the circumstances that all rungs share."""
    settings = [entry["setting"] for entry in entries]
    return [(name, value) for name, value in settings[0].items() if all(s.get(name) == value for s in settings)]


def view_gate(gate):
    drawn, _ = figures(charts.OF_GATE, {"gates": [gate]})
    entries = entries_of(gate)
    blocks = [drawn.pop("gate")] if "gate" in drawn else []
    blocks += [folded(figure) for figure in drawn.values()]
    if entries:
        blocks.append(Fold("numbers", ["Every number, with its interval"], [gate_numbers(gate), Line(gate["comparison"]["method"], "grey")]))
    for place, noise in enumerate(gate["calibration"]):
        blocks.append(Fold(f"noise-{place}", [f"What this machine can show: {clean(noise['label'])}"],
                           [Table("Noise floor", [("pairs", True), ("noise floor", True)], [[str(f["pairs"]), percent(f["floor"])] for f in noise["floors"]])]))
    blocks.append(Fold("trust", ["Can it be trusted?"], remarks(gate["said"]) + [
        Line("**Ratio**: head's time over base's, paired; above 1 head is slower. A run is one fresh process; statistics count runs, not steps."),
        Line(f"**Verdict**: an interval beyond ± {percent(gate['min_effect'])} is a regression or an improvement, one within it the same, one that crosses it "
             "inconclusive. Losses that differ are a regression."),
        Line("**Exit status**: 0 the same or faster, 1 slower or failed, 3 it cannot tell.")]))
    if entries:
        blocks.append(Fold("circumstances", ["Circumstances"], [values("Circumstances that all rungs share", common_setting(entries))] + [
            Fold(f"recipe-{place}", [f"Recipe of {clean(e['label'])}"], [values("Recipe", flatten(e["recipe"]))]) for place, e in enumerate(entries) if e["recipe"]]))
    return Page(gate["said"], blocks, "gate.json")


# ---- trainings

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


def view_training(document):
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
