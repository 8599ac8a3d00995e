"""`ladder measure`: programs of all kinds, well behaved and not, measured from outside. Times are not looked at: other tests run beside.

Each program is small. A busy machine disturbs runs, and then nothing is claimed; what is asked for is in records and in study.json.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import (MEASURED, HANGS_AFTER_S, PYTHON, assert_complete, is_alive, read_json, records, run_ids, wait_for,
                      write_json)
from measuring import LOOP, LOOP_PY, SHORT, STEP, counted, here, measure, message, one_record, prints, program, study  # noqa: F401


def processes_with(word: str) -> list[int]:
    """Living processes whose environment or command line has the word."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if word.encode() in told and is_alive(int(entry.name)):
            found.append(int(entry.name))
    return found


# Commands that make no steps: what is said of them. process_test.cpp has more of their ends.
@pytest.mark.parametrize("command, says", [
    ("for i in 1 2 3; do echo hello $i of 7; done; echo bye", ["ended by itself before a step was found", "its last line: bye",
     "what it printed, the most frequent lines first (N: a number):\n       3  hello N of N\n          --steps-from 'hello +(?P<step>"]),
    ("kill -SEGV $$", ["killed by signal 11 (Segmentation fault) before a step was found"]),
    ("no-such-program --x", ["ended with exit status 127", "no-such-program: not found"]),
    ("printf 'caf\\351 \\377\\n\\033[31mred\\033]0;title\\007\\n'; exit 4", ["ended with exit status 4", "red"]),
])
def test_a_program_without_steps_is_told_in_one_line(measure, tmp_path, command, says) -> None:
    done = measure(command)
    for words in says:
        assert words in done.stderr, done.stderr
    # A program that failed shows its end, once; one that did not may print its steps otherwise.
    hint = "--steps-from 'regex with (?P<step>\\d+) and (?P<loss>\\S+)' says where its steps are"
    assert ("the end of what it printed:" in done.stderr) == ("exit status" in says[0]) != (hint in message(done) or "it printed nothing" in message(done)), done.stderr
    assert "\x1b" not in done.stderr and "\udcff" not in done.stderr
    assert not (tmp_path / "study").exists() and not processes_with(str(tmp_path / "study"))


def test_commands_run_within_another_one(measure, study, tmp_path) -> None:
    """As in a container: what stands in quotes, and what the shell would read, is the inner command's."""
    within = ("--within", "env INNER=1 sh -c {command}")
    command = prints('print(f"step {step} loss {3 / (step + 1)}", os.environ["INNER"] if step >= 0 else "$HOME", flush=True)')
    assert measure(*within, command).returncode in MEASURED
    assert study()["rungs"][0]["command"]["text"].startswith("env INNER=1 sh -c '")
    (tmp_path / "study/records").joinpath(next(iter(records(tmp_path / "study"))) + ".json").unlink()
    assert "was begun with other commands" in message(measure(command, "--resume", short=()))
    done = measure(*within, command, "--resume", short=())
    assert done.returncode in MEASURED and "repeat 1: " in done.stderr, done.stderr
    assert "--within must have {command}" in message(measure("--within", "ssh host", command, out=tmp_path / "none"))


@pytest.mark.parametrize("flags, command, says", [
    ((), 'for i in 0 1 2 3; do echo "step $i loss 1.$i"; sleep 0.2; done', ["ended by itself after 3 steps; 1 of warm-up and 8 timed are needed"]),
    (("--limit-s", "2"), "echo begun; sleep 1000", ["ran past its limit of 2 s and was killed before a step was found", "its last line: begun"]),
])
def test_too_few_steps_are_told_in_one_line(measure, tmp_path, flags, command, says) -> None:
    done = measure(*flags, command)
    for words in says:
        assert words in message(done), done.stderr
    assert not processes_with(str(tmp_path / "study"))


@pytest.mark.parametrize("arguments, says", [  # command_rungs_test.cpp has more
    ([""], 'command "": there is nothing to run in it'),
    (["--mode", "sweep", "a"], "--mode"),
    (["--steps-from", "(", "a"], "is no regular expression"),
    (["--steps-from", "loss", "a"], "has neither a group"),
    (["--resume", "a"], "no plan.json"),
])
def test_what_cannot_be_measured_is_told_before_anything_runs(measure, tmp_path, arguments, says) -> None:
    assert says in message(measure(*arguments, short=())) and not (tmp_path / "study").exists()


def test_a_program_that_never_ends_is_ended_and_that_is_no_failure(measure, study, tmp_path) -> None:
    done = measure(LOOP_PY, "--repeats", "2", short=SHORT[:4])
    assert done.returncode in MEASURED, done.stderr
    assert_complete(tmp_path / "study")
    found = study()
    assert [rung["status"] for rung in found["rungs"]] == ["measured"] and found["plan"]["runs_ok"] == 2
    for record in records(tmp_path / "study").values():
        told = record["command"]
        assert told["ended_by_us"] and told["by_loss"] and told["shape"] == "step STEP loss LOSS" and counted(told)
        assert len(told["seconds"]) == len(told["steps"]) and told["seconds"] == sorted(told["seconds"]) and told["first_step_s"] == told["seconds"][0]
        timing = record["timing"]
        assert len(timing["step_ms"]) == len(told["steps"]) - 1 and timing["warmup_steps"] == 1 and timing["loss"][0] == pytest.approx(3 / 1.1, abs=1e-4)
        assert record["memory"]["peak_bytes"] > 1 << 20 and record["duration_s"] > 0
    assert not processes_with(str(tmp_path / "study"))


def test_a_study_in_a_repository_is_resumed_and_verified(measure, ladder, here, tmp_path):
    for words in (["init", "-q"], ["add", "loop.py"], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "-m", "One"]):
        subprocess.run(["git", *words], cwd=here, check=True)
    assert measure(LOOP_PY).returncode in MEASURED
    done = measure(LOOP_PY, "--resume", short=())
    assert "repeat 1" not in done.stderr, done.stderr  # no run is made again
    verified = ladder("verify", tmp_path / "study")
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_program_that_fails_later_is_a_failed_run(measure, study, tmp_path) -> None:
    """The trial was well; so one of the two runs of the second command is missing."""
    fails = f"if [ -e tried ]; then echo 'out of luck' >&2; exit 5; fi; echo > tried; {LOOP_PY}"
    done = measure(LOOP_PY, fails)
    assert done.returncode == 1, done.stderr
    assert "FAILED: ended with exit status 5 before a step was found in what it printed; its last line: out of luck" in done.stderr
    failed = study()["rungs"][1]
    assert failed["status"] == "failed" and "out of luck" in failed["reason"]
    again = measure(LOOP_PY, fails, "--resume", short=())
    assert again.returncode == 1 and "1 of 2 runs are there already; 1 to go" in again.stderr, again.stderr


def test_a_loss_that_is_no_number_is_void(measure, study, tmp_path) -> None:
    bad = prints('print(f"step {10 * step} loss {3 / (step + 1) if step < 5 else float(\'nan\')}", flush=True)')
    done = measure("--warmup", "10", "--steps", "80", "--repeats", "1", LOOP_PY, bad, short=())
    assert done.returncode == 1, done.stderr
    rung = study()["rungs"][1]
    assert rung["status"] == "void" and rung["reason"] == "the loss of step 50 is not finite", rung
    assert "void: the loss of step 50 is not finite" in " ".join(done.stdout.split())


def test_what_it_started_is_gone(measure, tmp_path) -> None:
    """A child, a grandchild, one in another session, which makes the steps, and one that has left all of them."""
    done = measure(f"sleep 1000 & (sh -c 'sleep 1000 & wait' &); (setsid setsid sh -c 'sleep 1000; true' &); setsid {LOOP_PY} & wait")
    assert done.returncode in MEASURED, done.stderr
    told = one_record(tmp_path / "study")["command"]
    assert told["ended_by_us"] and counted(told)
    assert not processes_with(str(tmp_path / "study"))


def test_the_folder_and_what_a_command_writes(measure, here, tmp_path) -> None:
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    (elsewhere / "loop.py").write_text(LOOP)
    writes = "open('out.pt', 'w').write('x'); os.makedirs('sub', exist_ok=True); open(b'sub/\\xff.log', 'w').write('x'); " \
             "open('.hidden', 'w'); os.makedirs('__pycache__', exist_ok=True); open('__pycache__/a.pyc', 'w')"
    done = measure(f"cd {shlex.quote(str(elsewhere))} && {LOOP_PY}", prints(STEP, writes), "--losses", "free")
    assert done.returncode in MEASURED, done.stderr
    plan = read_json(tmp_path / "study" / "plan.json")
    assert [rung["command"]["trial"]["wrote"] for rung in plan["rungs"]] == [[], [".hidden", "out.pt", "sub/\ufffd.log"]]
    assert "out.pt" in done.stderr and "is written by every run of" in done.stderr and "{run} in a command is an empty folder of each run" in done.stderr
    assert "loop.py" not in done.stderr.split("note: ")[-1]


def test_the_folder_of_a_run(measure, tmp_path) -> None:
    """It is empty at first, of this run alone, and gone afterwards."""
    notes = tmp_path / "notes"
    command = f"test -d {{run}} && test -z \"$(ls -A '{{run}}')\" && echo {{run}} >> {notes} && echo > {{run}}/checkpoint && cd {{run}} && {sys.executable} ../../../here/loop.py"
    done = measure(command, "--repeats", "2", short=SHORT[:4])
    assert done.returncode in MEASURED, done.stderr
    folders = notes.read_text().split()
    assert len(set(folders)) == 3 and not [folder for folder in folders if pathlib.Path(folder).exists()]  # the trial's, too
    assert all(pathlib.Path(folder).parent == tmp_path / "study" / "runs" for folder in folders) and not (tmp_path / "study" / "runs").exists()
    assert "is written by every run" not in done.stderr
    done = measure(command, out=tmp_path / "a b")
    assert "sh does not take as it is: choose an --out without blanks" in message(done)


def test_variables(measure, tmp_path) -> None:
    shows = f"env > {tmp_path}/environment; {LOOP_PY}"

    def variables() -> dict[str, str]:
        return dict(line.split("=", 1) for line in (tmp_path / "environment").read_text().splitlines() if "=" in line)

    done = measure(shows, variables={"WANDB_MODE": "online"})
    assert done.returncode in MEASURED, done.stderr
    own = variables()
    assert own["WANDB_MODE"] == "offline" and own["PYTHONUNBUFFERED"] == "1"
    assert pathlib.Path(own["WANDB_DIR"]).parent == tmp_path / "study" / "runs" and own["MLFLOW_TRACKING_URI"] == f"file://{own['WANDB_DIR']}"
    ours = {"LADDER_LOG", "LADDER_STEPS", "LADDER_CODE", "LADDER_HOOK"}
    assert not ours & own.keys(), "a run does not know that it is one"
    done = measure("--as-is", shows, out=tmp_path / "as-is", variables={"WANDB_MODE": "online"})
    assert done.returncode in MEASURED, done.stderr
    own = variables()
    assert own["WANDB_MODE"] == "online" and "WANDB_DIR" not in own and "MLFLOW_TRACKING_URI" not in own


def test_commands_are_shown_and_run_as_typed(measure, study, tmp_path) -> None:
    shows = "import sys; print(sys.argv[1:], flush=True); exec(open('loop.py').read().replace('sys.argv', '[]'))"
    one = f"{sys.executable} -c \"{shows}\" 'a  b' \"c \\\"$HOME\\\"\" d\\ e $UNSET \\\n  'f\ng'"
    done = measure(one, "two: " + one, "+ 'x  y'", "+ A=1 B='2  3'", variables={"HOME": "/the home"})
    assert done.returncode in MEASURED, done.stderr
    assert "note: commands 1 and 2 are the same, " in done.stderr and "what differs is chance" in done.stderr
    rungs = study()["rungs"]
    assert [rung["command"]["typed"] for rung in rungs] == [one, one, "+ 'x  y'", "+ A=1 B='2  3'"]
    assert rungs[2]["command"]["text"] == one + " 'x  y'" and rungs[3]["command"]["text"] == f"export A=1 B='2  3'; {one} 'x  y'"
    assert [rung["title"] for rung in rungs] == [one, "two", "'x  y'", "A=1 B='2  3'"]
    printed = [(tmp_path / "study" / "logs" / f"{run}.log").read_text().splitlines()[0] for run in sorted(run_ids(tmp_path / "study"))]
    words = ["a  b", 'c "/the home"', "d e", "f\ng"]
    assert printed == [str(words), str(words), str([*words, "x  y"]), str([*words, "x  y"])]


def test_output_that_is_no_text(measure, study, tmp_path) -> None:
    noise = "head -c 3000 /dev/urandom; printf '\\n\\377\\n\\000\\n'"
    done = measure(f"{noise}; {LOOP_PY}", "loud: " + prints('os.write(1, b"\\xff\\x1b[31mstep %d loss %f \\xc3\\n" % (step, 3 / (step + 1)))'))
    assert done.returncode in (0, 1), done.stderr
    assert [record["status"] for record in records(tmp_path / "study").values()] == ["ok"] * 2
    assert records(tmp_path / "study")["r1-01-loud"]["command"]["shape"] == "\\xffstep STEP loss LOSS \\xc3"
    study()


def test_other_losses_are_void(measure, study) -> None:
    done = measure("--json", LOOP_PY, "near: + --off 0.0005", f"far: {LOOP_PY} --off 1")
    assert done.returncode == 1 and json.loads(done.stdout) == study(), done.stderr
    first, near, far = study()["rungs"]
    assert near["status"] == "measured" and near["guard"]["passed"] and near["command"]["losses"].startswith("the same (0.0005 off at steps 1 to ")
    assert far["status"] == "void" and far["reason"].startswith("other losses: 1 off at steps 1 to ")


def test_a_factorial(measure, study) -> None:
    """command_rungs_test.cpp has the commands of the other modes."""
    done = measure("--mode", "factorial", LOOP_PY, "a: + --sleep 0.003", "b: + --off 0.0001")
    assert done.returncode in MEASURED, done.stderr
    found = study()
    assert found["mode"] == "factorial" and {rung["status"] for rung in found["rungs"]} == {"measured"}
    assert [rung["command"]["text"] for rung in found["rungs"]] == [
        LOOP_PY, f"{LOOP_PY} --sleep 0.003", f"{LOOP_PY} --off 0.0001", f"{LOOP_PY} --sleep 0.003 --off 0.0001"]


def test_steps_of_other_work_are_compared_by_their_tokens(measure, study, tmp_path) -> None:
    """The second takes as long for twice the tokens. What a program prints of its rate need not be true."""
    twice = [f"{LOOP_PY} --tokens 100", f"{LOOP_PY} --tokens 200"]
    done = measure("--losses", "free", *twice)
    assert done.returncode in MEASURED, done.stderr
    found = study()
    assert sorted(record["command"]["tokens_per_step"] for record in records(tmp_path / "study").values()) == [100, 200]
    first, second = found["rungs"]
    assert second["command"]["losses"] == "not compared, as asked"
    ratio = first["ms_per_step"]["median"] / second["ms_per_step"]["median"] * 2
    assert second["speedup_first"]["ratio"] == pytest.approx(ratio, rel=1e-6), second
    assert second["tokens_per_s"]["median"] == pytest.approx(200e3 / second["ms_per_step"]["median"], rel=1e-6)
    done = measure("--tokens", "50", *twice, out=tmp_path / "told")
    assert [record["command"]["tokens_per_step"] for record in records(tmp_path / "told").values()] == [50, 50]


CLIENT = pathlib.Path(__file__).resolve().parents[2] / "client"


def test_a_client_takes_the_place_of_printed_lines(measure, study, tmp_path) -> None:
    """Its steps may be over before anyone looks."""
    speaks = program(f"import sys, time; sys.path.insert(0, {str(CLIENT)!r}); import ladder_client as ladder\n"
                     f"for step in range(10**9):\n    time.sleep(0.0005)\n    ladder.step(2.0, tokens=64)\n"
                     "    print(f'step {step} loss {3 / (step + 1)}', flush=True)")
    done = measure(speaks)
    assert done.returncode in MEASURED and 'steps: "lines of ladder_client"' in done.stderr, done.stderr
    record = one_record(tmp_path / "study")
    assert record["command"]["shape"] == "lines of ladder_client" and record["command"]["by_loss"]
    assert record["timing"]["loss"] == [2.0] * 9 and record["command"]["tokens_per_step"] == 64
    assert record["summary"]["tokens_per_s"] > 0
    study()


@pytest.mark.parametrize("ahead_s", [2e6, -2e6])
def test_a_client_in_a_container_with_a_clock_of_its_own(measure, tmp_path, ahead_s) -> None:
    begins = "log = open(os.environ['LADDER_LOG'], 'ab', 0); " \
             f"log.write(b'{{\"ladder\": 1, \"clock\": %f}}\\n' % (time.time() - time.monotonic() - {ahead_s}))"
    done = measure(prints(f"log.write(b'{{\"t\": %f, \"step\": %d, \"loss\": 2}}\\n' % (time.monotonic() + {ahead_s}, step))", begins))
    assert done.returncode in MEASURED, done.stderr
    assert 0 <= one_record(tmp_path / "study")["command"]["first_step_s"] < 60


def test_what_is_no_line_of_a_client(measure, tmp_path) -> None:
    """A program may write anything there."""
    strange = [b"{", b"\xff", b"[]", b'{"t": "x", "step": 1}', b'{"t": 1e400, "step": 1}', b'{"t": 1e9, "step": -1}',
               b'{"t": 1e9, "step": 1e30}', b'{"t": 1e9, "step": 1.5}', b'{"t": 1e9, "step": 18446744073709551615}', b"x" * 100000]
    writes = f"log = open(os.environ['LADDER_LOG'], 'ab', 0); log.write({b''.join(line + chr(10).encode() for line in strange)!r})"
    line = "log.write(b'{\"t\": %f, \"step\": %d, \"loss\": 1e300, \"tokens\": 0}\\n' % (time.monotonic(), step))"
    done = measure(prints(line, writes))
    assert done.returncode == 1, done.stderr
    record = one_record(tmp_path / "study")
    assert counted(record["command"]) and set(record["timing"]["loss"]) == {None} and "tokens_per_step" not in record["command"]


@pytest.mark.parametrize("says", ["time.time()", "-1e300", "time.monotonic() + (-1) ** step"])
def test_a_clients_time_lies_between_the_line_before_and_now(measure, tmp_path, says) -> None:
    """Where its clock is another one or goes back, its lines came when they were read."""
    began = time.monotonic()
    done = measure(prints(f"log.write('{{\"t\": %r, \"step\": %d, \"loss\": 1}}\\n' % ({says}, step)); time.sleep(0.02)",
                          "log = open(os.environ['LADDER_LOG'], 'a', 1)"))
    assert done.returncode in MEASURED, done.stderr
    record = one_record(tmp_path / "study")
    seconds = record["command"]["seconds"]
    assert seconds == sorted(seconds) and 0 <= seconds[0] and seconds[-1] <= record["duration_s"] <= time.monotonic() - began, seconds
    assert record["summary"]["median_ms"] > 10, "it sleeps for 24 ms in each step"


@pytest.mark.parametrize("puts", ["os.mkfifo(log)", "os.symlink('/dev/zero', log)", "os.truncate(open(log, 'w').name, 1 << 40)"])
def test_what_is_no_file_of_a_client_does_not_hold_the_runner(measure, tmp_path, puts) -> None:
    began = time.monotonic()
    done = measure("--limit-s", "2", program(f"import os, time; log = os.environ['LADDER_LOG']; {puts}; print('there', flush=True); time.sleep(600)"))
    assert "ran past its limit of 2 s" in message(done) and time.monotonic() - began < 60
    assert "truncate" in puts or "the file that LADDER_LOG names must be a regular one" in message(done)


def test_a_trial_that_was_killed_is_not_in_the_way(measure, start, tmp_path) -> None:
    folder = tmp_path / "study"
    runner = start("measure", "--out", folder, "echo begun; sleep 1000")
    wait_for(lambda: processes_with(str(folder / "runs")), "the trial")
    runner.kill()
    runner.communicate(timeout=HANGS_AFTER_S)
    wait_for(lambda: not processes_with(str(folder / "runs")), "the end of what it ran")
    assert (folder / "logs").exists()
    (folder / "logs" / "mine").touch()
    assert "is not empty (logs is in it)" in message(measure(LOOP_PY))
    (folder / "logs" / "mine").unlink()
    assert measure(LOOP_PY).returncode in MEASURED
    assert_complete(folder)


def test_a_default_folder_is_no_part_of_the_users_repository(ladder, here) -> None:
    assert ladder("measure", "no-such-program", cwd=here).returncode == 2
    (parent,) = [entry for entry in here.iterdir() if entry.is_dir()]
    assert parent.name == "measured" and [entry.name for entry in parent.iterdir()] == [".gitignore"] and (parent / ".gitignore").read_text() == "*\n"


def test_two_at_once_take_two_folders(start, here) -> None:
    first = start("measure", *SHORT, "echo begun; sleep 1; " + LOOP_PY, cwd=here)
    wait_for(lambda: processes_with(str(here / "measured")), "the trial")
    second = start("measure", *SHORT, LOOP_PY, "--wait", cwd=here)
    assert [runner.communicate(timeout=HANGS_AFTER_S) and runner.returncode in MEASURED for runner in (first, second)] == [True] * 2
    studies = [folder for folder in (here / "measured").iterdir() if folder.is_dir()]
    assert len(studies) == 2
    for folder in studies:
        assert_complete(folder)


def test_a_second_measurement_is_refused_or_waits_until_a_signal(start, measure, here, tmp_path) -> None:
    first = start("measure", "--out", tmp_path / "first", "echo begun; sleep 1000")
    wait_for(lambda: processes_with(str(tmp_path / "first" / "runs")), "the trial")
    done = measure(LOOP_PY)
    assert done.returncode == 3 and "pass --wait" in done.stderr, done.stderr
    second = start("measure", "--out", tmp_path / "second", LOOP_PY, "--wait", cwd=here)
    assert "waiting for its end" in second.stderr.readline()
    time.sleep(0.2)
    second.send_signal(signal.SIGHUP)
    said = second.communicate(timeout=HANGS_AFTER_S)[1]
    assert second.returncode == 130 and "waiting for device cpu ended: interrupted" in said and not (tmp_path / "second").exists()
    first.send_signal(signal.SIGINT)
    said = first.communicate(timeout=HANGS_AFTER_S)[1]
    assert first.returncode == 130 and "interrupted before anything was measured" in said
    assert not (tmp_path / "first").exists() and not processes_with(str(tmp_path / "first"))


def test_standard_error_that_cannot_be_written_ends_nothing(program, environment, here, tmp_path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full", "wb") as full, os.fdopen(writer, "wb") as unread:
        done = subprocess.run([program, "measure", *SHORT, "--out", tmp_path / "study", LOOP_PY], cwd=here, env=environment, stdout=subprocess.PIPE,
                              stderr=unread, check=False, timeout=HANGS_AFTER_S)
        assert done.returncode in MEASURED
        for lost in (unread, full):
            assert subprocess.run([program, "verify", "nowhere"], env=environment, stderr=lost, check=False).returncode == 2
    assert_complete(tmp_path / "study")


def test_a_study_goes_on_only_under_its_circumstances(measure, ladder, here, tmp_path) -> None:
    """In its folder, with the files that its commands name and those beside them, and with as many threads."""
    folder, other = tmp_path / "study", tmp_path / "other"
    (here / "model.py").write_text("")
    (here / "config.yaml").write_text("a: 1")
    writes = f"date +%N > out.txt; {LOOP_PY} --config config.yaml"
    done = measure(writes, "--repeats", "2", short=SHORT[:4])
    assert done.returncode in MEASURED and "written" in done.stderr, done.stderr
    kept = read_json(folder / "plan.json")["commands"]["files"]
    assert {".", "loop.py", "model.py", "config.yaml"} <= set(kept) and "out.txt" not in kept
    last = folder / "records" / f"{run_ids(folder)[-1]}.json"
    subprocess.run(["cp", "-r", here, other], check=True)

    def refused(says: str, cwd=here, **variables) -> None:
        last.unlink(missing_ok=True)
        done = ladder("measure", "--resume", "--out", folder, writes, cwd=cwd, variables=variables)
        assert done.returncode == 3 and "under other circumstances: " in done.stderr and says in done.stderr and not last.exists(), done.stderr

    refused("in another working folder", cwd=other)
    refused("OMP_NUM_THREADS=7", OMP_NUM_THREADS="7")
    (here / "config.yaml").write_text("a: 2")
    refused("config.yaml has changed since the study was begun")
    (here / "config.yaml").write_text("a: 1")
    assert measure(writes, "--resume", short=()).returncode in MEASURED and last.exists()


def test_a_file_that_is_edited_meanwhile_ends_the_study(start, here, tmp_path) -> None:
    folder = tmp_path / "study"
    runner = start("measure", "--warmup", "1", "--steps", "8", "--repeats", "50", "--out", folder, LOOP_PY, cwd=here)
    wait_for(lambda: (folder / "records").is_dir() and records(folder), "a record")
    (here / "loop.py").write_text(LOOP + "\n")
    said = runner.communicate(timeout=HANGS_AFTER_S)[1]
    assert runner.returncode == 3 and "loop.py has changed since the study was begun" in said


def test_records_of_two_machines_are_refused(ladder, measure, tmp_path) -> None:
    folder = tmp_path / "study"
    assert measure(LOOP_PY, "--repeats", "2", short=SHORT[:4]).returncode in MEASURED
    file = folder / "records" / f"{run_ids(folder)[-1]}.json"
    whole = read_json(file)
    (folder / "study.json").unlink()
    write_json(file, whole | {"environment": whole["environment"] | {"cpu": whole["environment"]["cpu"] | {"model": "Another"}}})
    assert "does not belong to run" in message(ladder("report", folder))
    write_json(file, whole)
    assert ladder("report", folder).returncode in MEASURED
    write_json(file, whole | {"command": whole["command"] | {"text": "another"}})
    assert "its command is not the planned one" in ladder("verify", folder).stdout
    for record in (folder / "records").glob("*.json"):
        write_json(record, read_json(record) | {"environment": whole["environment"] | {"kernel_switches": {"A\x1b]0;x\x07\u202e": "1"}}})
    assert ladder("report", folder, "--out", tmp_path / "keys").returncode in MEASURED
    drawn = (tmp_path / "keys" / "report.json").read_text()
    assert "A\\\\x1b]0;x" in drawn and "\\u001b" not in drawn and "\u202e" not in drawn


needs_torch = pytest.mark.skipif(subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0,
                                 reason="there is no torch")
TORCH = """
import sys, time, torch
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters(), fused="--fused" in sys.argv)
for step in range(10**9):
    loss = model(torch.ones(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.004)
    if "--quiet" not in sys.argv: print(f"step {step} loss {loss.item()}", flush=True)
"""


@needs_torch
@pytest.mark.thorough
def test_a_look_tells_a_flag_that_is_ignored_from_one_that_is_not(measure, study, here, tmp_path) -> None:
    (here / "train.py").write_text(TORCH)
    command = f"{shlex.quote(PYTHON)} train.py"
    done = measure(command, "+ --fused", f"again: {command} --ignored", "--look", "--losses", "free")
    assert done.returncode in MEASURED, done.stderr
    rungs = study()["rungs"]
    assert rungs[2]["command"]["seen"] == [] and [line for line in rungs[1]["command"]["seen"] if line.endswith("→ AdamW fused")]
    assert "Nothing that can be seen differs with \"again\": is the flag read?" in " ".join(done.stdout.split()), done.stdout
    planned = read_json(tmp_path / "study" / "plan.json")["rungs"]
    assert {file.stem for file in (tmp_path / "study" / "looks").iterdir()} == {rung["name"] for rung in planned}


@needs_torch
def test_a_hook_times_the_steps_of_a_program_that_prints_none(measure, study, here, tmp_path) -> None:
    (here / "train.py").write_text(TORCH)
    done = measure("--hook", f"{shlex.quote(PYTHON)} train.py --quiet")
    assert done.returncode in MEASURED, done.stderr
    record = one_record(tmp_path / "study")
    assert record["command"]["shape"] == "lines of ladder_client" and not record["command"]["by_loss"] and counted(record["command"])
    found = study()
    assert found["rungs"][0]["status"] == "measured" and any("not all of its lines have a loss" in warning for warning in found["warnings"])


def test_an_interrupt_keeps_what_was_measured(start, measure, here, study, tmp_path) -> None:
    folder = tmp_path / "study"
    command = f"{sys.executable} {here}/loop.py --sleep 0.02"
    flags = ("measure", "--warmup", "1", "--steps", "8", "--repeats", "4", "--out", folder, command, "+ --off 0")
    runner = start(*flags, cwd=here)
    wait_for(lambda: (folder / "records").is_dir() and len(records(folder)) >= 2 and processes_with(str(folder / "runs")), "records and a run")
    runner.send_signal(signal.SIGINT)
    said = runner.communicate(timeout=HANGS_AFTER_S)[1]
    assert runner.returncode == 130 and f"completed runs are saved; resume with: ladder measure --resume --out {folder} '{command}' '+ --off 0'\n" in said
    assert not processes_with(str(folder)) and not (folder / "runs").exists()
    kept = {name: record["started"] for name, record in records(folder).items()}
    assert 2 <= len(kept) < 8 and study()["finished"] is None

    for others in ([command], [command, "+ --off 1"], [command, "x: + --off 0"]):
        assert "was begun with other commands" in message(measure(*others, "--resume", short=()))
    assert "--steps" in message(measure(command, "+ --off 0", "--resume", "--steps", "9", short=()))
    assert {name: record["started"] for name, record in records(folder).items()} == kept

    left = measure(command, "+ --off 0", "--resume", "--dry-run", short=())
    assert left.returncode in MEASURED and f"\n{8 - len(kept)} run" in left.stdout and ", in about " in left.stdout, left.stdout
    done = measure(command, "+ --off 0", "--resume", short=())
    assert done.returncode in MEASURED and f"{len(kept)} of 8 runs are there already" in done.stderr, done.stderr
    assert_complete(folder)
    assert len(records(folder)) == 8
    unchanged = [name for name, started in kept.items() if records(folder)[name]["started"] == started or (folder / "records" / f"{name}.flagged.json").exists()]
    assert unchanged == list(kept)


def with_each_text(document, text: str):
    """Copies of a JSON document, each with that text in the place of one of its own, or in one of its empty lists."""
    def places(value, path):
        if isinstance(value, str) or value == []:
            yield path
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
            yield from places(inner, (*path, key))

    for *path, last in places(document, ()):
        changed = inner = json.loads(json.dumps(document))
        for key in path:
            inner = inner[key]
        inner[last] = text if isinstance(inner[last], str) else [text]
        yield changed


def test_a_folder_never_decides_what_is_run(measure, here, tmp_path) -> None:
    folder, proof = tmp_path / "study", tmp_path / "proof"
    assert measure(LOOP_PY).returncode in MEASURED
    whole = (folder / "plan.json").read_text()
    (folder / "records" / f"{run_ids(folder)[0]}.json").unlink()
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / "loop.py").write_text(f"open({str(proof)!r}, 'w')\n{LOOP}")
    for edit in ({"text": f"touch {proof}; {LOOP_PY}"}, {"directory": str(evil)}):
        plan = json.loads(whole)
        plan["rungs"][0]["command"] |= edit
        write_json(folder / "plan.json", plan)
        done = measure(LOOP_PY, "--resume", short=())
        assert "was begun with other commands" in message(done)
        assert not proof.exists()
    for edited in with_each_text(json.loads(whole) | {"run_limit_s": 2}, f"touch {proof}"):
        write_json(folder / "plan.json", edited)
        done = measure(LOOP_PY, "--resume", short=())
        assert not proof.exists() and done.returncode in (1, 2, *MEASURED), done.stderr
        for record in (folder / "records").glob("*.json"):
            record.unlink()
    plan = json.loads(whole)
    plan["rungs"][0]["name"] = "../x"
    write_json(folder / "plan.json", plan)
    assert str(folder / "plan.json") in message(measure(LOOP_PY, "--resume", short=()))
    (folder / "plan.json").write_text(whole)
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("runs", "looks", "logs"):
        kept = folder / f"{name}.kept"
        if (folder / name).exists():
            (folder / name).rename(kept)
        (folder / name).symlink_to(outside)
        done = measure(LOOP_PY, "--resume", "--look", short=())
        assert done.returncode == 2 and not list(outside.iterdir()), done.stderr
        (folder / name).unlink()
        if kept.exists():
            kept.rename(folder / name)
    assert measure(LOOP_PY, "--resume", short=()).returncode in MEASURED


@pytest.fixture(name="made", scope="module")
def fixture_made(ladder, tmp_path_factory):
    """Two studies of the same commands, one after the other, in the folders "studies/1" and "studies/2"."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "loop.py").write_text(LOOP)
    for number in (1, 2):
        done = ladder("measure", "--warmup", "1", "--steps", "8", "--repeats", "2", "--out", folder / "studies" / str(number), LOOP_PY, "+ --off 0.0001",
                      "far: " + LOOP_PY + " --off 1", cwd=folder)
        assert done.returncode == 1, done.stderr
        time.sleep(1.1)  # ids have seconds
    return folder / "studies"


def test_a_study_is_shown_joined_and_listed_but_not_gone_on_with_by_others(ladder, made, tmp_path) -> None:
    done = ladder("report", made / "1")
    assert done.returncode == 1 and "+ --off 0.0001" in done.stdout and "void: other losses" in done.stdout, done.stderr
    assert "3 commands on" in done.stdout and "|  |" not in done.stdout
    done = ladder("history", made)  # a line for each command
    assert done.returncode == 0, done.stderr
    shown = [line for line in done.stdout.splitlines() if re.search(r" 2 +[\d.]+ +[\d.]+ ", line)]
    assert len(shown) == 2 and "+ --off 0.0001" in shown[1] and "B=1" not in done.stdout, done.stdout
    assert "not the same plan" in message(ladder("merge", made / "1", made / "2", "--out", tmp_path / "merged"))
    done = ladder("merge", made / "1", "--out", tmp_path / "merged")
    assert done.returncode == 1 and ladder("verify", tmp_path / "merged").returncode == 0, done.stderr
    done = ladder("ablate", "--resume", "--out", made / "1")
    assert done.returncode in (2, 3) and len(done.stderr.splitlines()) <= 2, done.stderr


def test_verify_computes_a_study_again_and_finds_an_edit(ladder, made, tmp_path) -> None:
    done = ladder("verify", made / "1")
    assert done.returncode == 0, done.stdout + done.stderr
    copy = shutil.copytree(made / "1", tmp_path / "copy")
    file = copy / "records" / f"{run_ids(copy)[0]}.json"
    whole = read_json(file)
    for where, key, value, says in (("timing", "window_ms", 1.0, "/timing/window_ms"), ("command", "first_step_s", 0.001, "/command/first_step_s"),
                                    ("command", "steps", [0] * len(whole["command"]["steps"]), "its steps do not go up")):
        write_json(file, whole | {where: whole[where] | {key: value}})
        done = ladder("verify", copy)
        assert done.returncode == 1 and says in done.stdout and "SHA-256" in done.stdout, done.stdout


def test_compare_matches_commands_by_their_text(ladder, made) -> None:
    for place, pairs in (("", 2), ("records", 3)):  # records do not say that one of them is void
        done = ladder("compare", made / "1" / place, made / "2" / place, "--json")
        assert done.returncode in MEASURED, done.stderr
        assert [entry["pairs"] for entry in json.loads(done.stdout)["entries"]] == [2] * pairs


def test_words_without_quotes_and_a_dry_run(ladder, tmp_path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    for words in (["python", "train.py"], ["python", "train.py", "--lr", "3"]):
        done = ladder("measure", *words, cwd=tmp_path)
        assert done.returncode == 2 and f"did you mean ladder measure '{' '.join(words)}'?" in done.stderr, done.stderr
    done = ladder("measure", "--dry-run", "python train.py", "lower: + --lr 3", cwd=tmp_path)
    assert done.returncode in MEASURED and "\nlower: python train.py --lr 3\n12 runs of 40 steps each would be made, into measured/" in done.stdout, done.stdout
    assert not (tmp_path / "measured").exists()


def test_a_time_budget_sets_the_repeats(measure, tmp_path) -> None:
    done = measure("--warmup", "1", "--steps", "8", "--for-s", "1", f"{LOOP_PY} --sleep 0.1", short=())
    assert done.returncode in MEASURED and "6 are needed to show a difference" in done.stderr, done.stderr
    assert read_json(tmp_path / "study" / "plan.json")["repeats"] < 6


GPU = "init 0\nshutdown 0\ndevices 2\ndriver 570.86\nmemory 85520809984\nsm_clock 1980\nmemory_clock 2619\ntemperature 50\npower 500000\n" \
      "reasons 0\nutilization 99\nenergy 1000000 1000000 1025000\nprocesses @"


def test_gpus_are_locked_watched_and_named(measure, start, here, study, environment, tmp_path) -> None:
    """Of a scripted driver with two GPUs; the program's process is on both."""
    library = os.environ.get("FAKE_NVML") or pytest.skip("FAKE_NVML is not set")
    (tmp_path / "libnvidia-ml.so.1").symlink_to(library)
    pids = tmp_path / "pids"
    variables = {"LD_LIBRARY_PATH": str(tmp_path), "FAKE_NVML_SCRIPT": f"{GPU}{pids}", "CUDA_VISIBLE_DEVICES": "GPU-0fake"}
    on_gpu = prints(f"{STEP}\n    time.sleep(0.1)", f"open({str(pids)!r}, 'w').write(str(os.getpid()))")
    done = measure(on_gpu, variables=variables)
    assert done.returncode in MEASURED, done.stderr
    assert "1 x NVIDIA Fake 0" in done.stderr
    plan = read_json(tmp_path / "study" / "plan.json")
    assert plan["rungs"][0]["command"]["trial"]["gpus"] == ["NVIDIA Fake 0"]
    record = one_record(tmp_path / "study")
    assert record["environment"]["gpu"]["name"] == "NVIDIA Fake 0" and record["environment"]["driver"] == "570.86"
    assert record["environment"]["gpu"]["memory_bytes"] == 85520809984
    assert record["memory"] == {"peak_bytes": 1 << 20, "peak_source": "its processes on the GPU (NVML), twice a second"} | {
        key: value for key, value in record["memory"].items() if key not in ("peak_bytes", "peak_source")}
    assert record["monitor"]["sm_clock_mhz"]["median"] == 1980 and record["monitor"]["samples"] >= 1, record["monitor"]
    found = study()
    assert found["device"] == {"kind": "cuda", "name": "NVIDIA Fake 0"} | {key: value for key, value in found["device"].items() if key not in ("kind", "name")}
    assert "NVIDIA Fake 0" in done.stdout or "Fake 0" in done.stdout, done.stdout
    locks = pathlib.Path(os.environ["LADDER_LOCK_DIR"])
    assert {"gpt2-ladder-gpu-0000:19:00.0.lock"} == {file.name for file in locks.iterdir() if "gpu-" in file.name}
    for which in ("1", "0,1"):  # not the GPU that is used; both
        done = measure(on_gpu, variables=variables | {"CUDA_VISIBLE_DEVICES": which}, out=tmp_path / which.replace(",", "-"))
        assert done.returncode in MEASURED and f"{len(which.split(','))} x NVIDIA Fake {which[0]}" in done.stderr, done.stderr
    done = measure(LOOP_PY, variables=variables, out=tmp_path / "cpu")
    assert done.returncode in MEASURED and "no GPU is used" in done.stderr, done.stderr
    assert study(tmp_path / "cpu")["device"]["kind"] == "cpu" and "monitor" not in one_record(tmp_path / "cpu")


# What amd-smi of ROCm 7 prints of a machine with two GPUs. The process that trains computes on the second.
AMD_SMI = """#!/bin/sh
case "$1" in
static) cat <<END
{"gpu_data": [
 {"gpu": 0, "asic": {"market_name": "AMD Instinct MI210"}, "bus": {"bdf": "0000:41:00.0"}, "driver": {"name": "amdgpu", "version": "6.16.6"}},
 {"gpu": 1, "asic": {"market_name": "AMD Instinct MI300X"}, "bus": {"bdf": "0000:83:00.0"},
  "vram": {"type": "HBM3", "size": {"value": 196592, "unit": "MB"}}, "driver": {"name": "amdgpu", "version": "6.16.6"}}]}
END
;;
metric) cat <<END
{"gpu_data": [{"gpu": 0, "usage": {"gfx_activity": {"value": 0, "unit": "%"}}},
 {"gpu": 1, "usage": {"gfx_activity": {"value": 97, "unit": "%"}}, "power": {"socket_power": {"value": 542, "unit": "W"}, "throttle_status": "THROTTLED"},
  "clock": {"gfx_0": {"clk": {"value": 1877, "unit": "MHz"}}}, "temperature": {"edge": "N/A", "hotspot": {"value": 71, "unit": "C"}}}]}
END
;;
process) cat <<END
[{"gpu": 0, "process_list": [{"process_info": "No running processes detected"}]},
 {"gpu": 1, "process_list": [{"process_info": {"name": "python", "pid": $(cat PIDS 2>/dev/null || echo 0), "mem_usage": {"value": 9, "unit": "B"}}}OTHER]}]
END
;;
esac
"""


@pytest.mark.parametrize("other", [False, True])
def test_gpus_of_amd_are_watched_and_named(measure, study, tmp_path, other) -> None:
    tools, pids = tmp_path / "tools", tmp_path / "pids"
    tools.mkdir()
    text = AMD_SMI.replace("PIDS", str(pids)).replace("OTHER", ', {"process_info": {"name": "x", "pid": 1}}' if other else "")
    (tools / "amd-smi").write_text(text)
    (tools / "amd-smi").chmod(0o755)
    on_gpu = prints(f"{STEP}\n    time.sleep(0.3)", f"open({str(pids)!r}, 'w').write(str(os.getpid()))")
    done = measure(on_gpu, variables={"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"})
    assert done.returncode in MEASURED and "1 x AMD Instinct MI300X" in done.stderr, done.stderr
    record = one_record(tmp_path / "study")
    monitor = record["monitor"]
    assert (monitor["sm_clock_mhz"]["median"], monitor["power_w"]["max"], monitor["utilization_percent"]["median"]) == (1877, 542, 97), monitor
    assert monitor["samples"] >= 1 and monitor["temperature_c"]["max"] == 71
    assert ("shared: 1 other process on the GPU" in record["flags"]) == other, record["flags"]
    assert study()["device"]["kind"] == "cuda" and not processes_with(str(tools)), study()["device"]


@pytest.mark.thorough
def test_a_later_start_pays_from_a_step_on(measure, here, tmp_path) -> None:
    """The program says its times itself, so that they are the same on any machine."""
    (here / "says.py").write_text("import json, os, sys, time\npace, start = map(float, sys.argv[1:])\nt = time.monotonic() + start\n"
                                  "with open(os.environ['LADDER_LOG'], 'a') as log:\n    for step in range(100000):\n"
                                  "        time.sleep(max(0, t + step * pace - time.monotonic()))\n"
                                  "        log.write(json.dumps({'step': step, 't': t + step * pace, 'loss': 1}) + '\\n')\n        log.flush()\n")
    slow, fast = (f"{shlex.quote(sys.executable)} says.py {words}" for words in ("0.02 0", "0.01 2"))
    done = measure(slow, fast, short=("--warmup", "1", "--steps", "8", "--repeats", "4"))
    said = re.search(r"starts (\d+\.\d+) s later, so it pays from step (\d+) on", " ".join(done.stdout.split()))
    assert said and float(said[1]) == pytest.approx(2, abs=0.8) and int(said[2]) == pytest.approx(200, abs=80), done.stdout
