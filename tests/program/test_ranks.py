"""Several processes: the losses of one with so large a batch, bytes and efficiency in the record, and what happens if a rank is lost.

Ranks are plain processes that find each other by the environment, as torchrun and Slurm set it. The two-layer model, a token file
that is made here.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from conftest import MEASURED, HANGS_AFTER_S, ROOT, free_port, ladder_document, read_json, script, validator, write_json
from test_train import figures, lines, steps_saved, token_file

STEPS = 20
RECIPE = {"attention": "flash", "optimizer": "fused"}
MASTER = {**RECIPE, "norm": "fused", "mlp": "fused", "cross_entropy": "fused", "weights": "master"}


def ddp(recipe: dict) -> dict:
    return {**recipe, "data_parallel": "ddp"}


DDP = ddp(RECIPE)
SHAPE = ["--model", "tiny", "-T", 16, "--threads", 1, "--seed", 5]
TRAIN = ["train", *SHAPE, "--accumulation", 2, "--lr", "0.003", "--warmup-steps", 5, "--validation-every", 10, "--validation-batches", 3]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> pathlib.Path:
    chance = np.random.default_rng(1)
    words = chance.integers(0, 50257, 40)
    return token_file(tmp_path_factory.mktemp("data") / "text.bin", words[chance.integers(0, 40, 4000)])


@pytest.fixture
def start_ranks(program, environment, tmp_path):
    """start_ranks([arguments of rank 0, of rank 1], ...): their processes, killed when the test ends."""
    started = []

    def run(*arguments, variables=None) -> list[subprocess.Popen]:
        shared = {"WORLD_SIZE": str(len(arguments)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), **(variables or {})}
        ranks = []
        for rank, own in enumerate(arguments):
            ranks.append(subprocess.Popen([program, *map(str, own)], cwd=tmp_path, text=True, stdin=subprocess.DEVNULL,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                          env=environment | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}))
            started.append(ranks[-1])
        return ranks

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def two_ranks(start_ranks):
    """two_ranks(arguments): both ended well. What rank 0 printed, which prints alone."""

    def run(*arguments) -> tuple[str, str]:
        first, second = start_ranks(arguments, arguments)
        shown, said = first.communicate(timeout=HANGS_AFTER_S)
        printed, of_second = second.communicate(timeout=HANGS_AFTER_S)
        assert first.returncode == second.returncode == 0, said + of_second
        assert printed == "" and "rank" not in of_second  # c10d may say that it had to wait
        return shown, said

    return run


@pytest.mark.parametrize("recipe", [RECIPE, MASTER], ids=["separate", "master"])
def test_two_ranks_give_the_losses_of_one_with_twice_the_batch(ladder, two_ranks, data, tmp_path, recipe) -> None:
    """Not to the bit: the mean over a batch is summed in another order, and AdamW's steps carry that on."""
    one, half, two = tmp_path / "one", tmp_path / "half", tmp_path / "two"
    for folder, B in ((one, 4), (half, 2)):
        done = ladder(*TRAIN, "--steps", STEPS, "--data", data, "-B", B, "--recipe", json.dumps(recipe), "--out", folder)
        assert done.returncode == 0, done.stderr
    shown, said = two_ranks(*TRAIN, "--steps", STEPS, "--data", data, "-B", 2, "--recipe", json.dumps(ddp(recipe)), "--out", two)
    assert len(shown.splitlines()) == STEPS and "(2 micro-steps of 4 x 16)" in said
    assert "\n2 ranks: each works on 2 of 4 sequences at a time\n" in said

    def columns(folder: pathlib.Path, name: str) -> list[float]:
        return [line[name] for line in lines(folder) if name in line]

    for name, tolerance in (("loss", 1e-3), ("validation_loss", 1e-3), ("norm", 1e-2)):
        assert columns(two, name) == pytest.approx(columns(one, name), abs=tolerance), name
        assert columns(half, name) != pytest.approx(columns(one, name), abs=tolerance), name
    assert columns(two, "loss")[0] == pytest.approx(columns(one, "loss")[0], abs=1e-5)
    assert columns(two, "tokens") == columns(one, "tokens")

    settings = read_json(two / "training.json")["settings"]
    validator("training").validate(read_json(two / "training.json"))
    assert settings["ranks"] == 2 and settings["batch"] == 2 and "ranks" not in read_json(one / "training.json")["settings"]
    positions = [read_json(folder / "latest" / "checkpoint.json")["position"] for folder in (one, two)]
    assert positions[0] == positions[1]


def test_the_record_has_bytes_and_efficiency(ladder, two_ranks, data, tmp_path) -> None:
    run = ["run", *SHAPE, "-B", 2, "--accumulation", 2, "--warmup", 2, "--steps", 3, "--data", data]
    shown, _ = two_ranks(*run, "--recipe", json.dumps(ddp(MASTER)), "--out", tmp_path / "two.json")
    record = read_json(tmp_path / "two.json")
    validator("record").validate(record)
    work, scaling = record["workload"], record["scaling"]
    assert work["ranks"] == 2 and work["tokens_per_step"] == 2 * 2 * 2 * 16
    assert scaling["bytes_per_step"] == 4 * work["parameters"] + 8  # gradients once, not in each micro-step; loss and interrupts
    assert scaling["alone_ms"] > 0 and scaling["efficiency"] == pytest.approx(scaling["alone_ms"] / record["summary"]["median_ms"])
    assert [proof["field"] for proof in record["proofs"] if not proof["passed"]] == []
    assert "\n2 ranks: each gives " in shown and f"scaling efficiency {scaling['efficiency']:.2f}" in shown

    done = ladder(*run, "--recipe", json.dumps(MASTER), "--json")
    record = json.loads(done.stdout)
    assert "scaling" not in record and "ranks" not in record["workload"]
    (proof,) = [proof for proof in record["proofs"] if proof["field"] == "data_parallel"]
    assert proof["passed"] and proof["observed"].startswith("0 all-reduces of 0 bytes")


def begin(start_ranks, data, folder: pathlib.Path, recipe=RECIPE, **variables) -> list[subprocess.Popen]:
    """A training that ends by no itself, after some steps; each has its checkpoint."""
    arguments = [*TRAIN, "--steps", 100000, "--data", data, "-B", 2, "--recipe", json.dumps(ddp(recipe)), "--save-every", 1, "--out", folder]
    ranks = start_ranks(arguments, arguments, variables=variables)
    for _ in range(3):
        assert ranks[0].stdout.readline().startswith("step ")
    return ranks


def assert_ends_for_a_lost_rank(first: subprocess.Popen, folder: pathlib.Path) -> None:
    _, said = first.communicate(timeout=HANGS_AFTER_S)
    last = steps_saved(folder)[-1]
    assert first.returncode == 1
    assert re.search(rf"^ladder: rank 0 of 2 has lost another rank, which has ended or has not answered for \d+ s \(LADDER_RANK_TIMEOUT\): .+: "
                     rf"training stops; the last good checkpoint is of step {last}: {re.escape(str(folder))}", said, re.M), said
    assert not list(folder.rglob("*.tmp"))


def test_a_lost_rank_ends_all_and_they_go_on_from_the_last_checkpoint(ladder, start_ranks, data, tmp_path) -> None:
    folder = tmp_path / "training"
    first, second = begin(start_ranks, data, folder, MASTER)
    second.kill()
    assert_ends_for_a_lost_rank(first, folder)
    last = steps_saved(folder)[-1]
    loaded = ladder("train", *SHAPE, "--steps", 1, "--data", data, "--recipe", json.dumps(RECIPE), "--validation-share", 0,
                    "--weights", folder / "latest" / "model.safetensors")
    assert loaded.returncode == 0, loaded.stderr

    alone = ladder("train", "--resume", "--out", folder)
    assert alone.returncode == 2 and "data_parallel ddp needs ranks" in alone.stderr
    resume = ["train", "--resume", "--out", folder]
    three = start_ranks(resume, resume, resume)
    for rank in three:
        _, said = rank.communicate(timeout=HANGS_AFTER_S)
        assert rank.returncode == 2 and "--resume: WORLD_SIZE must be 2, as when the training began, got 3" in said

    # One that is told to end ends all, after the same step.
    before = figures(folder)[:last]
    first, second = start_ranks(resume, resume)
    assert first.stdout.readline().split()[1].startswith(f"{last + 1}/")
    second.send_signal(signal.SIGTERM)
    _, said = first.communicate(timeout=HANGS_AFTER_S)
    assert second.communicate(timeout=HANGS_AFTER_S)[0] == "" and first.returncode == second.returncode == 130, said
    done = int(re.search(r"^interrupted after step (\d+) of 100000$", said, re.M)[1])
    assert f"\nresumes after step {last}\n" in said and done > last and steps_saved(folder)[-1] == done
    assert figures(folder)[:last] == before and len(figures(folder)) == done


def test_without_rank_0_the_others_end(start_ranks, data, tmp_path) -> None:
    """It listens for the others at MASTER_PORT, and writes."""
    folder = tmp_path / "training"
    first, second = begin(start_ranks, data, folder)
    first.kill()
    shown, said = second.communicate(timeout=HANGS_AFTER_S)
    assert second.returncode == 1 and shown == "" and "ladder: rank 1 of 2 has lost another rank" in said
    assert f": training stops; --resume continues from the last checkpoint in {folder}" in said


@pytest.mark.thorough
def test_a_rank_that_does_not_answer_is_lost(start_ranks, data, tmp_path) -> None:
    """It waits as long as the ranks may take to answer on a busy machine."""
    folder = tmp_path / "training"
    first, second = begin(start_ranks, data, folder, LADDER_RANK_TIMEOUT="20")
    second.send_signal(signal.SIGSTOP)
    assert_ends_for_a_lost_rank(first, folder)


def test_ranks_must_have_the_same_work(start_ranks, data) -> None:
    one, other = ([*TRAIN, "--steps", 5, "--data", data, "-B", 1, "--recipe", json.dumps(DDP), "--clip", clip] for clip in (1, 2))
    _, second = start_ranks(one, other)
    _, said = second.communicate(timeout=HANGS_AFTER_S)
    assert second.returncode == 2 and "ladder: rank 1 has other work than rank 0: settings/clip 2.0; rank 0: settings/clip 1.0\n" in said, said


RANKS = {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(("variables", "recipe", "message"), [
    ({"RANK": "0"}, RECIPE, "WORLD_SIZE is missing in the environment, where RANK is set"),
    ({"WORLD_SIZE": "two"}, DDP, 'WORLD_SIZE in the environment must be a whole number between 1 and 65536, got "two"'),
    ({**RANKS, "RANK": "2"}, DDP, 'RANK in the environment must be a whole number between 0 and 1, got "2"'),
    ({**RANKS, "LADDER_RANK_TIMEOUT": "1m"}, DDP, 'LADDER_RANK_TIMEOUT in the environment must be a whole number between 1 and 86400, got "1m"'),
    ({name: RANKS[name] for name in RANKS if name != "LOCAL_RANK"}, DDP, "LOCAL_RANK is missing in the environment, where WORLD_SIZE is set"),
    (RANKS, RECIPE, "recipe: data_parallel must be ddp where WORLD_SIZE is 2"),
    ({}, DDP, "recipe: data_parallel ddp needs ranks, which torchrun or a script for Slurm starts"),
])
def test_what_the_environment_must_say(ladder, data, variables, recipe, message) -> None:
    command = [*TRAIN, "--steps", 2] if "LOCAL_RANK" in variables else ["run", *SHAPE, "--steps", 1, "--warmup", 0]
    done = ladder(*command, "--data", data, "--recipe", json.dumps(recipe), variables=variables)
    assert done.returncode == 2 and f"ladder: {message}" in done.stderr, (command, done.stderr)


def test_to_other_commands_a_launchers_variables_are_somebody_elses(ladder, data, tmp_path) -> None:
    file = write_json(tmp_path / "small.json", ladder_document(rungs=["flash"]))
    for variables in (RANKS, {"WORLD_SIZE": "4"}, {"WORLD_SIZE": "", "RANK": "many"}):
        assert ladder("doctor", "--plan", "{}", "--model", "tiny", variables=variables).returncode == 0
    done = ladder("ablate", "--ladder", file, "--threads", 1, "--data", data, "--out", tmp_path / "study", variables=RANKS)
    assert done.returncode in MEASURED, done.stderr
    unset = dict.fromkeys(RANKS, "")
    done = ladder(*TRAIN, "--steps", 10, "--data", data, "--recipe", json.dumps(RECIPE), variables=unset)
    assert done.returncode == 0, done.stderr
