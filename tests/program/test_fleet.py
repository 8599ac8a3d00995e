"""One study on several machines, which here are several folders: shards, what is lost of them, and how they are joined.

Another device is this one under another name, written into copies of its records.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest
from conftest import MEASURED, HANGS_AFTER_S, ROOT, assert_goes_on, child_of, ladder_document, made_runs, read_json, wait_for, write_json

PLAN = {"repeats": 4, "warmup_steps": 1, "timed_steps": 3}
SIZES = ["--threads", "1", "-B", "1", "-T", "16"]


def records(folder: pathlib.Path) -> dict[str, dict]:
    return {path.stem: read_json(path) for path in (folder / "records").glob("*.json") if ".flagged" not in path.name}


def plan_without_shard(folder: pathlib.Path) -> dict:
    return {field: value for field, value in read_json(folder / "plan.json").items() if field != "shard"}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return write_json(tmp_path_factory.mktemp("ladder") / "small.json", ladder_document(rungs=["gpu", "flash"], plan=PLAN))


@pytest.fixture(scope="module")
def measure(ladder, small):
    def shard(which: str, out: pathlib.Path, *more):
        return ladder("ablate", "--ladder", small, *SIZES, "--shard", which, "--out", out, *more)

    return shard


@pytest.fixture(scope="module")
def shards(measure, tmp_path_factory) -> list[pathlib.Path]:
    folders = [tmp_path_factory.mktemp("shards") / f"shard-{index}" for index in range(1, 5)]
    for index, folder in enumerate(folders, 1):
        done = measure(f"{index}/4", folder)
        assert done.returncode in MEASURED, done.stderr
        assert done.stdout.endswith(f"This is shard {index} of 4; when all are done, join them with: ladder merge SHARD... --out FOLDER\n")
    return folders


@pytest.fixture
def copies(shards, tmp_path) -> list[pathlib.Path]:
    """The shards to be changed: their study.json, which would bear witness to that, are not there."""
    return [pathlib.Path(shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("study.json"))) for folder in shards]


def test_every_machine_makes_the_same_plan_and_its_own_repeats(shards) -> None:
    plans = [plan_without_shard(folder) for folder in shards]
    assert all(plan == plans[0] for plan in plans) and plans[0]["created"] == "" and plans[0]["order_seed"] == 1
    assert re.fullmatch("small-[0-9a-f]{12}", plans[0]["id"])
    for index, folder in enumerate(shards):
        assert read_json(folder / "plan.json")["shard"] == {"index": index + 1, "count": 4}
        assert sorted(records(folder)) == sorted(run["id"] for run in plans[0]["runs"] if run["repeat"] == index)
    assert sum(len(records(folder)) for folder in shards) == len(plans[0]["runs"]) == 8


def test_four_shards_one_lost_and_measured_again(copies, measure, ladder, tmp_path) -> None:
    shutil.rmtree(copies[2])
    merged = tmp_path / "merged"
    done = ladder("merge", "--out", merged, *(copies[index] for index in (3, 0, 1)))
    assert done.returncode in MEASURED, done.stderr
    assert (f"{merged}: 2 of 8 runs are missing, in repeats 3; merge their shard, too, or make them here: "
            f"ladder ablate --resume --out {merged}\n") in done.stderr
    assert read_json(merged / "study.json")["finished"] is None and (merged / "report.json").exists()

    assert measure("3/4", copies[2]).returncode in MEASURED
    done = ladder("merge", "--out", merged, copies[2])  # to what is there
    assert done.returncode in MEASURED and "missing" not in done.stderr
    every = {run: record for folder in copies for run, record in records(folder).items()}
    assert records(merged) == every and len(every) == 8
    assert plan_without_shard(copies[0]) == read_json(merged / "plan.json")

    # What one runner makes of the same records: its own plan, the records put there, and nothing left to do.
    undivided = tmp_path / "undivided"
    assert measure("1/1", undivided, "--budget-s", "1").returncode in MEASURED
    assert plan_without_shard(undivided) == read_json(merged / "plan.json")
    shutil.rmtree(undivided / "records")
    (undivided / "study.json").unlink()
    shutil.copytree(merged / "records", undivided / "records")
    alone = ladder("ablate", "--resume", "--json", "--out", undivided)
    assert alone.returncode in MEASURED and made_runs(alone) == []
    studies = [read_json(folder / "study.json") for folder in (undivided, merged)]
    for study in studies:  # that of one plan says that it is a shard, so their hashes differ; the records' do not
        assert study["hashes"].pop("plan.json") and study.pop("sha256")
    assert studies[0] == studies[1]
    study = read_json(merged / "study.json")
    assert study["created"] == min(record["started"] for record in every.values())
    assert study["finished"] == max(record["started"] for record in every.values())
    assert [rung["runs_ok"] for rung in study["rungs"]] == [4, 0, 4]
    assert study["rungs"][2]["speedup_first"]["pairs"] == 4


def test_a_shard_goes_on_and_makes_only_its_own_runs(copies, measure, ladder) -> None:
    folder = copies[1]
    own = sorted(records(folder))
    for again in (lambda: measure("2/4", folder), lambda: ladder("ablate", "--resume", "--out", folder)):
        (folder / "records" / f"{own[0]}.json").unlink()
        done = again()
        assert done.returncode == 0, done.stderr
        assert_goes_on(done.stderr, 2, 1)
        assert sorted(records(folder)) == own
    done = measure("3/4", folder)
    assert done.returncode == 2 and "holds a study already" in done.stderr


def test_a_shard_with_nothing_to_do_says_so(measure, ladder, shards, tmp_path) -> None:
    done = measure("5/6", tmp_path / "none")
    assert done.returncode in MEASURED and done.stdout == "shard 5/6 has nothing to do: the plan has 4 repeats\n"
    assert plan_without_shard(tmp_path / "none") == plan_without_shard(shards[0])
    assert ladder("merge", "--out", tmp_path / "merged", tmp_path / "none", shards[0]).returncode in MEASURED
    assert ladder("report", tmp_path / "none").returncode in MEASURED
    time.sleep(1.1)  # times are whole seconds
    done = ladder("verify", tmp_path / "none")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_study_is_not_gone_on_with_on_another_machine(copies, ladder) -> None:
    of_another_device(copies[1])
    assert ladder("ablate", "--resume", "--json", "--out", copies[1]).returncode in MEASURED  # nothing is missing
    lost = copies[1] / "records" / f"{sorted(records(copies[1]))[0]}.json"
    lost.unlink()
    done = ladder("ablate", "--resume", "--json", "--out", copies[1])
    assert done.returncode == 3 and not lost.exists()
    assert re.search(r"its runs were made under other circumstances: device: Example\\x1b\[2J CPU against .*; resume there", done.stderr)


def test_wrong_usage(ladder, small, tmp_path) -> None:
    """shard_test.cpp has the texts that name no shard."""
    for arguments, says in ((["--shard", "\x1b[2J", "--out", "x"], r'--shard must be i/n with i between 1 and n, and n at most 1000, got "\x1b[2J"'),
                            (["--shard", "1/4"], "--shard needs --out"),
                            (["--shard", "1/4", "--out", "x", "--explain"], "--explain cannot be combined with --shard")):
        done = ladder("ablate", "--ladder", small, *arguments, cwd=tmp_path)
        assert done.returncode == 2 and says in done.stderr and not list(tmp_path.iterdir())


def change(file: pathlib.Path, pointer: str, value) -> None:
    document = read_json(file)
    *parents, last = pointer.split("/")
    at = document
    for name in parents:
        at = at[name]
    at[last] = value
    file.write_text(json.dumps(document))


def change_records(folder: pathlib.Path, pointer: str, value) -> None:
    for file in (folder / "records").glob("*.json"):
        change(file, pointer, value)


def of_another_device(folder: pathlib.Path) -> None:
    change_records(folder, "environment/cpu/model", "Example\x1b[2J CPU")


def twice(folder: pathlib.Path) -> None:
    (run,) = (run for run in records(folder.with_name("shard-1")) if run.endswith("flash"))
    shutil.copy(folder.with_name("shard-1") / "records" / f"{run}.json", folder / "records")
    change(folder / "records" / f"{run}.json", "duration_s", 99)


MISFITS = {  # shard_test.cpp has the other fields of a plan, and run_setting_test.cpp those of a setting
    "plan": (lambda folder: change(folder / "plan.json", "repeats", 5), "shard-1 and .*shard-2: not the same plan: repeats: 4 against 5$"),
    "no plan": (lambda folder: (folder / "plan.json").unlink(), r"shard-2: holds no study \(no plan.json\)"),
    "device": (of_another_device, r"cannot be joined in one study: device: .* against Example\\x1b\[2J CPU; --group-by-device makes one study for each kind of device"),
    "twice": (twice, r"run r1-02-flash was measured twice: .*shard-1/.* and .*shard-2/.*; leave one of them out"),
    "first of two": (lambda folder: (folder / "records" / "r2-02-flash.flagged.json").write_text("{"), "flagged.json: not valid JSON"),
    "other run": (lambda folder: change_records(folder, "id", "r1-00-start"), "the record does not fit the plan: it is of run"),
}


@pytest.mark.parametrize("what", MISFITS)
def test_what_does_not_fit_is_refused(copies, ladder, tmp_path, what) -> None:
    spoil, says = MISFITS[what]
    spoil(copies[1])
    done = ladder("merge", "--out", tmp_path / "merged", *copies)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "\x1b" not in done.stderr
    assert re.search(says, done.stderr), done.stderr
    assert not (tmp_path / "merged").exists()


def test_folders_that_cannot_be_meant(copies, ladder, tmp_path) -> None:
    for arguments, says in (([copies[0], copies[1]], "holds a shard; merge into another folder"),
                            ([tmp_path / "new", copies[0], copies[0]], "given twice"),
                            ([tmp_path / "new"], "shards is required"),
                            ([tmp_path / "new", tmp_path / "nowhere"], "holds no study")):
        done = ladder("merge", "--out", *arguments)
        assert done.returncode == 2 and says in done.stderr and not (tmp_path / "new").exists(), done.stderr


def test_a_copy_of_a_record_is_no_second_measurement(copies, ladder, tmp_path) -> None:
    for file in (copies[0] / "records").glob("*.json"):
        shutil.copy(file, copies[1] / "records")
    assert ladder("merge", "--out", tmp_path / "merged", *copies).returncode in MEASURED
    before = {file: file.stat().st_ino for file in (tmp_path / "merged" / "records").iterdir()}
    assert ladder("merge", "--out", tmp_path / "merged", *copies).returncode in MEASURED  # again, into the same folder
    assert {file: file.stat().st_ino for file in (tmp_path / "merged" / "records").iterdir()} == before


def test_a_run_that_was_made_again_takes_the_first_ones_place(copies, ladder, tmp_path) -> None:
    merged = tmp_path / "merged"
    for file in (copies[1] / "records").glob("*.flagged.json"):  # where this machine was busy
        file.unlink()
    failed, disturbed = sorted((copies[1] / "records").glob("*.json"))[:2]
    good = {file: file.read_text() for file in (failed, disturbed)}
    write_json(failed, {"kind": "record", "schema_version": 1, "id": failed.stem, "started": "2026-01-01T00:00:00Z", "duration_s": 1.0,
                        "status": "failed", "failure": {"kind": "timeout", "message": "too late"}})
    write_json(disturbed, json.loads(good[disturbed]) | {"flags": ["shared: another process"], "duration_s": 99})
    assert ladder("merge", "--out", merged, *copies).returncode in MEASURED
    shutil.copy(disturbed, disturbed.with_suffix(".flagged.json"))  # as --resume leaves them
    for file, text in good.items():
        file.write_text(text)
    for named in ([copies[1]], copies):  # the second time nothing changes
        assert ladder("merge", "--out", merged, *named).returncode in MEASURED
        assert [(merged / "records" / file.name).read_text() for file in good] == list(good.values())
        assert read_json(merged / "records" / f"{disturbed.stem}.flagged.json")["duration_s"] == 99


def test_one_study_for_each_device(copies, ladder, tmp_path) -> None:
    of_another_device(copies[1])
    of_another_device(copies[3])
    merged = tmp_path / "merged"
    for named in (copies[:2], copies):  # the second time into what is there
        done = ladder("merge", "--out", merged, *named, "--group-by-device")
        assert done.returncode in MEASURED, done.stderr
    names = sorted(folder.name for folder in merged.iterdir())
    assert len(names) == 2 and "example-2j-cpu-1-threads" in names and all(name.endswith("-1-threads") for name in names)
    for name in names:
        theirs = (1, 3) if name.startswith("example") else (0, 2)
        assert records(merged / name) == {run: record for index in theirs for run, record in records(copies[index]).items()}
        assert f"{merged / name}: 4 of 8 runs are missing, in repeats {', '.join(str(i + 1) for i in range(4) if i not in theirs)}" in done.stderr
        assert read_json(merged / name / "study.json")["device"]["name"].startswith("Example") == (0 not in theirs)
        assert "shard" not in read_json(merged / name / "plan.json")


def test_one_study_for_each_device_is_not_merged_into_a_shard(copies, ladder, tmp_path) -> None:
    of_another_device(copies[1])
    shard = pathlib.Path(shutil.copytree(copies[1], tmp_path / "merged" / "example-2j-cpu-1-threads"))
    before = {file: file.read_bytes() for file in shard.rglob("*.json")}
    done = ladder("merge", "--out", tmp_path / "merged", copies[1], "--group-by-device")
    assert done.returncode == 2 and "holds a shard; merge into another folder" in done.stderr, done.stderr
    assert {file: file.read_bytes() for file in shard.rglob("*.json")} == before


@pytest.mark.thorough
def test_two_runners_on_one_device(start, ladder, small, tmp_path) -> None:
    arguments = ["ablate", "--no-look", "--ladder", small, *SIZES, "--json", "--out"]
    first = start(*arguments, tmp_path / "first", "--steps", "100000", "--force")
    wait_for(lambda: child_of(first.pid), "a child")
    for command in ([*arguments, tmp_path / "second"], ["run", "--model", "tiny", *SIZES],
                    ["profile", "--trace", "--rung", "start", "--ladder", small, *SIZES]):
        second = ladder(*command, cwd=tmp_path)
        assert second.returncode == 3 and second.stdout == "" and second.stderr.count("\n") == 1, second.stderr
        assert re.fullmatch(rf"ladder: device cpu is in use by ladder ablate \(pid {first.pid}, {tmp_path}/first\) since "
                            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ; begin when it has ended, or pass --wait\n", second.stderr)
    assert not (tmp_path / "second").exists() and not (tmp_path / "profiles").exists()
    assert ladder("run", "--model", "tiny", "--data", "nofile", "--wait").returncode == 2  # is not waited for

    waiting = [start("run", "--model", "tiny", *SIZES, "--steps", "2", "--json", "--wait"), start("doctor", "--peaks", "--json")]
    for one in waiting:
        told = one.stderr.readline()
        assert told.startswith("device cpu is in use by ladder ablate (pid ") and told.endswith("; waiting for its end\n")
        assert one.poll() is None
    os.kill(first.pid, signal.SIGKILL)  # its lock goes with it, whatever its file says
    for one, found in zip(waiting, ("status", "peaks"), strict=True):
        stdout, stderr = one.communicate(timeout=HANGS_AFTER_S)
        assert one.returncode == 0 and json.loads(stdout)[found], stderr


def test_the_lock_folder_is_named_when_it_cannot_be_used(ladder, environment, monkeypatch, small, tmp_path) -> None:
    monkeypatch.setitem(environment, "LADDER_LOCK_DIR", str(tmp_path / "nowhere"))
    done = ladder("ablate", "--ladder", small, "--out", tmp_path / "study")
    assert done.returncode == 2 and f"LADDER_LOCK_DIR {tmp_path}/nowhere: " in done.stderr and not (tmp_path / "study").exists()


def test_the_slurm_example(program, environment, shards, small, tmp_path) -> None:
    script = ROOT / "docs" / "slurm-array.sh"
    variables = {**environment, "SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "1", "LADDER": program, "STUDY": str(tmp_path / "array")}
    done = subprocess.run(["bash", script, "--ladder", small, *SIZES], env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert read_json(tmp_path / "array" / "shard-2" / "plan.json") == read_json(shards[1] / "plan.json")
    assert sorted(records(tmp_path / "array" / "shard-2")) == sorted(records(shards[1]))
    lines = script.read_text().splitlines()
    first_command = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    assert all("#SBATCH" not in line for line in lines[first_command:]) and any(line.startswith("#SBATCH --array=1-4") for line in lines)
    if checker := shutil.which("shellcheck"):
        assert subprocess.run([checker, script], check=False).returncode == 0
