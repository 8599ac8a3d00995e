"""What charts and pages take from a study (results/schemas/study.v1.json): its numbers, labels and reasons, and what the program says of
it, which is its report's "said".
"""

from words import clean, unit_of

LETTERS = {"batch": "B", "context": "T", "accumulation": "micro-steps"}
NO_RATIO = {"ratio": None, "lo": None, "hi": None}


def without_claims(study, reason):
    """The study without what follows from its times, as said_of() in report/remarks.h takes it."""
    rungs = [{name: value for name, value in rung.items() if name not in ("explanation", "changed")}
             | {"speedup_first": None, "speedup_previous": None, "peers": [peer | NO_RATIO for peer in rung.get("peers", [])]}
             for rung in study["rungs"]]
    worths = [worth | NO_RATIO | {"reason": reason} for worth in study.get("attribution") or []]
    return study | {"rungs": rungs, "headline": None, "attribution": worths}


def is_usable(said):
    return all(remark["code"] != "unusable" for remark in said["remarks"])


def told(part):
    """A part of a report, with what is said of it in study["said"] and in each rung["said"]."""
    study, said = part["study"], part["said"]
    if not is_usable(said):
        study = without_claims(study, said["headline"])
    rungs = [rung | {"said": own} for rung, own in zip(study["rungs"], said["rungs"], strict=True)]
    return part | {"study": study | {"rungs": rungs, "said": said}}


def left_out(rung):
    """Whether a rung was to have no number: nothing failed."""
    return rung["status"] in ("not_applicable", "not_measured")


def own_rungs(study):
    """Those that were to be measured, without the rungs of other programs."""
    return [r for r in study["rungs"] if "peer" not in r and not left_out(r)]


def has_number(rung):
    return rung["status"] == "measured" and rung["ms_per_step"] is not None


def measured(study):
    return [r for r in own_rungs(study) if has_number(r)]


def lead(study):
    """(the reference, the rung that the study leads with); None: it has no speedup."""
    headline = study["headline"]
    if headline is None or headline["first"] == headline["last"]:
        return None
    return study["rungs"][headline["first"]], study["rungs"][headline.get("fastest") or headline["last"]]


def memory_unit(study):
    """(name, bytes): one unit for the whole column, so that its figures can be compared."""
    return unit_of([r["peak_memory_bytes"] for r in own_rungs(study) if r["status"] == "measured" and r["peak_memory_bytes"] is not None])


MEMORY_PARTS = {"weights_bytes": "weights", "gradients_bytes": "gradients", "optimizer_bytes": "optimizer state",
                "weight_copies_bytes": "16-bit weights", "activations_bytes": "activations"}


def memory_parts(rung):
    """{part: bytes}: the known parts of the first run, and what they leave of the peak of all runs."""
    known = rung.get("memory") or {}
    parts = {name: known[field] for field, name in MEMORY_PARTS.items() if known.get(field) is not None}
    if parts and rung["peak_memory_bytes"] is not None:
        parts["other"] = max(rung["peak_memory_bytes"] - sum(max(size, 0) for size in parts.values()), 0)
    return parts


def batches(study):
    """[(rung, what its batches cost)], where the study is about them."""
    return [(r, r["batches"]) for r in own_rungs(study) if "batches" in r]


def cached(cost):
    """How much of the batches' file lay in the page cache: '100 % → 12 %'."""
    before, after, size = cost["cached_before"], cost["cached_after"], cost["file_bytes"]
    return "—" if before is None or after is None or not size else f"{100 * before / size:.0f} % → {100 * after / size:.0f} %"


def are_independent(study):
    """Commands that are compared with the first, none of which adds to the one before."""
    return study["mode"] == "cumulative" and len(study["rungs"]) > 1 and all(
        "command" in rung and not rung["command"]["typed"].startswith("+ ") for rung in study["rungs"])


def timed_unit(study):
    """What a time is of: a step, or what all commands' numbers count in its place."""
    units = {rung["command"].get("unit", "step") for rung in own_rungs(study) if rung.get("command", {}).get("shape")}
    return units.pop() if len(units) == 1 else "step"


def is_of_value(study):
    """Whether it compares a number that commands print, not a time."""
    return bool(study.get("metric", {}).get("pattern"))


def compared(study, rung):
    """The number that the study compares, of a rung with one: {median, lo, hi}."""
    if is_of_value(study):
        return rung["numbers"][study["metric"]["name"]]
    scale = 1000 if timed_unit(study) == "run" else 1
    return {of: value and value / scale for of, value in rung["ms_per_step"].items() if of in ("median", "lo", "hi")}


def compared_unit(study):
    """'ms per step', 's per run', 'val_loss'."""
    unit = timed_unit(study)
    return clean(study["metric"]["name"]) if is_of_value(study) else "s per run" if unit == "run" else f"ms per {unit}"


def mfu(rung):
    """A share; None: not known."""
    return (rung.get("mfu") or {}).get("value")


def confidence(study):
    return f"{study['statistics']['confidence'] * 100:.4g} % confidence"


def runs_said(study):
    """What a rung's number is of: 'median of 5 runs'."""
    most = max((r["runs_ok"] for r in measured(study)), default=0)
    return "a single run" if most == 1 else f"median of {most} runs"


def reason(rung):
    """Why a rung has no number: 'failed: exit status 3'."""
    return clean(rung["said"]["reason"])


def no_interval(ratio):
    return ratio["lo"] is None or ratio["hi"] is None


def unclear(ratio):
    """Whether the interval includes 1, so that the direction is not known. The reference's own ratio of 1 is clear."""
    return not no_interval(ratio) and ratio["lo"] <= 1 <= ratio["hi"] and ratio["lo"] < ratio["hi"]


def slower(ratio):
    """Whether the whole interval is below 1. A ratio without an interval is not called slower."""
    return ratio["hi"] is not None and ratio["hi"] < 1


def faster(ratio):
    """Whether the whole interval is above 1."""
    return ratio["lo"] is not None and ratio["lo"] > 1


def swept_value(study, rung):
    what = study.get("swept")
    return f"{LETTERS[what]}={rung['workload'][what]} " if what else ""


def label(study, rung):
    """'+ bf16 autocast', in a sweep 'B=2 bf16 autocast'."""
    if rung["optimization"] == "gpu" and "command" not in rung:  # the same arithmetic as before, elsewhere
        return "float32 on the GPU"
    return swept_value(study, rung) + clean(rung["label"])


def peers(study):
    """[(our rung, the comparison, the peer's rung)]"""
    rungs = {r["index"]: r for r in study["rungs"]}
    return [(own, p, rungs[p["rung"]]) for own in study["rungs"] for p in own.get("peers", [])]


# ---- the modes beside the cumulative ladder

METHODS = {"leave-one-out": "leave_one_out", "one-at-a-time": "one_at_a_time", "factorial": "shapley"}
CALLED = {"cumulative": "in the ladder's order", "shapley": "averaged over all orders (Shapley)",
          "leave_one_out": "on top of all others (leave-one-out)", "one_at_a_time": "alone (one-at-a-time)"}


def worths(study):
    """The worths that its mode asks for: largest first, those without a number last."""
    asked = [w for w in study["attribution"] if w["method"] == METHODS.get(study["mode"])]
    return sorted(asked, key=lambda w: (w["ratio"] is None, -(w["ratio"] or 0)))
