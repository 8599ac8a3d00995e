"""The model, its gradients and some optimizer steps against Hugging Face's transformers and torch.optim.AdamW.

PARITY_DUMP names the helper program (parity_dump.cpp), which trains under one recipe and writes down what happened.
The same happens here in transformers, from the same random weights and the same token file; each test compares one
thing. Weights are drawn so that a mistake shows: no bias is zero, no two tensors are alike, attention is far from
uniform, and embeddings are so small that LayerNorm's epsilon matters. Padding rows of the vocabulary are given to
transformers as rows of a larger vocabulary.
"""

import copy
import dataclasses
import json
import math
import os
import pathlib
import subprocess
import tempfile
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors_torch = pytest.importorskip("safetensors.torch")

STEPS = {"tiny": 10, "gpt2-124m": 4}
VOCABULARY = 50257
SIZES = {
    "tiny": {"n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 64},
    "gpt2-124m": {"n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024},
}


@dataclasses.dataclass(frozen=True)
class Case:
    model: str
    B: int
    T: int
    attention: str
    optimizer: str
    accumulation: int = 1
    rows: int = VOCABULARY
    schedule: tuple[int, int] | None = None  # warm-up and decay steps; None: our defaults

    @property
    def steps(self) -> int:
        return STEPS[self.model]


CASES = [
    Case("tiny", 2, 16, "manual", "loop"),
    Case("tiny", 2, 16, "flash", "foreach"),
    Case("tiny", 2, 16, "math", "fused"),
    Case("tiny", 2, 64, "manual", "fused"),
    Case("tiny", 2, 64, "flash", "loop"),
    Case("tiny", 2, 16, "manual", "loop", accumulation=2),
    Case("tiny", 2, 64, "flash", "fused", accumulation=2),
    Case("tiny", 2, 16, "manual", "foreach", rows=50304),
    Case("tiny", 2, 64, "flash", "fused", rows=50304),
    Case("tiny", 2, 16, "flash", "fused", schedule=(3, 8)),
    Case("gpt2-124m", 1, 64, "manual", "loop"),
    Case("gpt2-124m", 1, 64, "flash", "fused"),
]


# Of the large model one recipe; the other differs from it in what the small one shows.
THOROUGH = CASES[-2]


def random_model(size: str) -> "transformers.GPT2LMHeadModel":
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        activation_function="gelu_new",
        layer_norm_epsilon=1e-5,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=True,
        attn_implementation="eager",
        **SIZES[size],
    )
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0.0, 0.1)
            elif parameter.dim() == 1:
                parameter.normal_(1.0, 0.1)
            elif ".wte." in name or ".wpe." in name:
                parameter.normal_(0.0, 0.3 * parameter.shape[1] ** -0.5)
            else:
                parameter.normal_(0.0, parameter.shape[0] ** -0.5)  # Conv1D: (in, out)
    return model


def with_padding(model: "transformers.GPT2LMHeadModel", padding: "torch.Tensor") -> "transformers.GPT2LMHeadModel":
    """A copy with `padding` as further rows of the vocabulary."""
    if len(padding) == 0:
        return copy.deepcopy(model)
    config = copy.deepcopy(model.config)
    config.vocab_size += len(padding)
    padded = transformers.GPT2LMHeadModel(config)
    state = model.state_dict()
    state["transformer.wte.weight"] = state["lm_head.weight"] = torch.cat([state["transformer.wte.weight"], padding])
    padded.load_state_dict(state)
    return padded


def write_token_file(path: pathlib.Path, tokens: np.ndarray) -> None:
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, len(tokens)
    path.write_bytes(header.tobytes() + tokens.astype("<u2").tobytes())


def random_tokens(case: Case) -> np.ndarray:
    """Six batches and a bit, so that ten steps start over; half of the tokens come from a few, as in a text."""
    source = np.random.default_rng(2)
    count = 6 * case.B * case.T + 7
    tokens = np.where(source.random(count) < 0.5, source.integers(0, 20, count), source.integers(0, VOCABULARY, count))
    tokens[:2] = 0, VOCABULARY - 1
    return tokens


def batches(case: Case, tokens: np.ndarray) -> list[tuple["torch.Tensor", "torch.Tensor"]]:
    """Inputs and targets of every micro-step: windows of B * T tokens in a row, from the start again after the last."""
    window = case.B * case.T
    windows = (len(tokens) - 1) // window
    starts = [i % windows * window for i in range(case.steps * case.accumulation)]
    cut = lambda first: torch.from_numpy(tokens[first : first + window].reshape(case.B, case.T))
    return [(cut(start), cut(start + 1)) for start in starts]


def learning_rates(case: Case) -> list[float]:
    warmup, decay = case.schedule or (10, 50)

    def at(step: int) -> float:
        if step < warmup:
            return 6e-4 * (step + 1) / warmup
        return 6e-5 + 0.5 * (1 + math.cos(math.pi * min((step - warmup) / (decay - warmup), 1))) * (6e-4 - 6e-5)

    return [at(step) for step in range(case.steps)]


def loss_of(model: "transformers.GPT2LMHeadModel", inputs: "torch.Tensor", targets: "torch.Tensor") -> "torch.Tensor":
    return torch.nn.functional.cross_entropy(model(inputs).logits.flatten(0, 1), targets.flatten())


def tensors_of(model: "transformers.GPT2LMHeadModel", of=lambda parameter: parameter) -> dict[str, "torch.Tensor"]:
    """Copies of every parameter, or of its gradient, without padding rows."""
    return {name: of(p).detach()[:VOCABULARY].clone() for name, p in model.named_parameters()}


def train(model: "transformers.GPT2LMHeadModel", case: Case, data: list) -> list[float]:
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step, learning_rate in enumerate(learning_rates(case)):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate
        optimizer.zero_grad()
        losses.append(0.0)
        for inputs, targets in data[step * case.accumulation : (step + 1) * case.accumulation]:
            loss = loss_of(model, inputs, targets) / case.accumulation
            loss.backward()
            losses[-1] += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        assert norm > 1.0 or case.B * case.T > 100, "small batches must need clipping, or it is not tested"
        optimizer.step()
    return losses


def reference(case: Case, model: "transformers.GPT2LMHeadModel", data: list) -> dict:
    """What transformers makes of the model; trains it."""
    logits = model(data[0][0]).logits.detach()
    loss = loss_of(model, *data[0])
    loss.backward()
    gradients = tensors_of(model, lambda parameter: parameter.grad)
    losses = train(model, case, data)
    trained = tensors_of(model)
    return {"logits": logits, "loss": loss.item(), "gradients": gradients, "losses": losses, "trained": trained}


@pytest.fixture(scope="module")
def kept() -> dict:
    """The last model and the last reference, each with what it was made for: neighbouring cases share them."""
    torch.set_num_threads(2)
    return {}


@pytest.fixture(scope="module", ids=str, params=[
    pytest.param(case, marks=pytest.mark.thorough if case == THOROUGH else ()) for case in CASES])
def both(request: pytest.FixtureRequest, kept: dict):
    """One case, done by us (`ours`, `saved`: two files' tensors) and by transformers (what `reference` returns)."""
    program = os.environ.get("PARITY_DUMP") or pytest.skip("PARITY_DUMP is not set")
    case: Case = request.param
    if kept.get("size") != case.model:
        kept.update(size=case.model, model=random_model(case.model), same=None)
    model = kept["model"]
    tokens = random_tokens(case)
    with tempfile.TemporaryDirectory() as path:  # up to 2 GB, which tmp_path would keep
        folder = pathlib.Path(path)
        write_token_file(folder / "tokens.bin", tokens)
        safetensors_torch.save_file(tensors_of(model), folder / "weights.safetensors", metadata={"format": "pt"})
        recipe = {"attention": case.attention, "optimizer": case.optimizer, "vocabulary_rows": case.rows}
        files = {name: f"{name}.safetensors" for name in ("weights", "out", "save")} | {"tokens": "tokens.bin"}
        sizes = {"model": case.model, "B": case.B, "T": case.T, "accumulation": case.accumulation, "steps": case.steps}
        schedule = dict(zip(("warmup_steps", "decay_steps"), case.schedule or ()))
        command = [program, json.dumps({**files, **sizes, **schedule, "recipe": recipe})]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        ours = safetensors_torch.load_file(folder / "out.safetensors")
        saved = safetensors_torch.load_file(folder / "save.safetensors")

    padding = ours["padding"]
    assert padding.shape == (case.rows - VOCABULARY, SIZES[case.model]["n_embd"])
    data = batches(case, tokens)
    same = (dataclasses.replace(case, attention="", optimizer=""), padding.numpy().tobytes())
    if kept["same"] != same:
        kept.update(same=same, reference=reference(case, with_padding(model, padding), data))
    return types.SimpleNamespace(case=case, data=data, model=model, ours=ours, saved=saved, **kept["reference"])


def assert_within(limit: float, errors: dict[str, float]) -> None:
    """Prints the largest error (shown by pytest -rP) and fails with all those above the limit, or not a number."""
    worst = max(errors, key=lambda name: math.inf if math.isnan(errors[name]) else errors[name])
    print(f"largest error {errors[worst]:.2g}, allowed {limit:g}: {worst}")
    bad = {name: f"{error:.3g}" for name, error in errors.items() if not error <= limit}
    assert not bad, f"errors above {limit:g}: {bad}"


def largest(difference: "torch.Tensor") -> float:
    return difference.abs().max().item()


def test_logits(both) -> None:
    assert both.ours["logits"].shape == (both.case.B, both.case.T, both.case.rows)
    assert_within(1e-4, {"logits": largest(both.ours["logits"] - both.logits)})


def test_loss(both) -> None:
    assert_within(1e-5, {"loss": abs(both.ours["loss"].item() - both.loss)})


def test_gradients(both) -> None:
    ours = {name.removeprefix("gradient."): t for name, t in both.ours.items() if name.startswith("gradient.")}
    assert ours.keys() == both.gradients.keys()
    assert_within(1e-4, {name: ((ours[name] - g).norm() / g.norm()).item() for name, g in both.gradients.items()})


def test_losses(both) -> None:
    ours = both.ours["losses"].tolist()
    assert len(ours) == both.case.steps and both.losses[-1] < both.losses[0] - 0.01
    assert_within(1e-4, {f"step {i}": abs(a - b) for i, (a, b) in enumerate(zip(ours, both.losses))})


def test_weights_move_alike(both) -> None:
    """Difference after the last step, relative to how far the tensor has moved: it sees what losses are too coarse for."""
    errors = {}
    for name, before in tensors_of(both.model).items():
        ours, theirs = both.saved[name], both.trained[name]
        if name.endswith("c_attn.bias"):  # softmax cancels the key's bias: its gradient is rounding, its step noise
            query, _, value = zip(*(t.chunk(3) for t in (ours, theirs, before)))
            ours, theirs, before = map(torch.cat, zip(query, value))
        errors[name] = ((ours - theirs).norm() / (theirs - before).norm()).item()
    assert_within(1e-3, errors)


def test_saved_weights_in_transformers(both) -> None:
    assert both.saved["transformer.wte.weight"].shape[0] == VOCABULARY
    model = copy.deepcopy(both.model)
    keys = model.load_state_dict(both.saved, strict=False)
    assert (keys.missing_keys, keys.unexpected_keys) == (["lm_head.weight"], [])
    with torch.no_grad():
        theirs = model(both.data[0][0]).logits
    assert_within(1e-4, {"logits": largest(both.ours["final_logits"][..., :VOCABULARY] - theirs)})
