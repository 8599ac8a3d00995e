"""`ladder report` as a command: what it takes and refuses, what it writes and where, and its exports for other programs.

The study is the recorded one. Nothing is drawn: /bin/true is in place of the Python that draws. tests/plots test the drawing.
"""

import csv
import io
import json
import os
import pathlib
import shutil
import subprocess

import jsonschema
import pytest
from conftest import MEASURED, EVIDENCE, ROOT, ladder_document, read_json, snapshot, write_json
from gates import script

FILES = {"report.json", "rungs.csv", "steps.csv", "benchmark.json", "hyperfine.json"}  # tests/plots test what is drawn of them
SEEDS = ROOT / "tests" / "fuzz" / "seeds"


@pytest.fixture
def report(ladder, tmp_path):
    def run(*arguments):
        return ladder("report", *arguments, cwd=tmp_path, variables={"LADDER_PYTHON": "/bin/true"})

    return run


@pytest.fixture
def study() -> dict:
    return read_json(EVIDENCE / "study.json")


@pytest.fixture(scope="module")
def measured(ladder, tmp_path_factory) -> pathlib.Path:
    """A study with its plan, measured here."""
    folder = tmp_path_factory.mktemp("measured") / "study"
    small = write_json(folder.parent / "small.json", ladder_document())
    done = ladder("ablate", "--no-look", "--ladder", small, "--threads", "1", "--out", folder, variables={"LADDER_PYTHON": "/bin/true"})
    assert done.returncode in MEASURED, done.stderr
    return folder


def check(document: dict) -> dict:
    """A report and all documents in it follow their schemas."""
    def follows(part, kind):
        jsonschema.Draft7Validator(read_json(ROOT / "results" / "schemas" / f"{kind}.v1.json")).validate(part)

    follows(document, "report")
    for entry in document["studies"]:
        follows(entry["study"], "study")
    if document["comparison"]:
        follows(document["comparison"], "comparison")
    for kind, parts in {"gate": "gates", "history": "histories", "noise": "noise", "trace": "traces"}.items():
        for part in document[parts]:
            follows(part, kind)
    return document


def rows(path: pathlib.Path) -> list[dict]:
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode(), newline=""), strict=True))


def refused(done, *words) -> None:
    assert done.returncode == 2 and done.stderr.startswith("ladder: ") and done.stderr.count("\n") == 1, done.stderr
    assert all(word in done.stderr for word in words), done.stderr


def test_the_recorded_study(report, tmp_path, study) -> None:
    shutil.copytree(EVIDENCE, tmp_path / EVIDENCE.name)
    done = report(EVIDENCE.name, "--out", "drawn")
    assert done.returncode in MEASURED, done.stderr
    assert "fused AdamW" in done.stdout and all(len(line) <= 80 for line in done.stdout.splitlines())
    assert {path.relative_to(EVIDENCE): path.read_bytes() for path in EVIDENCE.rglob("*") if path.is_file()} == {
        path.relative_to(tmp_path / EVIDENCE.name): path.read_bytes() for path in (tmp_path / EVIDENCE.name).rglob("*") if path.is_file()}
    assert {path.name for path in (tmp_path / "drawn").iterdir()} == FILES
    document = check(read_json(tmp_path / "drawn" / "report.json"))
    entry, = document["studies"]
    assert entry["study"] == study and entry["source"] == EVIDENCE.name and len(entry["runs"]) == len(study["runs"])
    assert str(ROOT) not in (tmp_path / "drawn" / "report.json").read_text()
    table = rows(tmp_path / "drawn" / "rungs.csv")
    assert [float(row["ms_per_step_median"]) for row in table] == [rung["ms_per_step"]["median"] for rung in study["rungs"]]
    for one, rung in zip(read_json(tmp_path / "drawn" / "hyperfine.json")["results"], study["rungs"], strict=True):
        assert one["median"] * 1000 == pytest.approx(rung["ms_per_step"]["median"]) and len(one["times"]) == rung["runs_ok"]
        assert one["min"] <= one["mean"] <= one["max"] and one["stddev"] > 0
    steps, plan = rows(tmp_path / "drawn" / "steps.csv"), study["plan"]
    assert len(steps) == len(study["runs"]) * (plan["warmup_steps"] + plan["timed_steps"])

    # A failed rung gives the status that it gave where it was measured.
    entry["losses"], rung = [], study["rungs"][3]
    entry["study"]["rungs"][3] = rung | {"runs_ok": 0, "proofs": [], "status": "failed", "reason": "run r1: killed by signal 9"} | dict.fromkeys((
        "ms_per_step", "tokens_per_s", "speedup_first", "speedup_previous", "peak_memory_bytes", "page_faults_per_step", "guard"))
    done = report(write_json(tmp_path / "failed.json", document), "--out", "again")
    assert done.returncode == 1, done.stderr
    assert "gpt2-cpu/bf16: failed" in read_json(tmp_path / "again" / "benchmark.json")["context"]["left_out"]


def test_a_study_with_its_plan(measured, report, tmp_path) -> None:
    assert {path.name for path in measured.iterdir()} >= FILES  # `ablate` wrote them
    before = read_json(measured / "report.json")
    (measured / "study.json").unlink()
    done = report(measured)
    assert done.returncode in MEASURED, done.stderr
    document = check(read_json(measured / "report.json"))
    assert document == before
    assert document["studies"][0]["study"] == read_json(measured / "study.json")
    drawn = report(measured / "study.json", "--out", "drawn")
    assert drawn.returncode in MEASURED and read_json(tmp_path / "drawn" / "report.json") == before


def test_the_hours_of_a_training(report, tmp_path, study) -> None:
    done = report(EVIDENCE, "--out", tmp_path / "drawn", "--tokens", 10**9, "--epochs", 3)
    assert done.returncode in MEASURED, done.stderr
    lead = study["headline"].get("fastest", study["headline"]["last"])
    rungs = [study["rungs"][index] for index in (lead, study["headline"]["first"])]
    hours = [3e9 / rung["tokens_per_s"]["median"] / 3600 for rung in rungs]
    said = read_json(tmp_path / "drawn" / "report.json")["studies"][0]["said"]["lines"][-1]
    assert said == (f"3 epochs of 1,000,000,000 tokens: {hours[0]:,.0f} hours by \u201c{rungs[0]['title']}\u201d, "
                    f"{hours[1]:,.0f} by \u201c{rungs[1]['title']}\u201d")
    assert said.partition(":")[0] in done.stdout


def test_a_report_is_drawn_again(measured, report, tmp_path) -> None:
    report(measured, "--out", "first")
    shutil.copy(tmp_path / "first" / "report.json", tmp_path / "kept.json")
    done = report("kept.json", "--out", "second")
    assert done.returncode in MEASURED, done.stderr
    for name in FILES:
        assert (tmp_path / "second" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()
    refused(report("kept.json", measured), "kept.json", "by itself")
    document = read_json(tmp_path / "kept.json")
    document["studies"][0]["study"]["schema_version"] = 0
    refused(report(write_json(tmp_path / "old.json", document)), "old.json", '"schema_version" is 0; this program reads version 1')


def test_what_is_kept_with_a_study_is_shown_beside_it(measured, report, tmp_path) -> None:
    study = shutil.copytree(measured, tmp_path / "study")
    (study / "with").mkdir()
    shutil.copy(EVIDENCE / "with" / "roofline.json", study / "with" / "roofline.json")
    for more in ([], ["--with", study / "with" / "roofline.json"]):  # the same file counts once
        done = report(study, "--out", "drawn", *more)
        assert done.returncode in MEASURED, done.stderr
        document = check(read_json(tmp_path / "drawn" / "report.json"))
        assert [trace["title"] for trace in document["traces"]] == ["+ fused AdamW"]


def test_two_studies(measured, report, tmp_path) -> None:
    shutil.copytree(measured, tmp_path / "first")
    shutil.copytree(measured, tmp_path / "second")
    before = {name: snapshot(tmp_path / name) for name in ("first", "second")}
    done = report("first", "second/")
    assert done.returncode == 0, done.stderr
    assert {name: snapshot(tmp_path / name) for name in ("first", "second")} == before
    folder = tmp_path / "reports" / "first-second"
    assert {path.name for path in folder.iterdir()} == FILES
    document = check(read_json(folder / "report.json"))
    assert [entry["source"] for entry in document["studies"]] == ["first", "second"]
    assert document["comparison"]["head"]["source"] == "second" and "B/A: ratios of paired runs" in done.stdout
    assert {row["study"] for row in rows(folder / "rungs.csv")} == {row["study"] for row in rows(folder / "steps.csv")} == {"first", "second"}
    names = {run["run_name"] for run in read_json(folder / "benchmark.json")["benchmarks"]}
    assert {name.removeprefix("first/") for name in names if name.startswith("first/")} == \
        {name.removeprefix("second/") for name in names if name.startswith("second/")} and len(names) % 2 == 0


def test_two_studies_that_have_nothing_in_common(report, tmp_path) -> None:
    shutil.copytree(EVIDENCE, tmp_path / "other")
    plan = read_json(tmp_path / "other" / "plan.json")
    for rung in plan["rungs"]:
        rung["recipe"]["vocabulary_rows"] = 50432
    write_json(tmp_path / "other" / "plan.json", plan)
    for path in (tmp_path / "other" / "records").iterdir():
        record = read_json(path)
        record["recipe"]["vocabulary_rows"] = 50432
        write_json(path, record)
    done = report(EVIDENCE, "other", "--out", "drawn")
    assert done.returncode in MEASURED and "no recipe in common" in done.stderr, done.stderr
    document = check(read_json(tmp_path / "drawn" / "report.json"))
    assert len(document["studies"]) == 2 and document["comparison"] is None
    assert any("no recipe in common" in note for note in document["notes"])


def test_what_cannot_be_drawn_or_written(report, measured, tmp_path) -> None:
    refused(report(measured, measured / ".." / "study"), "given twice")
    (tmp_path / "file").write_text("mine")
    refused(report(measured, "--out", "file"), "--out file", "not a folder")
    refused(report(measured, "--out", "file/below"), "file/below")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_is_read_only(report, measured, small_disk, tmp_path) -> None:
    disk = small_disk("8m")
    shutil.copytree(measured, disk / "study")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    done = report(disk / "study", "--out", "drawn")
    assert done.returncode in MEASURED and "Read-only" not in done.stderr, done.stderr
    assert {path.name for path in (tmp_path / "drawn").iterdir()} == FILES
    refused(report(disk / "study"), "Read-only", "--out names another folder")


def test_a_study_json_of_another_version_is_left_as_it_is(report, measured, tmp_path) -> None:
    folder = shutil.copytree(measured, tmp_path / "study")
    study = read_json(folder / "study.json")
    study["environment"] |= {"git_commit": "a" * 40, "git_dirty": False, "program_sha256": None}
    for text in (json.dumps(study), "{}"):
        (folder / "study.json").write_text(text)
        elsewhere = report("study", "--out", "drawn")
        assert elsewhere.returncode in MEASURED and "another version" not in elsewhere.stderr, elsewhere.stderr
        there = report("study")
        assert there.returncode in MEASURED and "was made by another version and is left as it is" in there.stderr, there.stderr
        assert (folder / "study.json").read_text() == text


def test_with_other_documents(report, tmp_path) -> None:
    trace = SEEDS / "trace" / "valid.json"
    micro = write_json(tmp_path / "micro.json", {
        "context": {"host_name": "secret", "executable": "/home/me/micro", "num_cpus": 2},
        "benchmarks": [
            {"name": "a", "run_type": "iteration", "iterations": 5, "real_time": 2.5, "cpu_time": 2.0, "time_unit": "us", "threads": 1,
             "bytes_per_second": 1e9, "flops": 10, "bytes": 4, "label": "x"},
            {"name": "a_mean", "run_type": "aggregate", "real_time": 2.5, "time_unit": "us"},
            {"name": "b", "run_type": "iteration", "error_occurred": True, "error_message": "no GPU", "real_time": 0, "time_unit": "ns"}]})
    shutil.copytree(EVIDENCE, tmp_path / "plain", ignore=shutil.ignore_patterns("with", "traces"))
    done = report("plain", "--out", "drawn", "--with", trace, "--with", micro)
    assert done.returncode in MEASURED and "1 of 3 benchmarks failed" in done.stderr, done.stderr
    assert "nothing is shown of valid.json: its trace has no roofline" in done.stderr
    document = check(read_json(tmp_path / "drawn" / "report.json"))
    assert document["traces"] == [read_json(trace)]
    assert any("was taken under other circumstances (device: " in note for note in document["notes"])
    assert document["micro"] == [{"context": {"num_cpus": 2},
                                  "benchmarks": [{"name": "a", "real_time": 2.5, "time_unit": "us", "bytes_per_second": 1e9, "flops": 10,
                                                   "bytes": 4, "flops_per_byte": 2.5}]}]


def test_a_noise_floor_is_shown_with_studies_of_its_circumstances(report, tmp_path) -> None:
    shutil.copytree(EVIDENCE, tmp_path / "study", ignore=shutil.ignore_patterns("with"))
    noise = read_json(EVIDENCE / "with" / "noise.json")
    done = report("study", "--out", "drawn", "--with", EVIDENCE / "with" / "noise.json")
    assert done.returncode in MEASURED, done.stderr
    assert check(read_json(tmp_path / "drawn" / "report.json"))["studies"][0]["noise"] == [0] and "noise" not in done.stderr
    noise["setting"]["device"] = "another"
    done = report("study", "--out", "drawn", "--with", write_json(tmp_path / "other.json", noise))
    document = check(read_json(tmp_path / "drawn" / "report.json"))
    assert document["studies"][0]["noise"] == [] and "measured under other circumstances (device: AMD EPYC against another" in done.stderr


@pytest.mark.parametrize("content, words", [
    ({"kind": "plan", "schema_version": 1}, ['"plan"', "gate, history, noise and trace", "Google Benchmark"]),
    ({"kind": "gate", "schema_version": 1}, [" is missing"]),
    ({"context": {}, "benchmarks": [{"name": "a", "real_time": 1, "time_unit": "h"}]}, ["[benchmarks][0]", "time_unit"]),
])
def test_with_what_cannot_be_shown(report, tmp_path, content, words) -> None:
    write_json(tmp_path / "odd.json", content)
    refused(report(EVIDENCE, "--out", "drawn", "--with", "odd.json"), "odd.json", *words)
    assert not (tmp_path / "drawn").exists()


def test_in_google_benchmarks_form(measured, tmp_path) -> None:
    """The same keys and types as the installed library writes."""
    program = os.environ.get("MICRO") or pytest.skip("MICRO is not set")
    done = subprocess.run([program, "-B", "1", "-T", "16", "--benchmark_filter=gelu.*cpu", "--benchmark_min_time=0.0001",
                           "--benchmark_repetitions=3", "--out", tmp_path / "micro.json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    theirs, ours = read_json(tmp_path / "micro.json"), read_json(measured / "benchmark.json")

    def kinds(entry: dict) -> dict:
        return {key: "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value) for key, value in entry.items()}

    machine = {"date", "host_name", "executable", "num_cpus", "mhz_per_cpu", "caches", "load_avg", "library_build_type"}
    assert machine <= theirs["context"].keys()
    assert {key: kinds(theirs["context"])[key] for key in machine} == {key: kinds(ours["context"])[key] for key in machine}

    def of(document: dict, kind: str) -> list[dict]:
        return [entry for entry in document["benchmarks"] if entry.get("aggregate_name", "iteration") == kind]

    for kind in ("iteration", "mean", "median", "stddev", "cv"):
        real = {key: value for key, value in kinds(of(theirs, kind)[0]).items() if not key.startswith(("flops", "bytes", "label"))}
        for entry in of(ours, kind):
            assert real.items() <= kinds(entry).items(), kind
            assert kinds(entry).keys() - real.keys() <= {"label", "items_per_second", "tokens_per_second"}
            for key in ("run_type", "aggregate_name", "aggregate_unit"):
                assert entry.get(key) == of(theirs, kind)[0].get(key)
    assert len(of(ours, "iteration")) == 6 and [entry["repetition_index"] for entry in of(ours, "iteration")] == [0, 1] * 3


def test_it_is_drawn_though_nobody_reads_the_table(program, environment, tmp_path) -> None:
    """`ladder report STUDY | head -1` closes the pipe early."""
    drawer = tmp_path / "python"
    drawer.write_text('#!/bin/sh\ntouch "$3/picture"\n')
    drawer.chmod(0o755)
    reader, writer = os.pipe()
    os.close(reader)
    subprocess.run([program, "report", shutil.copytree(EVIDENCE, tmp_path / "study"), "--out", tmp_path / "drawn"], stdout=writer,
                   env=environment | {"LADDER_PYTHON": str(drawer)}, stderr=subprocess.DEVNULL, check=False)
    os.close(writer)
    assert {path.name for path in (tmp_path / "drawn").iterdir()} == FILES | {"picture"}


def test_the_users_python_variables_do_not_reach_our_own_python(ladder, tmp_path) -> None:
    (tmp_path / "markupsafe.py").write_text('raise ImportError("made for another Python")')
    ours = {"LADDER_PYTHON": ""}
    drawn = [ladder("report", EVIDENCE, "--out", tmp_path / f"drawn-{number}", variables=ours | more)
             for number, more in enumerate(({}, {"PYTHONPATH": str(tmp_path)}, {"PYTHONHOME": "/nonexistent"}))]
    assert len({(done.returncode, done.stderr) for done in drawn}) == 1, [done.stderr for done in drawn]
    assert [sorted(path.name for path in (tmp_path / f"drawn-{number}").iterdir()) for number in (1, 2)] == [
        sorted(path.name for path in (tmp_path / "drawn-0").iterdir())] * 2


def test_a_python_is_found_on_path(ladder, environment, tmp_path) -> None:
    script(tmp_path / "drawer", f"touch {tmp_path}/called\n")
    done = ladder("report", EVIDENCE, "--out", tmp_path / "drawn", variables={"LADDER_PYTHON": "drawer", "PATH": f"{tmp_path}:{environment['PATH']}"})
    assert (tmp_path / "called").exists(), done.stderr
