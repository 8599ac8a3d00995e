"""What `ladder measure` reads in what programs print. Times are not looked at: other tests run beside."""

import re

import pytest
from conftest import MEASURED, read_json
from measuring import STEP, counted, here, measure, message, one_record, prints, program, study  # noqa: F401


def test_a_program_that_holds_back_what_it_prints_gets_a_terminal(measure, tmp_path) -> None:
    done = measure("unset PYTHONUNBUFFERED; " + prints(STEP.replace(", flush=True", "")))
    assert done.returncode in MEASURED and "read from a terminal" in done.stderr, done.stderr
    trial = read_json(tmp_path / "study" / "plan.json")["rungs"][0]["command"]["trial"]
    assert trial["terminal"] is True and trial["lasted_s"] > trial["first_step_s"] > 0
    assert counted(one_record(tmp_path / "study")["command"])


def test_python_holds_nothing_back_by_itself(measure, tmp_path, monkeypatch, environment) -> None:
    monkeypatch.delitem(environment, "PYTHONUNBUFFERED", raising=False)
    command = prints(STEP.replace(", flush=True", ""))
    done = measure(command)
    assert done.returncode in MEASURED and "terminal" not in done.stderr, done.stderr
    done = measure("--as-is", command, out=tmp_path / "as it is")
    assert done.returncode in MEASURED and "read from a terminal" in done.stderr, done.stderr


def test_lines_of_one_read_share_its_time(measure, tmp_path) -> None:
    """A program that no terminal helps: fifty lines at once. Their time is the mean of the fifty."""
    bursts = prints('held = globals().get("held", "") + f"step {step} loss {3 / (step + 1)}\\n"\n    if step % 50 == 49: print(held, flush=True); held = ""')
    assert measure(bursts).returncode in MEASURED
    timing = one_record(tmp_path / "study")["timing"]
    timed = timing["step_ms"][timing["warmup_steps"]:]
    assert len(timed) >= 2 * 50 and sum(timed) / len(timed) > 2, "it sleeps for 4 ms in each step; a burst may be read late"
    assert len(set(timed)) <= len(timed) / 10, "a busy machine may read a burst in pieces"


BURSTS = """
import time
for burst in range(14):
    time.sleep(0.2)
    for step in range(40 * burst, 40 * burst + 40):
        print(f"step {step} loss {3 - step / 1000:.4f}", flush=True)
        time.sleep(0.0001)
"""


def test_lines_in_bursts_share_the_time_between_bursts(measure, tmp_path) -> None:
    done = measure(program(BURSTS), short=("--warmup", "5", "--steps", "20", "--repeats", "1"))
    assert done.returncode in MEASURED, done.stderr
    assert read_json(tmp_path / "study" / "plan.json")["rungs"][0]["command"]["trial"]["burst_s"] > 0
    assert one_record(tmp_path / "study")["summary"]["median_ms"] > 2, "5 ms of each burst's 0.2 s; lines of one burst are 0.1 ms apart"


def test_lines_of_a_clock_are_no_steps(measure) -> None:
    done = measure(program("import time\nwhile True: time.sleep(.1); print('Progress: loss 2.5', flush=True)"))
    assert done.returncode == 2 and "as if by a clock" in done.stderr and "--hook" in done.stderr, done.stderr


@pytest.mark.parametrize("line, says", [("step {i} loss 3,125", "may be 3125 or 3.125"), ("12:00:01 - test - step {i} loss 3.1", "taken for a validation's")])
def test_lines_that_may_be_misread_are_told(measure, line, says) -> None:
    done = measure(program(f"import time\nfor i in range(60): time.sleep(.05); print(f'{line}', flush=True)"))
    assert done.returncode == 2 and says.replace("3125 or 3.125", "3100 or 3.1") in done.stderr, done.stderr


def test_output_that_comes_when_a_program_has_ended(measure, here) -> None:
    (here / "keeps").write_text('#!/bin/sh\nout=$("$@"); echo "$out"\n')
    done = measure(f"sh ./keeps {program('import time' + chr(10) + 'for i in range(60): time.sleep(.05); print(f' + repr('step {i} loss 3.1') + ')')}")
    # A busy machine reads what came at once in some pieces.
    assert done.returncode == 2 and re.search(r"step lines came at once, in [0-9]+ reads?:", done.stderr) and "--no-capture-output" in done.stderr, done.stderr


def test_steps_from_a_regular_expression(measure, tmp_path) -> None:
    strange = prints('print(f"<{step * step + 7}> of {3 / (step + 1)} units", flush=True)')
    assert "--steps-from" in message(measure("--limit-s", "1", strange, out=tmp_path / "no"))
    done = measure("--steps-from", r"<(?P<step>\d+)> of (?P<loss>\S+)", strange)
    assert done.returncode in MEASURED, done.stderr
    record = one_record(tmp_path / "study")
    assert record["command"]["by_loss"] and record["timing"]["loss"][0] == 1.5
    assert read_json(tmp_path / "study" / "plan.json")["commands"]["steps_from"] == r"<(?P<step>\d+)> of (?P<loss>\S+)"


# Loops of 4 ms a step: what stands in a line, and what the table's times are of.
@pytest.mark.parametrize("line, unit, every", [
    ("'[1, %5d] loss: %.3f' % (2000 * step, 3 / step)", "step", 2000),
    ("'Train Epoch: 1 [%d/600000 (0%%)] Loss: %.5f' % (640 * step, 3 / step)", "sample", 640),
    ("'loss: %.5f' % (3 / step)", "line", 1),
])
def test_the_number_that_grows_is_the_step(measure, study, tmp_path, line, unit, every) -> None:
    done = measure(program(f"import time\nfor step in range(1, 10**6): time.sleep(.004); print({line}, flush=True)"))
    assert done.returncode in MEASURED and f"ms/{unit};" in done.stderr and f"ms/{unit} " in done.stdout, done.stderr + done.stdout
    record = one_record(tmp_path / "study")
    steps, losses = record["command"]["steps"], record["timing"]["loss"]
    assert record["command"].get("unit", "step") == unit and {b - a for a, b in zip(steps, steps[1:])} == {every}
    assert losses[0] == pytest.approx(1.5, abs=0.001) and record["command"]["by_loss"]
    study()


BAR = """
import sys, time
for step in range(1, 10**6):
    time.sleep(.004)
    sys.stderr.write(f"\\r{step // 900}%|#  | {step}/90000 [00:01<00:09, 9.90it/s]")
    if step % 20 == 0: sys.stderr.write("\\n{'loss': %.4f, 'lr': 0.1}\\n" % (3 / step + OFF))
"""


def test_losses_of_some_steps_are_guarded(measure, study, tmp_path) -> None:
    """A bar counts each step; the log on the same stream has the loss of every twentieth."""
    done = measure(program(BAR.replace("OFF", "0")), "other: " + program(BAR.replace("OFF", "0.5")), short=("--warmup", "5", "--steps", "60", "-n", "1"))
    assert done.returncode in (1, 3), done.stdout + done.stderr
    own = study()["rungs"][1]
    assert own["guard"] and not own["guard"]["passed"] and own["command"]["losses"].startswith("other losses: 0.5 off at steps 20"), own
    for file in (tmp_path / "study" / "records").iterdir():
        record = read_json(file)
        command, losses = record["command"], record["timing"]["loss"]
        assert not command["by_loss"] and command["unprinted"] == [i for i, loss in enumerate(losses) if loss is None]
        assert {command["steps"][i + 1] % 20 for i, loss in enumerate(losses) if loss is not None} == {0}


def test_losses_that_nobody_read_are_told(measure) -> None:
    silent = program("import time\nfor step in range(10**6): time.sleep(.004); print(f'step {step}', flush=True)")
    done = measure(silent, f"again: {silent}")
    words = " ".join(done.stdout.split())
    assert "none read, not guarded" in words or "not usable" in words, done.stdout
    assert 'Losses of "again": none read, not guarded.' in words, done.stdout


def test_commands_that_are_no_ladder(measure, study) -> None:
    """Each is compared with the first. What is known after a repeat is told."""
    done = measure(prints(STEP), "one: " + prints(STEP, "x = 1"), "two: " + prints(STEP, "x = 2"), short=("--warmup", "1", "--steps", "8", "-n", "2"))
    assert done.returncode in MEASURED and re.search(r"so far, 1 of 2 repeats: one [\d.]+x, two [\d.]+x\n", done.stderr), done.stderr
    assert "vs first" in done.stdout and "vs prev" not in done.stdout and "last rung" not in done.stdout, done.stdout
    study()


def test_output_that_goes_elsewhere_is_told(measure) -> None:
    done = measure("echo step 1 loss 2 > train.log")
    assert "it printed nothing: its output goes to train.log" in message(done) and "| tee train.log" in message(done)


def test_a_program_that_goes_silent_is_not_waited_for(measure, tmp_path) -> None:
    """It prints as many steps as are asked for, then does something else for longer than the limit of a test."""
    steps = "for step in range(12): time.sleep(.02); print(f'step {step} loss {3 / (step + 1)}', flush=True)"
    done = measure(program(f"import time\n{steps}\ntime.sleep(900)"), short=("--warmup", "1", "--steps", "10", "-n", "1"))
    assert done.returncode in MEASURED and one_record(tmp_path / "study")["command"]["ended_by_us"], done.stderr
