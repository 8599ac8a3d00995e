"""The worths that two studies of one setting give: a ladder's beside what leaving out, adding alone or all orders tell."""

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
                       "`--mode factorial` tells it alone")
    if setting(studies[0]) != setting(studies[1]):
        return Missing("two studies of one device, model, batch and context; these two differ in that")
    listed = [worth for study in studies for worth in attribution.entries(study) if worth["method"] in attribution.CALLED]
    first = {(worth["optimization"], worth["method"]): worth for worth in reversed(listed)}
    notes = [f"{clean(studies[1]['ladder']['title'])}, {modes[1]}: {clean(studies[1]['created'])[:10]} · sorted by what it is worth "
             f"{attribution.CALLED[METHODS[modes[1]]]}"]
    return attribution.chart(studies[1], [w for w in listed if first[w["optimization"], w["method"]] is w], METHODS[modes[1]], notes, about(studies[0]))
