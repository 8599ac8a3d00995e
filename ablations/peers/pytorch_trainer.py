"""The training: the batches, the schedule and the step of model/, as a user of PyTorch would write them."""
import json
import math
import pathlib
import struct
import types

import torch
from pytorch_fp8 import use_fp8
from pytorch_gpt2 import GPT2, VOCABULARY
from torch import nn

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class BadInput(Exception):
    """An error message for the user, in one line."""


def load_tokens(path: pathlib.Path) -> torch.Tensor:
    """llm.c's token file as model/data.h describes it."""
    try:
        data = bytearray(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    if len(data) < 1024:
        raise BadInput(f"{path}: a token file begins with a header of 1024 bytes, got {len(data)} bytes")
    magic, version, count = struct.unpack_from("<3i", data)
    if (magic, version) != (20240520, 1):
        raise BadInput(f"{path}: the magic number and version must be 20240520 and 1, got {magic} and {version}")
    if count < 1 or len(data) != 1024 + 2 * count:
        raise BadInput(f"{path}: the header promises {count} tokens of 2 bytes, but {len(data) - 1024} bytes follow it")
    tokens = torch.frombuffer(data, dtype=torch.uint16, offset=1024)
    if len(bad := (tokens.int() >= VOCABULARY).nonzero()):
        raise BadInput(f"{path}: tokens must be between 0 and {VOCABULARY - 1}, got {int(tokens[bad[0]])} at position {int(bad[0])}")
    return tokens


def splitmix64(seed: int, n: int = 0) -> int:
    mask = 2**64 - 1
    z = (seed + (n + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
    return z ^ z >> 31


MOST_TIMES_LONGER = 8  # as in harness/clock/clock.h


class Batches:
    """Windows of B * T tokens one after another, or B random ones of T, as BatchLoader in model/data.h."""

    def __init__(self, tokens: torch.Tensor, B: int, T: int, seed: int, device: torch.device, count: int, random: bool):
        self.tokens, self.shape, self.window, self.device = tokens, (B, T), B * T, device
        self.random, self.seed, self.drawn = random, seed, 0
        self.position = splitmix64(seed) % ((len(tokens) - 1) // self.window) * self.window if seed != 0 else 0
        self.reserved = min(count, 64, 4 + 2**28 // (16 * self.window))
        self.reserve()

    def reserve(self):
        """PyTorch keeps freed pinned memory. To allocate it in a step may wait for the device (model/inputs.h). Recording a
        graph hands back what is free (torch/cuda/graphs.py)."""
        if self.device.type == "cuda":
            blocks = [torch.empty(self.shape, dtype=torch.int64, pin_memory=True) for _ in range(2 * self.reserved)]
            del blocks

    def next(self):
        if self.random:
            (B, T), first, self.drawn = self.shape, self.drawn, self.drawn + self.shape[0]
            at = [splitmix64(self.seed, first + b) % (len(self.tokens) - T) for b in range(B)]
            cut = [torch.stack([self.tokens[i + shift : i + shift + T] for i in at]).to(torch.int64) for shift in (0, 1)]
        else:
            cut = [self.tokens[i : i + self.window].to(torch.int64).view(self.shape) for i in (self.position, self.position + 1)]
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
        manual = run.attention == "manual"
        # What compiles makes one loop of the loss by itself.
        in_place_loss = recipe["cross_entropy"] == "in_place" and not run.mode
        residual = self.dtype if recipe["residual"] == "autocast" else torch.float32
        model = GPT2(run.model, recipe["vocabulary_rows"], run.positions, run.context, manual, run.seed, in_place_loss, residual)
        self.model = model.to(self.device)
        if run.fp8:
            use_fp8(self.model)
        if run.mode:
            # The key of compiled code on disk knows neither autocast's type nor which attention is enabled (pytorch/pytorch#185449).
            torch.compiler.config.cache_key_tag = json.dumps([recipe, run.fp8], sort_keys=True)
        self.compiled = torch.compile(self.model, mode=run.mode) if run.mode else self.model
        self.parameters = list(self.model.parameters())
        self.replays = run.mode in ("max-autotune", "reduce-overhead")
        # A replayed gradient lies in the graph's memory, and the next replay overwrites it. So micro-steps must add to
        # tensors of our own (pytorch/pytorch#169545).
        self.keep_gradients = self.replays and self.accumulation > 1
        if self.keep_gradients:
            for p in self.parameters:
                p.grad = torch.zeros_like(p)
        groups = [{"params": [p for p in self.parameters if p.dim() >= 2], "weight_decay": 0.1},
                  {"params": [p for p in self.parameters if p.dim() < 2], "weight_decay": 0.0}]
        kind = recipe["optimizer"]
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8, foreach=kind == "foreach", fused=kind == "fused")
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=recipe["autocast"] == "fp16")
        steps = run.warmup_steps + run.timed_steps * (MOST_TIMES_LONGER if run.least_window_s > 0 else 1) + 1
        batches = self.accumulation * steps
        self.batches = Batches(tokens, run.batch, run.context, run.seed, self.device, batches, run.random_windows)
        self.losses = torch.zeros(steps, device=self.device)

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
