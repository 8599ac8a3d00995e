"""pytorch_ladder.py --plan PLAN --run ID --record FILE: one run of a study in plain PyTorch, what a user would pick instead.

Same model, weights, batches, optimizer and record as `ladder run`, so that the two may stand in one table; it needs nothing
but torch (and, to compile, a compiler: compilers.py). The rung's recipe says what is computed, its `peer` how: eagerly, or by
torch.compile in one of its modes, or compiled with products in fp8 (pytorch_fp8.py). The model is in pytorch_gpt2.py, its
training in pytorch_trainer.py, the clock in pytorch_clock.py; what a run was seen to do, and whether that is what was asked
for, in pytorch_proof.py.
"""

import argparse
import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import platform
import re
import secrets
import select
import signal
import statistics
import sys
import time
import traceback
import types

import compilers
import pytorch_fp8
import torch
from pytorch_clock import available_memory, measure, summarize
from pytorch_gpt2 import SIZES, VOCABULARY
from pytorch_proof import observe, prove
from pytorch_trainer import BadInput, Trainer, load_tokens
from torch.nn.attention import SDPBackend, sdpa_kernel

MODES = {"pytorch-eager": None, "pytorch-compile": "default", "pytorch-max-autotune": "max-autotune",
         "pytorch-cuda-graphs": "reduce-overhead", "pytorch-fp8": "default"}  # of torch.compile
# The first step compiles; graphs are captured in the second one and replayed from then on (torch/_inductor/cudagraph_trees.py).
LEAST_WARMUP = {None: 0, "default": 1, "max-autotune": 2, "reduce-overhead": 2}
# What the program asks for beside it (ablations/gpt2/peer.h); a field's first value is the plain one.
CAN_DO = json.loads((pathlib.Path(__file__).parent / "pytorch.json").read_text())["fields"]
BACKENDS = {"math": SDPBackend.MATH, "efficient": SDPBackend.EFFICIENT_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
            "cudnn": SDPBackend.CUDNN_ATTENTION}


def environment(device: torch.device) -> dict:
    gpu = None
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        gpu = {"name": found.name, "compute_capability": found.major * 10 + found.minor, "memory_bytes": found.total_memory}
    name = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"cpu": {"model": name[1] if name else "", "logical_cores": len(os.sched_getaffinity(0))}, "gpu": gpu,
            "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version() if gpu else None, "torch": torch.__version__,
            "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(), "threads": torch.get_num_threads(),
            "python": platform.python_version(), "kernel": f"{platform.system()} {platform.release()}",
            "load_average": list(os.getloadavg())}


def planned_run(file: pathlib.Path, run_id: str) -> types.SimpleNamespace:
    """This run of the plan, checked against what is available here."""

    def require(good: bool, message: str):
        if not good:
            raise BadInput(f'{file}: run "{run_id}": {message}')

    def one_of(name: str, value, allowed):
        require(value in allowed, f"{name} must be one of {', '.join(map(str, allowed))}, got {json.dumps(value)}")

    try:
        plan = json.loads(file.read_text())
        found = [planned for planned in plan["runs"] if planned["id"] == run_id]
        require(bool(found), "the plan has none with this id")
        rung = plan["rungs"][found[0]["rung"]]
        workload = {**plan["workload"], **rung.get("workload", {})}
        run = types.SimpleNamespace(
            id=run_id, recipe=rung["recipe"], applied=rung["applied"], warmup_steps=plan["warmup_steps"],
            timed_steps=plan["timed_steps"], least_window_s=plan.get("least_window_s", 0), tokens=pathlib.Path(workload["tokens"]), source=pathlib.Path(workload["data"]).name,
            random_windows=workload.get("random_windows", False),
            **{name: workload[name] for name in ("model", "batch", "context", "accumulation", "seed", "threads")})
        one_of("peer", rung.get("peer", ""), MODES)
        one_of("model", run.model, SIZES)
        on_cuda, run.mode, run.fp8 = run.recipe["device"] == "cuda", MODES[rung["peer"]], rung["peer"] == "pytorch-fp8"
        for field, allowed in CAN_DO.items():
            if allowed != "any":
                one_of(f"recipe field {field}", run.recipe.get(field, allowed[0]), allowed)
        # PyTorch's own that takes the place of a packed one: on a GPU its kernels are those of flash.
        run.attention = {"packed": "flash" if on_cuda else "manual"}.get(run.recipe["attention"], run.recipe["attention"])
        require(on_cuda or run.recipe["attention"] not in ("efficient", "cudnn"), f"attention {run.recipe['attention']} needs device cuda")
        require(run.recipe["residual"] == "float32" or run.recipe["autocast"] != "off", "residual autocast needs autocast bf16 or fp16")
        require(not run.fp8 or run.recipe["autocast"] == "bf16", f"peer pytorch-fp8 needs autocast bf16, got {run.recipe['autocast']}")
        rows = run.recipe["vocabulary_rows"]
        run.positions = max(SIZES[run.model][3], workload.get("positions", 0))
        require(rows >= VOCABULARY, f"vocabulary_rows must be at least {VOCABULARY}, got {rows}")
        require(1 <= run.context <= run.positions, f"context must be between 1 and {run.positions}, got {run.context}")
        least = LEAST_WARMUP[run.mode]
        require(run.warmup_steps >= least, f"warmup_steps must be at least {least} with peer {rung['peer']}, got {run.warmup_steps}: "
                "its first steps compile and capture what the later ones run")
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from error
    except KeyError as error:
        raise BadInput(f'{file}: run "{run_id}": the field {error} is missing') from error
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise BadInput(f"{file}: not a plan: {error}") from error
    require(not on_cuda or torch.cuda.is_available(), "device cuda is not available here")
    require(on_cuda or not (run.mode == "reduce-overhead" or run.fp8), f"peer {rung['peer']} needs device cuda")
    missing = pytorch_fp8.obstacle(rows, run.batch * run.context) if run.fp8 else ""
    require(not missing, f"peer pytorch-fp8 {missing}")
    missing = compilers.obstacle(on_cuda) if run.mode is not None else ""
    require(not missing, missing)
    return run


def execute(run: types.SimpleNamespace, tell) -> dict:
    torch.set_num_threads(run.threads)
    torch.set_float32_matmul_precision(run.recipe["matmul_precision"])
    torch.use_deterministic_algorithms(run.recipe.get("deterministic", False))  # as model/precision.cpp
    if run.recipe.get("deterministic", False):
        if os.environ.get("CUBLAS_WORKSPACE_CONFIG") not in (":4096:8", ":16:8"):
            os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    tokens = load_tokens(run.tokens)
    if len(tokens) <= run.batch * run.context:
        raise BadInput(f"{run.tokens}: {len(tokens)} tokens; a batch of {run.batch} x {run.context} needs one more than that")
    backend = BACKENDS.get(run.attention)
    with sdpa_kernel(backend) if backend is not None else contextlib.nullcontext():
        trainer = Trainer(run, tokens)
        timing, memory = measure(trainer, run.warmup_steps, run.timed_steps, 1000 * run.least_window_s, tell)
        facts = observe(trainer)
    facts["peer"] = {"program": "PyTorch", "version": torch.__version__, "mode": "fp8" if run.fp8 else run.mode or "eager"}
    faults = statistics.median(timing["page_faults"][run.warmup_steps :])
    proofs = [dict(zip(("field", "passed", "expected", "observed"), proof))
              for proof in prove(run, facts, faults, memory["peak_bytes"])]
    n_layer, _, C, _ = SIZES[run.model]
    parameters = (VOCABULARY + SIZES[run.model][3] + 2) * C + n_layer * (12 * C * C + 13 * C)
    per_step = run.batch * run.context * run.accumulation
    workload = {"model": run.model, "parameters": parameters, "batch": run.batch, "context": run.context,
                "accumulation": run.accumulation, "positions": run.positions, "tokens_per_step": per_step,
                "flops_per_step": per_step * (6.0 * parameters + 6.0 * n_layer * C * run.context), "seed": run.seed,
                **({"random_windows": True} if run.random_windows else {}),
                "data": {"source": run.source, "tokens": len(tokens),
                         "sha256": hashlib.sha256(run.tokens.read_bytes()[1024:]).hexdigest()}}
    declared = {field: value for field, value in run.recipe.items() if field in CAN_DO}  # of the others nothing was looked at
    return {"status": "ok", "recipe": declared, "optimizations": run.applied, "workload": workload, "timing": timing,
            "summary": summarize(timing["step_ms"][run.warmup_steps :], per_step), "memory": memory, "observations": facts,
            "proofs": proofs, "environment": environment(trainer.device)}


def out_of_memory(error: BaseException | None) -> str:
    """How much memory was asked for and how much there was, if the error or its cause is about that; else nothing."""
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError):
            sizes = re.search(r"Tried to allocate (.*?)\. .*?capacity of (.*?) of which (.*?) is free", str(error), re.S)
            return "asked for {0}; {2} of {1} were free".format(*sizes.groups()) if sizes else str(error).splitlines()[0]
        # As ablations/gpt2/run.cpp: the driver's own, and the CPU allocator's, have no class for it.
        if str(error).startswith("CUDA error: out of memory"):
            return "the CUDA driver had no memory left for what it, a library or a graph needs"
        if asked := re.search(r"you tried to allocate (\d+)", str(error)):
            return f"asked for {int(asked[1]) / 2**30:.2f} GiB more; {available_memory()}"
        if isinstance(error, MemoryError):
            return available_memory()
        error = error.__cause__ or error.__context__
    return ""


def die_with_parent():
    """As in harness/process/process.cpp: also where the parent ended before this call, and nobody reads the pipe."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    pipe = select.poll()
    pipe.register(3, 0)
    if any(event & select.POLLERR for _, event in pipe.poll(0)):
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(prog="pytorch_ladder.py", description="One run of a study in plain PyTorch.")
    parser.add_argument("--plan", type=pathlib.Path, required=True, help="a study's plan.json")
    parser.add_argument("--run", required=True, help="a run of the plan, by its id")
    parser.add_argument("--record", type=pathlib.Path, required=True, help="write the record here")
    parser.add_argument("--report-steps-to-parent", action="store_true", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    start, started = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def tell(line: str):
        """The runner: steps done, of how many, and when to watch (ablations/gpt2/watch.h)."""
        if flags.report_steps_to_parent:
            os.write(3, f"{line}\n".encode())

    try:
        if flags.report_steps_to_parent:
            die_with_parent()
        run = planned_run(flags.plan, flags.run)
        if not os.access(flags.record.absolute().parent, os.W_OK):
            raise BadInput(f"--record {flags.record}: its folder cannot be written")
        result = execute(run, tell)
    except BadInput as error:
        print(f"pytorch_ladder.py: {error}", file=sys.stderr)
        return 2
    except Exception as error:
        if not (message := out_of_memory(error)):
            traceback.print_exc()  # into the run's log; the last line is what the table shows
            said = next((line for line in str(error).splitlines() if line.strip()), "no message")
            print(f"pytorch_ladder.py: {type(error).__name__}: {said}", file=sys.stderr)
            return 1
        result = {"status": "failed", "failure": {"kind": "out_of_memory", "message": message}}
    record = {"kind": "record", "schema_version": 1, "id": run.id, "started": started,
              "duration_s": time.monotonic() - start, **result}
    temporary = flags.record.with_name(f"{flags.record.name}.{secrets.token_hex(8)}.tmp")  # as files::is_unfinished knows it
    with temporary.open("x") as file:
        json.dump(record, file, indent=1, sort_keys=True, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(flags.record)
    return 0


if __name__ == "__main__":
    if sys.flags.ignore_environment:  # nor are compilers' workers to be given the user's
        for variable in [name for name in os.environ if name.startswith("PYTHON")]:
            del os.environ[variable]
    sys.exit(main())
