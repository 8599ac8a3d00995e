"""Observes what a run of pytorch_ladder.py did, and proves it against its recipe.

observe() reads facts off the process after the timed steps, under the names that results/observations.h gives them;
prove() checks each field of the recipe against them, as ablations/techniques does. What a compiled model runs is up to torch, so
its kernels are proven from one more step under torch's profiler.
"""

import collections
import contextlib
import ctypes
import math
import os
import re
import resource
import sys
import tempfile
import types

import pytorch_fp8
import torch
from pytorch_gpt2 import SIZES

TYPE_NAMES = {torch.float32: "Float", torch.bfloat16: "BFloat16", torch.float16: "Half", torch.float8_e4m3fn: "Float8_e4m3fn"}
AUTOCAST_TYPES = {"off": "Float", "bf16": "BFloat16", "fp16": "Half"}
# In a profile: the operation, and the forward kernel, which is all that shows of a replayed step.
FUSED_ATTENTION = {"efficient": (r"aten::_scaled_dot_product_efficient_attention", r".*fmha_cutlassF.*"),
                   "flash": (r"aten::_scaled_dot_product_flash_attention(_for_cpu)?", r".*flash_fwd_(splitkv_)?kernel.*"),
                   "cudnn": (r"aten::_scaled_dot_product_cudnn_attention", r"cudnn.*(fprop|fwd).*")}
SOFTMAX = ("SoftmaxBackward0", "SafeSoftmaxBackward0")  # written out; SDPA's math


def number_of(things: int, one: str) -> str:
    return f"{things} {one}{'' if things == 1 else 'es' if one.endswith('ch') else 's'}"


def minor_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


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
    """The error of a product against the CPU's in float64 shows in which precision it was made (sizes and thresholds:
    ablations/run/observe.cpp)."""
    size = 2048 if device.type == "cuda" else 512
    generator = torch.Generator().manual_seed(7)
    factors = [torch.empty(size, size).normal_(generator=generator) for _ in range(2)]
    a, b = (factor.to(device) for factor in factors)
    product = torch.empty(0)

    def multiply():
        nonlocal product
        with torch.no_grad(), autocast:
            product = a @ b

    calls = library_calls(multiply) if device.type == "cpu" else multiply() or {}
    exact = factors[0][:128].double() @ factors[1].double()
    error = float((product[:128].cpu().double() - exact).norm() / exact.norm())
    names = ((1.53e-5, "float32"), (1.36e-3, "tf32 or float16"), (1.51e-2, "bfloat16"))
    kernels = [name for name in sorted(calls) if "matmul" in name or "gemm" in name]
    return {"size": size, "relative_error": error if math.isfinite(error) else None,
            "precision": next((name for most, name in names if error <= most), "wrong"),
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


def kept_types(loss: torch.Tensor) -> dict:
    """What a compiled forward pass keeps for its backward pass, by number type: that shows what was really compiled."""
    kept = loss.grad_fn.saved_tensors if loss.grad_fn.name() == "CompiledFunctionBackward" else ()
    return dict(collections.Counter(TYPE_NAMES[x.dtype] for x in kept if x is not None and x.dtype in TYPE_NAMES))


def observe(trainer) -> dict:
    """Takes one more step of pytorch_trainer.Trainer, under the profiler, and then the logits of one more batch."""
    on_cuda = trainer.device.type == "cuda"
    nodes, kept, products, loss_of = [], [], None, trainer.loss
    activities = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * on_cuda
    profiler = torch.profiler.profile(activities=activities, acc_events=True)

    def watched_loss(inputs, targets):
        loss = loss_of(inputs, targets)
        nodes.append(backward_nodes(loss))
        kept.append(kept_types(loss))
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
    stream = collections.Counter()
    for module in trainer.model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.register_forward_hook(lambda _, inputs, output: stream.update(TYPE_NAMES[x.dtype] for x in (*inputs, output)))
    with torch.no_grad(), trainer.autocast():
        logits = trainer.model(trainer.batches.next()[0])  # not the compiled one, which would be compiled once more for this
    return {"parameters_device": str(trainer.parameters[0].device),
            "matmul_precision": torch.get_float32_matmul_precision(),
            "fingerprint": {"float32": fingerprint(trainer.device, contextlib.nullcontext()),
                            "autocast": fingerprint(trainer.device, trainer.autocast())},
            "logits": {"dtype": TYPE_NAMES[logits.dtype], "columns": logits.size(-1)},
            "residual": dict(stream),
            "compilation": compilation,
            "profile": dict(profile),
            "backward_nodes": nodes[0],
            "kept_for_backward": kept[0],
            "matrix_products": products,
            "refault": {"bytes": 64 << 20, "faults": refaults()}}


def prove(run: types.SimpleNamespace, facts: dict, faults_per_step: float, peak_bytes: int):
    """Yields (field, passed, expected, observed)."""
    recipe, profile, products, compiled = run.recipe, facts["profile"], facts["matrix_products"], run.mode is not None
    on_cuda, micro_layers = recipe["device"] == "cuda", SIZES[run.model][0] * run.accumulation
    replayed = on_cuda and run.mode in ("max-autotune", "reduce-overhead")

    def count(pattern: str, counts: dict = profile) -> int:
        return sum(calls for name, calls in counts.items() if re.fullmatch(pattern, name))

    def describe(made: dict) -> str:
        error = made["relative_error"]
        return f"error {'not finite' if error is None else f'{error:.1e}'}, {made['precision']}" + (f", by {made['kernel']}" if made["kernel"] else "")

    found = facts["parameters_device"]
    yield "device", found.startswith(recipe["device"]), f"parameters on {recipe['device']}", f"parameters on {found}"

    if not on_cuda:  # a GPU's tensors are not in host memory
        again, most = facts["refault"]["faults"], 0.01 * peak_bytes / 4096
        keeps = again <= 8 and faults_per_step <= most
        yield ("host_memory", keeps == (recipe["host_memory"] == "keep"),
               "64 MiB freed and allocated again stay mapped (at most 8 faults); a step faults in at most 1 % of the process's "
               f"pages ({most:.0f})" if recipe["host_memory"] == "keep" else
               f"freed memory faults in anew: 64 MiB, or more than {most:.0f} faults per step",
               f"{number_of(again, 'fault')} for 64 MiB allocated again; {faults_per_step:.0f} per step")

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
    if compiled:  # whose logits never leave the graph
        kept = facts["kept_for_backward"]
        asked = AUTOCAST_TYPES[recipe["autocast"]]
        good = good and asked in kept and kept.keys() <= {"Float", asked} | ({"Float8_e4m3fn"} if run.fp8 else set())
        words += f"; the compiled forward pass keeps {asked} for the backward pass"
    wanted = pytorch_fp8.PRODUCTS * (4 * micro_layers + run.accumulation) if run.fp8 else 0
    in_fp8 = count("aten::_scaled_mm")
    good = good and in_fp8 == wanted
    if run.fp8:
        words += f"; {wanted} products in fp8 in a step"
    yield ("autocast", good, words, f"logits {dtype}; product under autocast: {describe(made)}" +
           ("" if on_cuda else f"; {low} low-precision products in a step") +
           (f"; {in_fp8} products in fp8" if run.fp8 else "") +
           (f"; kept: {', '.join(f'{count} {name}' for name, count in sorted(kept.items()))}" if compiled else ""))

    fused = {kind: count(operation) or count(kernel) for kind, (operation, kernel) in FUSED_ATTENTION.items()}
    written_out = count("aten::bmm") if compiled else sum(facts["backward_nodes"].get(name, 0) for name in SOFTMAX)
    observed = ", ".join(f"{calls} {kind}" for kind, calls in fused.items() if calls) or "no fused attention"
    observed += f" in a step; {written_out} " + ("batched products" if compiled else "softmax nodes")
    calls = fused.pop(run.attention, 0)
    if run.attention in FUSED_ATTENTION:
        good, words = calls == micro_layers and written_out == 0, f"{micro_layers} {run.attention} in a step and no other"
    elif compiled:  # what a replayed graph multiplies has no name to go by
        good, words = written_out >= micro_layers or replayed, "no fused attention; queries, keys and values are multiplied"
    else:
        good, words = written_out == SIZES[run.model][0], f"no fused attention, {SIZES[run.model][0]} softmax nodes"
    yield "attention", good and not any(fused.values()), words, observed

    nodes = facts["backward_nodes"]
    aten, in_place = nodes.get("NllLossBackward0", 0), nodes.get("InPlaceCrossEntropyBackward", 0)
    alone = count(r"aten::(_?log_softmax|nll_loss|cross_entropy_loss).*")
    observed = f"{number_of(aten, 'node')} of ATen's loss, {in_place} of the one in place"
    if compiled:
        yield ("cross_entropy", alone + in_place == 0, "a step dispatches nothing of ATen's loss: it is compiled, too",
               f"{number_of(alone, 'operation')} of ATen's loss in a step")
    elif recipe["cross_entropy"] != "in_place":
        yield "cross_entropy", aten > 0 and in_place == 0, "ATen's nodes only", observed
    else:
        yield "cross_entropy", aten == 0 and in_place > 0, "nodes of the loss in place only", observed

    stream = AUTOCAST_TYPES[recipe["autocast"]] if recipe["residual"] == "autocast" else "Float"
    yield ("residual", [*facts["residual"]] == [stream], f"{stream} into and out of every LayerNorm",
           ", ".join(f"{number} {name}" for name, number in facts["residual"].items()) + " tensors of the residual stream")

    graphs, breaks = facts["compilation"]["graphs"], facts["compilation"]["graph_breaks"]
    regions, launches = count(r"Torch-Compiled Region.*"), count("cudaGraphLaunch")
    # Forward and backward are a graph each, or more of them.
    replays = launches >= 2 * run.accumulation if replayed else launches == 0
    yield ("execution", (graphs > 0 and breaks == 0 and regions > 0 if compiled else regions == 0) and replays,
           ("the model is compiled whole, without a graph break, and a step runs what was compiled" if compiled else
            "nothing compiled runs") + ("; graph launches replay its forward and its backward pass" if replayed else "; nothing is replayed"),
           f"{number_of(graphs, 'graph')} compiled, {number_of(breaks, 'graph break')}; {number_of(regions, 'compiled region')}, "
           f"{number_of(launches, 'graph launch')} in a step")

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
