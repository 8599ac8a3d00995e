"""What the tests of the PyTorch peer share: a plan of one small run, its tokens, and the script as a module."""

import importlib.util
import pathlib
import struct
import sys

import pytest
from conftest import ROOT

torch = pytest.importorskip("torch")

SCRIPT = ROOT / "ablations" / "peers" / "pytorch_ladder.py"
RECIPE = {"device": "cpu", "host_memory": "release", "matmul_precision": "highest", "autocast": "off", "attention": "manual",
          "cross_entropy": "aten", "residual": "float32", "execution": "eager", "vocabulary_rows": 50257, "optimizer": "loop", "deterministic": False}
WARMUP, TIMED = 2, 6


@pytest.fixture(scope="module")
def tokens(tmp_path_factory) -> pathlib.Path:
    """Few batches, so that eight steps start over. Half of the tokens are of twenty kinds, so that there is something to learn."""
    generator = torch.Generator().manual_seed(2)
    count = 5 * 64 + 40
    any_token = torch.randint(0, 50257, (count,), generator=generator)
    common = torch.randint(0, 20, (count,), generator=generator)
    stream = torch.where(torch.rand(count, generator=generator) < 0.5, any_token, common).tolist()
    path = tmp_path_factory.mktemp("tokens") / "tokens.bin"
    path.write_bytes(struct.pack("<256i", 20240520, 1, count, *[0] * 253) + struct.pack(f"<{count}H", *stream))
    return path


@pytest.fixture(scope="module")
def plan(tokens):
    """plan({"attention": "flash"}, peer="pytorch-compile", batch=4): a plan with the one run r1-00-start."""

    def make(recipe: dict | None = None, peer: str = "pytorch-eager", **workload) -> dict:
        rung = {"optimization": None, "title": "PyTorch", "applied": [], "status": "planned", "reason": "", "peer": peer,
                "recipe": {**RECIPE, **(recipe or {})}, "workload": workload}
        return {"kind": "plan", "schema_version": 1, "id": "small-1", "created": "2026-11-21T11:05:00Z",
                "ladder": {"name": "small", "title": "Small"},
                "workload": {"model": "tiny", "batch": 2, "context": 32, "accumulation": 1, "seed": 1, "threads": 1,
                             "data": str(tokens), "vocabulary": "unused", "tokens": str(tokens)},
                "warmup_steps": WARMUP, "timed_steps": TIMED, "repeats": 1, "order_seed": 1, "run_limit_s": 60, "mode": "cumulative", "reference": 0,
                "rungs": [rung], "runs": [{"id": "r1-00-start", "rung": 0, "repeat": 0}]}

    return make


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)  # as Python does for a script
    specification = importlib.util.spec_from_file_location("pytorch_ladder", SCRIPT)
    loaded = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(loaded)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # a deterministic run sets it for the whole process
    precision, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    yield loaded
    torch.set_float32_matmul_precision(precision)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


def call_main(module, monkeypatch, plan_file, record, run: str = "r1-00-start") -> int:
    arguments = ["--plan", str(plan_file), "--run", run, "--record", str(record)]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    return module.main()
