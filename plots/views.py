"""The pages of a gate's verdict (results/schemas/gate.v1.json) and of a training (training_report.v1.json). Computes nothing."""

import re

import charts
from charts.comparisons import word_of
from sections import Beside, Cell, Code, Fold, Line, Page, Table, figures, flatten, folded, remarks, values
from study_view import interval
from words import clean, digits3, memory, number_of, percent, plain, times, unit_of


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


# ---- nights of experiments


def experiment_row(number, entry):
    judged = entry.get("judgment")
    head = [str(number), clean(entry["head"])[:7], clean(entry["expectation"]["text"])]
    if not judged:
        return [*head, "interrupted", "—", "", "", ""]
    ratio = Cell(times(judged["ratio"]), interval(judged, times), "strong") if judged["pairs"] else "—"
    return [*head, judged["verdict"], ratio, str(judged["pairs"]), f"{plain(judged['evidence'])} of {plain(judged['needed'])}",
            clean(judged["reasons"][0]) if judged["reasons"] else ""]


def view_ledger(ledger):
    drawn, _ = figures(charts.OF_LEDGER, ledger)
    heads = [("", True), ("head", False), ("expected", False), ("verdict", False), ("ratio", True), ("pairs", True), ("evidence", False), ("why", False)]
    rows = [experiment_row(i + 1, entry) for i, entry in enumerate(ledger["experiments"])]
    return Page(ledger["said"], [*drawn.values(), Fold("experiments", ["Every experiment"], [Table("Every experiment", heads, rows)]),
                Fold("trust", ["Can it be trusted?"], [
                    Line("**Ratio**: how many times better head is, from pairs of fresh processes; its interval holds at every look (95 %)."),
                    Line("**Evidence**: how much likelier the pairs are with a gain than without. A change is kept when it reaches what is needed; "
                         "how much that is follows from the error that the night has left (docs/power.md)."),
                    Line("**Discard**: the gain that was wanted, or that so many pairs can show, is excluded; or head failed, or learns something else.")])], "ledger.json")


# ---- trainings

TERMS = ["**Loss**: mean over a step's tokens, in nats; exp(loss) is the perplexity. At the end it is the mean of the last tenth of the steps.",
         "**Validation loss**: on text that is not trained on. When it rises while the loss falls, the model learns the text by heart.",
         "**Norm**: of all gradients together, before clipping.",
         "**Spike**: a loss far above those before it (docs/training.md)."]


def samples(document):
    """What the model wrote: the last text first. Empty lines in a row are one."""
    texts = [(s["step"], re.sub(r"\n\s*\n(\s*\n)+", "\n\n", s["text"])) for s in document.get("samples", [])]
    if not texts:
        return []
    (step, text), earlier = texts[-1], texts[:-1]
    blocks = [block for when, said in earlier for block in (Line(f"**After step {when}**"), Code(said))]
    return [Fold("sample", [f"What it writes after step {step}"], [Code(text)]), *([Fold("samples", ["What it wrote before"], blocks)] if blocks else [])]


def view_training(document):
    training = document["training"]
    drawn, _ = figures(charts.OF_TRAINING, document)
    first = charts.OF_TRAINING[0]
    blocks = [drawn.pop(first)] if first in drawn else []
    if len(drawn) >= 2:
        blocks.append(Beside([drawn.pop(name) for name in list(drawn)[:2]]))
    blocks += samples(document)
    blocks += [folded(figure) for figure in drawn.values()]
    settings = [*flatten(training["settings"]), ("recipe_from", training["recipe_from"]), ("parameters", training["parameters"])]
    blocks += [Fold("terms", ["Words"], [*remarks(document["said"]), *map(Line, TERMS)]),
               Fold("settings", ["Settings"], [values("Settings", settings)]),
               Fold("environment", ["Environment"], [values("Environment", flatten(training["environment"]))])]
    return Page(document["said"], blocks, "report.json")
