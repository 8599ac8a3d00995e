"""`ladder train`: a training that is stopped, killed or out of room goes on to the same losses, and what it leaves is what others read.

The two-layer model on a token file that is made here. Steps take milliseconds; most of the time is the start of the program.
"""

import csv
import json
import pathlib
import re
import resource
import shutil
import signal
import struct

import numpy as np
import pytest
from conftest import MEASURED, DRAWN, HANGS_AFTER_S, read_json, validator, wait_for, write_json

STEPS = 40
B, T, ACCUMULATION, VALIDATION_BATCHES = 2, 16, 2, 3
TOKENS = 4000
SIZES = ["--model", "tiny", "-B", B, "-T", T, "--threads", 1]
# Padding rows, moments and 16-bit weights are all kept. In float32 otherwise, so that transformers can follow.
RECIPE = {"attention": "flash", "optimizer": "fused", "vocabulary_rows": 50304}
SETTINGS = [*SIZES, "--accumulation", ACCUMULATION, "--steps", STEPS, "--lr", "0.003", "--warmup-steps", 5, "--recipe", json.dumps(RECIPE),
            "--validation-every", 10, "--validation-batches", VALIDATION_BATCHES, "--seed", 5]

# What batch systems, terminals and limits send, and SIGTERM.
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGPWR)


def token_file(path: pathlib.Path, tokens) -> pathlib.Path:
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, len(tokens)
    path.write_bytes(header.tobytes() + np.array(tokens, "<u2").tobytes())
    return path


def lines(folder: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def step_of(shown: str) -> int:
    return int(re.match(r"step +(\d+)/", shown)[1])


def figures(folder: pathlib.Path) -> list[tuple]:
    """Of each step all that does not depend on the clock, or on when a checkpoint was saved."""
    return [(line["step"], line["tokens"], line["loss"], line["norm"], line["clip"], line["learning_rate"]) for line in lines(folder)]


def steps_saved(folder: pathlib.Path) -> list[int]:
    names = [path.name for path in (folder / "checkpoints").iterdir()]
    return sorted(int(name.removeprefix("step-")) for name in names if re.fullmatch(r"step-\d{8}", name))


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> pathlib.Path:
    chance = np.random.default_rng(1)
    words = chance.integers(0, 50257, 40)
    return token_file(tmp_path_factory.mktemp("data") / "text.bin", words[chance.integers(0, 40, TOKENS)])


@pytest.fixture(scope="module")
def whole(ladder, data, tmp_path_factory):
    """A training that nothing has disturbed: its folder and the finished process."""
    folder = tmp_path_factory.mktemp("whole") / "training"
    done = ladder("train", *SETTINGS, "--data", data, "--save-every", 15, "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.fixture
def assert_is_whole(whole):
    def check(folder: pathlib.Path) -> None:
        assert figures(folder) == figures(whole[0])
        for name in ("model.safetensors", "optimizer.safetensors"):
            assert (folder / "latest" / name).read_bytes() == (whole[0] / "latest" / name).read_bytes(), name
        assert not list(folder.rglob("*.tmp"))

    return check


def test_what_a_training_leaves_and_tells(ladder, whole) -> None:
    folder, done = whole
    assert sorted(path.name for path in folder.iterdir()) == ["best", "checkpoints", "latest", "log.jsonl", "metrics.csv", "training.json"]
    training, log = read_json(folder / "training.json"), lines(folder)
    validator("training").validate(training)
    for line in log:
        validator("training_step").validate(line)
    assert [line["step"] for line in log] == list(range(1, STEPS + 1))
    assert training["settings"]["recipe"] == {**training["settings"]["recipe"], **RECIPE} and training["recipe_from"] == "--recipe"
    validated = {line["step"]: line["validation_loss"] for line in log if "validation_loss" in line}
    assert list(validated) == [10, 15, 20, 30, 40]  # every tenth step, and with each checkpoint
    assert log[-1]["loss"] < log[0]["loss"] - 1 and validated[40] < validated[10]
    assert [line["learning_rate"] for line in log[:5]] == pytest.approx([0.0006, 0.0012, 0.0018, 0.0024, 0.003])
    assert log[-1]["learning_rate"] == pytest.approx(0.0003, rel=0.1) and log[-1]["tokens"] == STEPS * B * T * ACCUMULATION
    for line in log:
        assert line["clip"] == pytest.approx(min(1, 1 / (line["norm"] + 1e-6)), rel=1e-5)
        assert line["tokens_per_s"] == pytest.approx(1000 * B * T * ACCUMULATION / line["ms"]) and "mfu" not in line

    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = ("step", "tokens", "loss", "validation_loss", "learning_rate", "norm", "clip", "ms", "tokens_per_s", "mfu", "spike")
    assert tuple(rows[0]) == names
    assert [{name: float(cell) for name, cell in row.items() if cell} for row in rows] == [
        {name: line[name] for name in names if name in line} for line in log]

    best = min((step for step in (15, 30, 40)), key=validated.get)
    assert steps_saved(folder) == sorted({30, 40, best})
    assert (folder / "latest").resolve().name == "step-00000040" and (folder / "best").resolve().name == f"step-{best:08}"
    for step in steps_saved(folder):
        checkpoint = read_json(folder / "checkpoints" / f"step-{step:08}" / "checkpoint.json")
        validator("checkpoint").validate(checkpoint)
        assert checkpoint["training"] == training and checkpoint["validation_loss"] == validated[step]

    shown = done.stdout.splitlines()
    assert len(shown) == STEPS
    number = r"[\d.,]+"
    assert re.fullmatch(rf"step  1/{STEPS}  loss {log[0]['loss']:.4f}  lr 6.00e-04  norm +{number}   *{number} ms  +{number} tokens/s  \d+:\d\d left",
                        shown[0]), shown[0]
    assert shown[-1].endswith(f"  validation {validated[40]:.4f}") and "left" not in shown[-1]
    said = done.stderr.splitlines()
    assert said[0] == "recipe: --recipe"
    assert said[1].startswith(f"tiny, 1.64M parameters: {STEPS} steps x 64 tokens (2 micro-steps of 2 x 16) = 2,560 tokens (71.1 % of an epoch)")
    place = folder / "checkpoints"
    assert said[2:] == [f"checkpoints: {place / f'step-{STEPS:08}'}", f"best: {place / f'step-{best:08}'}, step {best}, validation loss {validated[best]:.4f}",
                        f"next: ladder report {folder}, or ladder sample --weights {folder}"]
    assert ladder("sample", "--weights", folder, "--tokens", 3, "--threads", 1).stdout.strip()


def test_samples_are_written_and_change_nothing(ladder, data, tmp_path, assert_is_whole) -> None:
    folder = tmp_path / "training"
    done = ladder("train", *SETTINGS, "--data", data, "--save-every", 15, "--out", folder, "--sample-every", 25, "--sample-prompt",
                  "To be", "--sample-tokens", 7)
    assert done.returncode == 0, done.stderr
    samples = {line["step"]: line["sample"] for line in lines(folder) if "sample" in line}
    assert list(samples) == [1, 25, 40] and all(samples.values())
    assert done.stdout.count("\n    | ") >= 3
    for name in ("training", "training_step"):
        validator(name).validate(read_json(folder / "training.json") if name == "training" else lines(folder)[0])
    assert read_json(folder / "training.json")["samples"] == {"every": 25, "prompt": "To be", "tokens": 7}
    assert_is_whole(folder)
    assert "sample" not in (folder / "metrics.csv").read_text()


def test_a_sample_of_weights_that_are_not_finite_ends_the_training_as_any_step_does(ladder, data, tmp_path) -> None:
    folder = tmp_path / "training"
    done = ladder("train", *SIZES, "--steps", 20, "--lr", 1e20, "--warmup-steps", 0, "--sample-every", 1, "--data", data, "--out", folder)
    assert done.returncode == 1 and "is not finite: training stops" in done.stderr, done.stderr
    assert lines(folder), "the steps until then are logged"


def test_transformers_reads_a_checkpoint(whole, data) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    folder, _ = whole
    gpt2, found = transformers.GPT2LMHeadModel.from_pretrained(folder / "latest", output_loading_info=True)
    assert not found["missing_keys"] and not found["unexpected_keys"] and not found["mismatched_keys"]
    tokens = np.fromfile(data, "<u2", offset=1024).astype(np.int64)[TOKENS - TOKENS // 10:]
    windows = [tokens[i * B * T : (i + 1) * B * T + 1] for i in range(VALIDATION_BATCHES)]
    # The head of a padded vocabulary has more rows, which the softmax counts; they are kept apart from the weights.
    from safetensors.torch import load_file
    rows = torch.cat([gpt2.transformer.wte.weight, load_file(folder / "latest" / "optimizer.safetensors")["padding.wte.weight"]])
    assert rows.shape[0] == RECIPE["vocabulary_rows"]
    with torch.no_grad():
        losses = [torch.nn.functional.cross_entropy((gpt2.transformer(torch.tensor(window[:-1].reshape(B, T))).last_hidden_state @ rows.T)
                                                    .flatten(0, 1), torch.tensor(window[1:])).item() for window in windows]
    assert np.mean(losses) == pytest.approx(lines(folder)[-1]["validation_loss"], abs=1e-4)


def test_interrupted_and_killed_it_goes_on_to_the_same_losses(ladder, start, data, assert_is_whole, tmp_path) -> None:
    folder = tmp_path / "training"
    training = start("train", *SETTINGS, "--data", data, "--save-every", 1, "--out", folder)
    for _ in range(2):
        assert training.stdout.readline().startswith("step ")
    training.send_signal(signal.SIGTERM)
    shown, said = training.communicate(timeout=HANGS_AFTER_S)
    assert training.returncode == 130, said
    done = int(re.search(rf"^interrupted after step (\d+) of {STEPS}$", said, re.M)[1])
    assert 2 <= done < STEPS and steps_saved(folder)[-1] == done == len(lines(folder))
    assert said.splitlines()[-1] == f"resume with: ladder train --resume --out {folder}"

    # Killed in the middle of saving: what is half written is under another name.
    resumed = start("train", "--resume", "--out", folder)
    wait_for(lambda: len(lines(folder)) > done + 1 and list((folder / "checkpoints").glob("*.tmp")), "a checkpoint is being saved")
    resumed.kill()
    resumed.communicate()
    left = steps_saved(folder)
    assert left and left[-1] < STEPS
    for step in left:
        place = folder / "checkpoints" / f"step-{step:08}"
        assert sorted(path.name for path in place.iterdir()) == ["checkpoint.json", "config.json", "model.safetensors", "optimizer.safetensors"]
    with (folder / "log.jsonl").open("a") as log:
        log.write('{"kind": "trai')  # as where it was killed in the middle of a line

    # While it goes on, no other may.
    again = start("train", "--resume", "--out", folder)
    first = step_of(again.stdout.readline())
    again.send_signal(signal.SIGSTOP)
    other = ladder("train", "--resume", "--out", folder)
    assert other.returncode == 2 and "at work in this folder" in other.stderr, other.stderr
    again.send_signal(signal.SIGCONT)
    stdout, stderr = again.communicate(timeout=HANGS_AFTER_S)
    assert again.returncode == 0 and f"\nresumes after step {left[-1]}\n" in stderr, stderr
    shown = [step_of(line) for line in stdout.splitlines()]  # without what readline() has read ahead
    assert first == left[-1] + 1 and shown and shown == list(range(shown[0], STEPS + 1))
    assert_is_whole(folder)

    finished = ladder("train", "--resume", "--out", folder, "--save", tmp_path / "last.safetensors")
    assert finished.returncode == 0 and finished.stdout == "" and f"\nall {STEPS} steps are done already\n" in finished.stderr
    assert (tmp_path / "last.safetensors").read_bytes() == (folder / "latest" / "model.safetensors").read_bytes()


def test_random_windows_are_the_same_after_a_resumption(ladder, data, whole, tmp_path) -> None:
    folder = tmp_path / "training"
    done = ladder("train", *SETTINGS, "--random-windows", "--data", data, "--save-every", 15, "--out", folder)
    assert done.returncode == 0 and read_json(folder / "training.json")["settings"]["random_windows"] is True, done.stderr
    undisturbed, weights = figures(folder), (folder / "latest" / "model.safetensors").read_bytes()
    assert [line[2] for line in undisturbed] != [line[2] for line in figures(whole[0])]
    shutil.rmtree(folder / "checkpoints" / f"step-{STEPS:08}")
    assert ladder("train", "--resume", "--out", folder).returncode == 0
    assert figures(folder) == undisturbed and (folder / "latest" / "model.safetensors").read_bytes() == weights


@pytest.mark.parametrize("how", ["SIGUSR1", "closed pipe"])
def test_what_an_interrupt_leaves_out_is_made_up_for(ladder, start, data, tmp_path, how) -> None:
    """Every step has a checkpoint, a validation loss and a sample, but for the one after which somebody waits."""
    folder = tmp_path / "training"
    steps = 20
    settings = [*SETTINGS, "--save-every", 1, "--keep", steps, "--sample-every", 1, "--sample-tokens", 2]
    settings[settings.index("--validation-every") + 1] = 1
    settings[settings.index("--steps") + 1] = steps
    training = start("train", *settings, "--data", data, "--out", folder)
    assert training.stdout.readline().startswith("step ")
    caught = int(re.search(r"SigCgt:\s+(\w+)", pathlib.Path(f"/proc/{training.pid}/status").read_text())[1], 16)
    assert all(caught >> (number - 1) & 1 for number in INTERRUPTS), f"{caught:x}"
    if how == "closed pipe":
        training.stdout.close()
        said = training.stderr.read()
        training.wait()
    else:
        training.send_signal(getattr(signal, how))
        said = training.communicate(timeout=HANGS_AFTER_S)[1]
    assert training.returncode == 130 and said.endswith(f"resume with: ladder train --resume --out {folder}\n"), said
    last = lines(folder)[-1]
    place = folder / "checkpoints" / f"step-{last['step']:08}" / "checkpoint.json"
    assert last["step"] < steps and "validation_loss" not in last and "sample" not in last
    assert read_json(place)["validation_loss"] is None
    done = ladder("train", "--resume", "--out", folder)
    assert done.returncode == 0, done.stderr
    made = lines(folder)
    assert all("sample" in line for line in made)
    assert read_json(place)["validation_loss"] == made[last["step"] - 1]["validation_loss"]
    validated = {line["step"]: line["validation_loss"] for line in made}
    assert len(validated) == len(made) == steps and (folder / "best").resolve().name == f"step-{min(validated, key=validated.get):08}"


def test_what_is_ignored_stays_ignored(start, data, tmp_path) -> None:
    """As under nohup."""
    training = start("train", *SETTINGS, "--data", data, "--out", tmp_path / "training", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert training.stdout.readline().startswith("step ")
    training.send_signal(signal.SIGHUP)
    training.communicate(timeout=HANGS_AFTER_S)
    assert training.returncode == 0 and len(lines(tmp_path / "training")) == STEPS


@pytest.mark.parametrize("how", ["last byte", "gone"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it(ladder, whole, data, tmp_path, how) -> None:
    folder = shutil.copytree(whole[0], tmp_path / "training", symlinks=True)
    last, before = (folder / "checkpoints" / f"step-{step:08}" for step in steps_saved(folder)[:-3:-1])
    weights = last / "model.safetensors"
    assert set(read_json(last / "checkpoint.json")["sha256"]) == {"model.safetensors", "config.json", "optimizer.safetensors"}
    if how == "gone":
        weights.unlink()
    else:
        damage(weights)
    for words in (["train", "--resume", "--out", folder], ["sample", "--weights", weights, "--tokens", 2],
                  ["train", "--weights", weights, "-T", T, "--threads", 1, "--steps", 2, "--data", data]):
        done = ladder(*words)
        assert done.returncode == 2 and f"{last}/" in done.stderr, done.stderr
        if words[0] == "train" or weights.exists():
            assert f"the checkpoint before it, {before}, is whole" in done.stderr, done.stderr
    shutil.rmtree(last)
    assert ladder("train", "--resume", "--out", folder).returncode == 0
    assert figures(folder) == figures(whole[0])


def damage(file: pathlib.Path) -> None:
    with file.open("r+b") as content:
        content.seek(-1, 2)
        content.write(b"\x7f")


def test_older_checkpoints_without_hashes_and_damaged_states(ladder, whole, tmp_path) -> None:
    folder = shutil.copytree(whole[0], tmp_path / "training", symlinks=True)
    last, before = (folder / "checkpoints" / f"step-{step:08}" for step in steps_saved(folder)[:-3:-1])
    document = read_json(last / "checkpoint.json")
    damage(last / "optimizer.safetensors")
    done = ladder("train", "--resume", "--out", folder)
    assert done.returncode == 2 and f"{last}/optimizer.safetensors: is damaged" in done.stderr and str(before) in done.stderr, done.stderr
    (last / "config.json").write_text("{}")
    assert ladder("sample", "--weights", last, "--tokens", 2).returncode == 0  # needs no optimizer, and config.json may be edited
    write_json(last / "checkpoint.json", {name: value for name, value in document.items() if name != "sha256"})
    assert ladder("train", "--resume", "--out", folder).returncode == 0
    (last / "checkpoint.json").write_bytes(b"\0" * 4096)
    done = ladder("train", "--resume", "--out", folder)
    assert done.returncode == 2 and f"{last}/checkpoint.json" in done.stderr and f"{before}, is whole" in done.stderr, done.stderr


def test_files_that_may_not_grow_cost_no_checkpoint(ladder, whole, tmp_path) -> None:
    """As on a disk that is full."""
    folder = tmp_path / "training"
    shutil.copytree(whole[0], folder, symlinks=True)
    shutil.rmtree(folder / "checkpoints" / "step-00000040")
    kept = {path: path.read_bytes() for path in folder.rglob("*.safetensors") if not path.parent.is_symlink()}
    limit = 8 << 20  # the weights fit, the optimizer's state does not
    done = ladder("train", "--resume", "--out", folder, "--json", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "File too large: training stops; the last good checkpoint is of step 30: " in done.stderr
    assert {path: path.read_bytes() for path in kept} == kept and not list(folder.rglob("*.tmp"))
    assert ladder("train", "--resume", "--out", folder).returncode == 0
    assert figures(folder) == figures(whole[0])


def test_what_is_not_finite_is_not_saved(ladder, data, tmp_path) -> None:
    common = [*SIZES, "--data", data, "--recipe", "{}"]
    out, saved = tmp_path / "training", tmp_path / "saved.safetensors"
    saved.write_text("mine")
    done = ladder("train", *common, "--steps", 40, "--lr", "1e30", "--warmup-steps", 0, "--validation-share", 0, "--save-every", 1, "--out", out,
                  "--save", saved, "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["losses"][-1] is None
    assert done.stderr == (f"ladder: the loss of step 2 is not finite: training stops; the last good checkpoint is of step 1: "
                           f"{out}/checkpoints/step-00000001; {saved} is not written; try a smaller --lr, more --warmup-steps, or a smaller --clip\n")
    assert saved.read_text() == "mine" and steps_saved(out) == [1] and [line["loss"] is None for line in lines(out)] == [False, True]

    # Weights that are not finite are refused before the first step, also where the text does not use them.
    good, bad = out / "latest" / "model.safetensors", tmp_path / "bad.safetensors"
    content = good.read_bytes()
    header = 8 + struct.unpack("<Q", content[:8])[0]
    last = json.loads(content[8:header])["transformer.wpe.weight"]["data_offsets"][1]
    bad.write_bytes(content[: header + last - 4] + b"\xff" * 4 + content[header + last :])
    done = ladder("train", *common, "--steps", 1, "--weights", bad, "--out", tmp_path / "none")
    assert (done.returncode, done.stderr) == (2, f"ladder: {bad}: tensor \"wpe.weight\" is not finite\n")
    assert not (tmp_path / "none").exists()


def test_weights_at_the_end_and_to_begin_with(ladder, start, data, tmp_path) -> None:
    common = ["train", *SIZES, "--data", data, "--recipe", "{}", "--seed", 0, "--lr", "0.003", "--warmup-steps", 1]
    saved = tmp_path / "weights.safetensors"
    training = start(*common, "--steps", 100000, "--save", saved)
    for _ in range(3):
        assert training.stdout.readline().startswith("step ")
    training.send_signal(signal.SIGINT)
    _, said = training.communicate(timeout=HANGS_AFTER_S)
    assert training.returncode == 130 and said.splitlines()[-1] == f"weights: {saved}", said
    first = json.loads(ladder(*common, "--steps", 1, "--json").stdout)["losses"]
    from_there = ladder(*common, "--steps", 2, "--weights", saved, "--json", "--out", tmp_path / "training")
    assert from_there.returncode == 0, from_there.stderr
    assert json.loads(from_there.stdout)["losses"][0] < first[0] - 0.01  # the same batch, after training
    settings = read_json(tmp_path / "training" / "training.json")["settings"]
    assert settings["weights"]["source"] == saved.name and len(settings["weights"]["sha256"]) == 64

    # Killed before its first checkpoint, it begins again, with the same weights or not at all.
    shutil.rmtree(tmp_path / "training" / "checkpoints")
    again = ladder("train", "--resume", "--out", tmp_path / "training", "--json")
    assert again.returncode == 0 and again.stdout == from_there.stdout, again.stderr
    shutil.rmtree(tmp_path / "training" / "checkpoints")
    with saved.open("ab") as file:
        file.write(b"x")
    changed = ladder("train", "--resume", "--out", tmp_path / "training")
    assert changed.returncode == 2 and changed.stderr.endswith(f"{saved}: has changed since the training began\n")


def test_what_config_json_says_is_followed_and_told(ladder, whole, data, tmp_path) -> None:
    """A folder of weights says model and positions; what is not done of it is said."""
    folder = tmp_path / "weights"
    shutil.copytree(whole[0] / "latest", folder)
    config = read_json(folder / "config.json")
    write_json(folder / "config.json", {**config, "resid_pdrop": 0.1})
    done = ladder("train", "-B", B, "-T", T, "--threads", 1, "--data", data, "--recipe", "{}", "--steps", 1, "--weights", folder,
                  "--out", tmp_path / "training")
    assert done.returncode == 0, done.stderr
    assert f"note: the config.json beside {folder}/model.safetensors asks for dropout 0.1; this program trains without\n" in done.stderr
    assert read_json(tmp_path / "training" / "training.json")["settings"]["model"] == "tiny"
    assert read_json(tmp_path / "training" / "latest" / "config.json") == config


def test_documents_in_a_text(ladder, tmp_path) -> None:
    text = tmp_path / "stories.txt"
    text.write_text("One story.<|endoftext|>Another, longer story.<|endoftext|>" * 20)
    common = ["train", *SIZES, "--recipe", "{}", "--data", text, "--steps", 2, "--json", "--validation-share", 0]
    as_text = ladder(*common, "--out", tmp_path / "text")
    assert as_text.returncode == 0 and as_text.stderr == (
        f"note: {text} has <|endoftext|> 40 times, read as ordinary text; --end-of-text makes each token 50256, the end of a document\n")
    folder = tmp_path / "documents"
    done = ladder(*common, "--end-of-text", "--out", folder, "--sample-every", 1, "--sample-prompt", "<|endoftext|>", "--sample-tokens", 1)
    assert done.returncode == 0 and done.stderr == (
        f"note: --sample-prompt has <|endoftext|> 1 time, read as token 50256, the end of a document\n"
        f"note: {text} has <|endoftext|> 40 times, read as token 50256, the end of a document\n")
    training = [read_json(path / "training.json") for path in (tmp_path / "text", folder)]
    assert training[0]["settings"]["data"]["tokens"] > training[1]["settings"]["data"]["tokens"]
    assert "end_of_text" not in training[0]["files"] and training[1]["files"]["end_of_text"] is True
    validator("training").validate(training[1])
    shutil.rmtree(folder / "checkpoints")
    assert ladder("train", "--resume", "--json", "--out", folder).stdout == done.stdout


# training_folder_test.cpp and training_log_test.cpp have what else does not belong to it.
@pytest.mark.parametrize(("change", "says"), [
    ("moved on", r"step-00000040: its next batch begins at token 7 of the text, this program's at \d+$"),
    ("other text", r"text.bin: is not the text of the training: its 3000 tokens have SHA-256 \w+, the 4000 of \"text.bin\" had \w+; --data says"),
])
def test_what_does_not_belong_to_the_training_is_refused(ladder, whole, data, tmp_path, change, says) -> None:
    folder, flags = tmp_path / "training", []
    shutil.copytree(whole[0], folder, symlinks=True)
    last = folder / "checkpoints" / "step-00000040"
    if change == "moved on":
        write_json(last / "checkpoint.json", read_json(last / "checkpoint.json") | {"position": 7})
    else:
        flags = ["--data", token_file(tmp_path / "text.bin", [7] * 3000)]
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    done = ladder("train", "--resume", "--out", folder, "--json", *flags)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
    assert re.search(says, done.stderr.rstrip()), done.stderr
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_the_recipe_and_the_length_that_nobody_names(ladder, data, tmp_path) -> None:
    """This machine's ladder; tokens, epochs and a batch in tokens are told as steps."""
    common = ["train", "--model", "tiny", "-B", 1, "-T", 16, "--threads", 1, "--data", data]
    done = ladder(*common, "--tokens", 1000, "--batch-tokens", 128, "--out", tmp_path / "tokens", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    settings = read_json(tmp_path / "tokens" / "training.json")["settings"]
    assert settings["steps"] == 8 and settings["accumulation"] == 8 and settings["recipe"]["optimizer"] == "fused"
    assert re.match(r'recipe: ladder gpt2-cpu up to "fused AdamW", its last rung that this machine can have', done.stderr), done.stderr
    assert "8 steps x 128 tokens (8 micro-steps of 1 x 16) = 1,024 tokens (" in done.stderr
    assert "nothing is kept" not in done.stderr
    assert "\nnothing is kept of this training; --out FOLDER keeps it\n" in ladder(*common, "--steps", 1, cwd=tmp_path).stderr
    done = ladder(*common, "--epochs", 1, "--accumulation", 7, "--validation-data", data, "--clip", 0, "--out", tmp_path / "epochs")
    assert done.returncode == 0, done.stderr
    settings = read_json(tmp_path / "epochs" / "training.json")["settings"]
    assert settings["steps"] == -(-((TOKENS - 1) // 16) // 7) and settings["clip"] is None
    assert settings["validation_share"] == 0 and settings["validation_data"]["tokens"] == TOKENS
    assert {line["clip"] for line in lines(tmp_path / "epochs")} == {1.0}


def test_a_rung_of_a_ladder_is_trained(ladder, data, tmp_path) -> None:
    train = ["train", "--model", "tiny", "-B", 1, "-T", 16, "--threads", 1, "--data", data, "--steps", 1, "--out"]
    done = ladder(*train, tmp_path / "rung", "--ladder", "tiny", "--rung", "flash")
    assert done.returncode == 0 and done.stderr.startswith('recipe: ladder tiny up to "flash attention"\n'), done.stderr
    assert read_json(tmp_path / "rung" / "training.json")["settings"]["recipe"]["attention"] == "flash"
    for flags, says in ((["--rung", "flash", "--recipe", "{}"], "cannot be combined with"), (["--ladder", "tiny"], "--ladder needs --rung"),
                        (["--rung", "warp"], "--rung warp: no such rung")):
        done = ladder(*train, tmp_path / "none", *flags)
        assert done.returncode == 2 and says in done.stderr and not (tmp_path / "none").exists(), done.stderr


def test_the_fastest_rung_that_was_measured_here_is_the_recipe(ladder, small, data, tmp_path) -> None:
    """From where `ladder ablate` puts its studies. A rung whose batches a training cannot have gives way to the study's last."""
    done = ladder("ablate", "--ladder", small, "--threads", 1, "--data", data, cwd=tmp_path)
    assert done.returncode in MEASURED, done.stderr
    [place] = (folder for folder in (tmp_path / "studies").iterdir() if folder.is_dir())
    measured = read_json(place / "study.json")
    last, fastest = [rung for rung in measured["rungs"] if rung["status"] == "measured"][-1:-3:-1]
    speedup = {"ratio": 2.0, "lo": 1.9, "hi": 2.1, "pairs": 4}
    for rung in measured["rungs"]:
        rung.pop("flags", None)  # a busy machine's
    for rung in (last, fastest):
        rung["speedup_first"] = speedup
    measured["headline"] = {"first": 0, "last": last["index"], "speedup": speedup, "fastest": fastest["index"]}
    train = ["train", "--model", "tiny", "-B", 1, "-T", 16, "--threads", 1, "--data", data, "--steps", 1]

    def taken(name, *flags):
        write_json(place / "study.json", measured)
        done = ladder(*train, *flags, "--out", tmp_path / name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        training = read_json(tmp_path / name / "training.json")
        assert done.stderr.startswith(f"recipe: {training['recipe_from']}\n")
        return training

    training = taken("fastest")
    assert training["settings"]["recipe"] == fastest["recipe"]
    assert training["recipe_from"] == (f'rung "{fastest["title"]}" of studies/{place.name}, the fastest of ladder small as measured here on '
                                       f'{measured["finished"][:10]} (--recipe chooses another)')
    assert taken("deterministic", "--deterministic")["settings"]["recipe"] == {**fastest["recipe"], "deterministic": True}
    fastest["recipe"] = {**fastest["recipe"], "batches": "mapped"}
    assert taken("last")["settings"]["recipe"] == last["recipe"]
    runs = measured["plan"]["runs_ok"]
    measured["rungs"][0]["flags"] = ["r1-00-start shared: something else had the processor"] * runs
    passed_over = taken("disturbed")["recipe_from"]
    assert passed_over.startswith('ladder gpt2-cpu up to "')
    assert passed_over.endswith(f"; not by studies/{place.name}: other work ran during {runs} of {runs} runs")


# ---- what is drawn of trainings

def test_a_training_is_drawn_where_it_is(ladder, whole, tmp_path) -> None:
    folder = tmp_path / "training"
    shutil.copytree(whole[0], folder, symlinks=True)
    done = ladder("report", folder, variables=DRAWN)
    assert done.returncode == 0, done.stderr
    report, log = read_json(folder / "report.json"), lines(folder)
    validator("training_report").validate(report)
    points = report["stretches"]
    assert [(p["first"], p["last"], p["loss"]["mean"], p["norm"]["mean"], p["learning_rate"], p["validation_loss"]) for p in points] == [
        (line["step"], line["step"], line["loss"], line["norm"], line["learning_rate"], line.get("validation_loss")) for line in log]
    assert [p["tokens_per_s"] for p in points] == pytest.approx([line["tokens_per_s"] for line in log])
    assert report["training"] == read_json(folder / "training.json") and report["source"] == "training"
    last = f"Validation loss {log[-1]['validation_loss']:.2f} after {STEPS} steps"
    assert report["said"]["headline"] == last and done.stdout.startswith(last + "\n")
    assert sorted(path.stem for path in (folder / "charts").glob("*.svg")) == ["learning_rate", "norm", "training_loss", "training_speed"]
    assert last in (folder / "report.html").read_text() and f"# {last}" in (folder / "report.md").read_text()

    # It is still a training that goes on; an unfinished log is drawn as far as it goes, and an empty one is not.
    with (folder / "log.jsonl").open("r+") as file:
        file.truncate(len("".join((folder / "log.jsonl").read_text().splitlines(keepends=True)[:7])) + 5)
    done = ladder("report", folder, "--out", tmp_path / "drawn")
    assert done.returncode == 0 and read_json(tmp_path / "drawn" / "report.json")["steps"] == 7, done.stderr
    assert "It has not ended: 7 of 40 steps." in done.stdout
    (folder / "log.jsonl").write_text("")
    done = ladder("report", folder)
    assert (done.returncode, done.stderr) == (2, f"ladder: {folder}/log.jsonl: has no step yet\n")


def test_a_training_is_drawn_from_its_files_too(ladder, whole, tmp_path) -> None:
    folder = tmp_path / "training"
    shutil.copytree(whole[0], folder, symlinks=True)
    assert ladder("report", folder).returncode == 0
    report = read_json(folder / "report.json")
    for name in ("log.jsonl", "report.json"):
        done = ladder("report", folder / name, "--out", tmp_path / "drawn" / name)
        assert done.returncode == 0 and done.stdout.startswith(report["said"]["headline"] + "\n"), done.stderr
        assert read_json(tmp_path / "drawn" / name / "report.json") == report
    (folder / "training.json").unlink()
    done = ladder("report", folder / "log.jsonl")
    assert done.returncode == 2 and "log.jsonl: must be a study" in done.stderr, done.stderr
