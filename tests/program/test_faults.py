"""What a study is after every fault: complete, and the same as an undisturbed one but for its times.

Faults are real: processes are killed at random times (the seed is printed), file systems are full, limited or read-only. Only
the clock that runs backwards and the children that write garbage are made, by a library that is put before the program's own.
"""

import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest
from conftest import MEASURED, HANGS_AFTER_S, child_of, ladder_document, read_json, write_json

KILLS = 50
RUNS = 2  # of a study here
ARGUMENTS = ["--no-look", "--threads", "1", "-B", "1", "-T", "8", "--order-seed", "3", "--json"]


def records(folder: pathlib.Path) -> dict[str, dict]:
    return {path.stem: read_json(path) for path in (folder / "records").glob("*.json") if ".flagged" not in path.name}


def shape(value, name: str = ""):
    """The same for two studies that differ in times, in what disturbed them, and in when they were made."""
    if isinstance(value, dict):
        return {key: shape(field, key) for key, field in value.items()
                if key not in ("flags", "warnings", "notes", "explanation", "kernel_switches") and not key.endswith(".flagged.json")}
    if isinstance(value, list):
        return [shape(item) for item in value]
    if isinstance(value, bool) or value is None or name in ("status", "title", "reason", "record"):
        return value
    return "number" if isinstance(value, int | float) else "text"


def assert_same(folder: pathlib.Path, calm: pathlib.Path) -> None:
    """Two finished studies of the same plan."""
    ours, theirs = ({name: value for name, value in read_json(at / "plan.json").items() if name not in ("id", "created")}
                    for at in (folder, calm))
    assert ours == theirs
    made, expected = records(folder), records(calm)
    assert sorted(made) == sorted(expected) == sorted(run["id"] for run in theirs["runs"])
    for run, record in made.items():
        assert record["status"] == "ok" and record["id"] == run
        assert record["timing"]["loss"] == expected[run]["timing"]["loss"], run
        assert record["recipe"] == expected[run]["recipe"] and all(proof["passed"] for proof in record["proofs"])
    study, other = read_json(folder / "study.json"), read_json(calm / "study.json")
    assert study["plan"]["runs_ok"] == study["plan"]["runs_planned"] == len(theirs["runs"]) and study["finished"]
    assert [run["id"] for run in study["runs"]] == [run["id"] for run in theirs["runs"]]
    assert shape(study) == shape(other)
    assert not list(folder.rglob("*.tmp"))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    document = ladder_document(rungs=["flash"], plan={"repeats": 1, "warmup_steps": 1, "timed_steps": 3})
    return write_json(tmp_path_factory.mktemp("ladder") / "small.json", document)


@pytest.fixture(scope="module")
def calm(ladder, small, tmp_path_factory) -> pathlib.Path:
    """The undisturbed study."""
    folder = tmp_path_factory.mktemp("calm") / "study"
    done = ladder("ablate", "--ladder", small, *ARGUMENTS, "--out", folder)
    assert done.returncode in MEASURED, done.stderr
    assert_same(folder, folder)
    return folder


@pytest.mark.parametrize("caller", ["ignores_children", "closes_descriptors"])
def test_what_a_caller_leaves_to_the_program(ladder, small, calm, tmp_path, caller) -> None:
    def ignores_children() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    def closes_descriptors() -> None:
        os.closerange(0, 3)

    folder = tmp_path / "study"
    ladder("ablate", "--ladder", small, *ARGUMENTS, "--out", folder, preexec_fn=locals()[caller])
    assert_same(folder, calm)
    logs, expected = ({log.name: log.read_text() for log in (at / "logs").iterdir()} for at in (folder, calm))
    assert logs == expected, "what is for the runner only is in the log"


@pytest.fixture(scope="module")
def begun(calm, tmp_path_factory):
    """begun(FOLDER): a study there with its first run made and no more, as where the runner was killed then."""
    first = tmp_path_factory.mktemp("begun") / "study"
    for folder in ("records", "logs"):
        (first / folder).mkdir(parents=True)
    shutil.copy(calm / "plan.json", first)
    run = read_json(first / "plan.json")["runs"][0]["id"]
    for file in (*calm.glob(f"records/{run}.json"), *calm.glob(f"records/{run}.flagged.json"), calm / "logs" / f"{run}.log"):
        shutil.copy(file, first / file.relative_to(calm))
    return lambda folder: pathlib.Path(shutil.copytree(first, folder))


def resumed(ladder, folder: pathlib.Path, calm: pathlib.Path) -> None:
    done = ladder("ablate", "--resume", "--no-look", "--json", "--out", folder)
    assert done.returncode in MEASURED, done.stderr
    assert_same(folder, calm)


@pytest.mark.thorough
def test_killed_at_random_times(program, environment, ladder, small, tmp_path) -> None:
    seed = int(os.environ.get("FAULT_SEED", "20261121"))
    print(f"FAULT_SEED={seed}")
    chance = random.Random(seed)
    kills = {"runner": 0, "child": 0}
    folders = [tmp_path / "study-0"]
    two_repeats, calm = ["--ladder", small, *ARGUMENTS, "--repeats", "2"], tmp_path / "calm"
    assert ladder("ablate", *two_repeats, "--out", calm).returncode in MEASURED

    def begin() -> subprocess.Popen:
        folder = folders[-1]
        command = ["--resume", "--json"] if (folder / "plan.json").exists() else two_repeats
        return subprocess.Popen([program, "ablate", *command, "--out", folder], env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    while sum(kills.values()) < KILLS:
        runner = begin()
        killed = False
        while not killed and sum(kills.values()) < KILLS:
            time.sleep(chance.uniform(0, 1.5))
            whom = chance.choice(("runner", "child"))
            if runner.poll() is not None:
                break
            victim = runner.pid if whom == "runner" else child_of(runner.pid)
            if victim == 0:
                continue
            os.kill(victim, signal.SIGKILL)
            kills[whom] += 1
            killed = whom == "runner"
        words = runner.communicate(timeout=HANGS_AFTER_S)[1]
        assert runner.returncode in (-signal.SIGKILL, 0, 1), words
        assert "terminate" not in words and "holds" not in words
        records(folders[-1])  # each is whole
        if runner.returncode == 0:
            assert_same(folders[-1], calm)
            folders.append(tmp_path / f"study-{len(folders)}")
    assert ladder("ablate", *(["--resume", "--json"] if (folders[-1] / "plan.json").exists() else two_repeats),
                  "--out", folders[-1]).returncode == 0
    assert_same(folders[-1], calm)
    print(f"{kills} over {len(folders)} studies")
    assert min(kills.values()) >= 10


def test_what_a_killed_writer_leaves_is_swept_up(ladder, begun, calm, tmp_path) -> None:
    folder = begun(tmp_path / "study")
    run = read_json(folder / "plan.json")["runs"][-1]["id"]
    number = "0123456789abcdef.tmp"
    for name in (f"study.json.{number}", f"records/{run}.json.{number}", f"records/{run}.child.tmp", f"records/{run}.child.tmp.{number}"):
        (folder / name).write_text("{")
    others = [folder / "mine.tmp", folder / "records" / "mine.tmp"]
    for file in others:
        file.write_text("mine")
    done = ladder("ablate", "--resume", "--no-look", "--json", "--out", folder)
    assert done.returncode in MEASURED, done.stderr
    assert sorted(folder.rglob("*.tmp")) == others and all(file.read_text() == "mine" for file in others)
    for file in others:
        file.unlink()
    assert_same(folder, calm)


def test_a_disk_that_fills_up(ladder, begun, calm, small_disk) -> None:
    disk = small_disk("16m")
    folder = begun(disk / "study")
    before = {file: file.read_bytes() for file in (folder / "records").iterdir()}
    with open(disk / "ballast", "wb", buffering=0) as ballast, pytest.raises(OSError, match="No space left"):
        while True:
            ballast.write(bytes(4096))
    done = ladder("ablate", "--resume", "--no-look", "--json", "--out", folder)
    assert done.returncode == 2 and re.match(r"ladder: .*: No space left on device$", done.stderr.splitlines()[-1]), done.stderr
    assert {file: file.read_bytes() for file in (folder / "records").iterdir()} == before
    (disk / "ballast").unlink()
    resumed(ladder, folder, calm)


def test_files_that_may_not_grow(ladder, begun, calm, small, tmp_path) -> None:
    """ulimit -f, whose signal kills a program that does not expect it."""

    def limited(size: int):
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    done = ladder("ablate", "--ladder", small, *ARGUMENTS, "--out", tmp_path / "new", preexec_fn=limited(1000))
    assert done.returncode == 2 and re.fullmatch(r"ladder: cannot write .*plan\.json\..*: File too large", done.stderr.splitlines()[-1])
    assert not list((tmp_path / "new").iterdir())

    folder = begun(tmp_path / "study")
    good = records(folder)
    done = ladder("ablate", "--resume", "--no-look", "--json", "--out", folder, preexec_fn=limited(2500))  # a failed run's record fits
    assert done.returncode == 2 and re.fullmatch(r"ladder: cannot write .*study\.json\..*: File too large", done.stderr.splitlines()[-1])
    assert done.stderr.count("FAILED: ended with exit status 2: ladder: cannot write ") == RUNS - len(good)
    assert not list(folder.rglob("*.tmp")) and good.items() <= records(folder).items()
    resumed(ladder, folder, calm)


def test_a_folder_that_cannot_be_written(ladder, begun, calm, tmp_path) -> None:
    """Read-only for everybody: permissions do not bind root."""
    folder = begun(tmp_path / "study")
    for command in (["--bind", folder, folder], ["-o", "remount,ro,bind", folder]):
        mounted = subprocess.run(["mount", *command], capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            if folder.is_mount():
                subprocess.run(["umount", folder], check=True)
            pytest.skip(f"no read-only folder can be made: {mounted.stderr.strip()}")
    try:
        before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
        done = ladder("ablate", "--resume", "--no-look", "--json", "--out", folder)
        assert done.returncode == 2 and re.fullmatch(rf"ladder: {folder}/.*: Read-only file system", done.stderr.splitlines()[-1])
        assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == before
        done = ladder("ablate", "--ladder", "tiny", *ARGUMENTS, "--out", folder / "inner")
        assert done.returncode == 2 and "Read-only file system" in done.stderr
    finally:
        subprocess.run(["umount", folder], check=True)
    resumed(ladder, folder, calm)


@pytest.fixture
def preload(environment, preloadable, monkeypatch):
    """preload(FAULT_CLOCK="1"): from here on, in every process."""
    library = os.environ.get("FAULT_PRELOAD") or pytest.skip("FAULT_PRELOAD is not set")

    def put(**variables) -> None:
        for name, value in {"LD_PRELOAD": str(preloadable(library)), **variables}.items():
            monkeypatch.setitem(environment, name, value)

    return put


def test_a_clock_that_runs_backwards(ladder, preload, small, calm, tmp_path) -> None:
    preload(FAULT_CLOCK="1")
    folder = tmp_path / "study"
    done = ladder("ablate", "--ladder", small, *ARGUMENTS, "--out", folder)
    assert done.returncode in MEASURED, done.stderr
    made = records(folder)
    # Of a run that was disturbed, the first record: the second was made later, so begun earlier.
    of_first = {path.name.removesuffix(".flagged.json"): read_json(path) for path in (folder / "records").glob("*.flagged.json")}
    started = [(made | of_first)[run["id"]]["started"] for run in read_json(folder / "plan.json")["runs"]]
    assert started == sorted(started, reverse=True) and len(set(started)) == RUNS  # the fault is there
    for record in made.values():
        assert record["duration_s"] > 0 and min(record["timing"]["step_ms"]) > 0
        assert record["timing"]["window_ms"] >= 0.99 * sum(record["timing"]["step_ms"][1:])
    taken = re.findall(r"the run took (\S+) s$", done.stderr, re.M)
    assert len(taken) >= RUNS and all(float(seconds) > 0 for seconds in taken), done.stderr
    study = read_json(folder / "study.json")
    assert study["created"] > study["finished"] == max(record["started"] for record in made.values())
    assert not [warning for warning in study["warnings"] if "interrupted" in warning]  # by the clock that nobody sets
    assert_same(folder, calm)
    before = {file: file.read_bytes() for file in (folder / "records").iterdir()}
    resumed(ladder, folder, calm)
    assert {file: file.read_bytes() for file in (folder / "records").iterdir()} == before


def test_a_file_system_without_locks(ladder, preload, tmp_path) -> None:
    preload(FAULT_FLOCK="1")
    done = ladder("train", "--model", "tiny", "-T", "16", "--steps", "2", "--threads", "1", "--out", tmp_path / "training")
    assert done.returncode == 0 and "has no locks (Function not implemented)" in done.stderr, done.stderr


def test_a_limit_holds_though_the_clock_runs_backwards(ladder, preload, small, tmp_path) -> None:
    preload(FAULT_CLOCK="1")
    done = ladder("ablate", "--ladder", small, *ARGUMENTS, "--steps", "100000", "--limit-s", "1", "--force", "--out", tmp_path / "study")
    assert done.returncode == 1, done.stderr
    for record in records(tmp_path / "study").values():
        assert record["failure"]["kind"] == "timeout" and record["duration_s"] > 0


def assert_printable(text: str) -> None:
    assert all(" " <= character <= "~" or character == "\n" for character in text)


def test_children_that_write_garbage_and_work(ladder, on_a_terminal, preload, small, calm, tmp_path) -> None:
    preload(FAULT_GARBAGE="work")
    folder = tmp_path / "study"
    status, shown = on_a_terminal("ablate", "--ladder", small, *ARGUMENTS, "--out", folder, stdout=subprocess.DEVNULL)
    assert status in MEASURED, shown
    assert_printable(shown.replace("\r", "").replace("\x1b[K", ""))
    assert "step 4/4" in shown and "step 7/3" not in shown and "step -5/4" not in shown
    assert all(log.stat().st_size > 2 << 20 for log in (folder / "logs").iterdir())  # it was there
    assert_same(folder, calm)


@pytest.mark.parametrize("then, kind, says", [
    ("die", "exit", r"ended with exit status 7: \\x1b\]0;x\\x07\\xff last"),
    ("record", "invalid_record", r"it left no valid record: .*r\d-0\d-\w+\.child\.tmp: not valid JSON: .*"),
])
def test_children_that_write_nothing_but_garbage(ladder, preload, monkeypatch, small, calm, tmp_path, then, kind, says) -> None:
    folder = tmp_path / "study"
    preload(FAULT_GARBAGE=then)
    done = ladder("ablate", "--ladder", small, *ARGUMENTS, "--out", folder)
    monkeypatch.undo()
    assert done.returncode == 1 and done.stderr.count("FAILED: ") == RUNS
    assert_printable(done.stderr)
    assert_printable(done.stdout)
    for record in records(folder).values():
        assert record["status"] == "failed" and record["failure"]["kind"] == kind
        assert re.fullmatch(says, record["failure"]["message"]), record["failure"]["message"]
    assert json.loads(done.stdout)["plan"]["runs_ok"] == 0 and not list(folder.rglob("*.tmp"))
    resumed(ladder, folder, calm)


def test_a_log_of_many_megabytes_is_read_at_its_end(ladder, environment, monkeypatch, small, tmp_path) -> None:
    """A peer, whose Python says more than anybody would read."""
    talker = tmp_path / "talker"
    talker.write_text("#!/bin/sh\nhead -c 20000000 /dev/zero\nprintf '\\nthe reason\\n'\nexit 5\n")
    talker.chmod(0o755)
    monkeypatch.setitem(environment, "LADDER_PYTHON", str(talker))
    done = ladder("ablate", "--ladder", small, *ARGUMENTS, "--with-peer", "pytorch", "--peer-modes", "eager", "--out", tmp_path / "study")
    assert done.returncode == 1
    failed = [record["failure"]["message"] for record in records(tmp_path / "study").values() if record["status"] == "failed"]
    assert failed and set(failed) == {"ended with exit status 5: the reason"}
