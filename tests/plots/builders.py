"""Made-up documents for the tests of plots/. They are checked against their schemas."""

import contextlib
import copy
import io
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import markdown
import page
import render
import study as of
import study_view

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "plots" / "render.py"
NASTY = "<script>alert(1)</script> & " + "x" * 10000


def schema(kind):
    return json.loads((ROOT / "results" / "schemas" / f"{kind}.v1.json").read_text())


LADDER = [("plain fp32", 1512.0), ("bf16 autocast", 1013.0), ("SDPA attention", 760.0), ("vocab 50304", 702.0),
          ("fused AdamW", 622.0), ("graph capture", 590.0), ("zero copy data", 579.0)]


def rung(index, name, ms, previous, first, runs=5):
    half = 0.01 if runs > 1 else None

    def around(x, width=half):
        return (None, None) if width is None else (x * (1 - width), x * (1 + width))

    def ratio(base):
        if base is None:
            return None
        lo, hi = around(base / ms)
        return {"ratio": base / ms, "lo": lo, "hi": hi, "pairs": runs}

    lo, hi = around(ms)
    return {
        "index": index, "optimization": None if index == 0 else name.split()[0].lower(), "title": name,
        "label": name if index == 0 else f"+ {name}",
        "summary": f"What {name} does. And why it helps.", "status": "measured", "reason": "",
        "recipe": {"precision": "fp32", "attention": "math"},
        "recipe_diff": {} if index == 0 else {"field_" + str(index): [False, True]}, "runs_ok": runs,
        "ms_per_step": {"median": ms, "lo": lo, "hi": hi, "q1": ms * 0.99, "q3": ms * 1.01, "min": ms * 0.97, "max": ms * 1.2,
                        "n": 20 * runs},
        "tokens_per_s": {"median": 1024 / ms * 1000, "lo": None, "hi": None},
        "speedup_first": ratio(first), "speedup_previous": ratio(previous),
        "peak_memory_bytes": int((3.1 - 0.2 * (index % 7)) * 2**30), "page_faults_per_step": 12.0, "mfu": None,
        "guard": {"passed": True, "deviation": -0.0031, "max_deviation": 0.0052, "tolerance": 0.02, "known_offset": 0.0, "steps": 20, "message": "",
                  "guarded_by": 0, "repeat": 0},
        "proofs": [{"field": "attention", "passed": True, "expected": "the fused kernel", "observed": "1 launch per step"}],
    }


def without_number(study, index, status, reason):
    study["rungs"][index].update(status=status, reason=reason, runs_ok=0, ms_per_step=None, tokens_per_s=None,
                                 speedup_first=None, speedup_previous=None, peak_memory_bytes=None,
                                 page_faults_per_step=None, guard=None, proofs=[])


def make(ladder=LADDER, runs=5, device="cpu"):
    rungs = [rung(i, name, ms, ladder[i - 1][1] if i else None, ladder[0][1] if i else None, runs)
             for i, (name, ms) in enumerate(ladder)]
    head = {"first": 0, "last": len(rungs) - 1, "speedup": rungs[-1]["speedup_first"]} if len(rungs) > 1 else None
    return {
        "kind": "study", "schema_version": 1, "id": "20260102-gpt2", "created": "2026-01-02T03:04:05Z",
        "finished": "2026-01-02T04:04:05Z", "mode": "cumulative", "attribution": [],
        "ladder": {"name": "gpt2", "title": "EXAMPLE DATA, not a measurement"},
        "workload": {"model": "gpt2-124m", "parameters": 124439808, "batch": 4, "context": 256, "accumulation": 1, "positions": 1024,
                     "tokens_per_step": 1024, "flops_per_step": 8.0e11, "seed": 1,
                     "data": {"source": "shakespeare.txt", "sha256": "ab" * 32, "tokens": 338025}},
        "plan": {"repeats": runs, "warmup_steps": 5, "timed_steps": 20, "order_seed": 42, "runs_planned": runs * len(rungs),
                 "runs_ok": runs * len(rungs)},
        "device": {"kind": device, "name": "Example Processor 9000 @ 2.70GHz" if device == "cpu" else "NVIDIA Example"},
        "statistics": {"center": "the median over runs of a run's median step", "interval": "bootstrap over runs, percentile",
                       "confidence": 0.95},
        "headline": head, "rungs": rungs,
        "runs": [{"id": f"r{i}-{k}", "rung": i, "repeat": k, "position": i + k * len(rungs), "status": "ok", "reason": "",
                  "median_ms": ms, "record": f"records/r{i}-{k}.json"} for i, (_, ms) in enumerate(ladder) for k in range(runs)],
        "warnings": [], "hashes": {"plan.json": "ab" * 32}, "sha256": "cd" * 32,
        "environment": {"cpu": {"model": "Example", "logical_cores": 8}, "gpu": None, "torch": "2.11.0",
                        **({"driver": "580.159.04", "driver_cuda": "13.0", "cuda": "13.0"} if device == "cuda" else {})},
    }


def mixed():
    """A study with every status. Rung 7 is slower than the one before it."""
    names = ["plain fp32", "TF32", "bf16 autocast", "SDPA attention", "graph capture", "fused AdamW", "padded vocab",
             "zero copy data", "channels last"]
    times = [1512.0, 1512.0, 1013.0, 760.0, 760.0, 760.0, 760.0, 811.0, 811.0]
    study = make(list(zip(names, times)))
    without_number(study, 1, "not_applicable", "needs a CUDA device, this machine has none")
    without_number(study, 4, "failed", "5 of 5 runs: killed by signal 9 (out of memory?)")
    without_number(study, 5, "void", "losses leave the reference by 0.31 at step 12, tolerance 0.02")
    without_number(study, 6, "unproven", "the fused kernel was not seen")
    study["rungs"][6]["proofs"] = [{"field": "vocabulary", "passed": False, "expected": "50304 rows", "observed": "50257"}]
    without_number(study, 8, "missing", "")
    study["headline"]["last"] = 7
    study["headline"]["speedup"] = study["rungs"][7]["speedup_first"]
    study["runs"][20].update(status="failed", reason="killed by signal 9", median_ms=None)
    study["finished"] = None
    return study


def valid(document):
    jsonschema.Draft7Validator(schema(document["kind"])).validate(document)
    for part in document.get("studies", []) if document["kind"] == "report" else []:
        valid(part["study"])
    return document


def runs_of(study):
    """The steps and losses of every good run, as in a report: 5 warm-up steps, slow at first, and 20 with some noise."""
    random.seed(7)
    plan, out = study["plan"], []
    for run in study["runs"]:
        if run["status"] != "ok":
            continue
        steps = [run["median_ms"] * (1 + 0.5 / (k + 1) * (k < plan["warmup_steps"]) + random.gauss(0, 0.01))
                 for k in range(plan["warmup_steps"] + plan["timed_steps"])]
        loss = [11 - 4 * k / len(steps) + 0.01 * run["rung"] for k in range(len(steps))]
        flags = [flag.partition(" ") for flag in study["rungs"][run["rung"]].get("flags", [])]
        out.append({"id": run["id"], "rung": run["rung"], "repeat": run["repeat"], "position": run["position"], "status": "ok",
                    "started": study["created"], "warmup_steps": plan["warmup_steps"], "step_ms": steps, "loss": loss,
                    "flags": [words for id_, _, words in flags if id_ == run["id"]], "processor_lost": 0.01, "conditions": None})
    return sorted(out, key=lambda run: run["position"])


def losses_of(study, runs):
    """The losses of each guarded rung and of the first, with the guard's band."""
    first = {run["rung"]: run for run in reversed(runs)}
    out = []
    for r in study["rungs"][1:]:
        if r["guard"] is None or r["index"] not in first or 0 not in first:
            continue
        loss, reference, tolerance = first[r["index"]]["loss"], first[0]["loss"], r["guard"]["tolerance"]
        out.append({"rung": r["index"], "guarded_by": 0, "repeat": 0, "loss": loss, "reference": reference,
                    "lo": [x - tolerance for x in reference], "hi": [x + tolerance for x in reference],
                    "deviation": [a - b for a, b in zip(loss, reference)]})
    return out


def remark(severity, text, code="made-up", fix=""):
    return {"severity": severity, "code": code, "text": text, "fix": fix}


TRUST = remark("good", "35 of 35 runs, 7 of 7 proofs passed. More `code` of it.", "trust")


def said(title, headline, *remarks, lines=("The `figures` behind it.",), command=""):
    """As the program says it: made up, with the parts that tests look for."""
    return {"title": title, "headline": headline, "lines": list(lines), "remarks": list(remarks), "command": command}


def said_of(study):
    """Of a study, and of each of its rungs."""
    head, status = study["headline"], [r["status"].replace("_", " ") for r in study["rungs"]]
    shown = head is not None and head["first"] != head["last"]
    headline = f"{head['speedup']['ratio']:.2f}× faster than “{study['rungs'][head['first']]['title']}”" if shown else "No valid speedup: there is one rung"
    title = " · ".join([study["ladder"]["title"], study["workload"]["model"], study["device"]["name"], study["created"][:10]])
    return said(title, headline, *(remark("warn", warning) for warning in study["warnings"]), TRUST, command="ladder ablate --ladder gpt2") | {"rungs": [
        {"reason": "" if of.has_number(r) else f"{words}: {r['reason']}" if r["reason"] else words,
         "guard": f"passed, {r['guard']['steps']} steps{r['guard']['message']}" if r["guard"] else ""} for r, words in zip(study["rungs"], status)]}


def unusable(report):
    """The report, of whose first study nothing can be claimed."""
    part = report["studies"][0]
    part["said"] |= {"headline": "Not usable: other work ran during 32 of 32 runs", "lines": [], "remarks": [
        remark("bad", "Other work ran during 32 of 32 runs.", "unusable", "Stop the other work.")]}
    part["study"]["headline"] = None  # as the program writes it
    for r in part["study"]["rungs"]:
        r["speedup_first"] = r["speedup_previous"] = None
        for peer in r.get("peers", []):
            peer.update(ratio=None, lo=None, hi=None)
    return report


def report_of(*studies, **more):
    """A report's document of one or two studies."""
    parts = []
    for study in studies:
        runs = runs_of(study)
        parts.append({"source": study["id"], "study": study, "runs": runs, "losses": losses_of(study, runs), "techniques": {},
                      "noise": [], "said": said_of(study)})
    two = {"said": said("A: one · B: another", "B is 1.68× slower than A", remark("warn", "This compares two machines."), TRUST)} if len(studies) == 2 else {}
    return {"kind": "report", "schema_version": 1, "studies": parts, "comparison": None, "gates": [], "histories": [], "noise": [],
            "traces": [], "micro": [], "notes": [], **two, **more}


def part_of(study, **more):
    """A study's part of a report, as its charts take it."""
    part = report_of(study)["studies"][0]
    return of.told({"source": "", "losses": [], "runs": [], **part, **more})


def about_batches(study):
    """The study with what its rungs' batches cost: the first is read from a disk, and of the last nothing is known."""
    for i, r in enumerate(study["rungs"]):
        unknown = i == len(study["rungs"]) - 1
        r["batches"] = {"ms": {"median": 2.4 / (i + 1), "lo": 2.3 / (i + 1), "hi": 2.5 / (i + 1)}, "share": 0.0123, "bytes_read": None if unknown else 66e3,
                        "storage_bytes": None if unknown else 32e3, "major_faults": 0.5, "resident_bytes": None if unknown else 3132082,
                        "file_bytes": 4000, "cached_before": None if unknown else 0, "cached_after": None if unknown else 1000}
    return study


def with_peers(*ratios, runs=5):
    """A study whose last rung has peers, one for each (title, ratio)."""
    study = make(runs=runs)
    own = study["rungs"][-1]
    own["peers"] = []
    for title, ratio in ratios:
        twin = copy.deepcopy(own) | {"index": len(study["rungs"]), "title": title, "label": title, "peer": "pytorch", "against": own["index"]}
        twin.pop("peers")
        half = 0.02 if runs > 1 else None
        for field in ("median", "lo", "hi"):
            twin["ms_per_step"][field] = None if twin["ms_per_step"][field] is None else twin["ms_per_step"][field] * ratio
        own["peers"].append({"peer": "pytorch", "rung": twin["index"], "ratio": ratio, "lo": ratio - half if half else None,
                             "hi": ratio + half if half else None, "pairs": runs})
        study["rungs"].append(twin)
    return valid(study)


def worth(name, ratio, half=0.02, reason="", method="shapley", repeats=5):
    has = ratio is not None and half is not None
    return {"optimization": name, "title": f"the {name}", "method": method, "ratio": ratio, "lo": ratio * (1 - half) if has else None,
            "hi": ratio * (1 + half) if has else None, "repeats": repeats if ratio is not None else 0, "reason": reason}


def study_of(mode, *worths, **more):
    study = make([("plain", 100.0), ("bf16", 60.0), ("flash", 110.0), ("bf16 + flash", 50.0)], **more)
    study.update(mode=mode, attribution=list(worths))
    for r in study["rungs"]:
        r["label"] = r["title"]
    return study


def sweep(names=("fused AdamW", "flash"), sizes=(16, 32, 64), runs=5):
    """Two rungs at three sizes, one of which has no memory left, and PyTorch beside the first."""
    study = make([], runs)
    study.update(mode="sweep", swept="batch", headline=None)
    for name in names:
        for batch in sizes:
            r = rung(len(study["rungs"]), name, 100.0 * batch, None, None, runs)
            rate = 2560.0 * (1 + len(study["rungs"]))
            r |= {"label": name, "workload": {"batch": batch, "context": 256, "accumulation": 1, "tokens_per_step": 256 * batch},
                  "tokens_per_s": {"median": rate, "lo": rate * 0.97 if runs > 1 else None, "hi": rate * 1.03 if runs > 1 else None}}
            study["rungs"].append(r)
    peer = copy.deepcopy(study["rungs"][0]) | {"index": len(study["rungs"]), "title": "PyTorch eager", "peer": "pytorch-eager", "against": 0}
    study["rungs"][0]["peers"] = [{"peer": "pytorch-eager", "rung": peer["index"], "ratio": 2.0, "lo": 1.9, "hi": 2.1, "pairs": runs}]
    study["rungs"].append(peer)
    without_number(study, len(sizes) - 1, "failed", "CUDA out of memory")
    study["rungs"][len(sizes) - 1]["out_of_memory"] = True
    return study


GIB = 2**30


def complete(ladder=LADDER, **more):
    """A study of a GPU with all that charts show."""
    study = make(ladder, device="cuda", **more)
    study["workload"].update(batch=16, context=1024, tokens_per_step=16384)
    phases = {"backward": 400.0, "forward": 300.0, "update": 70.0, "clip": 20.0, "data": 5.0, "": 4.0}
    for r in study["rungs"]:
        i, ms = r["index"] % 7, r["ms_per_step"]["median"]
        rate = 1000.0 * (11 + i)
        r |= {"tokens_per_s": {"median": rate, "lo": rate - 100, "hi": rate + 150}, "joules_per_token": 0.052 - 0.005 * i, "peak_memory_bytes": (31 - 2 * i) * GIB,
              "mfu": {"value": 0.031 + 0.07 * i, "formula": "6 N", "type": "bf16", "peak_flops": 1e14, "peak_source": "data sheet", "reason": ""},
              "memory": {"peak_bytes": 30 * GIB, "peak_source": "the caching allocator", "reserved_peak_bytes": (33 - 2 * i) * GIB, "weights_bytes": GIB,
                         "gradients_bytes": GIB, "optimizer_bytes": 2 * GIB, "activations_bytes": (20 - 2 * i) * GIB},
              "profile": {"busy_percent": 90.0, "idle_ms": 200.0, "launch_bound_percent": 8.5,
                          "by_phase": [{"phase": phase, "ms": 2 * took, "min_ms": took, "max_ms": 2 * took, "count": 9} for phase, took in phases.items()],
                          "step": {"ms": ms, "traced_ms": 2 * ms, "idle_ms": 100.0, "by_phase": [{"phase": p, "ms": took} for p, took in phases.items()]}}}
    return study


def technique(text="Products in `16 bits`.\n\n    1/3    0.333\n    1/10   0.100\n\nWeights stay\nas they are."):
    return [{"title": "How it works", "text": text}, {"title": "In PyTorch", "text": "    with autocast():\n        step()"}]


# ---- what may stand beside a study

def part_row(phase, part, flops, least_bytes, ms):
    limit = 1e3 * max(flops / 1e14, least_bytes / 1e12)
    return {"phase": phase, "part": part, "flops": flops, "bytes": least_bytes, "limit_ms": limit, "measured_ms": ms,
            "flops_per_byte": flops / least_bytes if flops and least_bytes else None, "flops_per_s": 1e3 * flops / ms if flops and ms else None,
            "bound_by": "none" if not limit else "compute" if flops / 1e14 > least_bytes / 1e12 else "memory",
            "distance": ms / limit if ms and limit else None, "ms_above": None if ms is None else ms - limit}


def trace_of(*parts, device="cuda"):
    limits = {"flops_per_s": 1e14, "bytes_per_s": 1e12, "flops_per_byte": 100.0, "source": "measured: bf16 8192^3, copy of 4 GiB"}
    return {"kind": "trace", "created": "2026-01-02T03:04:05Z", "title": "+ flash attention", "device": {"kind": device, "name": "NVIDIA Example"},
            "workload": {"batch": 16, "context": 1024}, "summary": {"steps": 5},
            "roofline": {"limits": limits, "phases": [], "parts": list(parts)}}


PARTS = [part_row("backward", "head", 5e11, 1e9, 12.0), part_row("forward", "gelu", 0, 3e9, 4.0), part_row("forward", "c_fc", 2e11, 2e9, 3.0),
         part_row("data", "copy", 0, 0, 0.5), part_row("update", "adamw", 0, 5e9, None)]


SETTING = {"device": "AMD EPYC", "threads": 2, "cuda": None, "torch": "2.11", "model": "gpt2-124m", "batch": 4, "context": 256, "accumulation": 1,
           "positions": 1024, "dtype": "float32"}


def entry(label, ratio, verdict, half=0.008):
    runs = [500.0 + i for i in (3, -2, 0, 1, -1, 2)]
    return {"label": label, "recipe_hash": "ab" * 6, "recipe": {"device": "cpu"}, "recipe_diff": {}, "setting": SETTING, "pairs": 6,
            "base_runs": 6, "head_runs": 6, "sessions": None, "base_runs_ms": runs, "head_runs_ms": [ms * ratio for ms in reversed(runs)], "base_ms": 500.0, "head_ms": 500.0 * ratio,
            "ratio": ratio, "lo": ratio - half if half else None, "hi": ratio + half if half else None, "verdict": verdict, "slower_pairs": 3,
            "sign_test_p": 0.5, "loss": {"compared": False, "message": ""}, "memory": None, "flags": []}


def comparison_of(*entries):
    return valid({"kind": "comparison", "schema_version": 1, "created": "2026-01-02T03:04:05Z", "min_effect": 0.02, "confidence": 0.95,
                  "method": "paired", "base": {"source": "runs/old", "runs": 6, "programs": ["0123456789abcdef"], "left_out": []},
                  "head": {"source": "runs/new", "runs": 6, "programs": [], "left_out": []}, "forced": [], "warnings": [],
                  "entries": list(entries), "unmatched": [{"side": "base", "label": "+ fused"}, {"side": "head", "label": NASTY}]})


def other_losses(entry):
    """The entry with losses that differ from base's."""
    message = "step 3 has loss 9.5000, the reference 9.1900: 0.3100 nats apart, 0.02 allowed"
    loss = {"compared": True, "identical": False, "passed": False, "max_deviation": 0.31, "tolerance": 0.02, "message": message}
    return entry | {"loss": loss}


def disturbed(entry):
    """The entry with two disturbed runs. One of them was disturbed in two ways."""
    return entry | {"flags": ["base r1-02-flash throttled: HwSlowdown in 2 of 9 samples; shared: 1 other process", "head r3-02-flash shared: 1 other process"]}


def gate_of(verdict, comparison, noise, reasons=()):
    return valid({"kind": "gate", "schema_version": 1, "created": "2026-01-02T03:04:05Z", "subject": "", "verdict": verdict, "exit_status": 1, "against": "program",
                  "pairs": 6, "topped_up": False, "min_effect": 0.02, "reasons": list(reasons), "warnings": [], "noise": noise,
                  "calibration": [], "saved": [], "added_to": [], "comparison": comparison,
                  "said": said("a machine · 2026-01-02", verdict.capitalize(), remark("bad", "What the verdict means.", "verdict"), *map(
                      lambda text: remark("warn", text), reasons), TRUST, lines=["+ bf16 takes 1.04× base's time"])})


ENTRIES = [entry("float32", 1.001, "SAME"), entry("+ bf16 autocast", 1.045, "REGRESSION"), entry("+ flash", 0.95, "IMPROVEMENT"),
           entry(NASTY, 1.02, "INCONCLUSIVE", 0.02)]


def series_of(label, verdict, points=20, jump=1.0):
    middle = points // 2
    levels = [500.0 * (jump if i >= middle else 1) for i in range(points)]
    return {"device_slug": "d", "recipe_hash": "ab" * 6, "label": label, "ladder": "gpt2", "current": True, "dropped": False, "missed": None,
            "new_because": [], "left_out": 0,
            "setting": SETTING,
            "points": [{"study": f"s{i}", "file": f"f{i}", "time": "2026-01-02T03:04:05Z", "git_commit": None, "git_dirty": None,
                        "median": level, "lo": level - 5, "hi": level + 5, "level": level, "disturbed": i == 3}
                       for i, level in enumerate(levels)],
            "best": 0, "against_first": jump, "against_best": jump, "steps": [{"at": middle, "ratio": jump, "p": 0.001}] if jump != 1 else [],
            "drift": None, "slowdown": None, "verdict": verdict, "finding": f"{label}: {verdict}"}


def history_of(*series):
    return valid({"kind": "history", "schema_version": 1, "created": "2026-02-02T03:04:05Z", "studies": 20, "min_effect": 0.02,
                  "finding": "1 of 2 rungs is slower", "slower": 1, "missed": 0, "method": "a permutation test",
                  "skipped": [], "notes": [], "series": list(series)})


def seed(kind):
    return json.loads((ROOT / "tests" / "fuzz" / "seeds" / kind / "valid.json").read_text())


def noise_of(*floors):
    """A noise floor; floors: (pairs, floor)."""
    return valid(seed("noise") | {"label": "+ flash", "setting": SETTING, "floors": [{"pairs": pairs, "floor": floor} for pairs, floor in floors]})


# ---- trainings

def training_of(steps=60):
    training = seed("training")
    training["settings"]["steps"] = steps
    return training


def training_said(headline, *remarks):
    return said("GPT-2 18M on AMD EPYC, 2 threads · CPU figures", headline, remark("warn", "It has not ended.", "unfinished", "`--resume` goes on."), *remarks)


def training_report_of(points=60, length=1, samples=()):
    """A training whose loss falls, with a validation loss at every tenth point and a spike at the last but one.

    samples: what it wrote after its first step, and after each tenth one.
    """
    stretches = []
    for i in range(points):
        loss, norm, off = 6 + 4.8 * math.exp(-i / 12), 20 / (1 + i), 0.2 if length > 1 else 0
        stretches.append({"first": 1 + i * length, "last": (i + 1) * length, "loss": {"lo": loss - off, "mean": loss, "hi": loss + off},
                          "norm": {"lo": norm, "mean": norm * (1 + off), "hi": norm * (1 + 2 * off)}, "learning_rate": 6e-4 * (i + 1) / points,
                          "tokens_per_s": 2500.0 + i % 7, "validation_loss": loss + 0.3 if i % 10 == 9 else None, "spikes": int(i == points - 2)})
    return valid({"kind": "training_report", "schema_version": 1, "source": "training", "device": {"kind": "cpu", "name": "AMD EPYC, 2 threads"},
                  "training": training_of(points * length), "steps": points * length, "stretches": stretches,
                  "samples": [{"step": max(1, 10 * i), "text": text} for i, text in enumerate(samples)],
                  "said": training_said("Validation loss 6.02 after 60 steps")})


# ---- the recorded evidence

EVIDENCE = sorted(file.parent for file in (ROOT / "results" / "evidence").glob("*/study.json"))


def recorded(folder, to):
    """The document that `ladder report` makes of a recorded study, with what lies beside it; LADDER names the program."""
    program = os.environ.get("LADDER") or pytest.skip("LADDER is not set")
    copied = shutil.copytree(folder, to / folder.name)
    beside = [word for file in sorted((copied / "with").glob("*.json")) for word in ("--with", file)]
    done = subprocess.run([program, "report", copied, "--out", to / "made", *beside], env={**os.environ, "LADDER_PYTHON": "/bin/true"},
                          check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1, 3), done.stderr  # 1: a rung has no valid number; 3: too few pairs
    return valid(json.loads((to / "made" / "report.json").read_text()))


# ---- plots/render.py

def without(module, tmp_path):
    """An environment in which that module cannot be imported."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / f"{module}.py").write_text(f"raise ImportError(\"No module named '{module}'\")\n")
    return {**os.environ, "PYTHONPATH": f"{tmp_path / 'hidden'}:{os.environ.get('PYTHONPATH', '')}"}


def run(source, folder, **kwargs):
    """render.py in this process, which has loaded vl-convert already. With arguments in a process of its own."""
    if not kwargs:
        with contextlib.redirect_stdout(io.StringIO()) as stdout, contextlib.redirect_stderr(io.StringIO()) as stderr:
            status = render.main([str(source), str(folder)])
        return subprocess.CompletedProcess([], status, stdout.getvalue(), stderr.getvalue())
    return subprocess.run([sys.executable, str(SCRIPT), str(source), str(folder)], capture_output=True, text=True, timeout=300,
                          **kwargs)


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def made(report):
    """(the HTML, the Markdown) of a report."""
    shown = study_view.view(report)
    return page.render(shown), markdown.render(shown, has_pictures=True)


def table(text, head):
    """The rows below that head in Markdown, as lists of cells."""
    lines = text.split(f"| {head} |", 1)[1].split("\n\n", 1)[0].splitlines()
    return [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]
