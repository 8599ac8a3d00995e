"""`ladder measure --metric`: whole runs are compared by what they print last, or by how long they take."""

import os
import subprocess
import sys

import pytest
from conftest import MEASURED, read_json, records
from measuring import LOOP_PY, here, measure, message, program, study  # noqa: F401

VALUE = r"val_loss: (?P<value>\S+)"
SHORT = ("--repeats", "6", "--order-seed", "1")


def learns(last: float, lines: int = 3) -> str:
    """A training whose printed losses end at about `last`."""
    return f"for i in $(seq {lines}); do echo \"step $i train 9.$i\"; done; echo val_loss: 5; python3 -c 'import os; print(\"val_loss:\", {last} + os.getpid() % 7 / 1000)'"


def test_the_last_number_that_a_line_has_is_compared(ladder, measure, study, tmp_path) -> None:
    done = measure("--metric", VALUE, "--better", "lower", *SHORT, f"before: {learns(4)}", f"after: {learns(2)}", short=())
    assert done.returncode in MEASURED, done.stderr
    found = study()
    assert found["metric"] == {"name": "val_loss", "pattern": VALUE, "better": "lower"}
    first, second = found["rungs"]
    assert 4 <= first["numbers"]["val_loss"]["median"] < 4.01 and 2 <= second["numbers"]["val_loss"]["median"] < 2.01
    assert second["speedup_first"]["ratio"] == pytest.approx(2, rel=0.01) and second["speedup_first"]["lo"] > 1.9
    assert second["command"]["losses"].startswith("not compared")
    for record in records(tmp_path / "study").values():
        assert record["command"]["unit"] == "run" and record["timing"]["step_ms"][0] == pytest.approx(1000 * record["duration_s"], rel=0.5)
    said = read_json(tmp_path / "study/report.json")["studies"][0]["said"]
    if "unusable" not in [remark["code"] for remark in said["remarks"]]:
        assert said["headline"].startswith("val_loss 2") and "lower than" in said["headline"]
    assert "value: val_loss, lower is better" in done.stdout
    assert "The last row alone: ladder measure --metric" in done.stdout
    again = measure("--resume", "--markdown", f"before: {learns(4)}", f"after: {learns(2)}", short=())
    assert again.stdout.startswith("**") and again.stdout.rstrip().endswith("```") and "ladder measure" in again.stdout.splitlines()[-2]
    compared = ladder("compare", tmp_path / "study", tmp_path / "study")
    assert compared.returncode == 2 and "its study compares val_loss, not times" in compared.stderr, compared.stderr


def test_a_higher_number_may_be_better_and_a_command_may_be_ended(ladder, measure, study, tmp_path) -> None:
    endless = "i=0; while :; do i=$((i + 1)); echo seconds_kept {}; sleep 0.1; done"
    done = measure("--metric", r"seconds_kept (?P<value>\S+)", "--better", "higher", "--until", "1s", *SHORT, endless.format(10), endless.format(8), short=())
    assert done.returncode in MEASURED, done.stderr
    assert study()["rungs"][1]["speedup_first"]["ratio"] == pytest.approx(0.8)
    for record in records(tmp_path / "study").values():
        assert record["command"]["ended_by_us"] and 1 <= record["timing"]["step_ms"][0] / 1000 < 6
    compared = ladder("compare", tmp_path / "study", tmp_path / "study")
    assert compared.returncode == 2 and "its study compares seconds_kept, not times" in compared.stderr, compared.stderr


def test_a_time_is_of_the_whole_run_or_until_a_loss(ladder, measure, study, tmp_path) -> None:
    slow = "for i in 5 4 3 2 1; do echo \"step $((5 - i)) loss $i\"; sleep 0.2; done"
    done = measure("--metric", "seconds to loss 3", "--repeats", "2", slow, short=())
    assert done.returncode in MEASURED, done.stderr
    for record in records(tmp_path / "study").values():
        reached = record["command"]["numbers"]["seconds to loss 3"]
        assert 0.4 <= reached < 0.4 + record["duration_s"] and record["command"]["ended_by_us"]
    compared = ladder("compare", tmp_path / "study", tmp_path / "study")
    assert compared.returncode in (0, 3), compared.stderr  # too few runs to tell
    done = measure("--metric", "seconds", "--repeats", "2", slow, "other: " + slow.replace("loss $i", "loss 9"), short=(), out=tmp_path / "whole")
    assert done.returncode == 1, done.stderr  # a run that learns otherwise is not faster
    found = read_json(tmp_path / "whole/study.json")
    assert found["rungs"][0]["numbers"]["seconds"]["median"] >= 1 and found["rungs"][1]["status"] == "void"


def test_a_command_of_which_a_run_does_not_reach_the_loss_has_no_time(measure, study) -> None:
    """A mean of those that do would be of the lucky ones."""
    reaches = "for i in 5 4 3 2; do echo step $((6 - i)) loss $i; done; "
    done = measure("--metric", "seconds to loss 2", "--repeats", "2", reaches, "some: " + reaches.replace("5 4 3 2", "5 4 3 $((1 + {repeat}))"), short=())
    assert done.returncode == 1 and "the lowest was 3" in done.stderr, done.stderr
    assert [rung["status"] for rung in study()["rungs"]] == ["measured", "failed"]


@pytest.mark.parametrize("arguments, says", [
    (("--metric", VALUE, "echo nothing"), "needs --better"),
    (("--metric", VALUE, "--better", "lower", "echo nothing"), "no line has val_loss"),
    (("--metric", VALUE, "--better", "lower", "printf 'val_loss: nan\\n'"), "not finite"),
    (("--metric", VALUE, "--better", "lower", "printf 'val_loss: 3,125\\n'"), "one comma"),
    (("--metric", "seconds to loss 1", "echo hello"), "before a step was found"),
])
def test_what_has_no_number_is_told_in_one_line(measure, arguments, says) -> None:
    done = measure(*arguments, short=())
    assert says in message(done), done.stderr


@pytest.mark.parametrize("arguments, says", [
    (("--metric", "seconds", "--steps", "5", "true"), "--steps cannot be combined with --metric"),
    (("--better", "lower", "true"), "--better needs --metric"),
])
def test_flags_that_do_not_go_together_are_refused(measure, arguments, says) -> None:
    done = measure(*arguments, short=())
    assert done.returncode == 2 and says in done.stderr


def test_a_folder_goes_on_with_its_metric(measure, study, tmp_path) -> None:
    arguments = ("--metric", VALUE, "--better", "lower", "--repeats", "2", learns(4), learns(2))
    assert measure(*arguments, short=()).returncode in MEASURED
    kept = records(tmp_path / "study")
    gone = sorted((tmp_path / "study/records").glob("*.json"))[0]
    gone.unlink()
    done = measure(*arguments[6:], "--resume", short=())
    assert done.returncode in MEASURED and "1 to go" in done.stderr, done.stderr
    assert len(records(tmp_path / "study")) == len(kept)


def test_a_number_that_every_run_has_is_doubted(measure, study) -> None:
    done = measure("--metric", VALUE, "--better", "lower", "--repeats", "2", "a: echo val_loss: 4", "b: echo val_loss: 3.9", short=())
    assert done.returncode in MEASURED, done.stderr
    assert any("let {seed} in the command be the seed" in warning for warning in study()["warnings"])


def test_other_work_changes_no_number(measure, tmp_path) -> None:
    """It would a time, also one that --until gives."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
    try:
        counts = program("i = 0\nfor i in range(6000000): pass\nprint('val_loss:', 4)")
        assert measure("--metric", VALUE, "--better", "lower", "--repeats", "2", counts, "+ {repeat}", short=()).returncode in MEASURED
    finally:
        for one in busy:
            one.kill()
            one.wait()
    assert [record["flags"] for record in records(tmp_path / "study").values()] == [[]] * 4
