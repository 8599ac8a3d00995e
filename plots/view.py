"""What report.md and report.html both show: a report's document (results/schemas/report.v1.json), its charts drawn.

Computes nothing: which rungs, tables and charts there are, and where they go.
"""

import json
from typing import NamedTuple, Optional

import charts
import study as of
import theme
from charts import Chart
from words import clean, number_of, percent, plain, shorten


class Drawn(NamedTuple):
    name: str                # of its files, and its anchor in the page
    question: str
    chart: Optional[Chart]   # none: see run
    run: str                 # what to run to get it

    def specification(self):
        """As a file of its own."""
        return theme.framed(self.chart.wide, self.chart.finding, self.chart.lines)

    def bare(self, narrow):
        """As the page shows it."""
        return theme.bare(self.chart.narrow if narrow else self.chart.wide, self.chart.finding)


# Over the columns of a rung's two speedups: speedup_previous and speedup_first. In the other modes the former is none or the latter.
HEADS = {"cumulative": ("vs previous", "so far"), "leave-one-out": ("vs everything on", "vs first")}


def drawn(names, argument, suffix=""):
    out = []
    for name in names:
        module = charts.module(name)
        made = module.draw(argument)
        is_chart = isinstance(made, Chart)
        out.append(Drawn(module.NAME + suffix, module.QUESTION, made if is_chart else None, "" if is_chart else made.run))
    return out


def flatten(value, name=""):
    """[(dotted name, value)] of nested objects, in their order; lists stay whole."""
    if not isinstance(value, dict) or (name and not value):
        return [(name, value)]
    return [pair for key, inner in value.items() for pair in flatten(inner, f"{name}.{key}" if name else str(key))]


def mfu_rows(study):
    """(the kinds of MFU that rungs have, each once; why there is none)"""
    mfus = [r["mfu"] for r in of.measured(study) if r.get("mfu")]
    none = "" if not mfus or any(m["value"] is not None for m in mfus) else mfus[0]["reason"]
    return list({m["type"]: m for m in mfus if m["value"] is not None}.values()), none


def floor_at(noise, pairs):
    """The noise floor of so many pairs, else of the next fewer that it was computed for, else of the fewest."""
    fewer = [f for f in noise["floors"] if f["pairs"] <= pairs]
    return max(fewer, key=lambda f: f["pairs"]) if fewer else noise["floors"][0]


def disturbed_runs(part):
    """The ids of the good runs that have a flag, in all rungs: some have no number, some are PyTorch's. Where a record is not
    there, its rung still has the flags; each begins with the run's id."""
    return ({run["id"] for run in part["runs"] if run["status"] == "ok" and run["flags"]}
            | {flag.split(" ")[0] for rung in part["study"]["rungs"] for flag in rung.get("flags", [])})


def conditions_on_a_gpu(part):
    """What NVML told of each good run on a GPU; None where it told nothing or the record is not there."""
    rungs, told = part["study"]["rungs"], {run["id"]: run["conditions"] for run in part["runs"]}
    return [told.get(run["id"]) for run in part["study"]["runs"]
            if run["status"] == "ok" and rungs[run["rung"]]["recipe"].get("device") == "cuda"]


def unwatched_runs(part):
    """How many of them may have been throttled or shared for all that is known."""
    return sum(not told or any(told.get(field) is None for field in ("throttle", "other_processes"))
               for told in conditions_on_a_gpu(part))


def at_the_power_cap(part):
    """A GPU may well work at its power cap all the time, which disturbs nothing as long as its clock stays (harness/monitor.h)."""
    shares = [reason["share"] for told in conditions_on_a_gpu(part) for reason in told["throttle"] if reason["reason"] == "SwPowerCap"]
    return f"; at its power cap for up to {percent(max(shares))} of a run" if shares else ""


def trust(report, part):
    """What the trust panel says, a card each: what, how it stands ("good", "warn", "bad" or ""), in words."""
    study = part["study"]
    own, plan = of.own_rungs(study), study["plan"]
    cards = []

    def card(what, value, mood, words=""):
        cards.append({"what": what, "value": value, "mood": mood, "words": words})

    complete = plan["runs_ok"] == plan["runs_planned"]
    card("Runs", f"{plan['runs_ok']} of {plan['runs_planned']}", "good" if complete else "warn",
         f"fresh processes, {number_of(plan['repeats'], 'repeat')} of each rung, in interleaved order")
    proofs = [p for r in own for p in r["proofs"]]
    passed = sum(p["passed"] for p in proofs)
    if proofs:
        card("Proofs", f"{passed} of {len(proofs)} passed", "good" if passed == len(proofs) else "bad",
             "what the runs were seen to do, not what was switched on")
    else:
        card("Proofs", "none", "bad", "no run was observed")
    guards = [r["guard"] for r in own if r["guard"] is not None]
    worst = max((g["max_deviation"] for g in guards if g["max_deviation"] is not None), default=None)
    following = sum(g["passed"] for g in guards)
    if guards:
        card("Guard", f"{following} of {number_of(len(guards), 'rung')} {'follows' if following == 1 else 'follow'} the reference",
             "good" if following == len(guards) else "bad",
             "" if worst is None else f"largest loss deviation {plain(worst)} nats")
    noise = [report["noise"][i] for i in part["noise"]]
    floors = [(clean(n["label"]), floor_at(n, plan["repeats"])) for n in noise if n["floors"]]
    if floors:
        label, floor = min(reversed(floors), key=lambda one: abs(one[1]["pairs"] - plan["repeats"]))
        own_pairs = "" if floor["pairs"] == plan["repeats"] else f" (this study has {plan['repeats']})"
        card("Noise floor", percent(floor["floor"]), "", f"the smallest difference that {number_of(floor['pairs'], 'pair')} of runs can "
             f"show here{own_pairs}, measured on {shorten(label, 60)}")
    else:
        card("Noise floor", "not measured", "", "`ladder gate --calibrate --baselines DIR --save` measures how small a difference this "
             "machine can show; `--with` brings it here")
    disturbed, unwatched = len(disturbed_runs(part)), unwatched_runs(part)
    if disturbed:
        card("Disturbed runs", f"{disturbed} of {plan['runs_ok']}", "warn", "throttled, shared, busy with something else, or short of memory")
    elif unwatched:
        card("Disturbed runs", "not known", "warn", f"{number_of(unwatched, 'run')} on a GPU that nobody watched, or whose records are not here")
    else:
        card("Disturbed runs", "none seen", "good", "no throttling, no other work on the device" + at_the_power_cap(part))
    environment = study["environment"]
    commit = environment.get("git_commit")
    program = f"commit {clean(commit)[:10]}" if commit else "commit unknown"
    of_the_gpu = (("driver", "driver"), ("CUDA", "cuda")) if study["device"]["kind"] == "cuda" else ()
    versions = [f"{name} {clean(environment.get(field) or 'unknown')}" for name, field in of_the_gpu]
    dirty = environment.get("git_dirty")
    card("Environment", f"torch {clean(environment.get('torch', 'unknown'))}", "warn" if dirty else "",
         ", ".join([*versions, program + (", with uncommitted changes" if dirty else "")]))
    if not part["computed_again"]:
        card("Numbers", "as stored", "warn", "not computed again from the records; `ladder verify` does that")
    return cards


def proofs_of(rung):
    """Those of the fields that the rung changes; all of them where one failed, or where it changes none."""
    own = [p for p in rung["proofs"] if p["field"] in rung["recipe_diff"]]
    return own if own and all(p["passed"] for p in rung["proofs"]) else rung["proofs"]


def part_view(report, part, suffix, name):
    study = part["study"]
    words, first, last = of.finding(study)
    mfus, no_mfu = mfu_rows(study)
    pictures = drawn(charts.OF_STUDY, part | {"published": report["published"]}, suffix)
    lead = next((one for one in pictures if one.chart), None)
    splits = [(r, r["memory"]) for r in of.own_rungs(study) if "activations_bytes" in (r.get("memory") or {})]
    return {
        "trust": trust(report, part), "alone": lambda rung: of.run_commands(study, rung), "proofs_of": proofs_of,
        "shown": lambda value: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False),
        "again": of.ablate_command(study),
        "study": study, "name": name, "suffix": suffix,
        "words": words, "first": first, "last": last, "confidence": of.confidence(study),
        "headline": words if first or study["mode"] == "cumulative" or not lead else lead.chart.finding,
        "rungs": of.own_rungs(study), "mode": study["mode"], "heads": HEADS.get(study["mode"], ("", "vs first")),
        "worths": of.worths(study), "worth_words": of.worth_words(study),
        "peers": of.peers(study), "unit": of.memory_unit(study),
        "environment": flatten(study["environment"]), "splits": splits,
        "has_reserved": bool(splits) and all("reserved_peak_bytes" in m for _, m in splits),
        "mfus": mfus, "no_mfu": no_mfu,
        "mfu_of": lambda r: f"{100 * r['mfu']['value']:.1f} %" if (r.get("mfu") or {}).get("value") is not None else "—",
        "charts": pictures, "lead": lead,
    }


def contents(parts, beside):
    """The page's table of contents."""
    def link(anchor, text, inner=()):
        return {"anchor": anchor, "text": text, "inner": list(inner)}

    out = [link("side-by-side", "Side by side")] if len(parts) > 1 else []
    for part in parts:
        end = part["suffix"]
        sections = [link("trust" + end, "Can it be trusted?"),
                    link("ladder-section" + end, "The ladder" if part["mode"] == "cumulative" else "The rungs")]
        pictures = [one for one in part["charts"] if one.chart and one is not part["lead"]]
        if pictures:
            sections.append(link("pictures" + end, "Charts", (link(f"chart-{one.name}", one.question) for one in pictures)))
        sections += [link("rungs" + end, "Rung by rung", (link(f"rung{end}-{i}", shorten(of.swept_value(part["study"], r) + clean(r["label"]), 40))
                                                         for i, r in enumerate(part["rungs"]))),
                     link("how" + end, "How to read this"), link("again" + end, "Runs and environment")]
        out += [link("study" + end, shorten(part["name"], 60), sections)] if len(parts) > 1 else sections
    if any(one.chart and one.name != "side_by_side" for one in beside):
        out.append(link("beside", "Related results"))
    return out + [link("not-here", "What is not here")]


def names_of(studies):
    """What tells the studies of a report apart: their titles, else their devices, else their programs, else their ids."""
    def commit(study):
        return "commit " + clean(study["environment"].get("git_commit") or "unknown")[:10]

    for name in (lambda s: clean(s["ladder"]["title"]), lambda s: clean(s["device"]["name"]), commit, lambda s: clean(s["id"])):
        names = [shorten(name(part["study"]), 80) for part in studies]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({place})" for name, place in zip(names, ("first", "second"))]


def view(report):
    """The templates' variables. Names of charts of the second study end with -2."""
    studies = report["studies"]
    names = names_of(studies)
    parts = [part_view(report, part, "" if i == 0 else f"-{i + 1}", names[i]) for i, part in enumerate(studies)]
    beside = drawn(charts.OF_REPORT, report)
    lacking = [(one.question + (f" ({part['name']})" if len(parts) > 1 else ""), one.run)
               for part in parts for one in part["charts"] if not one.chart]
    side = next((one for one in beside if one.name == "side_by_side" and one.chart), None)
    return {"parts": parts, "side": side, "charts": [one for one in beside if one is not side],
            "comparison": report["comparison"],
            "notes": [clean(note) for note in report["notes"]], "headline": parts[0]["headline"], "contents": contents(parts, beside),
            "missing": lacking + [(one.question, one.run) for one in beside if not one.chart]}


def chart_names():
    """Of every chart that a report may have."""
    return [name + suffix for name in charts.OF_STUDY + charts.OF_REPORT for suffix in ("", "-2")]


def all_charts(shown):
    """shown: view's dict."""
    drawings = [shown["side"]] if shown["side"] else []
    return drawings + [one for part in shown["parts"] for one in part["charts"] if one.chart] + [one for one in shown["charts"] if one.chart]
