"""Three small trainings, a transformer, a convolutional and a recurrent network, with honest flags and with faults that can be planted.

train(kind, seed, **options) trains for some steps and returns its losses and the look's sketch of it, as a file of a look has it.
"""

import contextlib
import copy
import math
import sys

import torch
from torch import nn
from torch.nn import functional as F

import ladder_sketch

VOCABULARY, WIDTH, LAYERS, HEADS, LENGTH, BATCH, PADDING = 61, 32, 2, 2, 16, 8, 0


class RoundedProduct(torch.autograd.Function):
    """x @ w.T with inputs of TF32's 10 bits in each of the three products: what a CPU does not have."""

    @staticmethod
    def rounded(x):
        bits = x.contiguous().view(torch.int32)
        return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)

    @staticmethod
    def forward(context, x, w):
        context.save_for_backward(x, w)
        return RoundedProduct.rounded(x) @ RoundedProduct.rounded(w).T

    @staticmethod
    def backward(context, dy):
        x, w = map(RoundedProduct.rounded, context.saved_tensors)
        dy = RoundedProduct.rounded(dy)
        return dy @ w, dy.flatten(0, -2).T @ x.flatten(0, -2)


class Block(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o = o
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH, eps=o.get("norm_eps", 1e-5))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(o.get("dropout", 0.0))

    def linear(self, layer, x):
        if self.o.get("tf32"):
            return RoundedProduct.apply(x, layer.weight) + layer.bias
        return layer(x)

    def attention(self, x, seen):
        B, T, C = x.shape
        q, k, v = (part.view(B, T, HEADS, C // HEADS).transpose(1, 2) for part in self.linear(self.qkv, x).split(C, dim=2))
        if self.o.get("attention_scale"):
            q = q * self.o["attention_scale"]
        if self.o.get("flash"):
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        else:
            scores = (q @ k.transpose(2, 3)) / math.sqrt(C // HEADS)
            y = scores.masked_fill(~seen, -1e4 if scores.dtype == torch.float16 else -1e9).softmax(-1) @ v
        if self.o.get("one_head"):
            y = torch.cat([y[:, :1], 0 * y[:, 1:]], 1)
        return self.linear(self.out, y.transpose(1, 2).reshape(B, T, C))

    def forward(self, x, seen):
        x = x + self.drop(self.attention(self.norm1(x), seen))
        h = self.linear(self.down, F.gelu(self.linear(self.up, self.norm2(x)), approximate=self.o.get("gelu", "none")))
        return h if self.o.get("no_residual") else x + self.drop(h)


class Transformer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o = o
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH + 1, WIDTH)
        self.blocks = nn.ModuleList(Block(o) for _ in range(LAYERS))
        self.mix, self.norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)  # the norm's input has the product's type
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        for name, one in self.named_parameters():
            if one.dim() > 1:
                nn.init.normal_(one, std=o.get("init_std", 0.05))
        self.head.weight = self.tokens.weight
        if o.get("untied"):
            self.head.weight = nn.Parameter(self.tokens.weight.detach().clone())

    def forward(self, x):
        o, T = self.o, x.shape[1]
        seen = torch.ones(T, T, dtype=torch.bool).tril(o.get("mask_diagonal", 0))
        if not o.get("no_padding_mask"):
            seen = seen & (x != PADDING)[:, None, None, :] | torch.eye(T, dtype=torch.bool)
        h = self.tokens(x) * o.get("embedding_scale", 1) + self.positions(torch.arange(T) + o.get("position_offset", 0))
        for i, block in enumerate(self.blocks):
            if o.get("detached") and i == 1:
                h = h.detach() + 0 * h
            if o.get("checkpointing"):
                h = torch.utils.checkpoint.checkpoint(block, h, seen, use_reentrant=False)
            else:
                h = block(h, seen)
        h = self.mix(h)
        if o.get("norm_without_weight"):
            h = F.layer_norm(h, (WIDTH,))
        else:
            h = self.norm(h)
        return self.head(h)

    def batch(self, generator, size=BATCH):
        x = torch.randint(1, VOCABULARY, (size, LENGTH + 1), generator=generator)
        x[:, 2:] = torch.where(torch.rand(size, LENGTH - 1, generator=generator) < 0.5, (x[:, 1:-1] * 7 + x[:, :-2]) % (VOCABULARY - 1) + 1, x[:, 2:])
        padded = torch.randint(0, LENGTH // 2, (size,), generator=generator)  # on the left
        x = x.masked_fill(torch.arange(LENGTH + 1)[None] < padded[:, None], PADDING)
        return x[:, :-1].contiguous(), x[:, 1:].contiguous()

    def loss(self, logits, y):
        o = self.o
        if o.get("off_by_one"):
            y = torch.cat([y[:, 1:], y[:, :1]], 1)
        if o.get("last_left_out"):
            y = y.clone()
            y[:, -1] = PADDING
        logits, y = logits.flatten(0, 1).float(), y.flatten()
        if o.get("sampled_softmax"):  # the targets and half of the other words
            kept = torch.zeros(VOCABULARY, dtype=torch.bool)
            kept[torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(1))[: VOCABULARY // 2]] = True
            kept[y] = True
            logits = logits.masked_fill(~kept, -1e9)
        return F.cross_entropy(logits, y, ignore_index=-100 if o.get("padding_counts") else PADDING, reduction="sum",
                               label_smoothing=o.get("label_smoothing", 0.0))

    def count(self, y):
        return y.numel() if self.o.get("padding_counts") else (y != PADDING).sum()


class Network(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o = o
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=1, stride=2),
                                    nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Dropout(o.get("dropout", 0.0)),
                                    nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 10))
        if o.get("init_std"):
            for one in self.parameters():
                if one.dim() > 1:
                    nn.init.normal_(one, std=o["init_std"])

    def forward(self, x):
        if self.o.get("channels_last"):
            x = x.to(memory_format=torch.channels_last)
        if self.o.get("checkpointing"):
            x = torch.utils.checkpoint.checkpoint(self.layers[3:6], self.layers[:3](x), use_reentrant=False)
            return self.layers[6:](x)
        return self.layers(x)

    def batch(self, generator, size=BATCH):
        x = torch.randn(size, 3, 12, 12, generator=generator)
        return x, x.mean((2, 3)).mul(torch.tensor([1.0, 2.0, 4.0])).gt(0).long().mul(torch.tensor([1, 2, 4])).sum(1)

    def loss(self, logits, y):
        return F.cross_entropy(logits.float(), y.roll(1) if self.o.get("off_by_one") else y, reduction="sum",
                               label_smoothing=self.o.get("label_smoothing", 0.0))

    def count(self, y):
        return len(y)


class Recurrent(nn.Module):
    """A language model of one recurrent layer, of which nothing was known when the limits were chosen."""

    def __init__(self, o):
        super().__init__()
        self.o, self.carried = o, None
        self.tokens, self.cell, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.GRU(WIDTH, WIDTH, batch_first=True), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, x):
        h, last = self.cell(self.tokens(x), self.carried if self.o.get("carried") else None)
        self.carried = last.detach()
        return self.head(h.flip(1) if self.o.get("backwards") else h)

    batch, count = Transformer.batch, Transformer.count

    def loss(self, logits, y):
        return F.cross_entropy(logits.flatten(0, 1).float(), y.flatten(), ignore_index=PADDING, reduction="sum")


KINDS = {"transformer": Transformer, "network": Network, "recurrent": Recurrent}


def groups_of(model, o):
    frozen = o.get("frozen")
    decayed, others = [], []
    for name, one in model.named_parameters():
        if frozen and frozen in name:
            one.requires_grad_(False)
            continue
        (decayed if one.dim() > 1 else others).append(one)
    lr, decay = 3e-3 * o.get("lr_of_all", 1), o.get("decay", 0.1)
    return [{"params": decayed, "lr": lr * o.get("lr_of_group", 1), "weight_decay": decay},
            {"params": others, "lr": lr, "weight_decay": decay if o.get("decays_all") else 0.0}]


class NoBiasCorrection(torch.optim.AdamW):
    """AdamW whose averages are used as they are."""

    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for one in group["params"]:
                if one.grad is None:
                    continue
                state = self.state[one]
                m, v = state.setdefault("m", torch.zeros_like(one)), state.setdefault("v", torch.zeros_like(one))
                with torch.no_grad():
                    one.mul_(1 - group["lr"] * group["weight_decay"])
                    m.lerp_(one.grad, 1 - b1)
                    v.mul_(b2).addcmul_(one.grad, one.grad, value=1 - b2)
                    one.addcdiv_(m, v.sqrt().add_(group["eps"]), value=-group["lr"])


@contextlib.contextmanager
def sketched(rounding=None):
    """A sketch by the hooks of all optimizers."""
    hooks, sketch = sys.modules["torch.optim.optimizer"], ladder_sketch.Sketch()
    handles = [hooks.register_optimizer_step_pre_hook(sketch.before),
               hooks.register_optimizer_step_post_hook(lambda optimizer, *_: sketch.after(optimizer))]
    with ladder_sketch.rounding(torch, *rounding) if rounding else contextlib.nullcontext():
        yield sketch
    for handle in handles:
        handle.remove()


def train(kind, seed, steps=16, rounding=None, **o):
    """Losses as printed, and the sketch. rounding: bits and seed, as of LADDER_LOOK_ROUNDING."""
    threads = torch.get_num_threads()
    torch.set_num_threads(o.get("threads", 1))
    torch.manual_seed(1000 + seed)
    model = KINDS[kind](o)
    if o.get("channels_last"):
        model = model.to(memory_format=torch.channels_last)
    if o.get("bf16_weights"):
        model = model.bfloat16()
    model.train(not o.get("eval"))
    how = {"betas": o.get("betas", (0.9, 0.95)), "eps": o.get("eps", 1e-8), "fused": o.get("fused"), "foreach": o.get("foreach")}
    if o.get("no_bias_correction"):
        optimizer = NoBiasCorrection(groups_of(model, o), betas=how["betas"], eps=how["eps"])
    elif o.get("sgd"):
        optimizer = torch.optim.SGD(groups_of(model, o), momentum=0.9, dampening=o.get("dampening", 0), nesterov=o.get("nesterov", False))
    elif o.get("l2"):
        optimizer = torch.optim.Adam(groups_of(model, o), **how)
    else:
        optimizer = torch.optim.AdamW(groups_of(model, o), **how)
    forward = torch.compile(model) if o.get("compile") else model
    generator = torch.Generator().manual_seed(seed)
    average = copy.deepcopy(model) if o.get("ema") else None
    dtype = torch.bfloat16 if o.get("bf16") else torch.float16 if o.get("fp16") else None
    parts, losses = o.get("accumulation", 1), []
    batches = [model.batch(generator) for _ in range(steps)]
    if o.get("loader"):
        batches = torch.utils.data.DataLoader(batches, batch_size=None, num_workers=o["loader"])
    with sketched(rounding) as sketch:
        for step, (x, y) in enumerate(batches):
            if o.get("stale"):
                x, y = batches[0]
            if o.get("half_batch"):
                x, y = x[: BATCH // 2], y[: BATCH // 2]
            if o.get("swapped"):
                x = x.roll(1, 0)
            if o.get("row_twice"):
                x, y = torch.cat([x[:1], x[:-1]]), torch.cat([y[:1], y[:-1]])
            count, total = model.count(y), 0.0
            pieces = list(zip(x.chunk(parts), y.chunk(parts)))
            for i, (inputs, targets) in enumerate(pieces):
                with torch.autocast("cpu", dtype) if dtype else contextlib.nullcontext():
                    logits = forward(inputs.bfloat16() if o.get("bf16_weights") and inputs.is_floating_point() else inputs)
                    loss = model.loss(logits, targets) / (1 if o.get("sum") else count)
                shift = 1 if i or not o.get("counted_twice") else 2
                (loss * shift * o.get("loss_scale", 1)).backward()
                total += loss.item()
                if o.get("dropped_accumulation") and i < len(pieces) - 1:
                    optimizer.zero_grad()
            losses.append(total)
            if o.get("loss_scale") and not o.get("not_unscaled"):
                for one in model.parameters():
                    if one.grad is not None:
                        one.grad.div_(o["loss_scale"])
            if o.get("no_bias_gradient"):
                for name, one in model.named_parameters():
                    if name.endswith(o["no_bias_gradient"]):
                        one.grad = None
            for name, one in model.named_parameters():
                if o.get("halved") and o["halved"] in name:
                    one.grad.mul_(0.5)
                if o.get("noise"):
                    one.grad.mul_(1 + o["noise"] * torch.randn(one.shape))
            if o.get("clip"):
                nn.utils.clip_grad_norm_(model.parameters(), o["clip"])
            optimizer.step()
            if not o.get("kept_gradients"):
                optimizer.zero_grad()
            if average is not None:
                with torch.no_grad():
                    for one, mean in zip(model.parameters(), average.parameters()):
                        mean.lerp_(one, 0.5)
                        one.copy_(mean)
    torch.set_num_threads(threads)
    return losses, sketch.seen()
