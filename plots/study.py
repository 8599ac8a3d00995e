"""What a study (results/schemas/study.v1.json) says, in words: labels, reasons, its finding. Every number stands in it."""

import re
import shlex
from typing import Any, NamedTuple, Optional

from words import clean, digits3, milliseconds, number_of, shorten, times, unit_of

STATUS_WORDS = {
    "not_applicable": "not applicable",
    "not_measured": "not measured",
    "failed": "failed",
    "unproven": "unproven",
    "void": "void",
    "missing": "not run yet",
}
VERDICT_WORDS = {"REGRESSION": "slower", "IMPROVEMENT": "faster", "SAME": "the same", "INCONCLUSIVE": "inconclusive"}
LETTERS = {"batch": "B", "context": "T", "accumulation": "micro-steps"}
TITLE_LENGTH = 84  # characters


def own_rungs(study):
    """Without those of other programs, which are no rungs of the ladder."""
    return [r for r in study["rungs"] if "peer" not in r]


def has_number(rung):
    return rung["status"] == "measured" and rung["ms_per_step"] is not None


def measured(study):
    return [r for r in own_rungs(study) if has_number(r)]


def memory_unit(study):
    """(name, bytes): one unit for the whole column, so that its figures can be compared down the page."""
    return unit_of([r["peak_memory_bytes"] for r in own_rungs(study) if r["status"] == "measured" and r["peak_memory_bytes"] is not None])


MEMORY_PARTS = {"weights_bytes": "weights", "gradients_bytes": "gradients", "optimizer_bytes": "optimizer state",
                "weight_copies_bytes": "16-bit weights", "activations_bytes": "activations"}


def memory_parts(rung):
    """{part: bytes}: those of the first run, as far as they are known, and what they leave of the peak of all runs."""
    known = rung.get("memory") or {}
    parts = {name: known[field] for field, name in MEMORY_PARTS.items() if known.get(field) is not None}
    if parts and rung["peak_memory_bytes"] is not None:
        parts["other"] = max(rung["peak_memory_bytes"] - sum(max(size, 0) for size in parts.values()), 0)
    return parts


def memory_words(study):
    """What the parts are."""
    memories = [r.get("memory") or {} for r in own_rungs(study)]
    apart = any("weight_copies_bytes" in m for m in memories)
    autocast = any(r["recipe"].get("autocast", "off") != "off" for r in own_rungs(study) if r.get("memory"))
    copies = ("16-bit weights: autocast's copies, which autograd keeps until the backward pass has used them; activations: what else "
              if apart else "activations: what ")
    mixed = "" if apart or not autocast else ", under autocast with its 16-bit copies of the weights, which these runs did not count apart"
    return (f"{copies}the forward pass of one micro-step leaves for backward{mixed}; other: the rest of the peak (libraries, temporaries)")


def mfus(study):
    """(the kinds of MFU that rungs have, each once; why there is none)"""
    known = [r["mfu"] for r in measured(study) if r.get("mfu")]
    kinds = list({m["type"]: m for m in known if m["value"] is not None}.values())
    return kinds, known[0]["reason"] if known and not kinds else ""


def confidence(study):
    return f"{study['statistics']['confidence'] * 100:.4g} % confidence"


def reason(rung):
    """Why a rung has no number: 'failed: exit status 3'."""
    word = "out of memory" if rung.get("out_of_memory") else STATUS_WORDS.get(rung["status"], "no number")
    why = clean(rung["reason"])
    if not why or why.lower().startswith(word):
        return why or word
    return f"{word}: {why}"


def no_interval(ratio):
    """What a title says of a ratio without an interval, which shows nothing by itself; empty where there is one."""
    if ratio["lo"] is not None and ratio["hi"] is not None:
        return ""
    return "one run each, no interval" if ratio.get("pairs", ratio.get("repeats")) == 1 else "no interval"


def unclear(ratio):
    """True where the interval includes 1: the data do not say which way it went. The reference's own ratio is clear, 1."""
    return not no_interval(ratio) and ratio["lo"] <= 1 <= ratio["hi"] and ratio["lo"] < ratio["hi"]


def slower(ratio):
    """True where the whole interval is below 1; a ratio without an interval is not called slower."""
    return ratio["hi"] is not None and ratio["hi"] < 1


def faster(ratio):
    """The other way round."""
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
    words: str                         # '2.61× faster', or 'No valid speedup: why' where there is none
    first: Optional[dict[str, Any]]    # the reference rung
    last: Optional[dict[str, Any]]     # the rung that the words are about
    speedup: Optional[dict[str, Any]]
    end: Optional[dict[str, Any]]      # the ladder's last rung, where an earlier one is the fastest; its speedup is its speedup_first


def took_its_place(study):
    """The reference rung, where it took the place of the planned one, which has no valid number; None: it is the planned one."""
    head = study["headline"] or {}
    return next((r for r in study["rungs"] if "planned" in head and r["index"] == head["first"] != head["planned"]), None)


def speedup_words(ratio, reference):
    """`reference`: to be named, where that is not the planned one; else None."""
    speedup, name = times(ratio["ratio"]), f" “{shorten(reference['title'], 30)}”" if reference else ""
    if why := no_interval(ratio):
        return f"{speedup}{name and ' against' + name}, {why}"
    if unclear(ratio):
        return f"No clear change{name and ' against' + name}"
    return f"{speedup} faster{name and ' than' + name}" if ratio["ratio"] >= 1 else f"Slower, {speedup} the speed{name and ' of' + name}"


def headline(study):
    """What the study comes to. The only place that reads the study's own headline."""
    rungs = {r["index"]: r for r in study["rungs"]}
    head = study["headline"]
    if head is None or head["first"] == head["last"]:
        numbers = measured(study)
        if not numbers:
            others = [r for r in own_rungs(study) if r["status"] not in ("not_applicable", "not_measured")]
            why = f"no rung has a number ({reason(others[0]).partition(': ')[0]})" if others else "no rung has a number"
        elif len(numbers) == 1:
            why = f"only “{clean(numbers[0]['title'])}” has a number"
        else:
            why = "no rung could be compared with the reference rung"
        return Headline(f"No valid speedup: {why}", None, None, None, None)
    first, last = rungs[head["first"]], rungs[head["last"]]
    best = rungs.get(head.get("fastest"))
    if best is not None and best["speedup_first"] is not None:
        return Headline(speedup_words(best["speedup_first"], took_its_place(study)), first, best, best["speedup_first"], last)
    return Headline(speedup_words(head["speedup"], took_its_place(study)), first, last, head["speedup"], None)


def title(study):
    head = headline(study)
    if head.first is None:
        return shorten(head.words, TITLE_LENGTH)
    at = f" at “{shorten(head.last['title'], 30)}”" if head.end else ""
    return f"{head.words}{at}, {digits3(head.first['ms_per_step']['median'])} → {milliseconds(head.last['ms_per_step']['median'])} per step"


def sizes(study):
    """'B=16 T=1024 × 4 micro-steps', without what a sweep varies."""
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
    subject: str   # before its title in a picture that stands alone
    source: str    # at its foot: what was measured, where and when
    warnings: str  # by name, there too; empty without any


def machine(device):
    """'an AMD EPYC (2 threads)', 'an NVIDIA H100': without what makers put into a name for the law and the shelf."""
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
    """'Warnings: 1 of 42 runs was disturbed; repeat 2 was interrupted for 7.1 hours': each without what it goes on to explain."""
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


# ---- the commands that measure it again

POSITIONS = {"tiny": 64}  # of a model by itself; the others have 1024
OWN_TEXTS = ("shakespeare.txt", "shakespeare.bin")  # of a cache folder, of a bundle


def joined(words):
    return " ".join(shlex.quote(clean(str(word))) for word in words)


def workload_flags(study):
    """What makes any command of `ladder` measure the study's sizes, whatever the ladder's own are."""
    work, plan, environment = study["workload"], study["plan"], study["environment"]
    flags = ["--model", work["model"]]
    flags += [word for name, flag in (("batch", "-B"), ("context", "-T")) if name != study.get("swept") for word in (flag, work[name])]
    if work["accumulation"] != 1 and study.get("swept") != "accumulation":
        flags += ["--accumulation", work["accumulation"]]
    if work.get("positions", 0) > POSITIONS.get(work["model"], 1024) and study.get("swept") != "context":
        flags += ["--positions", work["positions"]]
    if work["seed"] != 1:
        flags += ["--seed", work["seed"]]
    flags += ["--warmup", plan["warmup_steps"], "--steps", plan["timed_steps"]]
    threads = environment.get("threads")
    if study["device"]["kind"] == "cpu" and threads and threads != environment.get("cpu", {}).get("logical_cores"):
        flags += ["--threads", threads]
    if work["data"]["source"] not in OWN_TEXTS:
        flags += ["--data", work["data"]["source"]]
    if all(rung["recipe"].get("deterministic") for rung in study["rungs"]):
        flags.append("--deterministic")
    return flags


def ladder_flag(study):
    """A ladder of one's own is known by its file only."""
    return ["--ladder", study["ladder"].get("file", study["ladder"]["name"])]


def peer_rungs(study):
    """The names of the rungs that have a peer of each mode, where that is not the last of them alone."""
    def is_chosen(own):
        modes = [study["rungs"][p["rung"]]["peer"] for p in own.get("peers", [])]
        return any(mode != "pytorch-eager" for mode in modes) or (modes and own["recipe"].get("execution", "eager") != "eager")

    own = [r for r in own_rungs(study) if r["status"] not in ("not_applicable", "not_measured")]
    chosen = [r["index"] for r in own if is_chosen(r)]
    return [] if chosen in ([], [own[-1]["index"]]) else [r["optimization"] or "start" for r in own if r["index"] in chosen]


def ablate_command(study):
    """`ladder ablate` with all that makes it the same study on the same machine."""
    words = ["ladder", "ablate", *ladder_flag(study)]
    if "swept" in study:
        values = dict.fromkeys(str(r["workload"][study["swept"]]) for r in study["rungs"])
        words += ["--sweep", f"{study['swept']}={','.join(values)}"]
        words += [word for name in dict.fromkeys(r["optimization"] or "start" for r in own_rungs(study)) for word in ("--rung", name)]
    elif study["mode"] != "cumulative":
        words += ["--mode", study["mode"]]
    if study["mode"] == "factorial":
        words += ["--factors", ",".join(dict.fromkeys(w["optimization"] for w in study["attribution"]))]
    if modes := dict.fromkeys(r["peer"].removeprefix("pytorch-") for r in study["rungs"] if "peer" in r):
        words += ["--with-peer", "pytorch", "--peer-modes", ",".join(modes)]
        if study["mode"] == "cumulative":
            words += [word for name in peer_rungs(study) for word in ("--peer-rung", name)]
    size = ["--quick"] if "quick" in study else ["--repeats", study["plan"]["repeats"]]
    return joined([*words, *workload_flags(study), *size, "--order-seed", study["plan"]["order_seed"]])


def run_commands(study, rung):
    """The commands that run a rung by itself, where it has a name by which they know it."""
    if study["mode"] != "cumulative" or rung["status"] == "not_applicable":
        return []
    of_rung = [*ladder_flag(study), "--rung", rung["optimization"] or "start", *workload_flags(study)]
    return [joined(["ladder", *command, *of_rung]) for command in (["run"], ["profile", "--trace"])]


# ---- the modes beside the cumulative ladder

WORTHS = {
    "leave-one-out": ("What is lost without each optimization", "Step time without it, divided by step time with everything on."),
    "one-at-a-time": ("What each optimization brings alone", "Step time of the reference, divided by step time with it alone."),
    "factorial": ("What each optimization brings, averaged over all orders of switching them on",
                  "Its Shapley value: what it takes off the logarithm of the time, averaged over all orders; the values multiply to "
                  "the total speedup, as its geometric mean over the repeats."),
}
METHODS = {"leave-one-out": "leave_one_out", "one-at-a-time": "one_at_a_time", "factorial": "shapley"}


def worths(study):
    """What its mode asks for: largest first, those without a number last."""
    asked = [w for w in study["attribution"] if w["method"] == METHODS.get(study["mode"])]
    return sorted(asked, key=lambda w: (w["ratio"] is None, -(w["ratio"] or 0)))


def worth_words(study):
    return WORTHS.get(study["mode"], ("", ""))[1]


# ---- how to read it

RATIOS = ("A ratio is the centre of the ratios within each repeat, of the two rungs' runs in it, not the quotient of the two medians; "
          "the two may differ by the noise.")
A_RUNG = {
    "cumulative": "is the recipe after all edits up to and including this one. “vs previous” compares it with the rung before it, "
                  "where that has a number, “so far” with the reference rung. Above 1× is faster.",
    "sweep": "is a recipe at one size. Rungs of unequal size are never compared with each other, nor are their losses. Above 1× is "
             "faster than the first rung of the same size.",
}


def how_to_read(study):
    """[(term, what it means)]: a sentence that begins with the term."""
    plan, statistics = study["plan"], study["statistics"]
    told = [
        ("A rung", A_RUNG.get(study["mode"], "is the reference with some of the ladder's optimizations on. Above 1× is faster.")),
        ("A run", f"is one fresh process that trains one recipe: {number_of(plan['warmup_steps'], 'warm-up step')}, then "
                  f"{plan['timed_steps']} timed. The run is the unit of all statistics, never the step."),
        ("The number", f"of a rung is: {statistics['center']}."),
        ("Tokens/s", "are a step's tokens divided by that time: those of the median step, not of a whole run."),
        ("The interval", f"({confidence(study)}) is: {statistics['interval']}. Where it includes 1× the rung made no clear difference. Of "
                         f"comparisons with nothing to find, about {100 * (1 - statistics['confidence']):.3g} in 100 show a clear "
                         "difference by chance. A single run has no interval."),
        ("The guard", "compares a rung's losses with the reference rung's. A single step may be far off, since training amplifies rounding. "
                      "Where the median over the first 16 steps is further off than the number types explain, the rung computes "
                      "something else, and its speedup is void."),
    ]
    if "attribution" in statistics:
        told.append(("The worth", f"of an optimization is computed from: {statistics['attribution']} (L. S. Shapley, 1953)."))
    told += [
        ("A proof", "is what a run observed that shows the optimization really took effect; a flag that was set is no proof. A rung "
                    "whose proof fails is unproven and has no number."),
        ("Disturbed runs", "are those during which the GPU was throttled, something else used the GPU or the processor, or memory ran "
                           "short. Such a run is made once again, and the second record counts, disturbed or not. Where most runs "
                           "are disturbed, none is made again: that would not help."),
    ]
    if any("explanation" in rung for rung in study["rungs"]):
        told += [
            ("A “why”", "comes from one traced process of each of the two rungs: of two equal ones about one name in six looks changed. "
                        "Where the study shows no clear change of the step, it tells only what ran."),
            ("Went and came", "name what only the rung before, or only this rung, ran: how often in a step, and for how long."),
            ("Shrank and grew", "name what took less or more time than before, and by how much."),
            ("Work", "is the time of a step in which at least one operation ran."),
            ("A clear change", "of a time is one where no traced step of the one rung took as long as any traced step of the other. A "
                               "trace's numbers are those of its step of median length."),
        ]
    return told
