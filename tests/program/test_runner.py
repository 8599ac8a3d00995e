"""What is left of a study when something goes wrong: runners that are interrupted, children that are killed, starved, disturbed or
never end.

Processes are really killed. Waiting has a limit only so that a broken program does not hang the tests.
"""

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import (MEASURED, HANGS_AFTER_S, assert_complete, assert_goes_on, assert_kept, child_of, is_alive, is_first_of_two, kibibytes, made_runs,
                      ladder_document, needs_waiting_times, read_json, records, run_ids, snapshot, validator, wait_for, write_json)

START_FIRST = "3"  # an order seed with which, of three rungs, the start runs first


@pytest.fixture
def two_rungs(tmp_path):
    """A ladder file for even fewer runs than `small`."""
    return write_json(tmp_path / "two.json", ladder_document(rungs=["flash"]))


def test_interrupted_and_killed_runners(small, start, ladder, environment, monkeypatch, tmp_path) -> None:
    folder = tmp_path / "study"

    def measured() -> dict[str, tuple]:
        files = snapshot(folder / "records", "*.json")  # the child's own file is there only for a while
        return {name: status for name, status in files.items() if not is_first_of_two(name)}

    def stop(runner: subprocess.Popen, signal_number: int, runs: int) -> tuple[int, str]:
        """Ends the runner as soon as there are that many records and a child works. Returns its exit status and its output."""
        wait_for(lambda: (folder / "records").exists() and len(measured()) >= runs, f"{runs} records")
        child = wait_for(lambda: child_of(runner.pid), "a child")
        runner.send_signal(signal_number)
        words = runner.communicate(timeout=HANGS_AFTER_S)[1]
        wait_for(lambda: not is_alive(child), "the end of the child")
        return runner.returncode, words

    first = start("ablate", "--no-look", "--ladder", small, "--steps", "20", "--threads", "1", "--order-seed", START_FIRST, "--out", folder)
    wait_for(lambda: child_of(first.pid), "a child")
    with monkeypatch.context() as patch:  # as on another machine with the same folder
        patch.setitem(environment, "LADDER_LOCK_DIR", str(tmp_path))
        second = ladder("ablate", "--resume", "--no-look", "--out", folder)
    assert second.returncode == 2 and "another runner is at work in this folder" in second.stderr
    status, words = stop(first, signal.SIGINT, 1)
    assert status == 130 and "interrupted in run" in words and f"ladder ablate --resume --out {folder}" in words
    assert not list(folder.rglob("*.tmp")) and not (folder / "study.json").exists()
    kept = measured()
    assert 1 <= len(kept) < 6
    assert all(record["status"] == "ok" for record in records(folder).values())

    half = ladder("report", folder)
    assert half.returncode in MEASURED, half.stdout
    assert read_json(folder / "study.json")["finished"] is None

    status, _ = stop(start("ablate", "--resume", "--no-look", "--json", "--out", folder), signal.SIGKILL, len(kept) + 1)
    assert status == -signal.SIGKILL
    assert_kept(kept, folder)
    assert len(measured()) < 6
    kept = measured()

    done = ladder("ablate", "--resume", "--no-look", "--json", "--out", folder)
    assert done.returncode in MEASURED, done.stderr
    assert_goes_on(done.stderr, 6, 6 - len(kept))
    assert_kept(kept, folder)
    assert_complete(folder)
    before = snapshot(folder / "records")
    again = ladder("ablate", "--resume", "--no-look", "--json", "--out", folder)
    assert again.returncode in MEASURED and snapshot(folder / "records") == before and made_runs(again) == []


def test_a_child_without_its_runner_dies_while_it_loads(small, start, tmp_path) -> None:
    """Also if SIGPIPE is ignored, as under systemd."""
    runner = start("ablate", "--no-look", "--ladder", small, "--steps", "100000", "--force", "--out", tmp_path / "study", restore_signals=False,
                   preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
    child = wait_for(lambda: child_of(runner.pid), "a child")
    runner.kill()  # the child still loads its libraries: it has not yet asked to die with its parent
    runner.wait()
    try:
        wait_for(lambda: not is_alive(child), "the end of the child")
    finally:
        if is_alive(child):
            os.kill(child, signal.SIGKILL)


def test_the_program_may_be_built_anew_meanwhile(two_rungs, program, environment, tmp_path) -> None:
    """Every run of a study is made with the program that began it."""
    copies = [shutil.copy(f"{program}{ending}", tmp_path / f"ladder{ending}") for ending in ("", "-gpt2")]
    runner = subprocess.Popen([copies[0], "ablate", "--no-look", "--ladder", two_rungs, "--repeats", "1", "--threads", "1", "--json", "--out",
                               tmp_path / "study"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: child_of(runner.pid), "a child")
    for copy in copies:
        os.unlink(copy)
        copy.write_text("half a program")
    assert "FAILED" not in runner.communicate()[1] and runner.returncode in MEASURED


def test_children_that_are_killed_or_starved(small, start, ladder, tmp_path) -> None:
    folder = tmp_path / "study"
    runner = start("ablate", "--no-look", "--ladder", small, "--repeats", "1", "--steps", "100", "--threads", "1", "--order-seed",
                   START_FIRST, "--out", folder)
    wait_for(lambda: (folder / "plan.json").exists(), "the plan")
    order = run_ids(folder)
    os.kill(wait_for(lambda: child_of(runner.pid, order[0]), order[0]), signal.SIGKILL)
    starved = wait_for(lambda: child_of(runner.pid, order[1]), order[1])
    # With the model loaded it gets a little more, but not the 64 MiB for the proof of host memory.
    wait_for(lambda: kibibytes(starved, "VmRSS") > 300000, "memory")
    limit = (kibibytes(starved, "VmSize") << 10) + (16 << 20)
    resource.prlimit(starved, resource.RLIMIT_AS, (limit, limit))
    stdout, stderr = runner.communicate(timeout=HANGS_AFTER_S)

    assert runner.returncode == 1, stderr
    result = records(folder)
    assert {run: result[run]["status"] for run in order} == {order[0]: "failed", order[1]: "failed", order[2]: "ok"}
    assert result[order[0]]["failure"]["kind"] == "signal"
    assert result[order[0]]["failure"]["message"].startswith("killed by signal 9 (Killed)")
    # Some libraries do not check that they got memory, so a crash is allowed, too.
    failure = result[order[1]]["failure"]
    assert failure["kind"] == "out_of_memory" or re.search(r"^ended with exit status 1: ladder: |^killed by signal \d+ \(", failure["message"]), failure
    study = read_json(folder / "study.json")
    assert not list(validator("study").iter_errors(study))
    plan = read_json(folder / "plan.json")
    by_rung = {run["rung"]: run["id"] for run in plan["runs"]}
    for rung in study["rungs"]:
        run = by_rung.get(rung["index"])
        if run in order[:2]:
            assert rung["status"] == "failed" and rung["reason"] == f"run {run}: {result[run]['failure']['message']}"
    table = " ".join(stdout.split())
    assert "failed: run " in table and "killed by signal 9 (Killed)" in table and "1 of 3 runs" in table
    assert stderr.count("FAILED: ") == 2 and "terminate" not in stderr

    done = ladder("ablate", "--resume", "--no-look", "--out", folder)
    assert done.returncode in MEASURED, done.stderr
    assert_goes_on(done.stderr, 3, 2)
    assert_complete(folder)


def utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def test_children_that_never_end(ladder, tmp_path) -> None:
    folder = tmp_path / "study"
    one_rung = write_json(tmp_path / "one.json", ladder_document(rungs=[]))
    began = utc(time.time())
    done = ladder("ablate", "--no-look", "--ladder", one_rung, "--steps", "100000", "--repeats", "1", "--limit-s", "3", "--force",
                  "--out", folder)
    assert done.returncode == 1

    def ended(record: dict) -> str:  # without the time it took; a second is added for fractions that are cut off
        return utc((folder / "records" / f"{record['id']}.json").stat().st_mtime - record["duration_s"] + 1)

    (record,) = records(folder).values()
    assert record["failure"] == {"kind": "timeout", "message": "ran past its limit of 3 s and was killed"}
    assert began <= record["started"] <= ended(record), "when it began, not when it ended"
    study = read_json(folder / "study.json")
    assert [rung["status"] for rung in study["rungs"]] == ["failed"] and study["headline"] is None
    assert "0 of 1 runs" in " ".join(done.stdout.split()) and (folder / "report.json").exists()


@contextlib.contextmanager
def busy_core():
    """Gives what keeps a child on the core that another program fills."""
    needs_waiting_times()
    core = min(os.sched_getaffinity(0))

    def stay() -> None:
        os.sched_setaffinity(0, {core})

    rival = subprocess.Popen([sys.executable, "-c", "import signal; signal.alarm(300)\nwhile True: pass"], preexec_fn=stay)
    try:
        yield stay
    finally:
        rival.kill()
        rival.wait()


def test_disturbed_runs_are_made_again_and_say_so(two_rungs, ladder, tmp_path) -> None:
    """runner_test.cpp has the order of such runs."""
    folder = tmp_path / "study"
    with busy_core() as stay:
        done = ladder("ablate", "--no-look", "--ladder", two_rungs, "--repeats", "1", "--steps", "20", "--threads", "1", "--out", folder,
                      preexec_fn=stay)
    assert done.returncode in MEASURED, done.stderr
    assert_complete(folder)
    study = read_json(folder / "study.json")
    words = r"shared: the processor was busy with something else for \d+ % of the time"
    runs = ("r1-00-start", "r1-01-flash")
    last_first, first_second = (which(read_json(folder / "records" / f"{run}{kind}.json")["started"] for run in runs)
                                for which, kind in ((max, ".flagged"), (min, "")))
    assert last_first <= first_second  # all first runs come before the second ones
    for rung, run in zip(study["rungs"], runs, strict=True):
        first, second = (read_json(folder / "records" / f"{run}{kind}.json") for kind in (".flagged", ""))
        for record in (first, second):
            assert not list(validator("record").iter_errors(record))
            assert record["id"] == run and len(record["flags"]) == 1 and re.fullmatch(words, record["flags"][0])
            assert 0.1 < record["timing"]["processor_lost"] <= 1
            assert record["monitor"] == {"unavailable": "no step ran on a GPU"}
        assert {"id": run, "record": f"records/{run}.json"}.items() <= next(r for r in study["runs"] if r["id"] == run).items()
        assert first["timing"]["step_ms"] != second["timing"]["step_ms"]
        assert f"{rung['title']}, repeat 1, is run again because it was disturbed ({first['flags'][0]})\n" in done.stderr
        assert rung["status"] == "measured" and rung["flags"] == [f"{run} {second['flags'][0]}"]
    assert f"Nothing is claimed: other work ran during 2 of 2 runs: {study['rungs'][0]['flags'][0][:60]}" in " ".join(done.stdout.split())
    assert len(re.findall(r"^.{25}! *[\d.,]+ ", done.stdout, re.M)) == 2 and "! disturbed runs" in done.stdout
    again = ladder("ablate", "--resume", "--no-look", "--json", "--out", folder, preexec_fn=stay)
    assert again.returncode in MEASURED and made_runs(again) == []

    # Second runs are missing: the budget was spent, or the runner was killed between its two writes.
    kept = [folder / "records" / f"{run}.json" for run in runs]
    disturbed = [file.read_text() for file in kept]
    kept[0].with_suffix(".flagged.json").unlink()
    kept[1].with_suffix(".flagged.json").write_text(disturbed[1])
    again = ladder("ablate", "--resume", "--no-look", "--json", "--out", folder, preexec_fn=stay)
    assert again.returncode in MEASURED and made_runs(again) == ["again", "again"], again.stderr
    assert [file.with_suffix(".flagged.json").read_text() for file in kept] == disturbed
    assert all(file.read_text() != text for file, text in zip(kept, disturbed, strict=True))


@pytest.mark.thorough
def test_a_study_beside_other_work_ends_early_and_names_it(two_rungs, ladder, tmp_path) -> None:
    folder = tmp_path / "study"
    with busy_core() as stay:
        done = ladder("ablate", "--no-look", "--ladder", two_rungs, "--repeats", "8", "--steps", "20", "--threads", "1", "--out", folder,
                      preexec_fn=stay, variables={"LADDER_BUSY": ""})
    assert done.returncode == 3, done.stderr
    assert re.search(r"other work disturbed [34] of the first 4 runs: .+ \(pid \d+\) takes \d+ % of a processor; stop it", done.stderr), done.stderr
    assert len(records(folder)) == 4, "they are kept"


@pytest.mark.thorough
def test_an_interrupt_while_rungs_are_traced(two_rungs, start, ladder, tmp_path) -> None:
    folder = tmp_path / "study"
    runner = start("ablate", "--no-look", "--ladder", two_rungs, "--repeats", "1", "--threads", "1", "--explain", "--out", folder)
    wait_for(lambda: list((folder / "logs").glob("*.trace.log")), "a trace")
    runner.send_signal(signal.SIGINT)
    words = runner.communicate(timeout=HANGS_AFTER_S)[1]
    assert runner.returncode == 130 and f"resume with: ladder ablate --resume --explain --out {folder}\n" in words
    assert "LADDER_PYTHON" not in words and not (folder / "report.json").exists()
    assert [rung["status"] for rung in read_json(folder / "study.json")["rungs"]].count("measured") == 2
    done = ladder("ablate", "--resume", "--no-look", "--explain", "--out", folder)
    assert done.returncode in MEASURED and made_runs(done) == []
    assert len(list((folder / "traces").glob("*.trace.json"))) == 2 and (folder / "report.json").exists()


def test_one_study_is_one_programs_and_of_one_text(two_rungs, ladder, tmp_path) -> None:
    folder = tmp_path / "study"
    assert ladder("ablate", "--no-look", "--ladder", two_rungs, "--repeats", "1", "--threads", "1", "--json", "--out", folder).returncode in MEASURED
    lost = folder / "records" / f"{run_ids(folder)[0]}.json"
    lost.unlink()
    (folder / "study.json").unlink()  # it would show the edit
    for part, name, value, says in (
            ("workload", "data", {"source": "text.txt", "sha256": "0" * 64, "tokens": 9},
             rf"run {lost.stem} does not belong to run \S+, and is not kept: text: 0+ against \w+\n"),
            ("environment", "compiler_flags", "-O0", "other circumstances: compiler_flags: -O0 against")):
        for file in (folder / "records").glob("*.json"):
            record = read_json(file)
            write_json(file, record | {part: record[part] | {name: value}})
        done = ladder("ablate", "--resume", "--no-look", "--json", "--out", folder)
        assert done.returncode == 3 and not lost.exists() and re.search(says, done.stderr), done.stderr


def test_progress_on_a_terminal(two_rungs, on_a_terminal, tmp_path) -> None:
    status, text = on_a_terminal("ablate", "--no-look", "--ladder", two_rungs, "--repeats", "1", "--threads", "1", "--out", tmp_path / "study")
    assert status in MEASURED
    assert re.search(r"\r\x1b\[K\[\.+\] 1/2 [\w ]+, repeat 1, step 0/4", text) and "] 2/2 " in text and ", step 4/4" in text
    bars = re.findall(r"\[(#*)\.*\] ", text)
    assert bars == sorted(bars), "it does not run backwards, also where a disturbed run is made again"
    drawn = re.findall(r"\r\x1b\[K(\[[^\r\n]*)", text)
    assert drawn and max(map(len, drawn)) <= 79
    assert "CPU figures" in text.rsplit("\x1b[K", 1)[1]
