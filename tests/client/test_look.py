"""client/look: what a run of its own sees of a PyTorch program, and the steps that --hook times, without a change of the program."""

import collections
import importlib
import json

import pytest
from conftest import CLIENT, lines

torch = pytest.importorskip("torch")

LOOK = CLIENT / "look"
STEPS = 9  # more than are looked at
PROGRAM = f"""
import contextlib, sys, torch
torch.manual_seed(1)
torch.set_num_threads(1)
flags = sys.argv[1:]
class Rows(torch.nn.Linear):  # as Conv1D of transformers
    def forward(self, x): return torch.addmm(self.bias, x, self.weight)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), Rows(8, 8))
optimizer = torch.optim.AdamW(model.parameters(), fused="fused" in flags, foreach=True if "foreach" in flags else None)
forward = torch.compile(model, backend="eager") if "compile" in flags else model
precision = torch.autocast("cpu", torch.bfloat16) if "bf16" in flags else contextlib.nullcontext()
take = torch.compile(optimizer.step, backend="eager") if "compiled_step" in flags else optimizer.step
for step in range({STEPS}):
    with precision:
        q = forward(torch.randn(4, 8)).view(1, 1, 4, 8)
        loss = torch.nn.functional.scaled_dot_product_attention(q, q, q).float().square().mean()
    loss.backward()
    take()
    optimizer.zero_grad()
"""


@pytest.fixture
def look(run, tmp_path):
    """look(PROGRAM, *FLAGS): what was seen."""

    def at(text: str, *flags, folders=(LOOK,), **variables) -> dict:
        file = tmp_path / "look.json"
        file.unlink(missing_ok=True)
        done = run(text, *flags, folders=folders, LADDER_LOOK=file, **variables)
        assert done.returncode == 0, done.stderr
        seen = json.loads(file.read_text())
        assert "error" not in seen, seen
        assert not [path for path in tmp_path.iterdir() if path.name.startswith("tmp")]
        return seen

    return at


def test_an_eager_program(look) -> None:
    seen = look(PROGRAM)
    expected = {"look": 1, "torch": torch.__version__, "devices": ["cpu"], "compiled_regions": 0, "compiled_graphs": 0, "kernels_per_step": 0,
                "products": {"float32": 5},  # two forward, three backward: the inputs need no gradient
                "product_flops_per_step": 5 * 2 * 4 * 8 * 8, "attention": {"flash_for_cpu": 1},
                "optimizers": [{"class": "AdamW", "fused": False, "foreach": None, "capturable": False}], "optimizer_ran": "loop",
                "parameters": 144, "parameter_types": {"float32": 4}, "operations_per_step": sum(seen["operations"].values())}
    assert {name: seen[name] for name in expected} == expected
    assert seen["operations"]["aten::linear"] == seen["operations"]["aten::addmm"] == 1  # linear calls addmm, too
    assert seen["settings"]["threads"] == 1 and seen["settings"]["float32_matmul_precision"] == "highest"
    assert seen["float32_made_in"] == {"products": "float32", "convolutions": "float32"}


@pytest.mark.parametrize(("flag", "name", "value"), [
    ("compile", "compiled_regions", 1),
    ("bf16", "products", {"bfloat16": 5}),
    ("fused", "optimizer_ran", "fused"),
    ("foreach", "optimizer_ran", "foreach"),
    ("compiled_step", "compiled_graphs", 1),
])
def test_what_a_flag_does_is_seen(look, flag, name, value) -> None:
    assert look(PROGRAM, flag)[name] == value


def test_optimizers_in_turn_are_one_round(look, log) -> None:
    """And the same rounds are timed: the hook stays out of the looked-at program's other work."""
    seen = look("""
import torch
one, two = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8).double()
optimizers = [torch.optim.SGD(one.parameters()), torch.optim.Adam(two.parameters())]
for step in range(9):
    one(torch.randn(4, 8)).sum().backward()
    optimizers[0].step()
    for _ in range(2):
        two(torch.randn(4, 8).double()).sum().backward()
        optimizers[1].step()
""", LADDER_HOOK=1, LADDER_LOG=log)
    assert [each["class"] for each in seen["optimizers"]] == ["SGD", "Adam"]
    assert seen["products"] == {"float32": 2, "float64": 4}
    assert seen["parameter_types"] == {"float32": 2, "float64": 2}
    assert len(lines(log)[1]) == STEPS


def test_the_programs_own_sitecustomize_is_run(look, tmp_path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = __name__, __file__\n")
    seen = look(f"import sitecustomize, sys\nassert mine == ('sitecustomize', {str(own / 'sitecustomize.py')!r})\n"
                f"assert sitecustomize.__file__ == mine[1] and {str(LOOK)!r} not in sys.path\n" + PROGRAM, folders=(LOOK, own))
    assert seen["products"] == {"float32": 5}


@pytest.mark.parametrize(("program", "rank"), [("import sys\nassert 'torch' not in sys.modules\n", 0), (PROGRAM, 1)])
def test_a_program_without_pytorch_and_another_rank_write_nothing(run, tmp_path, log, program, rank) -> None:
    done = run(program, folders=(LOOK,), LADDER_LOOK=tmp_path / "look.json", LADDER_HOOK=1, LADDER_LOG=log, RANK=rank)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "look.json").exists() and not log.exists()


def test_only_the_process_that_trains_is_seen(look, log) -> None:
    """Here a child, which has workers of DataLoader's, forked and started anew. Its own calls of the client do not count twice."""
    seen = look(f"""
import os, sys
if len(sys.argv) == 1:
    os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
import torch
sys.path.append({str(CLIENT)!r})
import ladder_client as ladder
if __name__ == "__main__":
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters())
    rows = torch.utils.data.TensorDataset(torch.randn(5, 8))
    for start in ("fork", "spawn"):
        for batch, in torch.utils.data.DataLoader(rows, num_workers=1, multiprocessing_context=start):
            loss = model(batch).sum()
            loss.backward()
            optimizer.step()
            ladder.step(loss)
    print(os.getpid())
""", LADDER_HOOK=1, LADDER_LOG=log, LADDER_LOOK_STEPS="2+3")
    first, steps = lines(log)
    assert seen["pid"] == first["pid"] and seen["looked_steps"] == 3 and seen["products"] == {"float32": 2}
    assert len(steps) == 10 and not any("loss" in step for step in steps)


# A loader of PyTorch's, whose rows take 50 ms each, and what the program itself measures around it.
LOADS = """
import sys, time
import torch
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 12
    def __getitem__(self, row):
        time.sleep(float(sys.argv[1]))
        return torch.ones(8)
if __name__ == "__main__":
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters())
    batches = iter(torch.utils.data.DataLoader(Rows(), num_workers=int(sys.argv[2])))
    waited = []
    for step in range(12):
        begun = time.monotonic()
        batch = next(batches)
        waited.append(1000 * (time.monotonic() - begun))
        model(batch).sum().backward()
        optimizer.step()
    print(waited)
"""


@pytest.mark.parametrize(("row_s", "workers"), [(0.05, 0), (0.05, 2), (0, 0)])
def test_waits_for_a_loader_of_pytorchs_are_timed(run, tmp_path, log, row_s, workers) -> None:
    file = tmp_path / "look.json"
    done = run(LOADS, str(row_s), str(workers), folders=(LOOK,), LADDER_HOOK=1, LADDER_LOG=log, LADDER_LOOK=file, LADDER_LOOK_STEPS="6+2")
    assert done.returncode == 0, done.stderr
    own, steps, seen = json.loads(done.stdout), lines(log)[1], json.loads(file.read_text())
    waits = [step["wait_ms"] for step in steps]
    assert len(waits) == 12 and all(0 <= wait <= whole + 0.01 for wait, whole in zip(waits, own)), (waits, own)
    assert sum(waits) > 0.5 * sum(own)
    assert seen["wait_ms_per_step"] == pytest.approx(sum(waits[1:6]) / 5, abs=0.01) and seen["wait_ms_per_step"] <= seen["step_ms"]
    if row_s and not workers:
        assert min(waits) >= 1000 * row_s
    if not row_s:
        assert min(waits) < 5


def test_waits_for_tf_data_are_timed(run, tmp_path, log) -> None:
    """As its iterator's class is found: TensorFlow itself is not here."""
    module = tmp_path / "tensorflow" / "python" / "data" / "ops" / "iterator_ops.py"
    module.parent.mkdir(parents=True)
    module.write_text("import time\nclass OwnedIterator:\n    def __next__(self):\n        time.sleep(0.05)\n        return 1\n")
    done = run("import torch\nfrom tensorflow.python.data.ops.iterator_ops import OwnedIterator\nnext(OwnedIterator())\n"
               "optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])\noptimizer.step()\n",
               folders=(LOOK, tmp_path), LADDER_HOOK=1, LADDER_LOG=log)
    assert done.returncode == 0, done.stderr
    assert lines(log)[1][0]["wait_ms"] >= 50


def test_a_file_that_is_there_stays(run, tmp_path) -> None:
    (tmp_path / "look.json").write_text("another process's")
    assert run(PROGRAM, folders=(LOOK,), LADDER_LOOK=tmp_path / "look.json").returncode == 0
    assert (tmp_path / "look.json").read_text() == "another process's"


def test_a_look_that_fails_lets_the_program_go_on(run, tmp_path) -> None:
    done = run("import torch.profiler\ntorch.profiler.profile = None\n" + PROGRAM + "print('end')\n", folders=(LOOK,),
               LADDER_LOOK=tmp_path / "look.json")
    assert (done.returncode, done.stdout) == (0, "end\n")
    seen = json.loads((tmp_path / "look.json").read_text())
    assert list(seen) == ["look", "error"] and seen["error"].startswith("TypeError")


@pytest.mark.parametrize(("before", "variables"), [
    ("", {"LADDER_LOOK_STEPS": "many"}),
    ("import importlib.util as u\nkept, u.spec_from_file_location = u.spec_from_file_location, None\nimport torch\nu.spec_from_file_location = kept", {}),
    ("import sys\nfrom importlib.machinery import PathFinder as f\nsys.meta_path.remove(next(one for one in sys.meta_path if one.__module__ == 'sitecustomize'))", {}),
])
def test_no_fault_of_ours_ends_the_program(run, tmp_path, log, before, variables) -> None:
    done = run(f"{before}\n{PROGRAM}print('end')\n", folders=(LOOK,), LADDER_LOOK=tmp_path / "look.json", LADDER_HOOK=1, LADDER_LOG=log, **variables)
    assert (done.returncode, done.stdout) == (0, "end\n") and done.stderr.count("Traceback") == ("remove" not in before), done.stderr


def test_what_a_gpu_runs(monkeypatch) -> None:
    """Events as PyTorch tells them of a GPU: copies and ranges are no kernels, a graph's launch is the host's."""
    monkeypatch.syspath_prepend(LOOK)
    import ladder_look
    kinds = collections.namedtuple("kinds", "name")

    class Event(collections.namedtuple("Event", "name_ device start range_", defaults=(False,))):
        name = property(lambda self: lambda: self.name_)

        def device_type(self): return kinds(self.device)
        def start_ns(self): return self.start
        def duration_ns(self): return 1
        def start_thread_id(self): return 1
        def is_user_annotation(self): return self.range_

    seen = ladder_look.of_events([
        Event("gemm", "CUDA", 1), Event("gemm", "CUDA", 2), Event("adam", "CUDA", 3), Event("Memcpy HtoD (Pinned -> Device)", "CUDA", 4),
        Event("Memset (Device)", "CUDA", 5), Event("Optimizer.step#AdamW.step", "CUDA", 1, True), Event("cudaGraphLaunch", "CPU", 1),
        Event("cudaLaunchKernel", "CPU", 3)], 1)
    assert (seen["kernels_per_step"], seen["kernels"]) == (3, {"adam": 1, "gemm": 2})
    assert seen["graph_launches_per_step"] == 1 and seen["operations_per_step"] == 0


@pytest.mark.parametrize(("bits", "made"), [(23, "float32"), (10, "tf32"), (7, "bfloat16")])
def test_the_type_that_float32_is_made_in_is_measured(monkeypatch, bits, made) -> None:
    """As a device would that keeps so many bits of the inputs."""
    monkeypatch.syspath_prepend(LOOK)
    ladder_look = importlib.import_module("ladder_look")

    def rounded(x):
        dropped = 23 - bits
        return (((x.contiguous().view(torch.int32) + (1 << dropped >> 1)) >> dropped) << dropped).view(torch.float32)

    def of(operation):
        return lambda a, b: operation(a, b) if a.dtype == torch.float64 else operation(rounded(a), rounded(b))

    monkeypatch.setattr(torch, "mm", of(torch.mm))
    monkeypatch.setattr(torch.nn.functional, "conv2d", of(torch.nn.functional.conv2d))
    assert ladder_look.float32_made_in(torch, {"cpu"}) == {"products": made, "convolutions": made}
