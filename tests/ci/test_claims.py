"""docs/claims.md: a measured row names its record and what in it is compared, and each figure follows from it."""

import fnmatch
import functools
import json
import math
import pathlib
import re
import statistics

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "results" / "evidence"
OTHER_SECTIONS = {"torch.compile", "Of no single technique", "Figures that arithmetic contradicts"}
STANDINGS = ("measured", "contradicted", "not measured")
ROW = re.compile(r"\| (.+) \| (.+) \| \*\*(measured|contradicted|not measured)\*\*(.+) \|")
REFERENCE = re.compile(r"\(\[[^]]+\]\(\.\./results/evidence/([^)]+)\), (`[^)]+`)\)")
WAY_TO_MEASURE = re.compile(r"ladder [^`]+` measures it|the same command measures it|No (command|ladder) here")
VERDICT = re.compile(r"(more than|less than|as) claimed")
NUMBER = r"(\d[\d,]*(?:\.\d+)?)"
PATTERNS = {"activations": "activations N -> N GiB", "peak": "peak N -> N GiB", "kernels": "N -> N kernels",
            "attention": "of what attention alone keeps -N %", "first_call": "a first call of N s",
            "named_ms": "N of N ms", "ms": "N(?: -> N)? ms", "ratio": "Nx", "interval": r"\[N-N\]",
            "no_interval": r"\(no interval\)"}
FIGURES = {name: re.compile(pattern.replace("N", NUMBER)) for name, pattern in PATTERNS.items()}


def techniques():
    """The optimizations of docs/techniques.md, which the program prints; fields that none edits have no title there."""
    return set(re.findall(r"^\| \[`(\w+)`\]\(\S+\) \| [^|\s]", (ROOT / "docs" / "techniques.md").read_text(), re.M))


@functools.cache
def read(path):
    return json.loads((EVIDENCE / path).read_text())


def only(found, what):
    if len(found) != 1:
        raise LookupError(f"{len(found)} of {what}")
    return found[0]


# Each returns what a record shows, by the names of FIGURES, and the least and the most ratio that it allows.

def of_study(path, names):
    study = read(path)
    sizes = [study["workload"][key] for key in ("model", "batch", "context")]
    if study["device"]["kind"] != "cuda" or sizes != ["gpt2-124m", 16, 1024]:
        raise LookupError("it is not of GPT-2 124M at B=16 T=1024 on a GPU")
    measured = [rung for rung in study["rungs"] if rung["status"] == "measured"]
    rungs = [only([rung for rung in measured if name == rung.get("peer", rung.get("optimization"))], name)
             for name in names]
    runs = [[run for run in study["runs"] if run["rung"] == rung["index"] and run["status"] == "ok"] for rung in rungs]
    memory = [rung["memory"] for rung in rungs]
    shown = {"ms": [rung["ms_per_step"]["median"] for rung in rungs],
             "peak": [each["peak_bytes"] / 2**30 for each in memory]}
    peers = [[read(f"{pathlib.Path(path).parent}/{run['record']}")["observations"] for run in of_rung]
             for rung, of_rung in zip(rungs, runs) if "peer" in rung]
    if peers:
        shown["first_call"] = [max(seen["compilation"]["compile_s"] for seen in peers[-1])]
        shown["kernels"] = [sum(calls for name, calls in seen[-1]["profile"].items()
                                if re.match(r"cu(da)?LaunchKernel", name)) for seen in peers]
    if len(rungs) == 1:
        return shown
    if not peers:
        layers, tokens, heads, T, C = 12, 16384, 12, 1024, 768
        kept = [each["activations_bytes"] + each["weight_copies_bytes"] for each in memory]
        shown["activations"] = [each / 2**30 for each in kept]
        shown["attention"] = [100 * (kept[0] - kept[1]) / (layers * tokens * (6 * heads * T + 8 * C))]
    before, after = ({run["repeat"]: math.log(run["median_ms"]) for run in of_rung} for of_rung in runs)
    changes = [before[repeat] - after[repeat] for repeat in before.keys() & after.keys()]
    averages = [(a + b) / 2 for i, a in enumerate(changes) for b in changes[i:]]  # their median: Hodges and Lehmann's
    shown["ratio"] = [math.exp(statistics.median(averages))]
    for key, partner in (("speedup_previous", measured.index(rungs[1]) - 1), ("speedup_first", 0)):
        if not peers and rungs[0] is measured[partner]:
            interval = [rungs[1][key]["lo"], rungs[1][key]["hi"]]
            return shown | {"interval": interval, "bounds": interval}
    return shown | {"no_interval": []}


def of_micro(path, names):
    benchmarks = read(path)["benchmarks"]
    times = [only([each["real_time"] / 1e6 for each in benchmarks if each["name"].startswith(name + "/")], name)
             for name in names]
    return {"ms": times, "ratio": [times[0] / times[1]], "bounds": [times[0] / times[1]] * 2}


def of_products(path, names):
    document = read(path)
    patterns, *ways = names
    products = [each for each in document["products"]
                if any(fnmatch.fnmatch(each["product"], pattern) for pattern in patterns.split())]
    if not products or (document["B"], document["T"]) != (16, 1024) or not document["environment"]["gpu"]:
        raise LookupError(f"no {patterns} at B=16 T=1024 on a GPU")
    times = [sum(only([each["microseconds"] for each in product["ways"] if each["way"] == way], way)
                 for product in products) for way in ways]
    return {"ratio": [times[0] / times[1]], "bounds": [times[0] / times[1]] * 2}


def of_trace(path, names):
    summary = read(path)["summary"]
    named = [each["ms"] for each in summary["by_name"] if names[0] in each["name"]]
    return {"named_ms": [sum(named), summary["busy_ms"]]}


KINDS = {"study.json": of_study, "micro.json": of_micro, "products-*.json": of_products, "*.trace.json": of_trace}


def claimed(claim):
    """How many times smaller it is claimed to become: the least and the most. None where it is of something else."""
    if found := re.search(NUMBER + " -> " + NUMBER, claim):
        return [float(found[1]) / float(found[2])] * 2
    if found := re.search(r"([\d.]+)x(?: to ([\d.]+)x)?", claim):
        return [float(found[1]), float(found[2] or found[1])]
    if found := re.search(r"(\d+) % more tokens", claim):
        return [1 + int(found[1]) / 100] * 2
    if found := re.search(r"(?:(\d+) to )?(\d+) % (?:of a step|less memory)", claim):
        return [1 / (1 - int(percent) / 100) for percent in (found[1] or found[2], found[2])]
    return None


def is_shown(text, value):
    return text == f"{value:,.{len(text.partition('.')[2])}f}"


def without_figures(text):
    for pattern in FIGURES.values():
        text = pattern.sub("", text)
    return text


def faults_of_part(text, path, names, limits):
    """Faults of the words that end with a reference to a record."""
    kind = only([kind for pattern, kind in KINDS.items() if fnmatch.fnmatch(pathlib.Path(path).name, pattern)], path)
    shown, told, rest = kind(path, names), set(), text
    for figure, pattern in FIGURES.items():
        for found in pattern.finditer(rest):
            told.add(figure)
            numbers = [each for each in found.groups() if each]
            values = shown.get(figure)
            if values is None or len(numbers) != len(values) or not all(map(is_shown, numbers, values)):
                yield f"{found[0]}: the record has {values}"
        rest = pattern.sub("", rest)
    if not told or ("ratio" in told and {"interval", "no_interval"} & set(shown) - told):
        yield f"no figure, or a ratio without its interval, beside {names}"
    bounds = shown.get("bounds") or ([shown["peak"][0] / shown["peak"][1]] * 2 if "peak" in told else None)
    if limits and bounds:
        right = "less than" if bounds[1] < limits[0] else "more than" if bounds[0] > limits[1] else "as"
        if VERDICT.findall(text) != [right]:
            yield f"not {right} claimed: {text}"


def faults_of_row(claim, standing, words):
    limits = claimed(claim) if standing == "measured" else None
    references = list(REFERENCE.finditer(words))
    begins = [0, *(reference.end() for reference in references)]
    parts = [words[begin:reference.start()] for begin, reference in zip(begins, references)]
    for part, reference in zip(parts, references):
        try:
            yield from faults_of_part(part, reference[1], re.findall("`([^`]+)`", reference[2]), limits)
        except (LookupError, OSError, ValueError) as error:
            yield f"{reference[0]}: {error!r}"
    for a, b, percent in re.findall(r"From (\d+) to (\d+) is (\d+) % less", words):
        if not is_shown(percent, 100 - 100 * int(b) / int(a)):
            yield f"from {a} to {b} is not {percent} %"
    if standing == "measured":
        if not references or ("/micro.json" in words) != ("on a CPU" in words):
            yield "no record, or no word of its device"
        rest = "".join(map(without_figures, parts)) + words[begins[-1]:]
        if re.search(r"\d", re.sub(r"From \d+ to \d+ is \d+ % less|\"[^\"]*\"|GPT-2", "", rest)):
            yield f"a figure of no record: {rest}"
    elif standing == "not measured" and not WAY_TO_MEASURE.search(words):
        yield "no command"


def faults_of_commands(page):
    for ladder, flags in re.findall(r"`[^`]*--ladder ([\w-]+)([^`]*)`", page):
        rungs = json.loads((ROOT / "ladders" / f"{ladder}.json").read_text())["rungs"]
        named = ",".join(re.findall(r"--(?:rung|diff|peer-rung|plan|factors) (\S+)", flags))
        yield from (f"ladder {ladder} has no {name}" for name in named.split(",") if name and name not in rungs)


def faults(page, names):
    intro, *sections = re.split(r"^## ", page, flags=re.M)
    counts = dict.fromkeys(STANDINGS, 0)
    without = re.search(r"^No published figure is known here of (.*?)\n\n", intro, re.M | re.S)
    titles = re.findall(r"`(\w+)`", without[1] if without else "")
    for title, *lines in map(str.splitlines, sections):
        titles.append(title.strip("`"))
        rows = [line for line in lines if line.startswith("|")][2:]
        if not rows:
            yield f"{title}: no claims"
        for line in rows:
            if row := ROW.fullmatch(line):
                counts[row[3]] += 1
                yield from (f"{title}: {row[1]}: {fault}" for fault in faults_of_row(row[1], row[3], row[4]))
            else:
                yield f"{title}: not a row: {line}"
    if sorted(set(titles) - OTHER_SECTIONS) != sorted(names) or len(set(titles)) != len(titles):
        yield f"{titles}: not each of {names} once"
    stated = re.search(r"(\d+) claims are measured here, (\d+) are contradicted, and (\d+) are not\s+measured", intro)
    if list(map(int, stated.groups())) != list(counts.values()):
        yield f"{stated[0]}: {counts}"
    yield from faults_of_commands(page)


def test_every_figure_follows_from_the_record_that_its_row_names():
    page = (ROOT / "docs" / "claims.md").read_text()
    assert list(faults(page, techniques())) == []
    assert len(REFERENCE.findall(page)) >= 20


MADE_UP = """1 claims are measured here, 1 are contradicted, and 1 are not measured yet.

## `bf16`

| claimed | by | here |
|:--------|:---|:-----|
| 333 -> 300 ms | somebody | **measured**: 156 -> 140 ms, 1.12x [1.11-1.12], more than claimed \
([study](../results/evidence/nvidia-h200-ladder-2026-11-26/study.json), `tf32` -> `bf16`). From 96 to 93 is 3 % less. |
| 2x | somebody | **not measured**: `ladder ablate --ladder gpt2 --rung bf16` measures it. |
| 3x | somebody | **contradicted**: It cannot be. |
"""
RECORD = "nvidia-h200-ladder-2026-11-26"


@pytest.mark.parametrize(("words", "planted"), [
    ("156 ->", "157 ->"), ("140 ms", "141 ms"), ("1.12x", "1.13x"), ("[1.11-", "[1.10-"), (" [1.11-1.12]", ""),
    ("[1.11-1.12]", "(no interval)"), ("more than", "less than"), (", more than claimed", ""),
    ("156 -> 140 ms, 1.12x [1.11-1.12], more than claimed", ""), ("3 % less.", "4 % less."),
    ("% less.", "% less. 2 ms."), ("156 -> 140 ms", "peak 28.76 -> 28.02 GiB"), ("`tf32` ->", "`graph` ->"),
    ("-> `bf16`)", "-> `bf61`)"), ("`tf32` -> ", ""),
    (f"([study](../results/evidence/{RECORD}/study.json), `tf32` -> `bf16`)", ""),
    (RECORD, "nvidia-h200-ladder-2026-11-27"), (RECORD, "amd-epyc-2-cores-2026-11-22"), ("1 claims", "2 claims"),
    ("contradicted, and 1", "contradicted, and 0"), ("## `bf16`", "## `bf61`"), ("**contradicted**", "**measured**"),
    ("**contradicted**", "*contradicted*"), ("--rung bf16", "--rung bf61"), ("` measures it", "` tells nothing")])
def test_planted_faults_are_found(words, planted):
    assert list(faults(MADE_UP, {"bf16"})) == []
    assert words in MADE_UP and list(faults(MADE_UP.replace(words, planted), {"bf16"}))
