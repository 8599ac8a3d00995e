"""GPT-2 as PyTorch's modules: what pytorch_ladder.py trains. Its initial weights are those of model/gpt2.cpp to the bit,
because the same generator draws them in the same order.
"""

import math
import re

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY = 50257
SIZES = {  # layers, heads, channels, positions
    "gpt2-124m": (12, 12, 768, 1024),
    "gpt2-355m": (24, 16, 1024, 1024),
    "gpt2-774m": (36, 20, 1280, 1024),
    "gpt2-1558m": (48, 25, 1600, 1024),
    "gpt2-18m": (6, 4, 256, 1024),
    "tiny": (2, 2, 32, 64),
}


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


class LayerNorm(nn.LayerNorm):
    """Reads and writes a 16-bit residual stream in 16 bits: autocast alone would give float32."""

    def forward(self, x):
        if x.dtype == torch.float32:
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):
            return F.layer_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.bias.to(x.dtype), self.eps)


class Block(nn.Module):
    def __init__(self, C: int, n_head: int, manual: bool):
        super().__init__()
        self.ln_1 = LayerNorm(C)
        self.attn = Attention(C, n_head, manual)
        self.ln_2 = LayerNorm(C)
        self.mlp = MLP(C)

    def forward(self, x, future):
        x = x + self.attn(self.ln_1(x), future)
        return x + self.mlp(self.ln_2(x))


class InPlaceCrossEntropy(torch.autograd.Function):
    """As ablations/techniques/cross_entropy/in_place.cpp: the gradient of logits (N, V), targets (N, 1) is written over the log-probabilities."""

    @staticmethod
    def forward(ctx, logits, targets):
        log_p = torch.ops.aten._log_softmax(logits, -1, False)
        of_targets = log_p.gather(-1, targets).to(torch.promote_types(log_p.dtype, torch.float32))
        ctx.save_for_backward(log_p, targets, of_targets)
        return -of_targets.mean()

    @staticmethod
    def backward(ctx, upstream):
        log_p, targets, of_targets = ctx.saved_tensors
        scale = upstream / len(targets)
        torch.ops.aten.elu_backward.grad_input(scale.to(log_p.dtype), 1, 1, 1, False, log_p, grad_input=log_p)
        return log_p.scatter_(-1, targets, (of_targets.expm1() * scale).to(log_p.dtype)), None


class GPT2(nn.Module):
    head = staticmethod(F.linear)

    def __init__(self, model: str, rows: int, positions: int, context: int, manual: bool, seed: int, in_place_loss: bool = False,
                 residual: torch.dtype = torch.float32):
        super().__init__()
        self.in_place_loss, self.residual = in_place_loss, residual
        n_layer, n_head, C, published = SIZES[model]
        self.wte = nn.Embedding(rows, C)  # also the head
        self.wpe = nn.Embedding(positions, C)
        self.h = nn.ModuleList(Block(C, n_head, manual) for _ in range(n_layer))
        self.ln_f = LayerNorm(C)
        future = torch.ones(context, context, dtype=torch.bool).triu(1) if manual else None
        self.register_buffer("future", future, persistent=False)
        self.draw_weights(seed, published)

    @torch.no_grad()
    def draw_weights(self, seed: int, published: int):
        """As model/gpt2.cpp, to the bit: rows beyond the published model's come from separate generators."""
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
        x = (self.wte(tokens) + self.wpe(torch.arange(tokens.size(1), device=tokens.device))).to(self.residual)
        for block in self.h:
            x = block(x, self.future)
        logits = self.head(self.ln_f(x), self.wte.weight)  # (B, T, V)
        if targets is None:
            return logits
        logits, targets = logits.flatten(0, 1), targets.flatten()
        if not self.in_place_loss:
            return F.cross_entropy(logits, targets)
        if logits.device.type == "cpu":
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # as autocast does for cross_entropy
        return InPlaceCrossEntropy.apply(logits, targets[:, None])
