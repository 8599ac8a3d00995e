"""Linear layers that multiply in fp8, as torchao's tensorwise recipe does: mode fp8 of pytorch_ladder.py.

Inputs and weights are rounded to e4m3, gradients to e5m2. A tensor has one scale, of its largest number at that time.
"""

import torch
from torch import nn

PRODUCTS = 3  # of a layer in a step: forward, and the gradients of its input and of its weight
MULTIPLE = 16  # of which the sizes of a product must be
LEAST_CAPABILITY = (8, 9)


def rounded(x, dtype):
    """(values, scale): x is about values * scale. Values are row-major."""
    largest = torch.finfo(dtype).max
    scale = x.abs().amax().float().clamp(min=1e-12) / largest
    return (x.float() / scale).clamp(-largest, largest).to(dtype).contiguous(), scale


def by_columns(x):
    """The same matrix, column-major: _scaled_mm wants its second factor so."""
    return x.t().contiguous().t()


class Product(torch.autograd.Function):
    """x (M, K) and weight (N, K): x @ weight^T, (M, N)."""

    @staticmethod
    def forward(ctx, x, weight):
        (x8, x_scale), (w8, w_scale) = rounded(x, torch.float8_e4m3fn), rounded(weight, torch.float8_e4m3fn)
        ctx.save_for_backward(x8, x_scale, w8, w_scale)
        return torch._scaled_mm(x8, w8.t(), x_scale, w_scale, out_dtype=x.dtype, use_fast_accum=True)

    @staticmethod
    def backward(ctx, dy):
        x8, x_scale, w8, w_scale = ctx.saved_tensors
        dy8, dy_scale = rounded(dy, torch.float8_e5m2)
        dx = torch._scaled_mm(dy8, by_columns(w8), dy_scale, w_scale, out_dtype=dy.dtype)
        dw = torch._scaled_mm(by_columns(dy8).t(), by_columns(x8), dy_scale, x_scale, out_dtype=dy.dtype)
        return dx, dw.float()


def linear(x, weight, bias=None):
    """As F.linear under bf16 autocast: x (..., K) to (..., N) in bfloat16."""
    y = Product.apply(x.to(torch.bfloat16).flatten(0, -2), weight).unflatten(0, x.shape[:-1])
    return y if bias is None else y + bias.to(y.dtype)


class Linear(nn.Linear):
    def forward(self, x):
        return linear(x, self.weight, self.bias)


def use_fp8(model):
    """All linear layers, and the head: the largest product, which modded-nanogpt and nanochat make in fp8, too."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = Linear
    model.head = linear


def obstacle(rows: int, tokens: int) -> str:
    """Why this machine, or a model with so many rows of the vocabulary and tokens in a batch, cannot do it; empty: it can."""
    if not hasattr(torch, "_scaled_mm"):
        return f"needs torch._scaled_mm, which PyTorch {torch.__version__} lacks"
    if rows % MULTIPLE or tokens % MULTIPLE:
        return f"needs multiples of {MULTIPLE}: vocabulary_rows is {rows}, and a batch has {tokens} tokens"
    capability = torch.cuda.get_device_capability()
    return "" if capability >= LEAST_CAPABILITY else "needs compute capability {}.{}, and this GPU has {}.{}".format(*LEAST_CAPABILITY, *capability)
