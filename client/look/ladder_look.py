"""What a PyTorch program does in a step, as seen by PyTorch's profiler: one JSON object, written once.

LADDER_LOOK_STEPS=WARMUP+LOOKED says after how many steps of the optimizer it looks, and at how many (5+2). Counts are for one step.
An operation is one that no other operation called. In a compiled region only what PyTorch computes is one: most matrix products.
Products that a compiler's template computes (max-autotune) are only among the kernels. A product of a convolution counts once.
The time of a step, and how long the host waits for batches in it, is the mean over the steps of the warm-up but the first, before it looks.
ladder_sketch.py sketches the gradients of the first steps.
One process of rank 0 writes: the first that is done. If looking fails, the object has only "error", and the program goes on.
"""

import collections
import contextlib
import json
import os
import sys
import tempfile
import time
import traceback
import warnings

# Matrix products, and which input's type is told.
PRODUCTS = {"mm": 1, "bmm": 1, "mv": 1, "addmm": 2, "baddbmm": 2, "addbmm": 2, "addmv": 2, "_scaled_mm": 1, "_int_mm": 1,
            "_grouped_mm": 1, "_linear_pointwise": 1, "convolution": 1, "convolution_backward": 1}
TYPES = {"float": "float32", "double": "float64", "c10::BFloat16": "bfloat16", "c10::Half": "float16", "signed char": "int8",
         "unsigned char": "uint8", "int": "int32", "long int": "int64", "c10::complex<float>": "complex64"}
ATTENTION = "aten::_scaled_dot_product_"
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "CUBLAS_WORKSPACE_CONFIG",
             "NVIDIA_TF32_OVERRIDE")


class Look:
    def __init__(self, path, client, sketch):
        self.path, self.client, self.sketch, self.rounds, self.optimizers, self.times = path, client, sketch, 0, {}, {}
        self.warmup, self.looked = map(int, os.environ.get("LADDER_LOOK_STEPS", "5+2").split("+"))
        sketch.steps = min(sketch.steps, self.warmup)  # never while it looks

    def step(self, optimizer, round_ended):
        cuda = sys.modules["torch"].cuda
        if cuda.is_initialized() and cuda.is_current_stream_capturing():
            return
        self.optimizers[id(optimizer)] = optimizer
        self.rounds += round_ended
        self.sketch.after(optimizer)
        try:
            if self.sketch.mode:
                if self.sketch.is_done() or self.rounds > self.warmup:
                    self.end(dict)
            elif round_ended and self.rounds in (1, self.warmup, self.warmup + self.looked):
                self.end_round()
        except Exception as error:  # the program must go on
            self.handle.remove()
            traceback.print_exc()
            with contextlib.suppress(OSError):
                self.write({"error": f"{type(error).__name__}: {error}"})

    def end_round(self):
        if self.rounds in (1, self.warmup):
            self.times[self.rounds] = self.now()
        if self.rounds == 1 < self.warmup:
            return
        if self.rounds == self.warmup and self.may_write():
            self.begin()
        else:
            self.end(self.seen)

    def may_write(self):
        return self.client.rank() == 0 and not os.path.exists(self.path)

    def end(self, seen):
        self.handle.remove()
        if self.may_write():
            self.write({**seen(), "sketch": self.sketch.seen()})

    def now(self):
        """Once the device is done: seconds without those of sketches, and for how many batches were waited for."""
        cuda = sys.modules["torch"].cuda
        if cuda.is_initialized():
            cuda.synchronize()
        return time.monotonic() - self.sketch.seconds, self.client.waited()

    def waits(self):
        (begun, before), (ended, after) = self.times[1], self.times[self.warmup]
        steps = self.warmup - 1
        if steps == 0:
            return {}
        return {"step_ms": 1e3 * (ended - begun) / steps, "wait_ms_per_step": None if after is None else 1e3 * (after - (before or 0.0)) / steps}

    def begin(self):
        import torch
        kinds = torch.profiler.ProfilerActivity
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.profile = torch.profiler.profile(
                activities=[kinds.CPU] + [kinds.CUDA] * torch.cuda.is_available(), record_shapes=True, with_flops=True)
            self.profile.start()

    def seen(self):
        import torch
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        self.profile.stop()
        optimizers = list(self.optimizers.values())
        parameters = {id(one): one for optimizer in optimizers for group in optimizer.param_groups for one in group["params"]}.values()
        counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
        return {"torch": torch.__version__, "pid": os.getpid(), "looked_steps": self.looked,
                "devices": sorted({str(one.device) for one in parameters}),
                "gpu": torch.cuda.get_device_name() if torch.cuda.is_initialized() else None, **self.waits(),
                **of_events(self.profile.profiler.kineto_results.events(), self.looked),
                "compiled_graphs": counters.get("stats", {}).get("unique_graphs", 0),
                "graph_breaks": sum(counters.get("graph_break", {}).values()),
                "optimizers": [{"class": type(one).__name__, **{name: one.defaults.get(name) for name in ("fused", "foreach", "capturable")}}
                               for one in optimizers],
                "parameters": sum(one.numel() for one in parameters),
                "parameter_types": collections.Counter(str(one.dtype).replace("torch.", "") for one in parameters),
                "settings": settings(torch),
                "peak_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else None,
                "float32_made_in": float32_made_in(torch, {one.device.type for one in parameters})}

    def write(self, seen):
        """As a whole or not at all, and never over another process's."""
        file, name = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(self.path)))
        with open(file, "w") as written:
            json.dump({"look": 1, **seen}, written, indent=1)
        with contextlib.suppress(FileExistsError):
            os.link(name, self.path)
        os.unlink(name)


def of_events(events, steps):
    """Counts per step, by name: operations, matrix products, attention, kernels, launches of graphs; how the optimizer went about it."""
    operations, kernels, products, attention, regions, optimizer = (collections.Counter() for _ in range(6))
    launches, flops, latest = 0, 0, {}  # the type of each thread's latest product
    open_events = collections.defaultdict(list)  # those around an event, on its thread: end, name, whether an operation
    for event in sorted(events, key=lambda event: (event.start_ns(), -event.duration_ns())):
        name = event.name()
        if event.device_type().name != "CPU":
            if not event.is_user_annotation() and not name.startswith(("Memcpy", "Memset")):
                kernels[name] += 1
            continue
        around = open_events[event.start_thread_id()]
        while around and around[-1][0] <= event.start_ns():
            around.pop()
        space, _, operation = name.rpartition("::")
        is_operation = bool(space) and " " not in name and not name.startswith(("autograd::", "torch::"))
        if is_operation and not any(outer_is for _, _, outer_is in around):
            operations[name] += 1
            if any(outer.startswith("Optimizer.step#") for _, outer, _ in around):
                optimizer["fused" if "_fused_" in name else "foreach" if "_foreach_" in name else "loop"] += 1
        outer_product = next((outer for _, outer, _ in around if outer.rpartition("::")[2] in PRODUCTS), None)
        if is_operation and operation in PRODUCTS and outer_product in (None, name):
            if outer_product is None:
                flops += event.flops()
            else:  # autocast calls it again, with other types
                products[latest[event.start_thread_id()]] -= 1
            kind = (event.dtypes()[PRODUCTS[operation] :] or ["unknown"])[0]
            kind = latest[event.start_thread_id()] = TYPES.get(kind, kind.replace("c10::", "").lower())
            products[kind] += 1
        around.append((event.start_ns() + event.duration_ns(), name, is_operation))
        if "backward" not in name and (name.startswith(ATTENTION) or "flash_attn" in name):
            attention[name.replace(ATTENTION, "").replace("_attention", "")] += 1
        if name.startswith("Torch-Compiled Region"):
            regions[name] += 1
        launches += name == "cudaGraphLaunch"

    def per_step(counts):
        return {name: round(count / steps, 2) for name, count in sorted(counts.items()) if count}

    return {"compiled_regions": len(regions), "operations_per_step": round(sum(operations.values()) / steps, 2),
            "kernels_per_step": round(sum(kernels.values()) / steps, 2), "graph_launches_per_step": launches / steps,
            "products": per_step(products), "product_flops_per_step": flops / steps, "attention": per_step(attention),
            "optimizer_ran": next((way for way in ("fused", "foreach", "loop") if optimizer[way]), None),
            "operations": per_step(operations), "kernels": per_step(kernels)}


def float32_made_in(torch, devices):
    """The least exact number type in which products and convolutions of float32 are made on these devices now, by the error of one.

    Settings alone do not tell: "high" is TF32 on some processors and means nothing on others.
    """
    generator = torch.Generator("cpu").manual_seed(1)
    a, b = (torch.randn(256, 256, generator=generator, device="cpu", dtype=torch.float32) for _ in range(2))
    images, filters = a.view(8, 32, 16, 16), b[:36].reshape(32, 32, 3, 3)
    made = {}
    for name, inputs, operation in (("products", (a, b), torch.mm), ("convolutions", (images, filters), torch.nn.functional.conv2d)):
        error = 0.0
        for kind in devices - {"meta"}:
            with torch.no_grad(), torch.autocast(kind, enabled=False):
                exact, found = operation(*(one.double() for one in inputs)), operation(*(one.to(kind) for one in inputs))
                error = max(error, float((found.cpu().double() - exact).norm() / exact.norm()))
        # Inputs rounded to TF32 make it 2.8e-4, to bfloat16 eight times as much; sums in float32 2e-7.
        made[name] = "bfloat16" if error > 8e-4 else "tf32" if error > 2e-6 else "float32"
    return made


def settings(torch):
    asked = {"allow_tf32": lambda: torch.backends.cuda.matmul.allow_tf32, "cudnn_allow_tf32": lambda: torch.backends.cudnn.allow_tf32,
             "float32_matmul_precision": torch.get_float32_matmul_precision, "cudnn_benchmark": lambda: torch.backends.cudnn.benchmark,
             "deterministic": torch.are_deterministic_algorithms_enabled, "threads": torch.get_num_threads,
             **{name: lambda name=name: os.environ.get(name) for name in VARIABLES}}
    told = {}
    for name, ask in asked.items():
        try:
            told[name] = ask()
        except RuntimeError as error:  # PyTorch refuses where old and new ways to set TF32 are mixed
            told[name] = str(error).splitlines()[0]
    return told
