"""Made-up documents for the tests of plots/, checked against their schemas so that the tests cannot drift away from them."""

import json
import random
import sys
from pathlib import Path

import jsonschema

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "plots" / "render.py"

sys.path.insert(0, str(ROOT / "plots"))


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
        "summary": f"What {name} does. And why it helps.", "status": "measured", "reason": "",
        "recipe": {"precision": "fp32", "attention": "math"},
        "recipe_diff": {} if index == 0 else {"field_" + str(index): [False, True]}, "runs_ok": runs,
        "ms_per_step": {"median": ms, "lo": lo, "hi": hi, "q1": ms * 0.99, "q3": ms * 1.01, "min": ms * 0.97, "max": ms * 1.2,
                        "n": 20 * runs},
        "tokens_per_s": {"median": 1024 / ms * 1000, "lo": None, "hi": None},
        "speedup_first": ratio(first), "speedup_previous": ratio(previous),
        "peak_memory_bytes": int((3.1 - 0.2 * (index % 7)) * 2**30), "page_faults_per_step": 12.0,
        "guard": {"passed": True, "max_deviation": 0.0031, "tolerance": 0.02, "known_offset": 0.0, "steps": 20, "message": ""},
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
        "finished": "2026-01-02T04:04:05Z", "ladder": {"name": "gpt2", "title": "EXAMPLE DATA, not a measurement"},
        "workload": {"model": "gpt2-124m", "parameters": 124439808, "batch": 4, "context": 256, "accumulation": 1,
                     "tokens_per_step": 1024, "flops_per_step": 8.0e11, "seed": 1,
                     "data": {"source": "shakespeare", "sha256": "ab" * 32, "tokens": 338025}},
        "plan": {"repeats": runs, "warmup_steps": 5, "timed_steps": 20, "order_seed": 42, "runs_planned": runs * len(rungs),
                 "runs_ok": runs * len(rungs)},
        "device": {"kind": device, "name": "Example Processor 9000 @ 2.70GHz" if device == "cpu" else "NVIDIA Example"},
        "statistics": {"center": "the median over runs of a run's median step", "interval": "bootstrap over runs, percentile",
                       "confidence": 0.95},
        "headline": head, "rungs": rungs,
        "runs": [{"id": f"r{i}-{k}", "rung": i, "repeat": k, "position": i + k * len(rungs), "status": "ok", "reason": "",
                  "median_ms": ms, "record": f"records/r{i}-{k}.json"} for i, (_, ms) in enumerate(ladder) for k in range(runs)],
        "warnings": [], "environment": {"cpu": {"model": "Example", "cores": 8}, "torch": "2.11.0", "flags": ["a", "b"]},
    }


def mixed():
    """Every status; rung 7 is slower than the one before it."""
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
    return document


def runs_of(study):
    """The steps and losses of every good run, as a report carries them: 5 of warm-up, slow at first, and 20 with some noise."""
    random.seed(7)
    plan, out = study["plan"], []
    for run in study["runs"]:
        if run["status"] != "ok":
            continue
        steps = [run["median_ms"] * (1 + 0.5 / (k + 1) * (k < plan["warmup_steps"]) + random.gauss(0, 0.01))
                 for k in range(plan["warmup_steps"] + plan["timed_steps"])]
        loss = [11 - 4 * k / len(steps) + 0.01 * run["rung"] for k in range(len(steps))]
        out.append({"id": run["id"], "rung": run["rung"], "repeat": run["repeat"], "position": run["position"], "status": "ok",
                    "started": study["created"], "warmup_steps": plan["warmup_steps"], "step_ms": steps, "loss": loss, "flags": [],
                    "conditions": None})
    return sorted(out, key=lambda run: run["position"])


def losses_of(study, runs):
    """Each guarded rung against the first, with the guard's band."""
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


def report_of(*studies, **more):
    """A report's document of one or two studies."""
    parts = []
    for study in studies:
        runs = runs_of(study)
        parts.append({"source": study["id"], "computed_again": True, "study": study, "runs": runs, "losses": losses_of(study, runs)})
    return {"kind": "report", "schema_version": 1, "studies": parts, "comparison": None, "gates": [], "histories": [], "noise": [],
            "traces": [], "micro": [], "published": [], "notes": [], **more}


