"""The worths from two studies of one setting: of a ladder, and of leaving out, adding alone, or all orders."""

from charts import Missing, attribution
from study import METHODS, about, sizes
from words import clean

NAME, QUESTION = "orders", "Does an optimization's worth depend on what else is on?"


def setting(study):
    return study["device"], study["workload"]["model"], sizes(study)


def draw(report):
    studies = sorted((part["study"] for part in report["studies"]), key=lambda study: study["mode"] in METHODS)
    modes = [study["mode"] for study in studies]
    if len(studies) != 2 or modes[0] == modes[1] or modes[0] == "sweep" or modes[1] not in METHODS:
        return Missing("`ladder report STUDY STUDY`, one of a ladder and one of `ladder ablate --mode leave-one-out`; a study of "
                       "`--mode factorial` tells it by itself")
    if setting(studies[0]) != setting(studies[1]):
        return Missing("two studies of one device, model, batch and context; these two differ in one of them")
    listed = [worth for study in studies for worth in attribution.entries(study) if worth["method"] in attribution.COLORS]
    called = studies[0]["words"]["methods"] | studies[1]["words"]["methods"]
    last = {(worth["optimization"], worth["method"]): worth for worth in listed}
    notes = [f"{clean(studies[1]['ladder']['title'])}, {modes[1]}: {clean(studies[1]['created'])[:10]} · sorted by what it is worth "
             f"{called[METHODS[modes[1]]]}"]
    return attribution.chart(studies[1], [w for w in listed if last[w["optimization"], w["method"]] is w], METHODS[modes[1]], called, notes, about(studies[0]))
