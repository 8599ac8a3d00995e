"""client/look/ladder_sketch.py: what a look sketches of the first steps, in programs that reach the optimizer in different ways."""

import json
import math

import pytest
from conftest import CLIENT

torch = pytest.importorskip("torch")

LOOK = CLIENT / "look"
PROGRAM = """
import sys, torch
from torch import nn
torch.manual_seed(1)
torch.set_num_threads(1)
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.inner = nn.Embedding(16, 8), nn.Linear(8, 8)
        self.frozen, self.head = nn.Linear(8, 8), nn.Linear(8, 16, bias=False)
        self.head.weight = self.words.weight
        self.frozen.requires_grad_(False)
    def forward(self, x): return self.head(self.frozen(self.inner(self.words(x))).relu())
{setup}
model = Tied()
optimizer = {optimizer}([one for one in model.parameters() if one.requires_grad], lr=0.01)
for step in range(8):
    x = torch.randint(0, 16, (4, 8))
{step}
print(float(sum(one.double().abs().sum() for one in model.parameters())), torch.rand(1).item())
"""
PLAIN = """
    nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture
def sketched(run, tmp_path):
    """sketched(STEP): the sketch, with its parameters by name, and what the program printed."""

    def of(step=PLAIN, setup="", optimizer="torch.optim.AdamW", **variables):
        file = tmp_path / "look.json"
        file.unlink(missing_ok=True)
        text = PROGRAM.format(step=step, setup=setup, optimizer=optimizer)
        done = run(text, folders=(LOOK,), LADDER_LOOK=file, LADDER_LOOK_STEPS="5+1", **variables)
        assert done.returncode == 0, done.stderr
        look = json.loads(file.read_text())
        assert "error" not in look and "parameters" in look["sketch"], look
        return {**look["sketch"], "by_name": {one["name"]: one for one in look["sketch"]["parameters"]}, "printed": done.stdout, "look": look}

    return of


def gradients(sketch, name="inner.weight"):
    return [number for step in sketch["by_name"][name]["gradients"] for number in step]


def near(one, other):
    return one == pytest.approx(other, rel=1e-4, abs=1e-7)


def test_each_parameter_by_its_name(sketched) -> None:
    seen = sketched()
    assert [(one["name"], one["shape"], len(one["gradients"])) for one in seen["parameters"]] == [
        ("words.weight", [16, 8], 3), ("inner.weight", [8, 8], 3), ("inner.bias", [8], 3), ("frozen.weight", [8, 8], 0), ("frozen.bias", [8], 0)]
    for one in seen["parameters"]:
        for sums in (one["weights"], *one["gradients"]):  # a norm, and sums of about its size
            assert len(sums) == 9
            assert 0.3 * sums[0] < math.sqrt(sum(x * x for x in sums[1:]) / 8) < 2 * sums[0]
    assert seen["skipped_steps"] == 0 and not seen["has_dropout"]


def test_what_the_optimizer_is_set_to(sketched) -> None:
    """By parameter, at the first step; a rate may be a tensor, which a captured step needs, and a schedule may have changed it."""
    seen = sketched(setup="def groups(all, lr): return torch.optim.AdamW([{'params': all[:1], 'lr': torch.tensor(0.5)}, {'params': all[1:]}], lr, capturable=False)",
                    optimizer="groups", step="    optimizer.param_groups[1]['lr'] = 0.25 / (step + 1)" + PLAIN)
    set_to = {name: seen["settings"][one["settings"]] for name, one in seen["by_name"].items() if one["settings"] is not None}
    assert {name: one["lr"] for name, one in set_to.items()} == {"words.weight": [0.5], "inner.weight": [0.25], "inner.bias": [0.25]}
    for one in set_to.values():
        assert one["optimizer"] == "AdamW" and one["betas"] == [0.9, 0.999] and one["weight_decay"] == [0.01] and "fused" not in one


@pytest.mark.parametrize("step", [
    "    with torch.autocast('cpu', enabled=False):" + PLAIN.replace("\n", "\n    "),
    """
    def closure():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())
        loss.backward()
        return loss
    optimizer.step(closure)
""",
    """
    for half in x.chunk(2):
        (nn.functional.cross_entropy(model(half).flatten(0, 1), half.flatten()) / 2).backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    """
    scaler = globals().setdefault("scaler", torch.amp.GradScaler("cpu"))
    scaler.scale(nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
""",
    """
    wrapped = globals().setdefault("wrapped", nn.Sequential(torch.compile(model, backend="eager")))
    nn.functional.cross_entropy(wrapped(x).flatten(0, 1), x.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
""",
])
def test_the_gradients_are_those_that_the_optimizer_uses(sketched, step) -> None:
    plain, other = sketched(), sketched(step)
    names = {name.removeprefix("0.") for name in other["by_name"]}
    assert names == set(plain["by_name"])
    own = {name.removeprefix("0."): one for name, one in other["by_name"].items()}
    for name, one in plain["by_name"].items():
        for before, after in zip(one["gradients"] + one["changes"], own[name]["gradients"] + own[name]["changes"]):
            assert near(after, before), name


def test_a_fused_optimizer_that_unscales_by_itself(sketched) -> None:
    step = """
    scaler = globals().setdefault("scaler", torch.amp.GradScaler("cpu"))
    scaler.scale(nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""
    fused = sketched(step, setup="Fused = lambda *given, **named: torch.optim.AdamW(*given, fused=True, **named)", optimizer="Fused")
    assert near(gradients(fused), gradients(sketched()))


@pytest.mark.parametrize("fused", [False, True])
def test_skipped_steps_are_counted(sketched, fused) -> None:
    seen = sketched("""
    scaler = globals().setdefault("scaler", torch.amp.GradScaler("cpu"))
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())
    scaler.scale(loss * (float("inf") if step == 0 else 1)).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
""", setup=f"Fused = lambda *given, **named: torch.optim.AdamW(*given, fused={fused}, **named)", optimizer="Fused")
    assert seen["skipped_steps"] == 1


def test_strides_do_not_matter() -> None:
    import ladder_sketch
    x = torch.randn(6, 5, 3, 4)
    sums = ladder_sketch.Sums(torch)
    assert near(sums.of(x.to(memory_format=torch.channels_last)).tolist(), sums.of(x).tolist())
    assert not near(sums.of(x.transpose(2, 3).contiguous()).tolist(), sums.of(x).tolist())


@pytest.mark.parametrize("size", [1, 65535, 65536, 65537, 1 << 20, (1 << 20) + 70001])
def test_sums_of_large_tensors(size) -> None:
    """Distances, and against sums whose signs are made one after the other."""
    import ladder_sketch
    x = torch.linspace(-1, 1, size)
    found = ladder_sketch.Sums(torch).of(x)
    table = ladder_sketch.signs(torch, 0, 1 << 16, "cpu")
    expected = torch.zeros(8, dtype=torch.float64)
    for block, part in enumerate(x.double().split(1 << 16)):
        own = ladder_sketch.signs(torch, (1 << 16) + block, 1, "cpu")[0] if size > 1 << 16 else 1
        expected += part @ table[: len(part)] * own
    assert near(found[1:].tolist(), expected.tolist()) and near(found[0].item(), x.double().norm().item())


def test_rounding_is_as_large_as_asked_and_leaves_random_numbers_alone(sketched) -> None:
    plain = sketched()
    off = {}
    for bits in (22, 12):
        seen = sketched(LADDER_LOOK_ROUNDING=f"{bits}+1")
        assert list(seen["look"]) == ["look", "sketch"] and seen["printed"].split()[1] == plain["printed"].split()[1]
        assert [one["weights"] for one in seen["parameters"]] == [one["weights"] for one in plain["parameters"]]
        off[bits] = max(abs(a - b) for a, b in zip(gradients(seen), gradients(plain))) / gradients(plain)[0]
    assert 2**-25 < off[22] < 2**-19 and 2**-14 < off[12] < 2**-8, off


def test_dropout_is_told(sketched) -> None:
    step = PLAIN.replace("model(x)", "nn.functional.dropout(model(x), {})")
    assert sketched(step.format(0.1), LADDER_LOOK_ROUNDING="22+1")["has_dropout"]
    assert not sketched(step.format(0.0), LADDER_LOOK_ROUNDING="22+1")["has_dropout"]


def test_a_sketch_that_fails_leaves_the_look(run, tmp_path) -> None:
    done = run("import torch\ntorch.stack = None\n" + PROGRAM.format(step=PLAIN, setup="", optimizer="torch.optim.SGD"), folders=(LOOK,),
               LADDER_LOOK=tmp_path / "look.json")
    assert done.returncode == 0, done.stderr
    look = json.loads((tmp_path / "look.json").read_text())
    assert look["products"] and look["sketch"]["failure"].startswith("TypeError")


@pytest.fixture(autouse=True)
def path(monkeypatch) -> None:
    monkeypatch.syspath_prepend(LOOK)
