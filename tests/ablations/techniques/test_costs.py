"""The FLOPs of a step (ablations/techniques/step_table.h) against torch's own counter, which watches the PyTorch peer's model at work.

COSTS_DUMP names the helper program (costs_dump.cpp). Torch counts the full T x T square of attention, ours its causal half;
for fused attention's backward torch also counts the second q k^T.
"""

import importlib.util
import json
import os
import pathlib
import subprocess

import pytest

torch = pytest.importorskip("torch")
from torch.utils import flop_counter  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def peer():
    specification = importlib.util.spec_from_file_location("pytorch_gpt2", ROOT / "ablations" / "peers" / "pytorch_gpt2.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def costs(*arguments) -> list[dict]:
    program = os.environ.get("COSTS_DUMP") or pytest.skip("COSTS_DUMP is not set")
    return json.loads(subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=True).stdout)


def flops(costs: list[dict], phase: str, *, attention: float = 1) -> float:
    return sum(c["flops"] * (attention if c["op"] == "attention" else 1) for c in costs if c["phase"] == phase)


@pytest.mark.parametrize("model, rows, B, T", [("tiny", 50257, 3, 8), ("tiny", 50304, 2, 64), ("gpt2-124m", 50257, 1, 24)])
@pytest.mark.parametrize("manual", [True, False])
def test_as_torch_counts_the_peers_model(peer, model, rows, B, T, manual) -> None:
    gpt2 = peer.GPT2(model, rows, peer.SIZES[model][3], T, manual, seed=1)
    tokens = torch.randint(0, peer.VOCABULARY, (2, B, T))
    counted = {}
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # of plain products, which the counter knows
        with flop_counter.FlopCounterMode(display=False) as counter:
            loss = gpt2(*tokens)
        counted["forward"] = counter.get_total_flops()
        with flop_counter.FlopCounterMode(display=False) as counter:
            loss.backward()
        counted["backward"] = counter.get_total_flops()
    ours = costs(model, rows, B, T, 1)
    for phase, count in counted.items():
        assert flops(ours, phase, attention=2) == count, phase
    assert counted["forward"] > 0 and flops(ours, "clip") == flops(ours, "update") == 0


@pytest.mark.parametrize("model, B, T", [("tiny", 3, 16), ("gpt2-124m", 4, 1024)])
def test_as_torch_counts_fused_attention(peer, model, B, T) -> None:
    layers, heads, channels, _ = peer.SIZES[model]
    shape = (B, heads, T, channels // heads)
    forward, backward = (next(c["flops"] for c in costs(model, 50257, B, T, 1) if (c["phase"], c["op"]) == (phase, "attention"))
                         for phase in ("forward", "backward"))
    assert 2 * forward == layers * flop_counter.sdpa_flop_count(shape, shape, shape)
    again = layers * 2 * B * T * T * channels  # q k^T once more
    assert 2 * backward + again == layers * flop_counter.sdpa_backward_flop_count(shape, shape, shape, shape)
