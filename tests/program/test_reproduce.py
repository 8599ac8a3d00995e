"""Runs that are made again from their records, and studies that were edited: output and exit status. reproduce_test.cpp tests what is
compared, and verify_test.cpp that every single value of a study is checked.
"""

import html
import json
import math
import pathlib
import re
import shlex
import shutil

import jsonschema
import numpy as np
import pytest
from conftest import MEASURED, DRAWN, ROOT, ladder_document, read_json, write_json

RUN = ["run", "--model", "tiny", "-B", "2", "-T", "16", "--steps", "2", "--warmup", "1", "--threads", "1", "--seed", "3",
       "--positions", "80"]
SCHEMA = ROOT / "results" / "schemas" / "record.v1.json"


@pytest.fixture(scope="module")
def record(ladder, tmp_path_factory) -> pathlib.Path:
    file = tmp_path_factory.mktemp("record") / "record.json"
    done = ladder(*RUN, "--recipe", '{"attention": "flash", "host_memory": "keep", "deterministic": true}', "--out", file)
    assert done.returncode == 0, done.stdout + done.stderr
    return file


@pytest.fixture(scope="module")
def study(ladder, tmp_path_factory) -> pathlib.Path:
    home = tmp_path_factory.mktemp("study")
    ladder_file = write_json(home / "small.json", ladder_document(rungs=["gpu", "memory", "flash"]))
    done = ladder("ablate", "--ladder", ladder_file, "--threads", "1", "--deterministic", "--out", home / "study", "--json")
    assert done.returncode in MEASURED, done.stdout + done.stderr
    return home / "study"


@pytest.fixture(scope="module")
def again(ladder, record):
    """The run of the record, made again: the finished process, and the new record."""
    file = record.with_name("again.json")
    return ladder("run", "--from", record, "--out", file, "--json"), file


def changed(record: pathlib.Path, folder: pathlib.Path, edit) -> pathlib.Path:
    document = read_json(record)
    edit(document)
    return write_json(folder / "changed.json", document)


def more(value: float) -> float:
    return math.nextafter(value, math.inf)


def test_a_record_is_enough_to_run_it_again(record, again) -> None:
    done, file = again
    assert done.returncode == 0, done.stdout + done.stderr
    before, made = read_json(record), json.loads(done.stdout)
    assert made == read_json(file)
    jsonschema.validate(made, read_json(SCHEMA))
    for field in ("id", "recipe", "optimizations", "workload"):
        assert made[field] == before[field], field
    assert made["timing"]["warmup_steps"] == 1 and made["timing"]["loss"] == before["timing"]["loss"]
    assert len(before["timing"]["loss"]) == 3 and before["workload"]["positions"] == 80 and before["workload"]["seed"] == 3
    assert made["environment"]["threads"] == before["environment"]["threads"] == 1
    assert made["reproduction"] == {"identical": True, "steps": 3, "largest_deviation": 0.0, "excuses": []}
    assert f"losses of 3 steps: identical to the bit to those of {record}" in done.stderr


def test_a_run_of_a_study_can_be_run_again(ladder, study) -> None:
    file = study / "records" / "r2-03-flash.json"
    done = ladder("run", "-v", "--from", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"losses of 4 steps: identical to the bit to those of {file}" in done.stdout
    assert "FAILED" not in done.stdout and re.search("^proven deterministic ", done.stdout, re.M)


def test_a_loss_that_differs_in_its_last_bit_fails(ladder, record, tmp_path) -> None:
    def edit(document):
        document["timing"]["loss"][1] = more(document["timing"]["loss"][1])

    done = ladder("run", "--from", changed(record, tmp_path, edit))
    assert done.returncode == 1
    assert re.search(r"losses of 3 steps: different from those of .*\.json, up to [\d.]+e-1\d nats per token \([\d.e-]+ units in the last place\), and nothing known explains it", done.stdout)


def test_elsewhere_a_deviation_is_told_and_no_verdict(ladder, again, tmp_path) -> None:
    """Of a record that was itself made from one."""
    def edit(document):
        document["timing"]["loss"][1] += 0.25
        document["environment"]["cpu"]["model"] = "Another CPU"

    done = ladder("run", "--from", changed(again[1], tmp_path, edit))
    assert done.returncode == 0, done.stderr
    assert re.search(r"up to 0.25 nats per token \(.* units in the last place\), which may be because of: device: Another CPU against", done.stdout)


def test_every_difference_of_program_and_data_is_named(ladder, record, tmp_path) -> None:
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, 1000
    (tmp_path / "other.bin").write_bytes(header.tobytes() + np.arange(1000, dtype="<u2").tobytes())
    other = changed(record, tmp_path, lambda document: document["environment"].update(
        git_commit="0123456789", torch="2.10.0", git_dirty=True, program_sha256=None))
    done = ladder("run", "--from", other, "--out", tmp_path / "none.json", "--data", tmp_path / "other.bin")
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert not (tmp_path / "none.json").exists()
    for word in (read_json(record)["workload"]["data"]["sha256"], "shakespeare.txt", "other.bin", 'git_commit: "0123456789" against',
                 'torch: "2.10.0" against'):
        assert word in done.stderr
    done = ladder("run", "--from", other, "--any-program")
    assert done.returncode == 0 and "identical to the bit" in done.stdout
    assert "cannot tell whether this is the record's program: the record's program was built with uncommitted changes (git_dirty)" in done.stderr


def test_what_is_no_run_is_refused(ladder, record, tmp_path) -> None:
    cases = [([tmp_path / "none.json"], "none.json"), ([ROOT / "ladders" / "tiny.json"], "not a record"),
             ([record, "--steps", "3"], "--steps"), ([record, "--rung", "flash"], "--rung"),
             ([changed(record, tmp_path, lambda r: r["observations"].update(peer={}))], "PyTorch")]
    for arguments, words in cases:
        done = ladder("run", "--from", *arguments)
        assert done.returncode == 2 and words in done.stderr and done.stdout == "", arguments
    assert ladder("run", "--any-program").returncode == 2


def test_deterministic_is_on_every_rung_and_repeats(study) -> None:
    plan = read_json(study / "plan.json")
    assert [rung["recipe"]["deterministic"] for rung in plan["rungs"]] == [True] * 4
    found = {}
    for file in (study / "records").glob("r*.json"):
        document = read_json(file)
        (proof,) = [proof for proof in document["proofs"] if proof["field"] == "deterministic"]
        assert proof["passed"] and "algorithms are on; an operation that has none is refused" in proof["observed"]
        assert document["observations"]["determinism"]["cublas_workspace"] == ":4096:8"
        found.setdefault(file.name.split("-")[1], []).append(document["timing"]["loss"])
    assert len(found) == 3 and all(losses == [losses[0]] * len(losses) for losses in found.values())


def test_the_commands_of_its_report_measure_it_again(ladder, study, tmp_path) -> None:
    assert ladder("report", study, "--out", tmp_path, variables=DRAWN).returncode in MEASURED
    page = html.unescape((tmp_path / "report.html").read_text())
    commands = re.findall(r"\bladder ((?:run|profile) [^<\n]*--rung flash\b[^<\n]*)", page)
    assert [command.split()[0] for command in commands] == ["run", "profile"]
    done = ladder(*shlex.split(commands[0]), "--json", cwd=study.parent)  # the folder with its ladder
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["recipe"]["deterministic"] is True


@pytest.fixture
def copy(study, tmp_path) -> pathlib.Path:
    """A copy of the study that a test may edit."""
    return shutil.copytree(study, tmp_path / "moved")


def verify(ladder, folder: pathlib.Path) -> list[tuple[str, str]]:
    """File and field of every finding. The exit status agrees with them."""
    done = ladder("verify", folder, "--json")
    findings = [(finding["file"], finding["field"]) for finding in json.loads(done.stdout)["findings"]]
    assert done.returncode == (1 if findings else 0), done.stderr
    return findings


def test_an_untouched_study_passes_also_elsewhere(ladder, copy, study) -> None:
    for folder in (study, copy):
        done = ladder("verify", folder)
        assert done.returncode == 0, done.stdout + done.stderr
        runs = len(list((study / "records").glob("*.json")))
        assert re.fullmatch(rf"OK: {runs} records, [\d,]+ values, {runs + 2} hashes\n", done.stdout), done.stdout


def test_the_first_record_of_a_disturbed_run_is_of_that_run(ladder, copy) -> None:
    file = copy / "records" / "r1-03-flash.json"
    first = read_json(file) | {"flags": ["shared: by a test"]}
    flagged = file.with_suffix(".flagged.json")
    for document, fault in ((first, ""), (first | {"flags": []}, "a record without flags"),
                            (first | {"workload": first["workload"] | {"random_windows": True}}, "its windows are not the planned ones"),
                            (first | {"workload": first["workload"] | {"seed": 9}}, "its seed is not the planned one")):
        write_json(flagged, document)
        (copy / "study.json").unlink()
        assert ladder("report", copy).returncode in MEASURED  # this seals it again
        done = ladder("verify", copy)
        assert (done.returncode == 1) == bool(fault) and fault in done.stdout, done.stdout


def last_digit(text: str, field: str) -> str:
    """The document with another last digit in the first number of `field`."""
    return re.sub(rf'("{field}": \[?\s*[\d.]*)(\d)', lambda found: found[1] + str((int(found[2]) + 1) % 10), text, count=1)


def test_a_digit_of_a_record_is_found(ladder, copy) -> None:
    file = copy / "records" / "r1-03-flash.json"
    text = file.read_text()
    file.write_text(last_digit(text, "step_ms"))  # a warm-up step: nothing follows from it, and only the hash shows the edit
    assert verify(ladder, copy) == [("records/r1-03-flash.json", "")]
    file.write_text(last_digit(text, "median_ms"))
    assert {("records/r1-03-flash.json", ""), ("records/r1-03-flash.json", "/summary/median_ms")} <= set(verify(ladder, copy))


def test_what_was_edited_is_not_sealed_anew(ladder, copy, tmp_path) -> None:
    file = copy / "records" / "r1-03-flash.json"
    text = file.read_text()
    file.write_text(last_digit(text, "step_ms"))
    before = (copy / "study.json").read_bytes()
    for command in (("ablate", "--resume", "--out", copy), ("merge", "--out", tmp_path / "merged", copy)):
        done = ladder(*command)
        assert done.returncode == 2 and "r1-03-flash.json: has changed since study.json was made" in done.stderr, done.stderr
    assert (copy / "study.json").read_bytes() == before and not (tmp_path / "merged").exists()
    # A run that --resume makes again is not an edit.
    file.write_text("{")
    assert ladder("ablate", "--resume", "--out", copy).returncode in MEASURED
    assert verify(ladder, copy) == []


def test_other_edits_are_found(ladder, copy) -> None:
    plan = (copy / "plan.json").read_text()
    (copy / "plan.json").write_text(plan.replace('"Small"', '"Smart"', 1))
    found = verify(ladder, copy)  # the records name another plan
    assert [place for place in found if place[1] != "/plan"] == [("plan.json", ""), ("study.json", "/ladder/title")]
    assert {file for file, field in found if field == "/plan"} == {f"records/{file.name}" for file in (copy / "records").iterdir()}
    (copy / "plan.json").write_text(plan)

    record = copy / "records" / "r1-00-start.json"
    shutil.copy(record, copy / "records" / "r9-00-start.json")
    assert verify(ladder, copy) == [("records/r9-00-start.json", "")] * 2  # it has no hash, and it belongs to no planned run
    (copy / "records" / "r9-00-start.json").rename(record)
    text = record.read_text()
    record.unlink()
    findings = verify(ladder, copy)
    assert findings[0] == ("records/r1-00-start.json", "") and ("study.json", "/plan/runs_ok") in findings
    record.write_text(text[:-20])
    assert ("records/r1-00-start.json", "") in verify(ladder, copy)
    record.write_text(text)
    assert verify(ladder, copy) == []

    study = (copy / "study.json").read_text()
    (copy / "study.json").write_text(last_digit(study, "runs_ok"))
    assert set(verify(ladder, copy)) == {("study.json", "/plan/runs_ok"), ("study.json", "/sha256")}
    assert re.search(r"^study.json /plan/runs_ok: 7; expected 6$", ladder("verify", copy).stdout, re.M)
    for broken in (study[:-20], json.dumps({name: value for name, value in json.loads(study).items() if name != "sha256"})):
        (copy / "study.json").write_text(broken)  # cut, or without its seal
        assert verify(ladder, copy) == [("study.json", "")]


def test_a_report_of_edited_records_says_so_and_leaves_the_study_as_witness(ladder, copy, tmp_path) -> None:
    file = copy / "records" / "r1-03-flash.json"
    record = read_json(file)
    record["timing"]["step_ms"][0] = more(record["timing"]["step_ms"][0])  # a warm-up step: nothing follows from it
    write_json(file, record)
    before = (copy / "study.json").read_bytes()
    done = ladder("report", copy, "--out", tmp_path / "drawn")
    assert "study.json is left as it is" in done.stderr, done.stderr
    assert "records are not what they were when the study was made" in (tmp_path / "drawn" / "report.json").read_text()
    assert (copy / "study.json").read_bytes() == before
    assert verify(ladder, copy) == [("records/r1-03-flash.json", "")]
    (copy / "study.json").unlink()
    assert "left as it is" not in ladder("report", copy).stderr
    assert verify(ladder, copy) == []


def test_what_going_on_with_a_study_replaces_is_no_edit(ladder, copy, tmp_path) -> None:
    """First records are kept beside disturbed and failed ones. A copy of a good record is not a first record."""
    file, failed = copy / "records" / "r1-03-flash.json", copy / "records" / "r1-02-memory.json"
    good, other = read_json(file), failed.read_text()
    write_json(failed, {name: json.loads(other)[name] for name in ("kind", "schema_version", "id", "started", "duration_s")}
               | {"status": "failed", "failure": {"kind": "signal", "message": "killed"}})
    for flags, edited in ((["shared: by a test"], False), ([], True)):
        write_json(file, good | {"flags": flags})
        file.with_suffix(".flagged.json").unlink(missing_ok=True)
        (copy / "study.json").unlink()
        assert ladder("report", copy).returncode in MEASURED
        shutil.copy(file, file.with_suffix(".flagged.json"))
        again = good | {"flags": [], "duration_s": more(good["duration_s"])}
        write_json(file, again)
        done = ladder("report", copy, "--out", tmp_path / "again")
        assert ("study.json is left as it is" in done.stderr) == edited, done.stderr
    assert "records/r1-03-flash.json" in done.stderr
    write_json(file, good | {"flags": []})  # the sealed state
    failed.write_text(other)
    assert "note:" not in ladder("report", copy, "--out", tmp_path / "whole").stderr


def test_a_study_without_any_record_is_no_false_alarm(ladder, copy) -> None:
    runs = len(list((copy / "records").glob("*.json")))
    shutil.rmtree(copy / "records")
    said = ladder("report", copy).stderr  # this also makes it again
    assert said.count("has changed since the study was made: no such file") == runs
    assert read_json(copy / "study.json")["plan"]["runs_ok"] == 0
    document = read_json(copy / "study.json")
    assert verify(ladder, copy) == []
    document["environment"]["load_average"][0] += 1
    write_json(copy / "study.json", document)
    assert ("study.json", "/sha256") in verify(ladder, copy)
