"""Plans, token files and paths that the PyTorch peer refuses. It names them in one line."""

import pytest
from conftest import write_json
from peers import call_main, module, plan, tokens  # noqa: F401  (fixtures among them)

torch = pytest.importorskip("torch")


def without(document: dict, *path: str) -> dict:
    inner = document
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return document


BAD = {
    "unknown peer": (lambda p: p(peer="jax"), 'peer must be one of pytorch-eager, pytorch-compile, '),
    "no peer": (lambda p: p(peer=""), ', got ""'),
    "GPU": (lambda p: p({"device": "cuda"}), "device cuda is not available here"),
    "CUDA graphs": (lambda p: p(peer="pytorch-cuda-graphs"), "peer pytorch-cuda-graphs needs device cuda"),
    "attention": (lambda p: p({"attention": "cudnn"}), 'attention cudnn needs device cuda'),
    "optimizer": (lambda p: p({"optimizer": "adam"}), 'optimizer must be one of loop, foreach, fused, got "adam"'),
    "rows": (lambda p: p({"vocabulary_rows": 5}), "vocabulary_rows must be at least 50257, got 5"),
    "context": (lambda p: p(context=65), "context must be between 1 and 64, got 65"),
    "batch": (lambda p: p(batch=16), "tokens.bin: 360 tokens; a batch of 16 x 32 needs one more than that"),
    "model": (lambda p: p(model="gpt3"), 'model must be one of gpt2-124m, '),
    "tokens": (lambda p: without(p(), "workload", "tokens"), "the field 'tokens' is missing"),
    "tokens file": (lambda p: p(tokens="/nowhere/tokens.bin"), "/nowhere/tokens.bin: No such file or directory"),
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


@pytest.mark.parametrize("change, words", [
    (lambda data: data[:-1], "the header promises 360 tokens of 2 bytes, but 719 bytes follow it"),
    (lambda data: data[:1000], "a token file begins with a header of 1024 bytes, got 1000"),
    (lambda data: b"\1" + data[1:], "the magic number and version must be 20240520 and 1, got 20240385 and 1"),
    (lambda data: data[:1026] + b"\xff\xff" + data[1028:], "tokens must be between 0 and 50256, got 65535 at position 1"),
], ids=["truncated", "no header", "magic", "token"])
def test_bad_token_files(change, words, module, plan, tokens, monkeypatch, capsys, tmp_path) -> None:
    (tmp_path / "bad.bin").write_bytes(change(tokens.read_bytes()))
    file = write_json(tmp_path / "plan.json", plan(tokens=str(tmp_path / "bad.bin")))
    assert call_main(module, monkeypatch, file, tmp_path / "record.json") == 2
    assert f"bad.bin: {words}" in capsys.readouterr().err


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
