"""`ladder ablate --to-loss`: rungs are trained with several seeds, on the same tokens, and compared seed by seed.

The two-layer model on a token file that is made here, a few steps each. No test looks at how long anything took.
"""

import html
import json
import pathlib
import signal

import numpy as np
import pytest
from conftest import DRAWN, HANGS_AFTER_S, read_json, validator

STEPS, EVERY = 12, 3
SIZES = ["--model", "tiny", "-B", 2, "-T", 16, "--threads", 1]
STUDY = ["ablate", "--ladder", "tiny", *SIZES, "--steps", STEPS, "--lr", "0.003", "--warmup-steps", 2, "--validation-every", EVERY,
         "--validation-batches", 2]
LOSS = 10.5  # which this text is at after a few steps


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> pathlib.Path:
    chance = np.random.default_rng(1)
    words = chance.integers(0, 50257, 40)
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, 4000
    path = tmp_path_factory.mktemp("data") / "text.bin"
    path.write_bytes(header.tobytes() + words[chance.integers(0, 40, 4000)].astype("<u2").tobytes())
    return path


def without_times(study: dict) -> list:
    """What does not depend on the clock: of each training its rung, seed and losses."""
    return sorted((t["rung"], t["seed"], [(at["step"], at["tokens"], at["loss"]) for at in t["curve"]]) for t in study["trainings"])


@pytest.fixture(scope="module")
def whole(ladder, data, tmp_path_factory):
    """A rung beside itself: the folder and the finished process."""
    out = tmp_path_factory.mktemp("whole") / "study"
    done = ladder(*STUDY, "--data", data, "--rung", "start", "--rung", "start", "--to-loss", LOSS, "--seeds", 2, "--out", out, variables=DRAWN)
    assert done.returncode == 0, done.stderr
    return out, done


def test_a_rung_beside_itself_has_the_same_quality(whole) -> None:
    out, done = whole
    study = read_json(out / "to_loss.json")
    validator("to_loss").validate(study)
    first, again = study["rungs"]
    assert study["reference"] == 0 and first["quality"] is None
    assert again["difference"] == {"mean": 0, "lo": 0, "hi": 0} and again["quality"] == "same quality" and again["counts"]
    assert first["reached"] == again["reached"] == first["ended"] == again["ended"] == 2
    assert [(t["rung"], t["seed"]) for t in sorted(study["trainings"], key=lambda t: (t["seed"], t["rung"]))] == [(0, 1), (1, 1), (0, 2), (1, 2)]
    assert [t["seed"] for t in study["trainings"]] == [1, 1, 2, 2]  # seed by seed: the rungs are interleaved
    for training in study["trainings"]:
        curve = training["curve"]
        assert [at["step"] for at in curve] == list(range(EVERY, STEPS + 1, EVERY)) and curve[0]["tokens"] == EVERY * 32
        assert curve[-1]["seconds"] == training["seconds"] > curve[0]["seconds"] > 0
        after = next(i for i, at in enumerate(curve) if at["loss"] <= LOSS)
        low = curve[after - 1]["step"] if after else EVERY
        assert low <= training["reached"]["step"] <= curve[after]["step"]
    by_seed = {t["seed"]: t["curve"][-1]["loss"] for t in study["trainings"]}
    assert by_seed[1] != by_seed[2]  # other weights and other batches
    assert done.stderr.count("\ntraining ") == 4 and "float32" in done.stdout and "same quality" in done.stdout
    assert [path.stem for path in (out / "charts").glob("*.svg")] == ["to_loss"]
    page = html.unescape((out / "report.html").read_text())
    assert study["said"]["headline"] in page and again["words"] in page and (out / "report.md").exists()


def test_each_training_is_the_one_that_it_names(ladder, data, whole, tmp_path) -> None:
    study = read_json(whole[0] / "to_loss.json")
    folder = whole[0] / "trainings" / "seed-2-rung-01"
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoints", "log.jsonl", "metrics.csv", "training.json"]
    assert list((folder / "checkpoints").iterdir()) == []
    training = read_json(folder / "training.json")
    validator("training").validate(training)
    assert training["settings"]["seed"] == 2
    alone = ladder("train", *SIZES, "--data", data, "--recipe", "{}", "--seed", 2, "--steps", STEPS, "--lr", "0.003", "--warmup-steps", 2,
                   "--validation-every", EVERY, "--validation-batches", 2, "--out", tmp_path / "alone")
    assert alone.returncode == 0, alone.stderr
    lines = [json.loads(line) for line in (tmp_path / "alone" / "log.jsonl").read_text().splitlines()]
    made = next(t for t in study["trainings"] if (t["rung"], t["seed"]) == (1, 2))
    assert [at["loss"] for at in made["curve"]] == [line["validation_loss"] for line in lines if line["step"] % EVERY == 0]


def test_it_is_drawn_again_as_it_was(ladder, whole, tmp_path) -> None:
    done = ladder("report", whole[0], "--out", tmp_path / "again")
    assert done.returncode == 0 and read_json(tmp_path / "again" / "to_loss.json") == read_json(whole[0] / "to_loss.json"), done.stderr
    assert "same quality" in done.stdout


def test_a_whole_ladder_skips_what_this_machine_cannot_have(ladder, data, tmp_path) -> None:
    (tmp_path / "ladder.json").write_text(json.dumps({
        "kind": "ladder", "schema_version": 1, "name": "short", "title": "Three rungs", "start": {}, "rungs": ["gpu", "flash"],
        "workload": {"model": "tiny", "batch": 2, "context": 16}, "plan": {"repeats": 1, "warmup_steps": 1, "timed_steps": 1}}))
    done = ladder("ablate", "--ladder", tmp_path / "ladder.json", "--threads", 1, "--data", data, "--tokens", 64, "--to-loss", 1, "--seeds", 1,
                  "--json", "--out", tmp_path / "study")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    study = json.loads(done.stdout)
    assert [rung["status"] for rung in study["rungs"]] == ["planned", "not_applicable", "planned"] and len(study["trainings"]) == 2
    assert study["training"]["settings"]["steps"] == 2 and study["training"]["settings"]["context"] == 16
    flash = study["rungs"][2]
    assert flash["quality"] == "too few seeds" and flash["reached"] == 0 and flash["speedup"] is None and not flash["counts"]
    assert study["said"]["headline"] == "No training reached loss 1"


def test_a_training_that_diverges_is_told(ladder, data, tmp_path) -> None:
    done = ladder("ablate", "--ladder", "tiny", *SIZES, "--data", data, "--steps", 8, "--lr", "1e30", "--warmup-steps", 0, "--rung", "start",
                  "--to-loss", 1, "--seeds", 1, "--json", "--out", tmp_path / "study")
    assert done.returncode == 1, done.stderr
    training, = json.loads(done.stdout)["trainings"]
    assert training["not_finite"].startswith("the ") and training["failure"] == ""


def test_an_interrupt_costs_one_training_and_the_rest_is_made_later(ladder, start, data, whole, tmp_path) -> None:
    out = tmp_path / "study"
    stopped = start(*STUDY, "--data", data, "--rung", "start", "--rung", "start", "--to-loss", LOSS, "--seeds", 2, "--out", out)
    while not stopped.stderr.readline().startswith("training 1/4"):
        assert stopped.poll() is None
    stopped.send_signal(signal.SIGINT)
    _, said = stopped.communicate(timeout=HANGS_AFTER_S)
    kept = read_json(out / "to_loss.json")
    assert stopped.returncode == 130 and 1 <= len(kept["trainings"]) < 4
    assert f"interrupted after {len(kept['trainings'])} of 4 trainings; resume with: ladder ablate --resume --out {out}\n" in said

    # A training whose process failed is made again, too.
    kept["trainings"][0]["failure"] = "killed by signal 9 (Killed)"
    (out / "to_loss.json").write_text(json.dumps(kept))
    done = ladder("ablate", "--resume", "--out", out)
    study = read_json(out / "to_loss.json")
    assert done.returncode == 0 and done.stderr.count("\ntraining ") == 5 - len(kept["trainings"]), done.stderr
    assert without_times(study) == without_times(read_json(whole[0] / "to_loss.json"))
    assert study["trainings"][:len(kept["trainings"]) - 1] == kept["trainings"][1:]  # as they were

    done = ladder("ablate", "--resume", "--out", out, "--json")  # nothing is left to do
    assert done.returncode == 0 and json.loads(done.stdout) == study, done.stderr
    study["training"]["environment"]["git_commit"] = "f" * 12
    (out / "to_loss.json").write_text(json.dumps(study))
    done = ladder("ablate", "--resume", "--out", out)
    assert done.returncode == 3 and "under other circumstances: git_commit" in done.stderr, done.stderr


@pytest.mark.parametrize("more, says", [
    (["--repeats", 2], "--repeats cannot be combined with --to-loss"),
    (["--shard", "1/2"], "cannot be combined with"),
    (["--with-peer", "pytorch"], "cannot be combined with"),
    (["--epochs", 1], "one of --steps, --tokens and --epochs must say how long to train, got 2"),
    (["--validation-share", 0], "--validation-share must be above 0 with --to-loss"),
    (["--rung", "flsh"], "--rung flsh: no such rung; did you mean flash"),
])
def test_what_makes_no_sense_is_refused(ladder, data, tmp_path, more, says) -> None:
    study = STUDY[:STUDY.index("--validation-every")]
    done = ladder(*study, "--data", data, "--to-loss", LOSS, "--out", tmp_path / "study", *more)
    assert done.returncode == 2 and says in done.stderr.splitlines()[0], done.stderr
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize("arguments, says", [
    (["--to-loss", "5"], "--to-loss needs --out, the folder of its trainings"),
    (["--to-loss", "5", "--out", "x"], "one of --steps, --tokens and --epochs must say how long to train, got none"),
    (["--lr", "1e-3"], "--lr needs --to-loss"),
])
def test_flags_that_need_others(ladder, tmp_path, arguments, says) -> None:
    done = ladder("ablate", "--ladder", "tiny", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and says in done.stderr, done.stderr


def test_a_study_that_goes_on_stays_what_it_is(ladder, whole) -> None:
    out, _ = whole
    for flags, says in [(["--to-loss", 5], "--to-loss would change the study that --resume continues"),
                        (["--quick"], "--quick: cannot be combined with --resume of a study that was begun with --to-loss")]:
        done = ladder("ablate", "--resume", "--out", out, *flags)
        assert done.returncode == 2 and says in done.stderr, done.stderr
    done = ladder(*STUDY, "--to-loss", LOSS, "--out", out)
    assert done.returncode == 2 and "holds a study already; --resume continues it" in done.stderr, done.stderr
