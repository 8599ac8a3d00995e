"""Measures a run: its steps' times, as harness/clock/clock.cpp, and its memory, as ablations/gpt2/memory.cpp."""
import contextlib
import itertools
import math
import os
import pathlib
import re
import resource
import statistics
import time

import torch
from pytorch_proof import minor_faults
from pytorch_trainer import MOST_TIMES_LONGER, Trainer


def allocator_calls() -> dict:
    """How often PyTorch's allocator asked the device (AllocatorCalls in ablations/gpt2/memory.h)."""
    stats = torch.cuda.memory_stats()
    return {"allocations": stats["num_device_alloc"], "frees": stats["num_device_free"], "retries": stats["num_alloc_retries"]}


def events_of(steps: int, on_cuda: bool) -> list:
    """One before the first of these steps and one after each; recording an event makes it, which takes time."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)] if on_cuda else []
    for event in events:
        event.record()
    return events


def steps_to_last(least_ms: float, warmup_ms: list[float], timed_steps: int) -> int:
    step_ms = min(warmup_ms[len(warmup_ms) // 2 :], default=0)
    return min(max(math.ceil(least_ms / step_ms), timed_steps), MOST_TIMES_LONGER * timed_steps) if step_ms > 0 else timed_steps


def elapsed(events: list) -> list[float]:
    return [begin.elapsed_time(end) for begin, end in itertools.pairwise(events)]


def measure(trainer: Trainer, warmup_steps: int, timed_steps: int, least_window_ms: float, tell) -> tuple[dict, dict]:
    """(timing, memory). As harness/clock/clock.cpp: on a GPU an event between two steps, and no waiting between the first timed
    one and the last. The runner, told of the timed window, watches what goes on beside it (ablations/gpt2/watch.h)."""
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
            tell(f"{len(step_ms)} {max(len(step_ms), warmup_steps + timed_steps)}")

    warmup_events = events_of(warmup_steps, on_cuda)
    take_steps(warmup_steps, warmup_events)
    trainer.synchronize()
    if on_cuda and least_window_ms > 0:
        timed_steps = steps_to_last(least_window_ms, elapsed(warmup_events), timed_steps)
    timed_events = events_of(timed_steps, on_cuda)
    trainer.batches.reserve()
    calls_before = allocator_calls() if on_cuda else {}
    peak_before = None if trainer.replays else forget_peak(trainer.device)
    tell(f"window begins {os.getpid()}")
    window_start = time.perf_counter()
    take_steps(timed_steps, timed_events)
    trainer.synchronize()
    window_ms = 1e3 * (time.perf_counter() - window_start)
    tell("window ends")
    memory = peak_memory(trainer.device)
    if peak_before is not None:
        memory["run_peak_bytes"] = max(peak_before, memory["peak_bytes"])
    calls = {name: count - calls_before[name] for name, count in allocator_calls().items()} if on_cuda else None
    if on_cuda:
        step_ms = elapsed(warmup_events) + elapsed(timed_events)
    losses = [loss if math.isfinite(loss) else None for loss in trainer.losses[: trainer.steps].tolist()]
    return {"warmup_steps": warmup_steps, "step_ms": step_ms, "loss": losses, "page_faults": faults,
            "skipped_steps": trainer.skipped_steps(), "window_ms": window_ms,
            "device_ms": sum(step_ms[warmup_steps:]) if on_cuda else None, "allocator": calls,
            "processor_lost": None}, memory  # the runner knows what the processor lost


def summarize(step_ms: list[float], tokens_per_step: int) -> dict:
    q1, median, q3 = statistics.quantiles(step_ms, n=4, method="inclusive") if len(step_ms) > 1 else step_ms * 3
    return {"median_ms": median, "q1_ms": q1, "q3_ms": q3, "min_ms": min(step_ms), "max_ms": max(step_ms), "n": len(step_ms),
            "tokens_per_s": 1e3 * tokens_per_step / median}


def available_memory() -> str:
    kilobytes = re.search(r"MemAvailable:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return f"{int(kilobytes[1]) / 2**20:.2f} GiB of the host's memory were available" if kilobytes else "how much was there is not known"


def peak_memory(device: torch.device) -> dict:
    if device.type == "cuda":
        return {"peak_bytes": torch.cuda.max_memory_allocated(), "peak_source": "CUDA caching allocator, allocated bytes",
                "reserved_peak_bytes": torch.cuda.max_memory_reserved()}
    # getrusage's is its parent's where that was larger: what a kernel without VmHWM leaves.
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    found = re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)
    kib = int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"peak_bytes": kib * 1024, "peak_source": "resident set of the process"}


def forget_peak(device: torch.device) -> int:
    """The peak so far; peak_memory() begins anew. Where graphs are replayed, only their recording shows what they take."""
    peak = peak_memory(device)["peak_bytes"]
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with contextlib.suppress(OSError):  # the kernel has no such file: the peak stays
            pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak
