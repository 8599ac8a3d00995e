"""Plans, token files and paths that the PyTorch peer refuses. It names them in one line."""

import pytest
from conftest import write_json
from peers import call_main, module, plan, tokens  # noqa: F401  (fixtures among them)

torch = pytest.importorskip("torch")


BAD = {
    "unknown peer": (lambda p: p(peer="jax"), 'peer must be one of pytorch-eager, pytorch-compile, '),
    "GPU": (lambda p: p({"device": "cuda"}), "device cuda is not available here"),
    "CUDA graphs": (lambda p: p(peer="pytorch-cuda-graphs"), "peer pytorch-cuda-graphs needs device cuda"),
    "fp8 on a CPU": (lambda p: p({"autocast": "bf16"}, peer="pytorch-fp8"), "peer pytorch-fp8 needs device cuda"),
    "fp8 of float32": (lambda p: p(peer="pytorch-fp8"), "peer pytorch-fp8 needs autocast bf16, got off"),
    "attention": (lambda p: p({"attention": "cudnn"}), 'attention cudnn needs device cuda'),
    "batch": (lambda p: p(batch=16), "tokens.bin: 360 tokens; a batch of 16 x 32 needs one more than that"),
    "list": (lambda p: [], "not a plan"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_plans(what, module, plan, monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    document, words = BAD[what]
    status = call_main(module, monkeypatch, write_json(tmp_path / "plan.json", document(plan)), tmp_path / "record.json")
    said = capsys.readouterr()
    assert status == 2 and said.out == "" and words in said.err
    assert said.err.startswith("pytorch_ladder.py: ") and said.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


FP8 = {
    "rows": ({}, (9, 0), "needs multiples of 16: vocabulary_rows is 50257, and a batch has 64 tokens"),
    "tokens": ({"vocabulary_rows": 50304}, (9, 0), "needs multiples of 16: vocabulary_rows is 50304, and a batch has 62 tokens"),
    "capability": ({"vocabulary_rows": 50304}, (8, 0), "needs compute capability 8.9, and this GPU has 8.0"),
    "PyTorch": ({}, (9, 0), f"needs torch._scaled_mm, which PyTorch {torch.__version__} lacks"),
}


@pytest.mark.parametrize("what", FP8)
def test_what_cannot_be_done_in_fp8(what, module, plan, monkeypatch, capsys, tmp_path) -> None:
    recipe, capability, words = FP8[what]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    if what == "PyTorch":
        monkeypatch.delattr(torch, "_scaled_mm")
    document = plan({"device": "cuda", "autocast": "bf16", **recipe}, peer="pytorch-fp8", context=31 if what == "tokens" else 32)
    assert call_main(module, monkeypatch, write_json(tmp_path / "plan.json", document), tmp_path / "record.json") == 2
    assert capsys.readouterr().err == f"pytorch_ladder.py: {tmp_path / 'plan.json'}: run \"r1-00-start\": peer pytorch-fp8 {words}\n"


def test_a_token_file_that_was_cut(module, plan, tokens, monkeypatch, capsys, tmp_path) -> None:
    (tmp_path / "bad.bin").write_bytes(tokens.read_bytes()[:-1])
    file = write_json(tmp_path / "plan.json", plan(tokens=str(tmp_path / "bad.bin")))
    assert call_main(module, monkeypatch, file, tmp_path / "record.json") == 2
    assert "bad.bin: the header promises 360 tokens of 2 bytes, but 719 bytes follow it" in capsys.readouterr().err


def test_a_warm_up_too_short_for_graphs(module, plan, monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    file = write_json(tmp_path / "plan.json", plan({"device": "cuda"}, peer="pytorch-cuda-graphs") | {"warmup_steps": 1})
    assert call_main(module, monkeypatch, file, tmp_path / "record.json") == 2
    assert "with peer pytorch-cuda-graphs, got 1" in capsys.readouterr().err


def test_other_bad_input(module, plan, monkeypatch, capsys, tmp_path) -> None:
    file = write_json(tmp_path / "plan.json", plan())
    assert call_main(module, monkeypatch, file, tmp_path / "record.json", run="r9-00-start") == 2
    assert 'run "r9-00-start": the plan has none with this id' in capsys.readouterr().err
    assert call_main(module, monkeypatch, tmp_path / "none.json", tmp_path / "record.json") == 2
    assert "none.json: No such file or directory" in capsys.readouterr().err
    assert call_main(module, monkeypatch, file, "/nowhere/record.json") == 2
    assert "--record /nowhere/record.json: its folder cannot be written" in capsys.readouterr().err
    (tmp_path / "plan.json").write_text("{")
    assert call_main(module, monkeypatch, file, tmp_path / "record.json") == 2
    assert "not a plan: " in capsys.readouterr().err
    monkeypatch.setenv("CXX", "/nowhere/g++")
    write_json(file, plan(peer="pytorch-compile"))
    assert call_main(module, monkeypatch, file, tmp_path / "record.json") == 2
    assert "torch.compile needs a C++ compiler, and /nowhere/g++ is not there: install g++" in capsys.readouterr().err
