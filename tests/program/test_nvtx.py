"""What a tool that listens to NVTX sees of a run. nvtx_tool.cpp is attached as Nsight Systems would be, and writes down all ranges. On a
CPU the backward pass runs on the trainer's thread, so its ranges lie within the phase. On a GPU (a fake one, tests/fake_cuda) it has
its own thread."""

import dataclasses
import itertools
import os
import pathlib
import re

import pytest
from conftest import read_json

WARMUP, STEPS = 1, 2
OBSERVED = 1  # steps after the timed ones, for the proofs
RUN = ["run", "--model", "tiny", "-B", "2", "-T", "16", "--steps", STEPS, "--threads", "1"]
BLOCK = ["ln_1", "c_attn", "attention", "attn_proj", "residual", "ln_2", "c_fc", "gelu", "mlp_proj", "residual"]


@dataclasses.dataclass
class Range:
    name: str
    inner: list["Range"] = dataclasses.field(default_factory=list)

    def names(self) -> list[str]:
        return [range_.name for range_ in self.inner]


@dataclasses.dataclass
class Seen:
    file: pathlib.Path
    losses: list[float]

    def events(self) -> list[list[str]]:
        return [line.split("\t") for line in self.file.read_text().splitlines()]

    def steps(self) -> list[Range]:
        """The outermost ranges of all threads. Every range must have begun and ended."""
        outermost, begun = [], {}
        for thread, domain, what, name in self.events():
            stack = begun.setdefault((thread, domain), [])
            if what == "push":
                (stack[-1].inner if stack else outermost).append(Range(name))
                stack.append((stack[-1].inner if stack else outermost)[-1])
            else:
                assert stack, f"thread {thread}: a range ends that has not begun"
                stack.pop()
        assert not any(begun.values()), f"ranges that do not end: {begun}"
        return outermost


@pytest.fixture(scope="module")
def run(program, ladder, tmp_path_factory):
    """run(attached, ...): `ladder run` with or without the tool."""
    library = os.environ.get("NVTX_TOOL_LIBRARY") or pytest.skip("NVTX_TOOL_LIBRARY is not set")

    def start(*flags: str, warmup: int = WARMUP, attached: bool = True, status: int = 0, **others: str) -> Seen:
        folder = tmp_path_factory.mktemp("nvtx")
        variables = {"NVTX_TOOL_FILE": str(folder / "ranges")} | ({"NVTX_INJECTION64_PATH": library} if attached else {})
        done = ladder(*RUN, "--warmup", warmup, *flags, "--out", folder / "record.json", variables=variables | others)
        assert done.returncode == status, done.stdout + done.stderr
        return Seen(folder / "ranges", read_json(folder / "record.json")["timing"]["loss"])

    return start


@pytest.fixture(scope="module")
def seen(run) -> Seen:
    return run()


def test_all_ranges_are_in_one_domain_and_end(seen) -> None:
    assert {domain for _, domain, _, _ in seen.events()} == {"gpt2-ladder"}
    assert [step.name for step in seen.steps()] == ["step"] * (WARMUP + STEPS + OBSERVED)


def test_a_step_holds_its_phases_in_order(seen) -> None:
    for step in seen.steps():
        assert step.names() == ["data", "forward", "backward", "clip", "update"]
        data, _, _, clip, update = step.inner
        assert data.inner == clip.inner == update.inner == []


def test_forward_holds_the_layers_and_their_parts(seen) -> None:
    for step in seen.steps():
        forward = step.inner[1]
        assert forward.names() == ["embed", "layer 0", "layer 1", "ln_f", "head", "cross_entropy"]
        for part in forward.inner:
            assert part.names() == (BLOCK if part.name.startswith("layer") else [])


def test_backward_is_told_by_layer_last_one_first(seen) -> None:
    for step in seen.steps():
        found = [re.fullmatch(r"(\w+) of layer (\d+)", name) for name in step.inner[2].names()]
        parts = [(int(match[2]), match[1]) for match in found if match]
        assert [layer for layer, _ in itertools.groupby(parts, key=lambda part: part[0])] == [1, 0]
        for layer in (0, 1):
            assert {part for at, part in parts if at == layer} == set(BLOCK)
        others = {name for name, match in zip(step.inner[2].names(), found, strict=True) if not match}
        assert others == {"cross_entropy", "head", "ln_f", "embed", "accumulate_grad"}


def test_every_micro_step_has_its_own_forward_and_backward(run) -> None:
    for step in run("--accumulation", "2").steps():
        assert step.names() == ["data", "forward", "backward", "forward", "backward", "clip", "update"]


@pytest.mark.parametrize("rung, replays", [("gpu", False), ("graph", True)])
def test_on_a_gpu_the_phases_cover_the_step(run, preloadable, rung, replays) -> None:
    library = os.environ.get("FAKE_CUDA") or pytest.skip("FAKE_CUDA is not set: the headers of cuBLAS, cuDNN or NCCL were not found")
    seen = run("--ladder", "gpt2", "--rung", rung, warmup=4, status=1, LD_PRELOAD=str(preloadable(library)), CUDA_VISIBLE_DEVICES="0")
    outermost = seen.steps()
    steps = [one for one in outermost if one.name == "step"]
    phases = ["data", "forward", "backward", "clip", "update"]
    assert [one.names() for one in steps[:3]] == [phases] * 3
    assert steps[3].names() == phases + ["replay"] * replays  # with a graph, this step is captured
    assert [one.names() for one in steps[4:6]] == [["data", "replay"] if replays else phases] * 2
    assert all(not one.inner[2].inner for one in steps[:4])  # autograd's thread has these ranges
    backward = {one.name for one in outermost} - {"step"}
    parts = {part for part in BLOCK for layer in (0, 1) if f"{part} of layer {layer}" in backward}
    assert parts == set(BLOCK) and {"cross_entropy", "head", "ln_f", "embed", "accumulate_grad"} <= backward


def test_without_a_tool_nothing_is_written_and_the_same_is_learned(run, seen) -> None:
    alone = run(attached=False)
    assert not alone.file.exists()
    assert alone.losses == seen.losses
