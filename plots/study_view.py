"""The page of a report (results/schemas/report.v1.json): of one study, or of two beside each other. Computes nothing."""

import charts
import study as of
from charts.comparisons import word_of
from charts.roofline import latest
from sections import Cell, Code, Code_, Fold, Line, Page, Table, Told, figures, flatten, folded, remarks, trust, values
from words import between, clean, count, digits3, memory, milliseconds, number_of, percent, plain, rate, shorten, times

MOODS = {"REGRESSION": "slower", "IMPROVEMENT": "strong"}  # of a comparison's ratio, where less is faster
# What a reader may not know, on every page with figures of rungs. A study of commands has its own first word.
RUNG = "**Rung**: a recipe of a training step, with one optimization more than the rung before it."
COMMAND = "**Rung**: one command; what begins with + is added to the command before it."
LOGS = ["**Log**: what one run left. Its number is the median of its steps after the warm-up; a side's number is the median of its logs.",
        "**Ratio**: of the means of the logarithms. Logs are no pairs, so nothing that changed between them cancels.",
        "**Interval**: 95 % confidence over logs (Welch's). An interval that includes 1× shows no clear difference."]
TERMS = [
    "**Run**: one fresh process of one rung. Its number is the median of its timed steps; a rung's number is the median of its runs.",
    "**Ratio**: the middle of the ratios within each repeat. It need not be the quotient of the two medians, and ratios need not multiply.",
    "**Interval**: 95 % confidence over runs, not steps. An interval that includes 1× shows no clear difference.",
    "**Proof**: what a run was seen to do. A rung whose proof fails has no number.",
    "**Guard**: a rung's losses must follow the reference's. Else its speedup is void."]


def interval(estimate, form):
    """'[1.04 – 1.11]'; empty: there is none, or it tells nothing."""
    lo, hi = estimate["lo"], estimate["hi"]
    return "" if lo is None or hi is None or hi == lo or between(lo, hi, form) == "unknown" else f"[{between(lo, hi, form)}]"


def number(study, rung):
    value = of.compared(study, rung)
    return Cell(digits3(value["median"]), interval(value, digits3))


def ratio(estimate):
    if estimate is None or estimate["ratio"] is None:
        return "—"
    mood = "grey" if of.unclear(estimate) else "slower" if of.slower(estimate) else "strong"
    alone = "(one run)" if of.no_interval(estimate) and estimate["ratio"] != 1 else ""
    return Cell(times(estimate["ratio"]), interval(estimate, times) or alone, mood)


def or_dash(value, form):
    return "—" if value is None else form(value)


def name(study, rung):
    return of.label(study, rung) + (" (disturbed)" if rung.get("flags") else "")


def numbers(study):
    """Every rung's figures with their intervals."""
    unit, steps = of.memory_unit(study), study["mode"] in ("cumulative", "leave-one-out") and not of.are_independent(study)
    clocks = any((rung.get("clock") or {}).get("at_power_limit", 0) >= 0.5 for rung in of.own_rungs(study))
    mfus = any(of.mfu(rung) is not None for rung in of.measured(study))
    energy = any("joules_per_token" in rung for rung in of.measured(study))
    heads = [("rung", False), (of.compared_unit(study), True), *([("× step", True)] if steps else []), ("× total", True), ("tokens/s", True),
             (f"peak {unit[0]}", True), *([("MFU", True)] if mfus else []), *([("mJ/token", True)] if energy else []),
             *([("SM clock, MHz", True)] if clocks else [])]

    def row(rung):
        if not of.has_number(rung):
            return [name(study, rung), Cell(of.reason(rung), mood="bad"), *["—"] * (len(heads) - 2)]
        return [name(study, rung), number(study, rung), *([ratio(rung["speedup_previous"])] if steps else []), ratio(rung["speedup_first"]),
                or_dash(rung["tokens_per_s"], lambda x: count(x["median"])), or_dash(rung["peak_memory_bytes"], lambda x: memory(x, unit)),
                *([or_dash(of.mfu(rung), percent)] if mfus else []),
                *([or_dash(rung.get("joules_per_token"), lambda x: digits3(1000 * x))] if energy else []),
                *([or_dash(rung.get("clock"), lambda x: plain(x["sm_mhz"]))] if clocks else [])]

    return Table("Figures of each rung", heads, [row(rung) for rung in of.own_rungs(study)])


def worths(study):
    return Table("Worth of each optimization", [("optimization", False), ("worth", True), ("repeats", True)],
                 [[clean(w["title"]), ratio(w) if w["ratio"] is not None else Cell(clean(w["reason"]), mood="grey"), str(w["repeats"])]
                  for w in of.worths(study)])


def compiling(part, rung):
    """'31.5 s, then 11.2 s': of the first run, and the median of the later ones, which find code on the disk."""
    by_repeat = sorted((run["repeat"], run["compile_s"]) for run in part["runs"] if run["rung"] == rung["index"] and "compile_s" in run)
    later = sorted(seconds for _, seconds in by_repeat[1:])
    return "—" if not by_repeat else f"{digits3(by_repeat[0][1])} s" + (f", then {digits3(later[len(later) // 2])} s" if later else "")


def peers(part):
    study = part["study"]
    rows = []
    for own, pair, peer in of.peers(study):
        shown = [number(study, peer), ratio(pair)] if of.has_number(peer) else [Cell(of.reason(peer), mood="bad"), "—"]
        rows.append([of.label(study, own), clean(peer["title"]), *shown, compiling(part, peer)])
    return Table("The same work in PyTorch", [("rung", False), ("PyTorch", False), ("ms per step", True), ("our speedup", True), ("compiling", True)], rows)


def batches(study):
    def row(rung, cost):
        return [of.label(study, rung), Cell(digits3(cost["ms"]["median"]), interval(cost["ms"], digits3)), percent(cost["share"]),
                or_dash(cost["bytes_read"], lambda x: rate(x, "B")), or_dash(cost["storage_bytes"], lambda x: rate(x, "B")), plain(cost["major_faults"]),
                or_dash(cost["resident_bytes"], lambda x: rate(x, "B")), of.cached(cost)]

    return Table("What the batches of each rung cost", [("rung", False), ("ms", True), ("of the step", True), ("read", True), ("from a disk", True),
                                                        ("page faults", True), ("held", True), ("cached before → after", True)],
                 [row(rung, cost) for rung, cost in of.batches(study)])


def predictions(part):
    rows = [[of.label(part["study"], rung), times(p["ratio"]), ratio(rung["speedup_previous"]), rate(p["work"]["bytes"], "B"), rate(p["work"]["flops"], "FLOP")]
            for p in part.get("predictions", []) if p["ratio"] is not None and abs(p["ratio"] - 1) >= 0.0005 for rung in [part["study"]["rungs"][p["rung"]]]]
    if not rows:
        return []
    heads = [("rung", False), ("predicted", True), ("measured", True), ("least bytes", True), ("least FLOPs", True)]
    if len({row[-1] for row in rows}) == 1:
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    return [Fold("predictions", ["Predicted and measured"],
                 [Line("Predicted: the least time of the rung above over the rung's own, from the bytes and FLOPs that a step cannot do without, at this "
                       "machine's measured rates."), Table("Predicted and measured", heads, rows)])]


def own_proofs(rung):
    """Those about what the rung changes: all of them if one failed, or if it changes nothing."""
    own = [proof for proof in rung["proofs"] if proof["field"] in rung["recipe_diff"]]
    return own if own and all(proof["passed"] for proof in rung["proofs"]) else rung["proofs"]


def technique(parts):
    return [block for part in parts for block in (Line(f"**{clean(part['title'])}.**"), Told(part["text"]))]


def command_blocks(command, ms):
    """The command as it was run, and what its lines told."""
    if command.get("unit") == "run":
        return [Code(command["text"]), Line(f"A whole run takes {digits3(ms['median'] / 1000)} s." if ms else "No run has ended.")]
    read = f"steps read from lines such as “{clean(command['shape'])}”" if command["shape"] else "no step was read"
    starts = f"first step after {digits3(command['first_step_s'])} s, in the trial after {digits3(command['cold_first_step_s'])} s"
    ranks = command.get("ranks", {}).get("count", 1)
    last = f"; a step ends with the last of {ranks} ranks" if ranks > 1 else ""
    wait = command.get("input")
    waited = wait and (digits3(wait["wait_ms"]) if wait["wait_ms"] >= 0.005 * wait["step_ms"] else "0")
    waits = f"; the host waits {waited} of {digits3(wait['step_ms'])} ms for input{' in a look' if wait.get('by_look') else ''}" if wait else ""
    own = f"; it prints {digits3(command['own_ms'])} ms itself" if "own_ms" in command else ""
    often = f", median {digits3(ms['median'])} ms" if ms else ""
    seen = command.get("seen")
    looked = [] if seen is None else [Line(f"Seen to differ: {'; '.join(map(clean, seen))}." if seen else "Nothing that can be seen differs: is the flag read?", "" if seen else "warn")]
    versions = ", ".join(f"{clean(name)} {clean(value)}" for name, value in command.get("versions", {}).items())
    runs_on = f" It runs on {versions}." if versions else ""
    return [Code(command["text"]), Line(f"Mean {command.get('unit', 'step')} {digits3(command['mean_ms'])} ms{often}; {starts}; {read}{last}{own}{waits}.{runs_on}"), *looked]


def rung_fold(part, rung, place):
    """One line, and behind it all about the rung."""
    study = part["study"]
    if not of.has_number(rung):
        losses = shorten(of.reason(rung), 100)
    elif rung["guard"]:
        losses = "losses: same" if rung["guard"]["passed"] else "losses: not the same"
    else:
        losses = "losses not compared" if rung["said"]["guard"] else "reference"
    summary = [name(study, rung), losses]
    blocks = [Line(rung["summary"])] if rung["summary"] else []
    if "command" in rung:
        blocks += command_blocks(rung["command"], rung["ms_per_step"])
    if rung.get("explanation"):
        blocks.append(Line(f"**What changed.** {rung['explanation']}"))
    if of.has_number(rung) and of.timed_unit(study) != "run":
        ms = rung["ms_per_step"]
        blocks.append(Line(f"{number_of(rung['runs_ok'], 'run')}, {number_of(ms['n'], 'timed step')}: quartiles {digits3(ms['q1'])} and {milliseconds(ms['q3'])}, "
                           f"min {digits3(ms['min'])}, max {milliseconds(ms['max'])}."))
    blocks += [Line(f"Disturbed: {flag}", "grey") for flag in rung.get("flags", [])]
    if rung["recipe_diff"]:
        blocks.append(Table("Change of the recipe", [("recipe", False), ("before", False), ("after", False)],
                            [[Code_(field), Code_(change[0]), Code_(change[1])] for field, change in rung["recipe_diff"].items()]))
    elif rung["recipe"]:
        blocks.append(Fold(f"recipe{part['end']}-{place}", ["Its recipe"], [values("Recipe", rung["recipe"].items())]))
    if rung["proofs"]:
        own = own_proofs(rung)
        blocks.append(Table("Proofs", [("proof of", False), ("verdict", False), ("expected, and what was observed", False)],
                            [[Code_(p["field"]), Cell("passed", mood="good") if p["passed"] else Cell("failed", mood="bad"), Cell(clean(p["expected"]), f"— seen: {clean(p['observed'])}")]
                             for p in own]))
        if others := len(rung["proofs"]) - len(own):
            blocks.append(Line(f"{number_of(others, 'other proof')} passed, of settings that it shares with the rung before.", "grey"))
    if rung["said"]["guard"]:
        blocks.append(Line(f"**Losses.** {rung['said']['guard']}.", "bad" if rung["guard"] and not rung["guard"]["passed"] else ""))
    if training := rung.get("training"):
        mood = {"same": "", "another": "bad", "unknown": "warn"}[training["verdict"]]
        blocks.append(Line(f"**First steps.** {clean(training['words'])}.", mood))
    told = part.get("techniques", {}).get(rung["optimization"])
    if told and part["explains"](rung):
        blocks.append(Fold(f"technique{part['end']}-{place}", ["How it works, what it costs"], technique(told)))
    return Fold(f"rung{part['end']}-{rung['index']}", summary, blocks)


def reproduce(study):
    workload = study.get("workload")  # a study of commands has none
    others = [run for run in study["runs"] if run["status"] != "ok"]
    blocks = [Line("With the same logs:" if study.get("from_logs") else "With nothing else running:"), Code(study["said"]["command"])]
    if study["said"].get("alone"):
        blocks += [Line("One rung alone, and its trace:"), Code("\n".join(study["said"]["alone"]))]
    if others:
        blocks.append(Table("Runs without a number", [("run", False), ("status", False), ("reason", False)],
                            [[clean(run["id"]), run["status"], clean(run["reason"])] for run in others]))
    pairs = [(name if workload else name.replace("git_", "ladder.git_"), value) for name, value in flatten(study["environment"])
             if workload or not name.startswith("compiler")]
    if workload:
        data = workload["data"]
        pairs += [("data", f"{data['source']}, {data['tokens']:,} tokens, sha256 {data['sha256']}"), ("seed", workload["seed"])]
    pairs += [("study", f"{study['id']}, made {study['created']}")]
    order = "" if study.get("from_logs") else f"{number_of(study['plan']['repeats'], 'repeat')}, order seed {study['plan']['order_seed']}"
    return Fold("again", ["Reproduce", order], [*blocks, values("Environment", pairs)])


def left_out(study):
    """The rungs that were not to be measured: the titles, and a line for each with its reason."""
    out = {clean(rung["title"]): of.reason(rung) for rung in study["rungs"] if "peer" not in rung and of.left_out(rung)}
    return [Line(f"Not measured: {', '.join(out)}.", "grey")] if out else [], [Line(f"{title}: {reason}.", "grey") for title, reason in out.items()]


def notes(report):
    """What the report leaves out, and why."""
    return [Line(f"Note: {note}.", "warn") for note in report["notes"]]


def ideal_of(report):
    """{phase: ms} of the step's limits by the roofline that is drawn of the rung that leads; None: there is none."""
    trace = latest(report)
    return None if trace is None else (clean(trace["title"]), {phase["phase"]: phase["limit_ms"] for phase in trace["roofline"]["phases"]})


def blocks_of(part, report):
    """(what stands on the page, what could be measured, too)"""
    study = part["study"]
    drawn, missing = figures(charts.OF_STUDY, part | {"ideal": ideal_of(report)})
    shown = []
    if "sweep" in drawn:
        drawn.pop("memory", None)  # it has a panel there
    lead = next((drawn.pop(name) for name in charts.LEADING if name in drawn), None)
    if lead:
        shown.append(lead)
    without, reasons = left_out(study)
    shown += without
    shown += [drawn.pop(name) for name in ("peers", "phases", "memory") if name in drawn]
    explained = {}
    for rung in of.own_rungs(study):
        explained.setdefault(rung["optimization"], rung["index"])
    part = part | {"end": "", "explains": lambda rung: explained[rung["optimization"]] == rung["index"]}
    shown += [rung_fold(part, rung, place) for place, rung in enumerate(of.own_rungs(study))]
    if of.peers(study):
        shown.append(Fold("peers", ["PyTorch, in numbers", number_of(len(of.peers(study)), "comparison")], [peers(part)]))
    if of.batches(study):
        shown.append(Fold("batches", ["What a batch costs"], [batches(study)]))
    shown.append(Fold("numbers", ["Every number, with its interval"], [*([worths(study)] if of.worths(study) else []), numbers(study), *reasons]))
    shown += predictions(part)
    shown += [folded(figure) for figure in drawn.values()]
    word = COMMAND if any("command" in rung for rung in study["rungs"]) else RUNG
    terms = LOGS if study.get("from_logs") else [word, *TERMS]
    shown.append(Fold("trust", ["Can it be trusted?", trust(study["said"])], [*remarks(study["said"]), *notes(report), *map(Line, terms)]))
    return shown, missing, reproduce(study)


def one(report, part):
    shown, missing, again = blocks_of(part, report)
    related, more = figures([name for name in charts.OF_REPORT if name != "side_by_side"], report)
    missing += ["`ladder report A B`, of two devices, versions or settings"] + more
    shown += [folded(figure) for figure in related.values()]
    shown.append(again)
    if not any("command" in rung for rung in part["study"]["rungs"]):  # the rest is for GPT-2
        shown.append(Fold("more", ["What else could be measured"], [Line(run) for run in missing]))
    return Page(part["study"]["said"], shown, "report.json")


def two(report):
    """The comparison. Each study has its own page in its own folder."""
    drawn, missing = figures([name for name in charts.OF_REPORT if name != "roofline"], report)
    side = drawn.pop("side_by_side", None)
    rows = [[clean(e["label"]), digits3(e["base_ms"]), digits3(e["head_ms"]), Cell(times(e["ratio"]), interval(e, times), MOODS.get(e["verdict"], "grey")),
             f"B is {word_of(e)}" if e["verdict"] in MOODS else word_of(e)] for e in (report["comparison"] or {"entries": []})["entries"]]
    shown = [*([side] if side else [])]
    if rows:
        shown.append(Fold("numbers", ["Every number, with its interval"], [
            Table("The two studies, rung by rung", [("rung", False), ("A ms", True), ("B ms", True), ("B / A", True), ("", False)], rows)]))
    for letter, part in zip("AB", report["studies"]):
        study = part["study"]
        shown.append(Fold(f"study-{letter}", [f"{letter}: {clean(study['ladder']['title'])}", clean(study["said"]["headline"])],
                          [*map(Line, study["said"]["lines"]), numbers(study), Line(f"Its own page: `ladder report` {part['source']}", "grey")]))
    shown += [folded(figure) for figure in drawn.values()]
    shown.append(Fold("trust", ["Can it be trusted?"], [*remarks(report["said"]), *notes(report), Line(RUNG), *map(Line, TERMS)]))
    shown.append(Fold("more", ["What else could be measured"], [Line(run) for run in missing]))
    return Page(report["said"], shown, "report.json")


def view(report):
    report = report | {"studies": [of.told(part) for part in report["studies"]]}
    return one(report, report["studies"][0]) if len(report["studies"]) == 1 else two(report)
