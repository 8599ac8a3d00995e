"""Whether a study can be trusted: what the panel of report.html and the list of report.md say of it."""

import math

import study as of
from words import clean, deviation_words, judged_deviation, number_of, percent, shorten


def floor_at(noise, pairs):
    """The noise floor of so many pairs, else of the next fewer that it was computed for, else of the fewest."""
    fewer = [f for f in noise["floors"] if f["pairs"] <= pairs]
    return max(fewer, key=lambda f: f["pairs"]) if fewer else noise["floors"][0]


def disturbed_runs(part):
    """The good runs that have a flag, in all rungs: some have no number, some are PyTorch's."""
    return [run for run in part["runs"] if run["status"] == "ok" and run["flags"]]


def made_again(part):
    """Those whose first record was disturbed and whose second, which counts, is not."""
    return [run for run in part["runs"] if run["status"] == "ok" and run.get("first_flags") and not run["flags"]]


def good_runs(part, on_gpu):
    """Those on a GPU, or the others."""
    rungs = part["study"]["rungs"]
    return [run for run in part["runs"]
            if run["status"] == "ok" and (rungs[run["rung"]]["recipe"].get("device") == "cuda") == on_gpu]


def unwatched_runs(part):
    """(how many runs on a GPU may have been throttled or shared for all that is known, how many others beside something else)"""
    def watched(run):
        told = run["conditions"]
        return told and all(told.get(field) is not None for field in ("throttle", "other_processes"))

    return (sum(not watched(run) for run in good_runs(part, True)),
            sum(run["processor_lost"] is None for run in good_runs(part, False)))


def undisturbed(part):
    """What was seen of a study that nothing disturbed. A GPU may well work at its power cap all the time, which disturbs nothing
    as long as its clock stays (harness/gpu/monitor.h)."""
    said, gpu, others = [], good_runs(part, True), good_runs(part, False)
    if gpu:
        shares = [reason["share"] for run in gpu for reason in run["conditions"]["throttle"] if reason["reason"] == "SwPowerCap"]
        said.append("no throttling, no other work on the device"
                    + (f"; at its power cap for up to {percent(max(shares))} of a run" if shares else ""))
    if others:
        said.append(f"something else had the processor for at most {percent(max(run['processor_lost'] for run in others))} of a run")
    return "; ".join(said)


def disturbance(part):
    """(value, mood, words)"""
    disturbed, again, (on_gpu, others) = disturbed_runs(part), made_again(part), unwatched_runs(part)
    said = f"{number_of(len(again), 'run')} made again"
    first = f"{again[0]['id']}: {shorten(again[0]['first_flags'][0], 80)}" if again else ""
    also = [f"{said} ({first})"] if again else []
    if disturbed:
        if twice := sum(bool(run.get("first_flags")) for run in disturbed):
            also.insert(0, f"{number_of(twice, 'run')} made again and disturbed once more")
        return (f"{len(disturbed)} of {part['study']['plan']['runs_ok']}", "warn",
                "; ".join(["throttled, shared, busy with something else, or short of memory", *also]))
    if on_gpu or others:
        unknown = [f"{number_of(on_gpu, 'run')} on a GPU that nobody watched"] if on_gpu else []
        if others:
            unknown.append(f"{number_of(others, 'run')} where the system does not count who had the processor")
        return "not known", "warn", "; ".join(unknown + also)
    if again:
        return said, "", f"disturbed the first time: {first}"
    return ("none seen", "good", undisturbed(part)) if part["study"]["plan"]["runs_ok"] else ("no run", "", "")


def cards(report, part):
    """A card each: what, how it stands ("good", "warn", "bad" or ""), in words."""
    study = part["study"]
    own, plan = of.own_rungs(study), study["plan"]
    out = []

    def card(what, value, mood, words=""):
        out.append({"what": what, "value": value, "mood": mood, "words": words})

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
    guards = [r["guard"] for r in study["rungs"] if r["guard"] is not None]  # PyTorch's, too
    following = sum(g["passed"] for g in guards)
    if guards:
        worst = max(guards, key=lambda g: math.inf if judged_deviation(g) is None else judged_deviation(g))
        card("Guard", f"{following} of {number_of(len(guards), 'rung')} {'follows' if following == 1 else 'follow'} the reference",
             "good" if following == len(guards) else "bad", f"the furthest: {deviation_words(worst)}")
    noise = [report["noise"][i] for i in part["noise"]]
    floors = [(clean(n["label"]), floor_at(n, plan["repeats"])) for n in noise if n["floors"]]
    if floors:
        label, floor = min(reversed(floors), key=lambda one: abs(one[1]["pairs"] - plan["repeats"]))
        own_pairs = "" if floor["pairs"] == plan["repeats"] else f" (this study has {plan['repeats']})"
        card("Noise floor", percent(floor["floor"]), "", f"a difference that {number_of(floor['pairs'], 'pair')} of runs{own_pairs} find "
             f"here in 95 % of studies; smaller ones are found less often; measured on {shorten(label, 60)}")
    else:
        card("Noise floor", "not measured", "", "`ladder gate --calibrate --baselines DIR --save` measures what difference this "
             "machine shows in 95 % of studies; `--with` brings it here")
    card("Disturbed runs", *disturbance(part))
    environment = study["environment"]
    commit = environment.get("git_commit")
    program = f"commit {clean(commit)[:10]}" if commit else "commit unknown"
    of_the_gpu = (("driver", "driver"), ("CUDA", "cuda")) if study["device"]["kind"] == "cuda" else ()
    versions = [f"{name} {clean(environment.get(field) or 'unknown')}" for name, field in of_the_gpu]
    dirty = environment.get("git_dirty")
    card("Environment", f"torch {clean(environment.get('torch', 'unknown'))}", "warn" if dirty else "",
         ", ".join([*versions, program + (", with uncommitted changes" if dirty else "")]))
    return out
