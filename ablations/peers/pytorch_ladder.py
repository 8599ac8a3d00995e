"""pytorch_ladder.py --plan PLAN --run ID --record FILE: one run of a study in plain PyTorch, what a user would pick instead.

Same model, weights, batches, optimizer and record as `ladder run`, so that the two may stand in one table; it needs nothing
but torch (and, to compile, a compiler: compilers.py). The rung's recipe says what is computed, its `peer` how: eagerly, or by torch.compile in one of its modes. The
model is in pytorch_gpt2.py; what a run was seen to do, and whether that is what was asked for, in pytorch_proof.py.
"""

import argparse
import contextlib
import ctypes
import hashlib
import itertools
import json
import math
import os
import pathlib
import platform
import re
import resource
import select
import signal
import statistics
import struct
import sys
import time
import traceback
import types

import compilers
import torch
from pytorch_gpt2 import GPT2, SIZES, VOCABULARY
from pytorch_proof import minor_faults, observe, prove
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

MODES = {"pytorch-eager": None, "pytorch-compile": "default", "pytorch-max-autotune": "max-autotune",
         "pytorch-cuda-graphs": "reduce-overhead"}  # of torch.compile
# The first step compiles; graphs are captured in the second one and replayed from then on (torch/_inductor/cudagraph_trees.py).
LEAST_WARMUP = {None: 0, "default": 1, "max-autotune": 2, "reduce-overhead": 2}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
BACKENDS = {"math": SDPBackend.MATH, "efficient": SDPBackend.EFFICIENT_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
            "cudnn": SDPBackend.CUDNN_ATTENTION}


class BadInput(Exception):
    """What the user is told, in one line."""


# Training


def load_tokens(path: pathlib.Path) -> torch.Tensor:
    """llm.c's token file as model/data.h describes it."""
    try:
        data = bytearray(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    if len(data) < 1024:
        raise BadInput(f"{path}: {len(data)} bytes; a token file has a header of 1024")
    magic, version, count = struct.unpack_from("<3i", data)
    if (magic, version) != (20240520, 1):
        raise BadInput(f"{path}: magic number {magic}, version {version}; a token file begins with 20240520, 1")
    if count < 1 or len(data) != 1024 + 2 * count:
        raise BadInput(f"{path}: {count} tokens in the header, {len(data) - 1024} bytes after it; 2 for each token are needed")
    tokens = torch.frombuffer(data, dtype=torch.uint16, offset=1024)
    if len(bad := (tokens.int() >= VOCABULARY).nonzero()):
        raise BadInput(f"{path}: token {int(tokens[bad[0]])} at position {int(bad[0])}; allowed are 0..{VOCABULARY - 1}")
    return tokens


def splitmix64(seed: int) -> int:
    mask = 2**64 - 1
    z = (seed + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
    return z ^ z >> 31


class Batches:
    """Windows of B * T tokens one after another, as BatchLoader in model/data.h."""

    def __init__(self, tokens: torch.Tensor, B: int, T: int, seed: int, device: torch.device, count: int):
        self.tokens, self.shape, self.window, self.device = tokens, (B, T), B * T, device
        self.position = splitmix64(seed) % ((len(tokens) - 1) // self.window) * self.window if seed != 0 else 0
        if device.type == "cuda":
            # PyTorch keeps freed pinned memory. To allocate it in a step may wait for the device (model/inputs.h).
            count = min(count, 64, 4 + 2**28 // (16 * self.window))
            blocks = [torch.empty(self.shape, dtype=torch.int64, pin_memory=True) for _ in range(2 * count)]
            del blocks

    def next(self):
        cut = (self.tokens[i : i + self.window].to(torch.int64).view(self.shape) for i in (self.position, self.position + 1))
        self.position += self.window
        if len(self.tokens) - self.position < self.window + 1:
            self.position = 0
        return [x.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else x for x in cut]


def learning_rate(step: int) -> float:
    """Schedule's defaults in model/schedule.h."""
    peak, floor, warmup, decay = 6e-4, 6e-5, 10, 50
    if step < warmup:
        return peak * (step + 1) / warmup
    if step >= decay:
        return floor
    return floor + 0.5 * (1.0 + math.cos(math.pi * (step - warmup) / (decay - warmup))) * (peak - floor)


class Trainer:
    def __init__(self, run: types.SimpleNamespace, tokens: torch.Tensor):
        recipe = run.recipe
        self.device = torch.device(recipe["device"])
        self.dtype = DTYPES.get(recipe["autocast"])
        self.accumulation, self.steps = run.accumulation, 0
        manual = recipe["attention"] == "manual"
        model = GPT2(run.model, recipe["vocabulary_rows"], run.positions, run.context, manual, run.seed)
        self.model = model.to(self.device)
        self.compiled = torch.compile(self.model, mode=run.mode) if run.mode else self.model
        self.parameters = list(self.model.parameters())
        # Where CUDA graphs are replayed, a gradient lies in the graph's memory and the next replay overwrites it: micro-steps
        # must add to tensors of our own (pytorch/pytorch#169545).
        self.keep_gradients = run.mode in ("max-autotune", "reduce-overhead") and self.accumulation > 1
        if self.keep_gradients:
            for p in self.parameters:
                p.grad = torch.zeros_like(p)
        groups = [{"params": [p for p in self.parameters if p.dim() >= 2], "weight_decay": 0.1},
                  {"params": [p for p in self.parameters if p.dim() < 2], "weight_decay": 0.0}]
        kind = recipe["optimizer"]
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8, foreach=kind == "foreach", fused=kind == "fused")
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=recipe["autocast"] == "fp16")
        batches = self.accumulation * (run.warmup_steps + run.timed_steps + 1)
        self.batches = Batches(tokens, run.batch, run.context, run.seed, self.device, batches)
        self.losses = torch.zeros(run.warmup_steps + run.timed_steps + 1, device=self.device)

    def autocast(self):
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype is not None)

    def loss(self, inputs, targets):
        with self.autocast():
            return self.compiled(inputs, targets)

    def step(self):
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.steps)
        self.optimizer.zero_grad(set_to_none=not self.keep_gradients)
        for _ in range(self.accumulation):
            loss = self.loss(*self.batches.next())
            if self.accumulation > 1:
                loss = loss / self.accumulation
            self.losses[self.steps].add_(loss.detach())
            self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.steps += 1

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def skipped_steps(self) -> int:
        return self.steps - int(self.optimizer.state[self.parameters[0]].get("step", 0))


# Measuring


def processor_time() -> tuple[float, float]:
    """How many seconds this process's threads ran, and waited for a processor (harness/processor_time.h)."""
    ran = waited = 0
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError, ValueError):  # a thread that has ended, a kernel that does not count
            thread_ran, thread_waited, _ = map(int, (task / "schedstat").read_text().split())
            ran, waited = ran + thread_ran, waited + thread_waited
    return ran * 1e-9, waited * 1e-9


def share_lost(begin: tuple[float, float], end: tuple[float, float], window_s: float, threads: int) -> float | None:
    cores = len(os.sched_getaffinity(0))
    if end[0] == 0:
        return None
    lost = min(end[1] - begin[1], window_s * cores - (end[0] - begin[0]))
    return min(max(lost / (window_s * min(threads, cores)), 0.0), 1.0)


def allocator_calls() -> dict:
    """How often PyTorch's allocator has gone to the device (AllocatorCalls in ablations/run/run.cpp)."""
    stats = torch.cuda.memory_stats()
    return {"allocations": stats["num_device_alloc"], "frees": stats["num_device_free"], "retries": stats["num_alloc_retries"]}


def events_of(steps: int, on_cuda: bool) -> list:
    """One before the first of these steps and one after each; recording an event makes it, which takes time."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)] if on_cuda else []
    for event in events:
        event.record()
    return events


def measure(trainer: Trainer, warmup_steps: int, timed_steps: int, tell) -> dict:
    """As harness/clock.cpp: on a GPU an event between two steps, and no waiting between the first timed one and the last. What is
    watched beside them is as in ablations/run/run.cpp."""
    on_cuda = trainer.device.type == "cuda"
    step_ms, faults = [], []

    def take_steps(steps: int, events: list):
        if on_cuda:
            events[0].record()
        for step in range(steps):
            faults_before, start = minor_faults(), time.perf_counter()
            trainer.step()
            if on_cuda:
                events[step + 1].record()
            step_ms.append(1e3 * (time.perf_counter() - start))
            faults.append(minor_faults() - faults_before)
            tell(f"{len(step_ms)} {warmup_steps + timed_steps}")

    warmup_events, timed_events = events_of(warmup_steps, on_cuda), events_of(timed_steps, on_cuda)
    take_steps(warmup_steps, warmup_events)
    trainer.synchronize()
    calls_before = allocator_calls() if on_cuda else {}
    processor_before = processor_time()
    tell(f"window begins {os.getpid()}")
    window_start = time.perf_counter()
    take_steps(timed_steps, timed_events)
    trainer.synchronize()
    window_ms = 1e3 * (time.perf_counter() - window_start)
    tell("window ends")
    lost = share_lost(processor_before, processor_time(), 1e-3 * window_ms, 1 if on_cuda else torch.get_num_threads())
    calls = {name: count - calls_before[name] for name, count in allocator_calls().items()} if on_cuda else None
    if on_cuda:
        step_ms = [begin.elapsed_time(end) for events in (warmup_events, timed_events) for begin, end in itertools.pairwise(events)]
    losses = [loss if math.isfinite(loss) else None for loss in trainer.losses[: trainer.steps].tolist()]
    return {"warmup_steps": warmup_steps, "step_ms": step_ms, "loss": losses, "page_faults": faults, "window_ms": window_ms,
            "device_ms": sum(step_ms[warmup_steps:]) if on_cuda else None, "processor_lost": lost, "allocator": calls}


def flags_of(timing: dict) -> list[str]:
    """What makes a run doubtful, in the words of harness/processor_time.cpp and ablations/run/run.cpp."""
    flags, lost, calls = [], timing["processor_lost"] or 0, timing["allocator"] or {}
    if lost > 0.1:
        flags.append(f"shared: the processor was busy with something else for {100 * lost:.0f} % of the time")
    if any(calls.values()):
        counted = ", ".join(f"{name} {count}" for name, count in calls.items())
        flags.append(f"memory: the allocator went to the device during the timed steps ({counted})")
    return flags


def summarize(step_ms: list[float], tokens_per_step: int) -> dict:
    q1, median, q3 = statistics.quantiles(step_ms, n=4, method="inclusive") if len(step_ms) > 1 else step_ms * 3
    return {"median_ms": median, "q1_ms": q1, "q3_ms": q3, "min_ms": min(step_ms), "max_ms": max(step_ms), "n": len(step_ms),
            "tokens_per_s": 1e3 * tokens_per_step / median}


def peak_memory(device: torch.device) -> dict:
    if device.type == "cuda":
        return {"peak_bytes": torch.cuda.max_memory_allocated(), "peak_source": "CUDA caching allocator, allocated bytes",
                "reserved_peak_bytes": torch.cuda.max_memory_reserved()}
    # getrusage's is its parent's where that was larger: what a kernel without VmHWM leaves.
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    found = re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)
    kib = int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"peak_bytes": kib * 1024, "peak_source": "resident set of the process"}


# The run


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
    """What the plan says of this run, checked against what there is here."""

    def require(good: bool, message: str):
        if not good:
            raise BadInput(f'{file}: run "{run_id}": {message}')

    def one_of(name: str, value, allowed):
        require(value in allowed, f"{name} {json.dumps(value)} is not allowed; one of {', '.join(allowed)} is")

    try:
        plan = json.loads(file.read_text())
        found = [planned for planned in plan["runs"] if planned["id"] == run_id]
        require(bool(found), "the plan has none with this id")
        rung = plan["rungs"][found[0]["rung"]]
        workload = {**plan["workload"], **rung.get("workload", {})}
        run = types.SimpleNamespace(
            id=run_id, recipe=rung["recipe"], applied=rung["applied"], warmup_steps=plan["warmup_steps"],
            timed_steps=plan["timed_steps"], tokens=pathlib.Path(workload["tokens"]), source=pathlib.Path(workload["data"]).name,
            **{name: workload[name] for name in ("model", "batch", "context", "accumulation", "seed", "threads")})
        one_of("peer", rung.get("peer", ""), MODES)
        one_of("model", run.model, SIZES)
        on_cuda, run.mode = run.recipe["device"] == "cuda", MODES[rung["peer"]]
        for field, allowed in {"device": ["cpu", "cuda"], "matmul_precision": ["highest", "high", "medium"],
                               "autocast": ["off", *DTYPES], "optimizer": ["loop", "foreach", "fused"],
                               "attention": ["manual", *BACKENDS] if on_cuda else ["manual", "math", "flash"],
                               "host_memory": ["release", "keep"]}.items():
            one_of(f"recipe field {field}", run.recipe[field], allowed)
        rows = run.recipe["vocabulary_rows"]
        run.positions = max(SIZES[run.model][3], workload.get("positions", 0))
        require(rows >= VOCABULARY, f"vocabulary_rows {rows} is not allowed; {VOCABULARY} or more are")
        require(1 <= run.context <= run.positions, f"context {run.context} is not allowed; 1 to {run.positions} are")
        least = LEAST_WARMUP[run.mode]
        require(run.warmup_steps >= least, f"warmup_steps {run.warmup_steps} is not allowed with peer {rung['peer']}, which prepares "
                f"in its first steps what the others run; {least} or more are")
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from error
    except KeyError as error:
        raise BadInput(f'{file}: run "{run_id}": the field {error} is missing') from error
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise BadInput(f"{file}: not a plan: {error}") from error
    require(not on_cuda or torch.cuda.is_available(), "device cuda is not available here")
    require(on_cuda or run.mode != "reduce-overhead", "peer pytorch-cuda-graphs needs device cuda")
    missing = compilers.obstacle(on_cuda) if run.mode is not None else ""
    require(not missing, missing)
    return run


def execute(run: types.SimpleNamespace, tell) -> dict:
    torch.set_num_threads(run.threads)
    torch.set_float32_matmul_precision(run.recipe["matmul_precision"])
    torch.use_deterministic_algorithms(run.recipe.get("deterministic", False))  # as model/precision.cpp
    if run.recipe.get("deterministic", False):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    tokens = load_tokens(run.tokens)
    if len(tokens) <= run.batch * run.context:
        raise BadInput(f"{run.tokens}: {len(tokens)} tokens; a batch of {run.batch} x {run.context} needs one more than that")
    backend = BACKENDS.get(run.recipe["attention"])
    with sdpa_kernel(backend) if backend is not None else contextlib.nullcontext():
        trainer = Trainer(run, tokens)
        timing = measure(trainer, run.warmup_steps, run.timed_steps, tell)
        memory = peak_memory(trainer.device)
        facts = observe(trainer)
    facts["peer"] = {"program": "PyTorch", "version": torch.__version__, "mode": run.mode or "eager"}
    faults = statistics.median(timing["page_faults"][run.warmup_steps :])
    proofs = [dict(zip(("field", "passed", "expected", "observed"), proof))
              for proof in prove(run, facts, faults, memory["peak_bytes"])]
    n_layer, _, C, _ = SIZES[run.model]
    parameters = (VOCABULARY + SIZES[run.model][3] + 2) * C + n_layer * (12 * C * C + 13 * C)
    per_step = run.batch * run.context * run.accumulation
    workload = {"model": run.model, "parameters": parameters, "batch": run.batch, "context": run.context,
                "accumulation": run.accumulation, "positions": run.positions, "tokens_per_step": per_step,
                "flops_per_step": per_step * (6.0 * parameters + 6.0 * n_layer * C * run.context), "seed": run.seed,
                "data": {"source": run.source, "tokens": len(tokens),
                         "sha256": hashlib.sha256(run.tokens.read_bytes()[1024:]).hexdigest()}}
    on_cuda = trainer.device.type == "cuda"
    return {"status": "ok", "recipe": run.recipe, "optimizations": run.applied, "workload": workload, "timing": timing,
            "flags": flags_of(timing), "monitor": {"unavailable": "only a runner watches the GPU" if on_cuda else "no step ran on a GPU"},
            "summary": summarize(timing["step_ms"][run.warmup_steps :], per_step), "memory": memory, "observations": facts,
            "proofs": proofs, "environment": environment(trainer.device)}


def out_of_memory(error: BaseException | None) -> str:
    """What was asked and what was there, if that is what the error, or one it came from, is about; else nothing."""
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError):
            sizes = re.search(r"Tried to allocate (.*?)\. .*?capacity of (.*?) of which (.*?) is free", str(error), re.S)
            return "asked for {0}; {2} of {1} were free".format(*sizes.groups()) if sizes else str(error).splitlines()[0]
        error = error.__cause__ or error.__context__
    return ""


def die_with_parent():
    """As in harness/process.cpp: also where the parent ended before this call, and nobody reads the pipe."""
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
        """The runner: steps done, of how many, and when to watch the GPU (ablations/run/peer_watch.h)."""
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
    temporary = flags.record.with_name(flags.record.name + ".tmp")
    with temporary.open("w") as file:
        json.dump(record, file, indent=1, sort_keys=True, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(flags.record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
