"""`ladder read`: logs of runs that have ended, by their own clocks."""
import csv
import json

import pytest
from conftest import DRAWN


def text_log(path, ms, loss=3.0, steps=60, before="", after=""):
    """A program's output whose steps take `ms`, with a time that goes up."""
    lines = [f"step {i}/{steps} loss {loss + 2 / i:.4f} elapsed {ms * i / 1000:.4f} s" for i in range(1, steps + 1)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(before + "\n".join(lines) + "\n" + after)


@pytest.fixture
def sides(tmp_path):
    """Two sides of six logs, 20 ms and 16 ms a step, each run up to 1 % off."""
    for side, ms in (("old", 20), ("new", 16)):
        for i in range(6):
            text_log(tmp_path / side / f"{i}.txt", ms * (1 + 0.002 * i))
    return f"old: {tmp_path}/old/*.txt", f"new: {tmp_path}/new/*.txt"


def read(ladder, *arguments, status=0):
    done = ladder("read", "--json", *arguments)
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_two_sides_are_compared_over_logs(ladder, sides, tmp_path) -> None:
    study = read(ladder, *sides)
    old, new = study["rungs"]
    assert [old["title"], new["title"]] == ["old", "new"] and new["runs_ok"] == 6
    assert old["ms_per_step"]["median"] == pytest.approx(20.1, rel=0.005)
    ratio = new["speedup_first"]
    assert ratio["ratio"] == pytest.approx(1.25, rel=1e-3) and 1.24 < ratio["lo"] < ratio["ratio"] < ratio["hi"] < 1.26
    assert new["numbers"]["seconds"]["median"] == pytest.approx(60 * 16.08e-3, rel=0.005)
    assert new["numbers"]["loss"]["median"] == pytest.approx(3 + 2 / 60, abs=1e-4)
    assert new["guard"]["passed"] and study["from_logs"] and "Welch" in study["statistics"]["interval"]
    assert any(line.startswith("their own clocks, not interleaved") for line in study["warnings"])
    assert "not all logs say which machine they are of" in study["warnings"]
    # Nothing pairs them: other names in another order make no difference.
    for i in range(6):
        (tmp_path / "new" / f"{i}.txt").rename(tmp_path / "new" / f"z{9 - i}.txt")
    again = read(ladder, *sides)["rungs"][1]["speedup_first"]
    assert (again["ratio"], again["lo"]) == pytest.approx((ratio["ratio"], ratio["lo"]), rel=1e-12)


def test_the_table_says_what_cannot_be_known(ladder, sides, tmp_path) -> None:
    done = ladder("read", *sides)
    assert done.returncode == 0, done.stderr
    assert "Their own clocks, not interleaved" in done.stdout and "(95 %, 6 and 6 logs)" in done.stdout
    assert "1.25x faster" in done.stdout and "total" in done.stdout.splitlines()[1] and "Open" not in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"], "it left something"
    done = ladder("read", *sides, "--out", tmp_path / "study", variables=DRAWN)
    assert done.returncode == 0 and "report.html" in done.stdout, done.stderr
    page = (tmp_path / "study/report.md").read_text()
    assert "Their own clocks, not interleaved" in page and "ladder read" in page and "paired within" not in page
    assert ladder("verify", tmp_path / "study").returncode == 0
    assert ladder("report", tmp_path / "study").returncode == 0
    # Logs are no pairs, no runs of a command, and no points of a history.
    done = ladder("compare", tmp_path / "study", tmp_path / "study")
    assert done.returncode == 2 and "is of a log" in done.stderr, done.stderr
    done = ladder("measure", "--resume", "--out", tmp_path / "study", *sides)
    assert done.returncode == 2 and "is a study of logs" in done.stderr, done.stderr
    done = ladder("history", tmp_path)
    assert done.returncode == 2 and "no study in it has a measured rung that can be used" in done.stderr, done.stderr


def test_markdown_has_the_verdict_first_and_the_command_last(ladder, sides) -> None:
    done = ladder("read", "--markdown", *sides)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "**1.25× faster than “old”**"
    assert "| old | 20.1 | 1 |  |" in lines and any(line.startswith("| new | 16.1 | 1.250× [1.24") and "losses the same" in line for line in lines)
    assert lines[-3] == "```" and lines[-2].startswith("ladder read 'old: ") and lines[-1] == "```"
    assert ladder("read", "--markdown", "--json", *sides).returncode == 2


def test_whole_runs_and_last_numbers(ladder, sides, tmp_path) -> None:
    study = read(ladder, "--metric", "seconds", *sides)
    assert study["rungs"][1]["speedup_first"]["ratio"] == pytest.approx(1.25, rel=1e-3) and study["rungs"][1]["command"]["unit"] == "run"
    for i in range(6):
        text_log(tmp_path / "new" / f"{i}.txt", 16, after=f"step 60/60 val_loss: {1.5 + i / 100}\n")
        text_log(tmp_path / "old" / f"{i}.txt", 20, after=f"step 60/60 val_loss: {3 + i / 100}\n")
    study = read(ladder, "--metric", r"val_loss: (?P<value>\S+)", "--better", "lower", *sides)
    assert study["rungs"][1]["numbers"]["val_loss"]["median"] == pytest.approx(1.525)
    assert study["rungs"][1]["speedup_first"]["ratio"] == pytest.approx(2, rel=0.02)
    for side in ("old", "new"):  # without any time
        for i in range(6):
            (tmp_path / side / f"{i}.txt").write_text("".join(f"step {j} loss 3.{j:02}\n" for j in range(40)) + f"val_loss: {1 + i / 100}\n")
    timeless = ladder("read", "--metric", r"val_loss: (?P<value>\S+)", "--better", "lower", *sides)
    assert timeless.returncode == 0 and "e-" not in timeless.stdout and "s per run" not in timeless.stdout, timeless.stdout
    for side, ms in (("old", 20), ("new", 16)):
        for i in range(6):
            text_log(tmp_path / side / f"{i}.txt", ms)
    to_loss = read(ladder, "--metric", "seconds to loss 3.1", *sides)["rungs"][0]
    assert to_loss["numbers"]["seconds to loss 3.1"]["median"] == pytest.approx(0.4), "step 20 is the first at 3.1"


def test_other_losses_are_no_speed(ladder, sides, tmp_path) -> None:
    for i in range(6):
        text_log(tmp_path / "new" / f"{i}.txt", 16, loss=2.0)
    study = read(ladder, *sides, status=1)
    assert study["rungs"][1]["status"] == "void"
    assert read(ladder, "--losses", "free", *sides)["rungs"][1]["status"] == "measured"


def test_one_log_has_no_interval_and_three_have_one(ladder, tmp_path) -> None:
    for side, ms, logs in (("a", 20, 3), ("b", 10, 1), ("c", 10, 3)):
        for i in range(logs):
            text_log(tmp_path / side / f"{i}.log", ms + 0.01 * i)
    study = read(ladder, tmp_path / "a", tmp_path / "b", status=3)
    assert study["rungs"][1]["speedup_first"]["lo"] is None
    study = read(ladder, tmp_path / "a", tmp_path / "c")
    assert study["rungs"][1]["speedup_first"]["lo"] > 1.9


def test_rows_of_well_known_files(ladder, tmp_path) -> None:
    """Each in the form that its library writes: 40 steps of 50 ms, or their whole time alone."""
    rows = [{"step": 10 * i, "loss": 4 - i / 10, "grad_norm": 1.5, "learning_rate": 1e-4, "epoch": i / 40} for i in range(1, 41)]
    end = {"step": 400, "train_runtime": 20.0, "train_samples_per_second": 320.0, "train_loss": 2.0, "total_flos": 1e12, "epoch": 1.0}
    (tmp_path / "trainer_state.json").write_text(json.dumps({"best_metric": None, "global_step": 400, "log_history": [*rows, end]}))
    rows = [{"_step": i, "_runtime": 5 + 0.05 * i, "_timestamp": 1.78e9 + 0.05 * i, "train/loss": 4 - i / 20, "eval": {"loss": 3.5}} for i in range(40)]
    (tmp_path / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with open(tmp_path / "metrics.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["epoch", "step", "train_loss", "val_loss", "elapsed_s"])
        for i in range(40):
            table.writerow([0, i, 4 - i / 20, "", 0.05 * i])
        table.writerow([0, 39, "", 1.25, ""])
    for file, seconds in (("trainer_state.json", 20.0), ("history.jsonl", 6.95), ("metrics.csv", 1.95)):
        study = read(ladder, tmp_path / file, tmp_path / file, status=3)
        rung = study["rungs"][0]
        assert rung["ms_per_step"]["median"] == pytest.approx(50, rel=0.005), (file, rung)
        assert rung["numbers"]["seconds"]["median"] == pytest.approx(seconds, rel=1e-3), file
    assert read(ladder, tmp_path / "metrics.csv", tmp_path / "metrics.csv", status=3)["rungs"][0]["numbers"]["val loss"]["median"] == 1.25
    metric = ("--metric", r"val_loss=(?P<value>\S+)", "--better", "lower")
    assert read(ladder, *metric, tmp_path / "metrics.csv", tmp_path / "metrics.csv", status=3)["rungs"][0]["numbers"]["val_loss"]["median"] == 1.25


def test_event_files_are_read_by_tensorboard(ladder, tmp_path) -> None:
    pytest.importorskip("tensorboard")
    writer = pytest.importorskip("torch.utils.tensorboard").SummaryWriter(tmp_path / "run")
    for i in range(40):
        writer.add_scalar("train/loss", 4 - i / 20, i, walltime=1.78e9 + 0.05 * i)
    writer.close()
    study = read(ladder, tmp_path / "run", tmp_path / "run", status=3)
    assert study["rungs"][0]["ms_per_step"]["median"] == pytest.approx(50, rel=0.01)


def test_machines_are_told_apart(ladder, sides, tmp_path) -> None:
    table = "| NVIDIA-SMI 580.1  Driver Version: {} CUDA Version: 13.0 |\n|   0  NVIDIA H100 80GB HBM3  On  |   0000000{}:8D:00.0 Off |  0 |\n"
    for side, driver, bus in (("old", "580.1", 0), ("new", "580.1", 0)):
        for i in range(6):
            text_log(tmp_path / side / f"{i}.txt", 20 + 0.01 * i, before=table.format(driver, bus) + "Running PyTorch 2.10.0+cu128\n")
    study = read(ladder, *sides)
    assert not any("machine that" in line or "which machine" in line for line in study["warnings"]), study["warnings"]
    assert study["rungs"][0]["command"]["versions"] == {"torch": "2.10.0+cu128"}
    assert study["rungs"][0]["command"]["stated"]["GPUs"] == "1 x NVIDIA H100 80GB HBM3"
    assert not any("were made" in line for line in study["warnings"]), "when is not known"
    for i, day in enumerate((10, 12, 14, 11, 13, 15)):  # in turn, then one after the other
        text_log(tmp_path / "old" / f"{i}.txt", 20 + 0.01 * i, before=f"Fri Jul {day} 12:22:51 2026\n")
        text_log(tmp_path / "new" / f"{i}.txt", 20 + 0.01 * i, before=f"Fri Jul {day} 13:22:51 2026\n")
    assert not any("were made" in line for line in read(ladder, *sides)["warnings"])
    for i in range(6):
        text_log(tmp_path / "new" / f"{i}.txt", 20 + 0.01 * i, before=f"[2026-07-16 0{i}:00:00,123] begun\n")
    assert 'all logs of "new" were made after those of "old"' in read(ladder, *sides)["warnings"]
    for i in range(6):
        text_log(tmp_path / "old" / f"{i}.txt", 20 + 0.01 * i, before=table.format("580.1", 0))
        text_log(tmp_path / "new" / f"{i}.txt", 20 + 0.01 * i, before=table.format("580.1", 1))
    assert 'no log of "new" is of a machine that "old" ran on, as far as they say' in read(ladder, *sides)["warnings"]


def test_a_loss_that_is_not_finite_and_too_many_logs(ladder, sides, tmp_path) -> None:
    for i in range(6):
        text_log(tmp_path / "new" / f"{i}.txt", 16, after="step 61/61 loss nan elapsed 0.99 s\n")
    for metric in ((), ("--metric", "seconds")):
        assert read(ladder, *metric, *sides, status=1)["rungs"][1]["status"] == "void"
    for i in range(1001):
        (tmp_path / "new" / f"more-{i}.txt").write_text("")
    done = ladder("read", *sides)
    assert done.returncode == 2 and "1013 logs are named, and 1000 are the most" in done.stderr, done.stderr


@pytest.mark.parametrize(("arguments", "said"), [
    (["nothing/*.txt"], "nothing/*.txt: no such file"),
    (["plain.txt"], "tells no time (its last numbers: loss 2.6)"),
    (["--metric", "seconds", "plain.txt"], "tells no time of the whole run"),
    (["--metric", r"acc (?P<value>\S+)", "plain.txt"], "needs --better"),
    (["--metric", r"acc (?P<value>\S+)", "--better", "higher", "plain.txt"], "no line has acc"),
    (["--clock", "t (.*)", "plain.txt"], "--clock must have a group"),
    (["empty.txt"], "has no two lines with a step"),
    (["bad.json"], "bad.json"),
])
def test_what_is_refused(ladder, tmp_path, arguments, said) -> None:
    (tmp_path / "plain.txt").write_text("".join(f"step {i} loss {3 - i / 100}\n" for i in range(1, 41)))
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "bad.json").write_text("{")
    done = ladder("read", *arguments[:-1], tmp_path / arguments[-1])
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and not done.stdout
