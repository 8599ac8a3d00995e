"""What charts and pages take from a study (results/schemas/study.v1.json): its numbers, labels and reasons, and the sentences that the
program made of it, which are its report's "words".
"""

import re
from typing import Any, NamedTuple, Optional

from words import clean, number_of, shorten, unit_of

LETTERS = {"batch": "B", "context": "T", "accumulation": "micro-steps"}


def told(part):
    """A part of a report, with its words in study["words"] and in each rung["words"]."""
    study, words = part["study"], part["words"]
    rungs = [rung | {"words": own} for rung, own in zip(study["rungs"], words["rungs"], strict=True)]
    return part | {"study": study | {"rungs": rungs, "words": words}}


def own_rungs(study):
    """Without the rungs of other programs."""
    return [r for r in study["rungs"] if "peer" not in r]


def has_number(rung):
    return rung["status"] == "measured" and rung["ms_per_step"] is not None


def measured(study):
    return [r for r in own_rungs(study) if has_number(r)]


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


def mfus(study):
    """(the kinds of MFU that rungs have, each once; why there is none)"""
    known = [r["mfu"] for r in measured(study) if r.get("mfu")]
    kinds = list({m["type"]: m for m in known if m["value"] is not None}.values())
    return kinds, known[0]["reason"] if known and not kinds else ""


def confidence(study):
    return f"{study['statistics']['confidence'] * 100:.4g} % confidence"


def reason(rung):
    """Why a rung has no number: 'failed: exit status 3'."""
    return clean(rung["words"]["reason"])


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
    return swept_value(study, rung) + clean(rung["label"])


def peers(study):
    """[(our rung, the comparison, the peer's rung)]"""
    rungs = {r["index"]: r for r in study["rungs"]}
    return [(own, p, rungs[p["rung"]]) for own in study["rungs"] for p in own.get("peers", [])]


class Headline(NamedTuple):
    first: Optional[dict[str, Any]]    # the reference rung
    last: Optional[dict[str, Any]]     # the rung that the study's headline is about
    speedup: Optional[dict[str, Any]]


def took_its_place(study):
    """The reference rung, if it replaces the planned one, which has no valid number; otherwise None."""
    head = study["headline"] or {}
    return next((r for r in study["rungs"] if "planned" in head and r["index"] == head["first"] != head["planned"]), None)


def headline(study):
    """The rungs that the study's headline is about, or None."""
    rungs, head = {r["index"]: r for r in study["rungs"]}, study["headline"]
    if head is None or head["first"] == head["last"]:
        return Headline(None, None, None)
    first, last = rungs[head["first"]], rungs[head["last"]]
    best = rungs.get(head.get("fastest"))
    if best is not None and best["speedup_first"] is not None:
        return Headline(first, best, best["speedup_first"])
    return Headline(first, last, head["speedup"])


def sizes(study):
    """'B=16 T=1024 × 4 micro-steps', without the size that a sweep varies."""
    work = study["workload"]
    texts = {"batch": f"B={work['batch']}", "context": f"T={work['context']}"}
    if work["accumulation"] != 1:
        texts["accumulation"] = f"× {work['accumulation']} micro-steps"
    texts.pop(study.get("swept"), None)
    return " ".join(texts.values())


def sizes_and_tokens(study):
    return sizes(study) + ("" if "swept" in study else f", {number_of(study['workload']['tokens_per_step'], 'token')} per step")


class About(NamedTuple):
    """What a chart is of."""
    subject: str   # before the title of a picture by itself
    source: str    # at its foot: what was measured, where and when
    warnings: str  # at its foot, by name; may be empty


def machine(device):
    """'an AMD EPYC (2 threads)', 'an NVIDIA H100': the name without trademarks, and without words like "CPU" and "16-Core"."""
    name = re.sub(r"\((?:R|TM|C)\)|\b(?:CPU|Processor|\d+-Core)\b|@.*", " ", re.sub(r", \d+ threads?$", "", clean(device["name"])), flags=re.I)
    name = shorten(name, 40) or clean(device["name"])
    said_as_letters = name.split(" ")[0].isupper() and name[0] in "AEFHILMNORSX"
    threads = re.search(r", (\d+ threads?)$", device["name"])
    return f"{'an' if said_as_letters or name[0].upper() in 'AEIO' else 'a'} {name}" + (f" ({threads[1]})" if threads else "")


def training(model, device):
    """'Training GPT-2 124M on an AMD EPYC (2 threads)'"""
    size = re.fullmatch(r"gpt2-(\d+)m", model)
    name = f"GPT-2 {size[1]}M" if size else f"the {shorten(model, 30)} model"
    return f"Training {name} on {machine(device)}"


def cpu_figures(device):
    return ["CPU figures, not comparable with a GPU's"] if device["kind"] == "cpu" else []


def about(study):
    device, plan, model = study["device"], study["plan"], study["workload"]["model"]
    source = [shorten(study["ladder"]["title"], 70), f"{shorten(model, 40)}, {sizes(study)}", shorten(device["name"], 70),
              clean(study["created"])[:10], *cpu_figures(device)]
    if not study["finished"]:
        source.append(f"unfinished: {plan['runs_ok']} of {plan['runs_planned']} runs")
    return About(training(model, device), " · ".join(source), warnings_by_name(study))


def warnings_by_name(study):
    """'Warnings: 1 of 42 runs was disturbed; repeat 2 was interrupted for 7.1 hours': each without its explanation."""
    names = [shorten(text if text.startswith("rung ") else text.partition(": ")[0], 90) for text in map(clean, study["warnings"])]
    more = f"; and {len(names) - 3} more" if len(names) > 3 else ""
    return f"Warning{'' if len(names) == 1 else 's'}: {'; '.join(names[:3])}{more}" if names else ""


def runs_said(study):
    """'median of 5 runs', of the rungs with a number."""
    runs = {r["runs_ok"] for r in measured(study)}
    if not runs:
        return "no runs"
    only = min(runs) if len(runs) == 1 else None
    return "a single run" if only == 1 else f"median of {only} runs" if only else f"median of up to {max(runs)} runs"


# ---- the modes beside the cumulative ladder

METHODS = {"leave-one-out": "leave_one_out", "one-at-a-time": "one_at_a_time", "factorial": "shapley"}


def worths(study):
    """The worths that its mode asks for: largest first, those without a number last."""
    asked = [w for w in study["attribution"] if w["method"] == METHODS.get(study["mode"])]
    return sorted(asked, key=lambda w: (w["ratio"] is None, -(w["ratio"] or 0)))
