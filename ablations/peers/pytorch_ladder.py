"""pytorch_ladder.py --plan PLAN --run ID --record FILE: one run of a study in plain PyTorch, what a user would pick instead.

Same model, weights, batches, optimizer and record as `ladder run`, so that the two may stand in one table; it needs nothing
but torch. The rung's recipe says what is computed, its `peer` how: eagerly, or by torch.compile in one of its modes. The
surprising thing: a compiled model is as fast as torch makes it, so what its graph is made of is proven from one more step
under torch's profiler, after the timed ones.
"""

import argparse
import collections
import contextlib
import ctypes
import hashlib
import json
import math
import os
import pathlib
import platform
import re
import resource
import select
import shutil
import signal
import statistics
import struct
import sys
import tempfile
import time
import types

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

VOCABULARY = 50257
SIZES = {  # layers, heads, channels, positions
    "gpt2-124m": (12, 12, 768, 1024),
    "gpt2-355m": (24, 16, 1024, 1024),
    "gpt2-774m": (36, 20, 1280, 1024),
    "gpt2-1558m": (48, 25, 1600, 1024),
    "tiny": (2, 2, 32, 64),
}
MODES = {"pytorch-eager": None, "pytorch-compile": "default", "pytorch-max-autotune": "max-autotune",
         "pytorch-cuda-graphs": "reduce-overhead"}  # of torch.compile
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
TYPE_NAMES = {torch.float32: "Float", torch.bfloat16: "BFloat16", torch.float16: "Half"}
BACKENDS = {"math": SDPBackend.MATH, "efficient": SDPBackend.EFFICIENT_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
            "cudnn": SDPBackend.CUDNN_ATTENTION}
# In a profile: the operation, and the forward kernel, which is all that shows of a replayed step.
FUSED_ATTENTION = {"efficient": (r"aten::_scaled_dot_product_efficient_attention", r".*fmha_cutlassF.*"),
                   "flash": (r"aten::_scaled_dot_product_flash_attention(_for_cpu)?", r".*flash_fwd_(splitkv_)?kernel.*"),
                   "cudnn": (r"aten::_scaled_dot_product_cudnn_attention", r"cudnn.*(fprop|fwd).*")}
SOFTMAX = ("SoftmaxBackward0", "SafeSoftmaxBackward0")  # written out; SDPA's math


class BadInput(Exception):
    """What the user is told, in one line."""


# The model


class Attention(nn.Module):
    def __init__(self, C: int, n_head: int, manual: bool):
        super().__init__()
        self.n_head, self.manual = n_head, manual
        self.c_attn = nn.Linear(C, 3 * C)
        self.c_proj = nn.Linear(C, C)

    def forward(self, x, future):  # (B, T, C); (T, T), true where attention must not look
        B, T, C = x.shape
        q, k, v = (y.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for y in self.c_attn(x).split(C, dim=-1))
        if self.manual:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(q.size(-1)))  # (B, NH, T, T)
            y = F.softmax(scores.masked_fill(future, -math.inf), dim=-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


class MLP(nn.Module):
    def __init__(self, C: int):
        super().__init__()
        self.c_fc = nn.Linear(C, 4 * C)
        self.c_proj = nn.Linear(4 * C, C)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, C: int, n_head: int, manual: bool):
        super().__init__()
        self.ln_1 = nn.LayerNorm(C)
        self.attn = Attention(C, n_head, manual)
        self.ln_2 = nn.LayerNorm(C)
        self.mlp = MLP(C)

    def forward(self, x, future):
        x = x + self.attn(self.ln_1(x), future)
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    def __init__(self, model: str, rows: int, positions: int, context: int, manual: bool, seed: int):
        super().__init__()
        n_layer, n_head, C, published = SIZES[model]
        self.wte = nn.Embedding(rows, C)  # also the head
        self.wpe = nn.Embedding(positions, C)
        self.h = nn.ModuleList(Block(C, n_head, manual) for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(C)
        future = torch.ones(context, context, dtype=torch.bool).triu(1) if manual else None
        self.register_buffer("future", future, persistent=False)
        self.draw_weights(seed, published)

    @torch.no_grad()
    def draw_weights(self, seed: int, published: int):
        """As model/gpt2.cpp, to the bit: rows beyond the published model's come from generators of their own."""
        generator = torch.Generator().manual_seed(seed)
        for name, p in self.named_parameters():
            if p.dim() < 2:
                nn.init.constant_(p, 1.0 if re.search(r"ln_\w+\.weight$", name) else 0.0)
                continue
            std = 0.02 / math.sqrt(2.0 * len(self.h)) if name.endswith("c_proj.weight") else 0.02
            own = {"wte.weight": VOCABULARY, "wpe.weight": published}.get(name, len(p))
            # Into new tensors: what normal_ draws depends on a tensor's size.
            p[:own] = torch.empty_like(p[:own]).normal_(0.0, std, generator=generator)
            if own < len(p):
                more = torch.Generator().manual_seed(seed + (1 if name == "wte.weight" else 2))
                p[own:] = torch.empty_like(p[own:]).normal_(0.0, std, generator=more)

    def forward(self, tokens, targets=None):
        """The mean loss, or without targets the logits."""
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.h:
            x = block(x, self.future)
        logits = F.linear(self.ln_f(x), self.wte.weight)  # (B, T, V)
        return logits if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


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

    def __init__(self, tokens: torch.Tensor, B: int, T: int, seed: int, device: torch.device):
        self.tokens, self.shape, self.window, self.device = tokens, (B, T), B * T, device
        self.position = splitmix64(seed) % ((len(tokens) - 1) // self.window) * self.window if seed != 0 else 0

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
        self.batches = Batches(tokens, run.batch, run.context, run.seed, self.device)
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


def minor_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def processor_time() -> tuple[float, float]:
    """How many seconds this process's threads ran, and waited for a processor (harness/processor_time.h)."""
    ran = waited = 0
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError, ValueError):  # a thread that has ended, a kernel that does not count
            thread_ran, thread_waited, _ = map(int, (task / "schedstat").read_text().split())
            ran, waited = ran + thread_ran, waited + thread_waited
    return ran * 1e-9, waited * 1e-9


def share_lost(begin: tuple[float, float], end: tuple[float, float], window_s: float) -> float | None:
    threads, cores = torch.get_num_threads(), len(os.sched_getaffinity(0))
    if end[0] == 0:
        return None
    lost = min(end[1] - begin[1], window_s * cores - (end[0] - begin[0]))
    return min(max(lost / (window_s * min(threads, cores)), 0.0), 1.0)


def measure(trainer: Trainer, warmup_steps: int, timed_steps: int, on_step) -> dict:
    """As harness/clock.cpp: on a GPU a pair of events around each step, and no waiting between the first and the last."""
    on_cuda = trainer.device.type == "cuda"
    step_ms, faults, events = [], [], []
    for step in range(warmup_steps + timed_steps):
        if step == warmup_steps:
            trainer.synchronize()
            processor_before = processor_time()
            window_start = time.perf_counter()
        faults_before, start = minor_faults(), time.perf_counter()
        if on_cuda:
            events.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
            events[-1][0].record()
        trainer.step()
        if on_cuda:
            events[-1][1].record()
        step_ms.append(1e3 * (time.perf_counter() - start))
        faults.append(minor_faults() - faults_before)
        on_step(step + 1)
    trainer.synchronize()
    window_ms = 1e3 * (time.perf_counter() - window_start)
    lost = None if on_cuda else share_lost(processor_before, processor_time(), 1e-3 * window_ms)
    if on_cuda:
        step_ms = [begin.elapsed_time(end) for begin, end in events]
    losses = [loss if math.isfinite(loss) else None for loss in trainer.losses[: trainer.steps].tolist()]
    return {"warmup_steps": warmup_steps, "step_ms": step_ms, "loss": losses, "page_faults": faults, "window_ms": window_ms,
            "device_ms": sum(step_ms[warmup_steps:]) if on_cuda else None, "processor_lost": lost}


def summarize(step_ms: list[float], tokens_per_step: int) -> dict:
    q1, median, q3 = statistics.quantiles(step_ms, n=4, method="inclusive") if len(step_ms) > 1 else step_ms * 3
    return {"median_ms": median, "q1_ms": q1, "q3_ms": q3, "min_ms": min(step_ms), "max_ms": max(step_ms), "n": len(step_ms),
            "tokens_per_s": 1e3 * tokens_per_step / median}


def peak_memory(device: torch.device) -> dict:
    if device.type == "cuda":
        return {"peak_bytes": torch.cuda.max_memory_allocated(), "peak_source": "CUDA caching allocator, allocated bytes",
                "reserved_peak_bytes": torch.cuda.max_memory_reserved()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"peak_bytes": peak, "peak_source": "resident set of the process"}


# Observing: facts read off the process after the timed steps, under the names that ablations/observe.h gives them


def library_calls(work) -> dict:
    """Which CPU library multiplied: MKL's and oneDNN's own logs of `work`, which go to standard output, counted."""
    sys.stdout.flush()
    original = os.dup(1)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        try:
            with torch.backends.mkl.verbose(1), torch.backends.mkldnn.verbose(1):
                work()
        finally:
            ctypes.CDLL(None).fflush(None)
            os.dup2(original, 1)
            os.close(original)
        log.seek(0)
        text = log.read().decode()
    calls = collections.Counter("mkl " + name.lower() for name in re.findall(r"^MKL_VERBOSE (\w+)\(", text, re.M))
    onednn = r"^onednn_verbose,[^,]*,primitive,exec,[^,]*,([^,]*),([^,]*),[^,]*,[^,]*?src:(\w+)"
    calls.update(f"onednn {primitive} {dtype} ({kernel})" for primitive, kernel, dtype in re.findall(onednn, text, re.M))
    return dict(calls)


def fingerprint(device: torch.device, autocast) -> dict:
    """The error of a product against float64 tells in which precision it was made (thresholds: ablations/observe.cpp)."""
    generator = torch.Generator().manual_seed(7)
    a, b = (torch.empty(512, 512).normal_(generator=generator).to(device) for _ in range(2))
    product = torch.empty(0)

    def multiply():
        nonlocal product
        with torch.no_grad(), autocast:
            product = a @ b

    calls = library_calls(multiply) if device.type == "cpu" else multiply() or {}
    exact = a.double() @ b.double()
    error = float((product.double() - exact).norm() / exact.norm())
    names = ((1e-5, "float32"), (9e-4, "tf32 or float16"), (1e-2, "bfloat16"))
    kernels = [name for name in sorted(calls) if "matmul" in name or "gemm" in name]
    return {"relative_error": error, "precision": next((name for most, name in names if error <= most), "less"),
            "kernel": kernels[-1] if kernels else None}


def refaults() -> int:
    """Page faults when 64 MiB are freed and allocated again: the least of five rounds, each a little smaller."""
    faults = []
    for i in range(5):
        before = minor_faults()
        torch.empty((64 << 20) - i * 65536, dtype=torch.uint8).fill_(i)
        faults.append(minor_faults() - before)
    return min(faults)


def backward_nodes(loss: torch.Tensor) -> dict:
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return dict(collections.Counter(node.name() for node in seen))


def observe(trainer: Trainer) -> dict:
    """Takes one more step, under the profiler, and then the logits of one more batch."""
    on_cuda = trainer.device.type == "cuda"
    nodes, products, loss_of = [], None, trainer.loss
    activities = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * on_cuda
    profiler = torch.profiler.profile(activities=activities, acc_events=True)

    def watched_loss(inputs, targets):
        loss = loss_of(inputs, targets)
        nodes.append(backward_nodes(loss))
        return loss

    def profiled_step():
        with profiler:
            trainer.step()
            trainer.synchronize()

    trainer.loss = watched_loss
    if on_cuda:
        profiled_step()
    else:
        products = library_calls(profiled_step)
    trainer.loss = loss_of
    profile = collections.Counter()
    for event in profiler.key_averages():
        profile[event.key[:120]] += event.count  # the names of kernels can be pages long
    compilation = {"graphs": 0, "graph_breaks": 0, "compile_s": 0.0}
    if "torch._dynamo" in sys.modules:
        counters = torch._dynamo.utils.counters
        compilation = {"graphs": counters["stats"]["unique_graphs"], "graph_breaks": sum(counters["graph_break"].values()),
                       "compile_s": torch._dynamo.utils.calculate_time_spent()["total_wall_time"]}
    with torch.no_grad(), trainer.autocast():
        logits = trainer.compiled(trainer.batches.next()[0])
    return {"parameters_device": str(trainer.parameters[0].device),
            "matmul_precision": torch.get_float32_matmul_precision(),
            "fingerprint": {"float32": fingerprint(trainer.device, contextlib.nullcontext()),
                            "autocast": fingerprint(trainer.device, trainer.autocast())},
            "logits": {"dtype": TYPE_NAMES[logits.dtype], "columns": logits.size(-1)},
            "compilation": compilation,
            "profile": dict(profile),
            "backward_nodes": nodes[0],
            "matrix_products": products,
            "refault": {"bytes": 64 << 20, "faults": refaults()},
            "skipped_steps": trainer.skipped_steps()}


# Proving: each field of the recipe against what was observed, as ablations/proof.cpp


def prove(run: types.SimpleNamespace, facts: dict, faults_per_step: float, peak_bytes: int):
    """Yields (field, passed, expected, observed)."""
    recipe, profile, products, compiled = run.recipe, facts["profile"], facts["matrix_products"], run.mode is not None
    on_cuda, micro_layers = recipe["device"] == "cuda", SIZES[run.model][0] * run.accumulation
    replayed = on_cuda and run.mode in ("max-autotune", "reduce-overhead")

    def count(pattern: str, counts: dict = profile) -> int:
        return sum(calls for name, calls in counts.items() if re.fullmatch(pattern, name))

    def describe(made: dict) -> str:
        return f"error {made['relative_error']:.1e}, {made['precision']}" + (f", by {made['kernel']}" if made["kernel"] else "")

    found = facts["parameters_device"]
    yield "device", found.startswith(recipe["device"]), f"parameters on {recipe['device']}", f"parameters on {found}"

    if not on_cuda:  # a GPU's tensors are not in host memory
        again, most = facts["refault"]["faults"], 0.01 * peak_bytes / 4096
        keeps = again <= 8 and faults_per_step <= most
        yield ("host_memory", keeps == (recipe["host_memory"] == "keep"),
               "64 MiB freed and allocated again stay mapped (at most 8 faults); a step faults in at most 1 % of the process's "
               f"pages ({most:.0f})" if recipe["host_memory"] == "keep" else
               f"freed memory faults in anew: 64 MiB, or more than {most:.0f} faults per step",
               f"{again} faults for 64 MiB allocated again; {faults_per_step:.0f} faults per step")

    wanted, read_back, made = recipe["matmul_precision"], facts["matmul_precision"], facts["fingerprint"]["float32"]
    good, words = {
        "highest": (made["precision"] == "float32", "has float32's error"),
        "high": (made["precision"] == "tf32 or float16", "has TF32's error"),
        "medium": ((made["kernel"] or "").startswith("onednn matmul"), "is oneDNN's (its error tells in which precision)")}[wanted]
    yield ("matmul_precision", good and read_back == wanted, f"ATen says {wanted}; a float32 product {words}",
           f"ATen says {read_back}; float32 product: {describe(made)}")

    dtype, made = facts["logits"]["dtype"], facts["fingerprint"]["autocast"]
    low = count(r"onednn (matmul|inner_product) b?f16.*|mkl gemm_bf16.*", products or {})
    good, words = {
        "off": (dtype == "Float" and low == 0, "logits Float; no low-precision product in a step"),
        "bf16": (dtype == "BFloat16" and made["precision"] == "bfloat16" and (on_cuda or low > 0),
                 "logits BFloat16; a product under autocast has bfloat16's error; a step makes low-precision products"),
        "fp16": (dtype == "Half" and made["precision"] == "tf32 or float16",
                 "logits Half; a product under autocast has float16's error")}[recipe["autocast"]]
    yield ("autocast", good, words, f"logits {dtype}; product under autocast: {describe(made)}" +
           ("" if on_cuda else f"; {low} low-precision products in a step"))

    fused = {kind: count(operation) or count(kernel) for kind, (operation, kernel) in FUSED_ATTENTION.items()}
    written_out = count("aten::bmm") if compiled else sum(facts["backward_nodes"].get(name, 0) for name in SOFTMAX)
    observed = ", ".join(f"{calls} {kind}" for kind, calls in fused.items() if calls) or "no fused attention"
    observed += f" in a step; {written_out} " + ("batched products" if compiled else "softmax nodes")
    calls = fused.pop(recipe["attention"], 0)
    if recipe["attention"] in FUSED_ATTENTION:
        good, words = calls == micro_layers and written_out == 0, f"{micro_layers} {recipe['attention']} in a step and no other"
    elif compiled:  # what a replayed graph multiplies has no name to go by
        good, words = written_out >= micro_layers or replayed, "no fused attention; queries, keys and values are multiplied"
    else:
        good, words = written_out == SIZES[run.model][0], f"no fused attention, {SIZES[run.model][0]} softmax nodes"
    yield "attention", good and not any(fused.values()), words, observed

    graphs, breaks = facts["compilation"]["graphs"], facts["compilation"]["graph_breaks"]
    regions, launches = count(r"Torch-Compiled Region.*"), count("cudaGraphLaunch")
    yield ("execution", (graphs > 0 and breaks == 0 and regions > 0 if compiled else regions == 0) and (launches > 0) == replayed,
           ("the model is compiled whole, without a graph break, and a step runs what was compiled" if compiled else
            "nothing compiled runs") + ("; graph launches replay it" if replayed else "; nothing is replayed"),
           f"{graphs} graphs compiled, {breaks} graph breaks; {regions} compiled regions, {launches} graph launches in a step")

    rows, columns = recipe["vocabulary_rows"], facts["logits"]["columns"]
    yield "vocabulary_rows", columns == rows, f"{rows} columns of logits", f"{columns} columns of logits"

    fused, foreach, single = map(count, ("aten::_fused_adamw_", "aten::_foreach_addcdiv_", "aten::addcdiv_"))
    good, words = {
        "loop": (fused == 0 and foreach == 0 and single > 2, "one addcdiv_ per tensor, nothing fused"),
        "foreach": (fused == 0 and foreach == 2, "one _foreach_addcdiv_ per parameter group, nothing fused"),
        "fused": (fused == 2 and foreach == 0 and single == 0, "one _fused_adamw_ per parameter group, nothing else"),
    }[recipe["optimizer"]]
    yield "optimizer", good, words, f"{fused} _fused_adamw_, {foreach} _foreach_addcdiv_, {single} addcdiv_ in a step"

    on, wanted = torch.are_deterministic_algorithms_enabled(), recipe.get("deterministic", False)
    yield ("deterministic", on == wanted, *(f"PyTorch's deterministic algorithms are {'on' if value else 'off'}"
                                            for value in (wanted, on)))


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
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from error
    except KeyError as error:
        raise BadInput(f'{file}: run "{run_id}": the field {error} is missing') from error
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise BadInput(f"{file}: not a plan: {error}") from error
    require(not on_cuda or torch.cuda.is_available(), "device cuda is not to be had here")
    require(on_cuda or run.mode != "reduce-overhead", "peer pytorch-cuda-graphs needs device cuda")
    compiler = os.environ.get("CXX", "g++")
    require(run.mode is None or on_cuda or shutil.which(compiler) is not None,
            f"torch.compile needs a C++ compiler, and {compiler} is not there: install g++, or name another with CXX")
    return run


def execute(run: types.SimpleNamespace, on_step) -> dict:
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
        timing = measure(trainer, run.warmup_steps, run.timed_steps, on_step)
        memory = peak_memory(trainer.device)
        facts = observe(trainer)
    facts["peer"] = {"program": "PyTorch", "version": torch.__version__, "mode": run.mode or "eager"}
    faults = statistics.median(timing["page_faults"][run.warmup_steps :])
    proofs = [dict(zip(("field", "passed", "expected", "observed"), proof))
              for proof in prove(run, facts, faults, memory["peak_bytes"])]
    n_layer, _, C, _ = SIZES[run.model]
    parameters = (VOCABULARY + run.positions + 2) * C + n_layer * (12 * C * C + 13 * C)
    per_step = run.batch * run.context * run.accumulation
    workload = {"model": run.model, "parameters": parameters, "batch": run.batch, "context": run.context,
                "accumulation": run.accumulation, "positions": run.positions, "tokens_per_step": per_step,
                "flops_per_step": per_step * (6.0 * parameters + 6.0 * n_layer * C * run.context), "seed": run.seed,
                "data": {"source": run.source, "tokens": len(tokens),
                         "sha256": hashlib.sha256(run.tokens.read_bytes()[1024:]).hexdigest()}}
    lost = timing["processor_lost"] or 0
    flags = [f"shared: the processor was busy with something else for {100 * lost:.0f} % of the time"] if lost > 0.1 else []
    return {"status": "ok", "recipe": run.recipe, "optimizations": run.applied, "workload": workload, "timing": timing,
            "flags": flags, "monitor": {"unavailable": "PyTorch's runs are not watched"},
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

    def on_step(step: int):
        if flags.report_steps_to_parent:
            os.write(3, f"{step} {run.warmup_steps + run.timed_steps}\n".encode())

    try:
        if flags.report_steps_to_parent:
            die_with_parent()
        run = planned_run(flags.plan, flags.run)
        if not os.access(flags.record.absolute().parent, os.W_OK):
            raise BadInput(f"--record {flags.record}: its folder cannot be written")
        result = execute(run, on_step)
    except BadInput as error:
        print(f"pytorch_ladder.py: {error}", file=sys.stderr)
        return 2
    except Exception as error:
        if not (message := out_of_memory(error)):
            raise
        result = {"status": "failed", "failure": {"kind": "out_of_memory", "message": message}}
    record = {"kind": "record", "schema_version": 1, "id": run.id, "started": started,
              "duration_s": time.monotonic() - start, **result}
    temporary = flags.record.with_name(flags.record.name + ".part")
    with temporary.open("w") as file:
        json.dump(record, file, indent=1, sort_keys=True, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(flags.record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
