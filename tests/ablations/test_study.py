"""Whole studies as a user makes them: what stands in their files, and what is left of them when something goes wrong.

Times are never asserted, only that numbers follow from the records: every derived number of study.json is computed again
here, from the records alone. Processes are killed for real; a limit on waiting is there only so that a broken program does
not hang the tests.
"""

import collections
import json
import math
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys

import jsonschema
import numpy as np
import pytest
from conftest import ROOT, child_of, is_alive, ladder_document, read_json, snapshot, wait_for, write_json

RUN = ["run", "--model", "tiny", "-B", "1", "-T", "16", "--steps", "2", "--warmup", "1", "--threads", "1"]
TRAIN = ["train", "--model", "tiny", "-B", "1", "-T", "16", "--threads", "1", "--json"]

START_FIRST = "3"  # an order seed for which the start is the first run of three rungs


def validator(kind: str) -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(read_json(ROOT / "results" / "schemas" / f"{kind}.v1.json"))


def records(folder: pathlib.Path) -> dict[str, dict]:
    return {path.stem: read_json(path) for path in (folder / "records").glob("*.json") if not is_first_of_two(path.name)}


def is_first_of_two(name: str) -> bool:
    """Whether the file is the first record of a run that was disturbed, and made again: a busy machine leaves some."""
    return name.endswith(".flagged.json")


def losses(folder: pathlib.Path) -> dict[str, list]:
    return {run: record["timing"]["loss"] for run, record in records(folder).items()}


def run_ids(folder: pathlib.Path) -> list[str]:
    return [run["id"] for run in read_json(folder / "plan.json")["runs"]]


def assert_complete(folder: pathlib.Path) -> None:
    study = read_json(folder / "study.json")
    assert not list(validator("study").iter_errors(study))
    assert {run: record["status"] for run, record in records(folder).items()} == dict.fromkeys(run_ids(folder), "ok")
    assert study["finished"] and study["plan"]["runs_ok"] == study["plan"]["runs_planned"] == len(run_ids(folder))
    assert not list(folder.rglob("*.tmp"))


@pytest.fixture(scope="module")
def study(ladder, tmp_path_factory):
    """The ladder `tiny` as it comes with the program: its folder and the finished process."""
    folder = tmp_path_factory.mktemp("whole") / "study"
    return folder, ladder("ablate", "--ladder", "tiny", "--order-seed", "7", "--threads", "1", "--out", folder)


@pytest.fixture
def small(tmp_path):
    """A ladder file for few short runs."""
    return write_json(tmp_path / "small.json", ladder_document())


def test_a_study_is_complete(study) -> None:
    folder, done = study
    assert done.returncode == 0, done.stdout + done.stderr
    assert_complete(folder)
    assert not list(validator("plan").iter_errors(read_json(folder / "plan.json")))
    for record in records(folder).values():
        assert not list(validator("record").iter_errors(record)), record["id"]


def test_the_order_is_balanced(study) -> None:
    plan = read_json(study[0] / "plan.json")
    measured = [index for index, rung in enumerate(plan["rungs"]) if rung["status"] == "planned"]
    assert len(measured) >= 6 and plan["repeats"] == 2
    by_repeat = [[run["rung"] for run in plan["runs"] if run["repeat"] == repeat] for repeat in range(2)]
    assert [sorted(rungs) for rungs in by_repeat] == [measured, measured]
    assert [run["repeat"] for run in plan["runs"]] == sorted(run["repeat"] for run in plan["runs"])
    assert by_repeat[0] != by_repeat[1] and measured not in by_repeat
    assert len(set(run_ids(study[0]))) == 2 * len(measured)


def test_every_step_is_recorded(study) -> None:
    plan = read_json(study[0] / "plan.json")
    steps = plan["warmup_steps"] + plan["timed_steps"]
    for run in plan["runs"]:
        record = records(study[0])[run["id"]]
        timing = record["timing"]
        assert timing["warmup_steps"] == plan["warmup_steps"] == 4 and steps == 9
        assert [len(timing[series]) for series in ("step_ms", "loss", "page_faults")] == [steps] * 3
        assert timing["window_ms"] >= 0.99 * sum(timing["step_ms"][4:]) and timing["device_ms"] is None
        assert all(math.isfinite(loss) and 5 < loss < 12 for loss in timing["loss"])
        assert record["recipe"] == plan["rungs"][run["rung"]]["recipe"]
        assert record["optimizations"] == plan["rungs"][run["rung"]]["applied"]
        timed = timing["step_ms"][4:]
        assert record["summary"]["median_ms"] == statistics.median(timed) and record["summary"]["n"] == len(timed)
        assert record["proofs"] and all(proof["passed"] for proof in record["proofs"])


def test_derived_numbers(study) -> None:
    """From the records alone: medians of runs' medians, quartiles of all steps, ratios paired within a repeat."""
    folder, _ = study
    result, plan = read_json(folder / "study.json"), read_json(folder / "plan.json")
    steps: dict[int, dict[int, list]] = collections.defaultdict(dict)
    for run in plan["runs"]:
        steps[run["rung"]][run["repeat"]] = records(folder)[run["id"]]["timing"]["step_ms"][plan["warmup_steps"] :]
    medians = {rung: {repeat: statistics.median(ms) for repeat, ms in runs.items()} for rung, runs in steps.items()}

    def ratio(before: int, after: int) -> float:
        return math.exp(statistics.median(math.log(medians[before][repeat] / medians[after][repeat]) for repeat in range(2)))

    previous = None
    for rung in result["rungs"]:
        index = rung["index"]
        if index not in steps:
            assert rung["ms_per_step"] is rung["speedup_first"] is rung["speedup_previous"] is None
            continue
        assert rung["status"] == "measured", rung["reason"]
        ms, every = rung["ms_per_step"], [value for run in steps[index].values() for value in run]
        assert ms["median"] == pytest.approx(statistics.median(medians[index].values()), rel=1e-12)
        quartiles = np.quantile(every, [0.25, 0.75, 0, 1])
        assert [ms[name] for name in ("q1", "q3", "min", "max")] == pytest.approx(list(quartiles), rel=1e-12)
        assert ms["n"] == len(every) == 10 and ms["lo"] <= ms["median"] <= ms["hi"]
        tokens = result["workload"]["tokens_per_step"]
        assert tokens == 2 * 32 and rung["tokens_per_s"]["median"] == pytest.approx(1000 * tokens / ms["median"], rel=1e-12)
        assert rung["speedup_first"]["ratio"] == pytest.approx(ratio(0, index), rel=1e-12)
        if previous is None:
            assert rung["speedup_previous"] is None
        else:
            assert rung["speedup_previous"]["ratio"] == pytest.approx(ratio(previous, index), rel=1e-12)
            assert rung["speedup_previous"]["pairs"] == 2
        assert rung["peak_memory_bytes"] == max(records(folder)[run["id"]]["memory"]["peak_bytes"]
                                                for run in plan["runs"] if run["rung"] == index)
        previous = index
    assert result["headline"] == {"first": 0, "last": previous, "speedup": result["rungs"][previous]["speedup_first"]}


def test_what_this_machine_cannot_have(study) -> None:
    rungs = {rung["optimization"]: rung for rung in read_json(study[0] / "study.json")["rungs"]}
    for name in ("gpu", "graph"):
        assert rungs[name]["status"] == "not_applicable" and "no CUDA device" in rungs[name]["reason"]
        assert rungs[name]["recipe_diff"] == {}
    assert "+ GPU                     not applicable here: no CUDA device" in study[1].stdout


def test_what_is_printed(study) -> None:
    folder, done = study
    assert "These are CPU figures; they say nothing about a GPU." in done.stdout
    for rung in read_json(folder / "study.json")["rungs"]:
        assert rung["title"][:20] in done.stdout
    *files, charts = done.stdout.split("Files:\n")[1].splitlines()
    assert {pathlib.Path(name).name for name in files} == {"study.json", "report.json", "rungs.csv", "steps.csv", "benchmark.json",
                                                           "report.html", "report.md"}
    assert all(pathlib.Path(name).parent == folder and pathlib.Path(name).stat().st_size > 0 for name in files)
    assert charts.startswith(f"{folder / 'charts'}: ladder, ") and charts.endswith(", each as SVG, PNG and Vega-Lite")
    ladder = folder / "charts" / "ladder.svg"
    assert ladder.with_suffix(".png").read_bytes().startswith(b"\x89PNG") and b"<svg" in ladder.read_bytes()
    assert "<!doctype html>" in (folder / "report.html").read_text()
    assert "CPU" in (folder / "report.md").read_text()
    assert all(f"[{i}/16]" in done.stderr or len(run_ids(folder)) != 16 for i in range(1, 17))
    for text in (done.stdout, done.stderr):
        assert "\x1b" not in text and "\r" not in text
    assert max(map(len, done.stdout.split("Files:")[0].splitlines())) <= 80


def test_the_same_seed_gives_the_same_losses(study, ladder, tmp_path) -> None:
    folder, _ = study
    by_rung = collections.defaultdict(list)
    for run in read_json(folder / "plan.json")["runs"]:
        by_rung[run["rung"]].append(losses(folder)[run["id"]])
    assert all(first == second for first, second in by_rung.values())
    document = ladder_document(rungs=[], workload={"model": "tiny", "batch": 2, "context": 32},
                               plan={"repeats": 1, "warmup_steps": 4, "timed_steps": 5})
    for seed, same in ((1, True), (2, False)):
        again = tmp_path / f"seed{seed}"
        done = ladder("ablate", "--ladder", write_json(tmp_path / "start.json", document), "--seed", seed, "--threads", "1",
                      "--json", "--out", again)
        assert done.returncode == 0 and json.loads(done.stdout) == read_json(again / "study.json")
        assert (losses(again)["r1-00-start"] == by_rung[0][0]) == same


def test_one_folder_holds_one_study(study, ladder) -> None:
    folder, _ = study
    before = snapshot(folder)
    done = ladder("ablate", "--ladder", "tiny", "--out", folder)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "holds a study already; --resume" in done.stderr
    assert snapshot(folder) == before


def test_report_draws_elsewhere(study, ladder, tmp_path) -> None:
    folder, done = study
    drawn = ladder("report", folder, "--out", tmp_path / "new" / "drawn")
    assert drawn.returncode == 0, drawn.stderr
    assert drawn.stdout.split("\n\n")[1] in done.stdout
    assert {path.name for path in (tmp_path / "new" / "drawn").iterdir()} >= {"report.html", "report.md", "charts"}


def spoil(record: dict, **changes) -> str:
    return json.dumps({**record, **changes})


def test_spoilt_records_are_made_again(study, ladder, tmp_path) -> None:
    folder = tmp_path / "study"
    shutil.copytree(study[0], folder)
    good = records(folder)
    ids = run_ids(folder)
    timing = good[ids[5]]["timing"]
    for run, content in zip(ids, [
        json.dumps(good[ids[0]])[:-50],
        "",
        json.dumps(good[ids[3]]),
        spoil(good[ids[3]], recipe={**good[ids[3]]["recipe"], "device": "cuda"}),
        spoil(good[ids[4]], timing={**good[ids[4]]["timing"], "loss": good[ids[4]]["timing"]["loss"][:-1]}),
        spoil(good[ids[5]], timing={**timing, "warmup_steps": 10**12}),
        spoil(good[ids[6]], status="failed", failure={"kind": "exit", "message": "said so"}),
    ], strict=False):
        (folder / "records" / f"{run}.json").write_text(content)
    (folder / "records" / f"{ids[7]}.json").unlink()
    before = snapshot(folder / "records")
    shutil.rmtree(folder / "logs")

    refused = ladder("report", folder)
    assert refused.returncode == 2 and refused.stderr.startswith("ladder: ") and refused.stdout == ""
    done = ladder("ablate", "--resume", "--out", folder)
    assert done.returncode == 0, done.stderr
    assert f"{len(ids) - 8} of {len(ids)} runs are there already; 8 to go" in done.stderr
    assert_complete(folder)
    after = snapshot(folder / "records")
    changed = {name for name in before.keys() | after if before.get(name) != after.get(name) and not is_first_of_two(name)}
    assert changed == {f"{run}.json" for run in ids[:8]}
    assert losses(folder) == losses(study[0])


def test_interrupted_and_killed_runners(small, start, ladder, environment, monkeypatch, tmp_path) -> None:
    folder = tmp_path / "study"

    def measured() -> dict[str, tuple]:
        files = snapshot(folder / "records", "*.json")  # the child's own file comes and goes
        return {name: status for name, status in files.items() if not is_first_of_two(name)}

    def stop(runner: subprocess.Popen, signal_number: int, runs: int) -> tuple[int, str]:
        """Ends the runner when that many records are there and a child works. Its exit status, and its words."""
        wait_for(lambda: (folder / "records").exists() and len(measured()) >= runs, f"{runs} records")
        child = wait_for(lambda: child_of(runner.pid), "a child")
        runner.send_signal(signal_number)
        words = runner.communicate(timeout=60)[1]
        wait_for(lambda: not is_alive(child), "the end of the child", 20)
        return runner.returncode, words

    first = start("ablate", "--ladder", small, "--steps", "20", "--threads", "1", "--order-seed", START_FIRST, "--out", folder)
    wait_for(lambda: child_of(first.pid), "a child")
    with monkeypatch.context() as patch:  # as on another machine that sees the folder
        patch.setitem(environment, "LADDER_LOCK_DIR", str(tmp_path))
        second = ladder("ablate", "--resume", "--out", folder)
    assert second.returncode == 2 and "another runner is at work in this folder" in second.stderr
    status, words = stop(first, signal.SIGINT, 1)
    assert status == 130 and "interrupted in run" in words and f"ladder ablate --resume --out {folder}" in words
    assert not list(folder.rglob("*.tmp")) and not (folder / "study.json").exists()
    kept = measured()
    assert 1 <= len(kept) < 6
    assert all(record["status"] == "ok" for record in records(folder).values())

    half = ladder("report", folder)
    assert half.returncode == 0, half.stdout
    assert read_json(folder / "study.json")["finished"] is None

    status, _ = stop(start("ablate", "--resume", "--json", "--out", folder), signal.SIGKILL, len(kept) + 1)
    assert status == -signal.SIGKILL
    assert kept.items() <= measured().items() and len(measured()) < 6
    kept = measured()

    done = ladder("ablate", "--resume", "--json", "--out", folder)
    assert done.returncode == 0, done.stderr
    assert f"{len(kept)} of 6 runs are there already; {6 - len(kept)} to go" in done.stderr
    assert kept.items() <= measured().items()
    assert_complete(folder)
    before = snapshot(folder / "records")
    again = ladder("ablate", "--resume", "--json", "--out", folder)
    assert again.returncode == 0 and snapshot(folder / "records") == before and "[1/" not in again.stderr


def test_a_child_without_its_runner_dies_while_it_loads(small, start, tmp_path) -> None:
    """Nor does it live on where SIGPIPE is ignored, as under systemd."""
    runner = start("ablate", "--ladder", small, "--steps", "100000", "--out", tmp_path / "study", restore_signals=False,
                   preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
    child = wait_for(lambda: child_of(runner.pid), "a child")
    runner.kill()  # the child's libraries are being loaded: it has not asked to die with its parent yet
    runner.wait()
    try:
        wait_for(lambda: not is_alive(child), "the end of the child", 30)
    finally:
        if is_alive(child):
            os.kill(child, signal.SIGKILL)


def test_the_program_may_be_built_anew_meanwhile(small, program, environment, tmp_path) -> None:
    """Every run of a study is made with the program that began it."""
    copy = shutil.copy(program, tmp_path / "ladder")
    runner = subprocess.Popen([copy, "ablate", "--ladder", small, "--repeats", "1", "--threads", "1", "--json", "--out",
                               tmp_path / "study"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: child_of(runner.pid), "a child")
    os.unlink(copy)
    (tmp_path / "ladder").write_text("half a program")
    assert "FAILED" not in runner.communicate()[1] and runner.returncode == 0


def kibibytes(pid: int, what: str) -> int:
    return int(re.search(rf"{what}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def test_children_that_are_killed_or_starved(small, start, ladder, tmp_path) -> None:
    folder = tmp_path / "study"
    runner = start("ablate", "--ladder", small, "--repeats", "1", "--steps", "30", "--threads", "1", "--order-seed",
                   START_FIRST, "--out", folder)
    wait_for(lambda: (folder / "plan.json").exists(), "the plan")
    order = run_ids(folder)
    os.kill(wait_for(lambda: child_of(runner.pid, order[0]), order[0]), signal.SIGKILL)
    starved = wait_for(lambda: child_of(runner.pid, order[1]), order[1])
    # Once the model is there it gets a little more, but not the 64 MiB of the proof of its host memory.
    wait_for(lambda: kibibytes(starved, "VmRSS") > 300000, "memory")
    limit = (kibibytes(starved, "VmSize") << 10) + (16 << 20)
    resource.prlimit(starved, resource.RLIMIT_AS, (limit, limit))
    stdout, stderr = runner.communicate(timeout=120)

    assert runner.returncode == 1, stderr
    result = records(folder)
    assert {run: result[run]["status"] for run in order} == {order[0]: "failed", order[1]: "failed", order[2]: "ok"}
    assert result[order[0]]["failure"]["kind"] == "signal"
    assert result[order[0]]["failure"]["message"].startswith("killed by signal 9 (Killed)")
    # Some libraries do not look whether they got memory: a crash is as good as an error here.
    assert re.search(r"^ended with exit status 1: ladder: |^killed by signal \d+ \(", result[order[1]]["failure"]["message"])
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

    done = ladder("ablate", "--resume", "--out", folder)
    assert done.returncode == 0 and "1 of 3 runs are there already; 2 to go" in done.stderr
    assert_complete(folder)


def test_a_run_without_enough_memory(program, environment, start) -> None:
    arguments = [*RUN[:-6], "--steps", "30", "--threads", "1"]
    reader, writer = pty.openpty()
    enough = subprocess.Popen([program, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    shown = b""
    while b"step 5/" not in shown:
        shown += os.read(reader, 4096)
    limit = (kibibytes(enough.pid, "VmSize") << 10) + (16 << 20)  # the proof of host memory wants 64 MiB
    enough.kill()
    enough.wait()
    os.close(reader)
    starved = start(*arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    stdout, stderr = starved.communicate()
    assert starved.returncode == 1 and stdout == ""
    assert stderr.startswith("ladder: ") and stderr.count("\n") == 1 and "frame #" not in stderr


def test_children_that_never_end(small, ladder, tmp_path) -> None:
    folder = tmp_path / "study"
    document = ladder_document(rungs=["flash"])
    done = ladder("ablate", "--ladder", write_json(small, document), "--steps", "100000", "--repeats", "1", "--limit", "1",
                  "--out", folder)
    assert done.returncode == 1
    for record in records(folder).values():
        assert record["failure"] == {"kind": "timeout", "message": "ran past its limit of 1 s and was killed"}
    study = read_json(folder / "study.json")
    assert [rung["status"] for rung in study["rungs"]] == ["failed", "failed"] and study["headline"] is None
    assert "0 of 2 runs" in done.stdout and (folder / "report.md").exists()


@pytest.mark.parametrize("budget", [[], ["--budget-s", "600"]], ids=["at-once", "after-the-others"])
def test_disturbed_runs_are_made_again_and_say_so(small, ladder, tmp_path, budget) -> None:
    folder, core = tmp_path / "study", min(os.sched_getaffinity(0))

    def stay() -> None:
        os.sched_setaffinity(0, {core})

    write_json(small, ladder_document(rungs=["flash"]))
    rival = subprocess.Popen([sys.executable, "-c", "import signal; signal.alarm(300)\nwhile True: pass"], preexec_fn=stay)
    try:
        done = ladder("ablate", "--ladder", small, "--repeats", "1", "--steps", "20", "--threads", "1", "--out", folder,
                      *budget, preexec_fn=stay)
    finally:
        rival.kill()
        rival.wait()
    assert done.returncode == 0, done.stderr
    assert_complete(folder)
    study = read_json(folder / "study.json")
    words = r"shared: the processor was busy with something else for \d+ % of the time"
    runs = ("r1-00-start", "r1-01-flash")
    last_first, first_second = (which(read_json(folder / "records" / f"{run}{kind}.json")["started"] for run in runs)
                                for which, kind in ((max, ".flagged"), (min, "")))
    assert (last_first <= first_second) == bool(budget)  # under a budget every run comes first once
    for rung, run in zip(study["rungs"], runs, strict=True):
        first, second = (read_json(folder / "records" / f"{run}{kind}.json") for kind in (".flagged", ""))
        for record in (first, second):
            assert not list(validator("record").iter_errors(record))
            assert record["id"] == run and len(record["flags"]) == 1 and re.fullmatch(words, record["flags"][0])
            assert 0.1 < record["timing"]["processor_lost"] <= 1
            assert record["monitor"] == {"unavailable": "no step ran on a GPU"}
        assert {"id": run, "record": f"records/{run}.json"}.items() <= next(r for r in study["runs"] if r["id"] == run).items()
        assert first["timing"]["step_ms"] != second["timing"]["step_ms"]
        assert f"run {run} is made again; {first['flags'][0]}\n" in done.stderr
        assert rung["status"] == "measured" and rung["flags"] == [f"{run} {second['flags'][0]}"]
    warning = f"2 of 2 runs were disturbed: {study['rungs'][0]['flags'][0]}, and others"
    assert warning in study["warnings"] and f"warning: {warning}" in " ".join(done.stdout.split())
    assert len(re.findall(r"^.{25}! *[\d.,]+ ", done.stdout, re.M)) == 2 and "! marks rungs with disturbed runs." in done.stdout
    assert (folder / "report.md").read_text().count(" (disturbed) |") == 2
    again = ladder("ablate", "--resume", "--json", "--out", folder)
    assert again.returncode == 0 and "is made again" not in again.stderr and "[1/" not in again.stderr


def test_a_disk_that_fills_up(small, ladder, small_disk) -> None:
    disk = small_disk("48k")
    done = ladder("ablate", "--ladder", small, "--threads", "1", "--out", disk / "study")
    assert done.returncode == 2 and "No space left on device" in done.stderr.splitlines()[-1]
    assert not list(disk.rglob("*.tmp")) and len(records(disk / "study")) < 6
    subprocess.run(["mount", "-o", "remount,size=16m", disk], check=True)
    assert ladder("ablate", "--resume", "--json", "--out", disk / "study").returncode == 0
    assert_complete(disk / "study")


def test_progress_on_a_terminal(small, on_a_terminal, tmp_path) -> None:
    status, text = on_a_terminal("ablate", "--ladder", small, "--repeats", "1", "--threads", "1", "--out", tmp_path / "study")
    assert status == 0
    assert re.search(r"\r\x1b\[K\[#*\.+\] run 1/3 r1-0\d-\w+ step 0/4", text) and "run 3/3" in text and "step 4/4" in text
    drawn = re.findall(r"\r\x1b\[K(\[[^\r\n]*)", text)
    assert drawn and max(map(len, drawn)) <= 79
    assert "These are CPU figures" in text.rsplit("\x1b[K", 1)[1]


def test_one_run(ladder, tmp_path) -> None:
    done = ladder(*RUN, "--recipe", '{"attention": "flash"}', "--record", tmp_path / "record.json", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record == read_json(tmp_path / "record.json") and not list(validator("record").iter_errors(record))
    assert record["recipe"]["attention"] == "flash" and len(record["timing"]["loss"]) == 3

    (tmp_path / "recipe.json").write_text('{"attention": "flash"}')
    from_file = ladder(*RUN, "--recipe", tmp_path / "recipe.json")
    assert from_file.returncode == 0 and from_file.stderr == ""
    assert re.match(r"tiny B=1 T=16: median [\d.,]+ ms/step \[.*\] over 2 steps, ", from_file.stdout)
    proven = re.findall(r"^proven (\w+) ", from_file.stdout, re.M)
    assert proven == [proof["field"] for proof in record["proofs"]] and "attention" in proven
    assert f"last loss {json.dumps(record['timing']['loss'][-1])}" in from_file.stdout


def test_a_rung_and_a_planned_run(study, ladder) -> None:
    folder, _ = study
    plan = read_json(folder / "plan.json")
    run = next(run for run in plan["runs"] if plan["rungs"][run["rung"]]["optimization"] == "flash")
    planned = ladder("run", "--plan", folder / "plan.json", "--run", run["id"], "--json")
    rung = ladder("run", "--ladder", "tiny", "--rung", "flash", "--threads", "1", "--json")
    for done in (planned, rung):
        assert done.returncode == 0, done.stderr
        record = json.loads(done.stdout)
        assert record["recipe"] == plan["rungs"][run["rung"]]["recipe"]
        assert record["timing"]["loss"] == losses(folder)[run["id"]]
    assert json.loads(planned.stdout)["id"] == run["id"]


def test_tokens_from_a_file(ladder, environment, tmp_path) -> None:
    text = pathlib.Path(environment["XDG_CACHE_HOME"]) / "gpt2-ladder" / "data" / "shakespeare.txt"
    (tmp_path / "part.txt").write_bytes(text.read_bytes()[:50000])
    done = ladder("tokenize", "--data", tmp_path / "part.txt", "--out", tmp_path / "part.bin")
    assert done.returncode == 0 and re.fullmatch(r".*part\.bin: \d+ tokens\n", done.stdout)
    from_text, from_tokens = (json.loads(ladder(*RUN, "--json", "--data", tmp_path / name).stdout)
                              for name in ("part.txt", "part.bin"))
    assert from_text["timing"]["loss"] == from_tokens["timing"]["loss"]
    assert from_text["workload"]["data"]["sha256"] == from_tokens["workload"]["data"]["sha256"]


def test_training_goes_on_from_saved_weights(ladder, tmp_path) -> None:
    def train(*more) -> list[float]:
        done = ladder(*TRAIN, *more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["losses"]

    saved = tmp_path / "weights.safetensors"
    before = train("--steps", "12", "--save", saved)
    after = train("--steps", "2", "--weights", saved)
    assert len(before) == 12 and len(after) == 2
    assert after[0] < before[0] - 0.01  # the same batch, after training
    assert after == train("--steps", "2", "--weights", saved)
    header = json.loads(saved.read_bytes()[8 : 8 + int.from_bytes(saved.read_bytes()[:8], "little")])
    assert header["transformer.wte.weight"]["shape"] == [50257, 32]


def test_doctor(ladder) -> None:
    done = ladder("doctor")
    assert done.returncode == 0 and done.stderr == ""
    for line in (r"CPU      .+ \d+ cores", "GPU      none: no CUDA device", r"software torch \d",
                 r"ladder gpt2-cpu \(gpt2-124m, B=1 T=\d+\)", r"  gpu +not applicable here: no CUDA device", r"  start +can be measured"):
        assert re.search(f"^{line}", done.stdout, re.M), line
    found = json.loads(ladder("doctor", "--json").stdout)
    assert found["environment"]["gpu"] is None and found["environment"]["cpu"]["logical_cores"] >= 1
    assert isinstance(found["notes"], list)


def test_doctor_measures_what_the_machine_reaches(ladder) -> None:
    done = ladder("doctor", "--peaks", "--json")
    assert done.returncode == 0, done.stderr
    peaks = json.loads(done.stdout)["peaks"]
    assert peaks["source"] is None and peaks["reason"] == "there is no table of peaks for CPUs"
    assert [rate["what"] for rate in peaks["rates"]] == ["copy", "fp32", "oneDNN", "bf16"]
    for rate in peaks["rates"]:
        assert rate["measured"] > 0 and rate["table"] is None and rate["share"] is None
        assert re.fullmatch(r"\d+ MiB" if rate["what"] == "copy" else r"\d+\^3", rate["size"])


def test_the_report_says_when_it_cannot_be_drawn(study, ladder, environment, monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(environment, "LADDER_PYTHON", "/nowhere/python")
    done = ladder("report", study[0], "--out", tmp_path / "drawn")
    assert done.returncode != 0 and "LADDER_PYTHON" in done.stderr and "could not be started" in done.stderr
    assert "ms/step" in done.stdout  # the table is there all the same


def test_a_study_counts_though_its_report_cannot_be_drawn(small, ladder, environment, monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(environment, "LADDER_PYTHON", "/nowhere/python")
    done = ladder("ablate", "--ladder", small, "--repeats", "1", "--threads", "1", "--out", tmp_path / "study")
    assert done.returncode == 0
    assert done.stderr.endswith(f"ladder report {tmp_path / 'study'}\n") and "the report was not drawn" in done.stderr
    assert_complete(tmp_path / "study")
