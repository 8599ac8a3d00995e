"""`ladder compare` on measured records that were made slower, larger or different by a known amount."""

import copy
import json
import pathlib
import shutil

import pytest

from conftest import MEASURED, EVIDENCE

NOISE = (0.002, -0.004, 0.001, 0.003, -0.002, -0.001, 0.004, 0.0)  # of eight runs; each side has another half


def as_made_today(file: pathlib.Path) -> dict:
    """A kept record of bf16, with what records say since: how far its losses may differ, and what its rung is called."""
    return json.loads(file.read_text()) | {"losses": {"tolerance": 0.01, "offset": 0}, "title": "bf16 autocast"}


@pytest.fixture(scope="module")
def measured() -> dict:
    return as_made_today(EVIDENCE / "records" / "r1-03-bf16.json")


def scaled(record: dict, factor: float) -> dict:
    record = copy.deepcopy(record)
    record["timing"]["step_ms"] = [ms * factor for ms in record["timing"]["step_ms"]]
    for field in ("median_ms", "q1_ms", "q3_ms", "min_ms", "max_ms"):
        record["summary"][field] *= factor
    return record


def write(folder: pathlib.Path, record: dict, factor: float, runs: int = 8, **changes) -> pathlib.Path:
    """`runs` records, each `factor` times as slow as the measured one, with a little noise."""
    folder.mkdir()
    for run in range(runs):
        made = scaled(record, factor * (1 + NOISE[(run * (3 if factor != 1 else 1)) % 8]))
        made["id"] = f"run-{run}"
        made["started"] = f"2026-11-21T10:00:{run:02}Z"
        for path, value in changes.items():
            place = made
            *parents, last = path.split("__")
            for parent in parents:
                place = place[parent]
            place[last] = value
        (folder / f"{run}.json").write_text(json.dumps(made))
    return folder


def compared(ladder, *arguments) -> dict:
    done = ladder("compare", *arguments, "--json")
    assert done.returncode in MEASURED, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "SAME"), (1.1, "REGRESSION"), (0.9, "IMPROVEMENT"),
                                                 (1.02, "INCONCLUSIVE")])
def test_a_verdict_is_by_the_interval(ladder, measured, tmp_path, factor, verdict) -> None:
    base, head = write(tmp_path / "a", measured, 1.0), write(tmp_path / "b", measured, factor * 1.00001)
    (entry,) = compared(ladder, base, head)["entries"]
    assert entry["verdict"] == verdict
    assert entry["lo"] <= factor <= entry["hi"]
    assert entry["pairs"] == 8
    assert entry["ratio"] == pytest.approx(factor, rel=0.01)
    table = ladder("compare", base, head).stdout
    assert verdict in table
    assert max(map(len, table.splitlines())) <= 80
    page = ladder("compare", base, head, "--markdown").stdout
    assert f"| {verdict} |" in page


def test_a_record_that_is_there_twice_counts_once(ladder, measured, tmp_path) -> None:
    base, head = write(tmp_path / "a", measured, 1.0), write(tmp_path / "b", measured, 1.1)
    shutil.copytree(head, head / "shard-1")  # as beside a merged study
    (entry,) = compared(ladder, base, head)["entries"]
    assert entry["head_runs"] == 8


def test_runs_that_were_not_interleaved_are_warned_of(ladder) -> None:
    done = ladder("compare", EVIDENCE, EVIDENCE)
    assert done.returncode in MEASURED and "Not interleaved: a change of the machine" in " ".join(done.stdout.split())
    (warning,) = compared(ladder, EVIDENCE, EVIDENCE)["warnings"]
    assert warning.startswith("not interleaved")


def test_the_least_effect_is_asked_for(ladder, measured, tmp_path) -> None:
    base, head = write(tmp_path / "a", measured, 1.0), write(tmp_path / "b", measured, 1.1)
    assert compared(ladder, base, head, "--min-effect", "20%")["entries"][0]["verdict"] == "SAME"
    assert compared(ladder, base, head, "--min-effect", "5")["entries"][0]["verdict"] == "REGRESSION"


def test_losses_and_memory_are_compared_too(ladder, measured, tmp_path) -> None:
    losses = [loss + 0.5 for loss in measured["timing"]["loss"]]
    base = write(tmp_path / "a", measured, 1.0)
    head = write(tmp_path / "b", measured, 1.0, timing__loss=losses,
                 memory__peak_bytes=int(measured["memory"]["peak_bytes"] * 1.25))
    (entry,) = compared(ladder, base, head)["entries"]
    assert entry["verdict"] == "SAME"
    assert not entry["loss"]["passed"] and not entry["loss"]["identical"]
    assert entry["loss"]["deviation"] == pytest.approx(0.5) and entry["loss"]["max_deviation"] == pytest.approx(0.5)
    assert entry["memory"]["verdict"] == "REGRESSION"
    assert "LOSSES DIFFER" in ladder("compare", base, head).stdout
    (same,) = compared(ladder, base, base)["entries"]
    assert same["loss"]["identical"] and same["memory"]["verdict"] == "SAME"
    other_seed = write(tmp_path / "c", measured, 1.0, workload__seed=2)
    assert compared(ladder, base, other_seed)["entries"][0]["loss"]["compared"] is False


@pytest.mark.parametrize(("change", "words"), [  # run_setting_test.cpp has the other fields
    ({"environment__threads": 4}, "threads: 2 against 4"),
    ({"workload__random_windows": True}, "windows: consecutive against random"),
    ({"recipe__device": "cuda", "environment__gpu": {"name": "NVIDIA H200"}}, "device: AMD EPYC against NVIDIA H200"),
])
def test_other_circumstances_are_refused_unless_forced(ladder, measured, tmp_path, change, words) -> None:
    base, head = write(tmp_path / "a", measured, 1.0), write(tmp_path / "b", measured, 1.0, **change)
    refused = ladder("compare", base, head)
    assert refused.returncode == 3
    assert words in refused.stderr and "--force" in refused.stderr
    assert words in compared(ladder, base, head, "--force")["forced"]
    forced = ladder("compare", base, head, "--force")
    assert forced.returncode in MEASURED and "FORCED" in forced.stdout and words in " ".join(forced.stdout.split())


def test_every_record_must_have_been_made_under_the_same_circumstances(ladder, measured, tmp_path) -> None:
    base, head = write(tmp_path / "a", measured, 1.0), write(tmp_path / "b", measured, 1.0)
    record = json.loads((head / "5.json").read_text())
    record["environment"]["threads"] = 64
    (head / "5.json").write_text(json.dumps(record))
    refused = ladder("compare", base, head)
    assert refused.returncode == 3 and "threads: 2 against 64" in refused.stderr
    record["environment"]["threads"] = 2
    record["workload"]["seed"] = 7
    (head / "5.json").write_text(json.dumps(record))
    assert compared(ladder, base, head)["entries"][0]["loss"]["message"] == "losses are not compared: another seed"


def test_records_without_a_number_are_left_out_and_named(ladder, measured, tmp_path) -> None:
    base, head = write(tmp_path / "a", measured, 1.0), write(tmp_path / "b", measured, 0.5)
    for run in range(8):
        record = json.loads((head / f"{run}.json").read_text())
        if run == 0:
            record["proofs"][0]["passed"] = False
        elif run == 1:
            record["timing"]["loss"][2] = None
        elif run == 2:
            record["observations"]["peer"] = {"name": "pytorch"}  # a peer's record is not compared unless it is asked for
        (head / f"{run}.json").write_text(json.dumps(record))
    result = compared(ladder, base, head)
    assert result["entries"][0]["head_runs"] == 5 and len(result["head"]["left_out"]) == 2
    shown = " ".join(ladder("compare", base, head).stdout.split())
    assert "2 runs of head left out, not a number: run-0: " in shown and "is not proven: expected" in shown
    for run in range(8):
        record = json.loads((head / f"{run}.json").read_text())
        record["timing"]["loss"][2] = None
        (head / f"{run}.json").write_text(json.dumps(record))
    none = ladder("compare", base, head)
    assert none.returncode == 2 and "run-0: " in none.stderr and "has no run with a valid time" in none.stderr
    one = ladder("compare", base / "0.json", head / "3.json")
    assert one.returncode == 2 and "run-3: the loss of step 3 is not finite" in one.stderr


def test_studies_are_compared_rung_by_rung(ladder, tmp_path) -> None:
    study = compared(ladder, EVIDENCE, EVIDENCE)
    labels = [entry["label"] for entry in study["entries"]]
    assert labels == ["float32", "+ keep host memory", "+ oneDNN products", "+ bf16 autocast", "+ flash attention",
                      "+ vocabulary 50304", "+ fused AdamW"]
    assert {entry["verdict"] for entry in study["entries"]} == {"SAME"}
    (tmp_path / "some").mkdir()
    for file in sorted((EVIDENCE / "records").glob("*bf16*")):
        (tmp_path / "some" / file.name).write_text(json.dumps(as_made_today(file)))
    part = compared(ladder, EVIDENCE, tmp_path / "some")
    assert [entry["label"] for entry in part["entries"]] == ["+ bf16 autocast"] and part["entries"][0]["loss"]["passed"]
    assert len(part["unmatched"]) == 6
    # A record of an older program says neither.
    (older,) = compared(ladder, EVIDENCE / "records" / "r1-03-bf16.json", EVIDENCE / "records" / "r2-03-bf16.json")["entries"]
    assert older["label"] == "+ bf16" and not older["loss"]["compared"] and "an older record" in older["loss"]["message"]


def test_a_rung_without_a_number_in_its_study_has_no_verdict(ladder, tmp_path) -> None:
    study = tmp_path / "study"
    shutil.copytree(EVIDENCE, study)
    for name, change in (("r2-03-bf16", lambda record: record["proofs"][0].update(passed=False)),
                         ("r1-04-flash", lambda record: record["timing"]["loss"].__setitem__(3, 5.0))):
        record = json.loads((study / "records" / f"{name}.json").read_text())
        change(record)
        (study / "records" / f"{name}.json").write_text(json.dumps(record))
    result = compared(ladder, EVIDENCE, study)
    assert not {"+ bf16 autocast", "+ flash attention"} & {entry["label"] for entry in result["entries"]} and len(result["entries"]) == 5
    left_out = result["head"]["left_out"]
    assert len(left_out) == 12 and not result["base"]["left_out"]
    assert sum("its rung is unproven: " in line for line in left_out) == 5  # the sixth record itself says what is not proven
    assert sum("its rung is void: the loss of step 4 is " in line for line in left_out) == 6


def test_peak_memory_is_the_studys(ladder) -> None:
    told = {rung["label"]: rung["peak_memory_bytes"] for rung in json.loads((EVIDENCE / "study.json").read_text())["rungs"]}
    memories = {entry["label"]: entry["memory"] for entry in compared(ladder, EVIDENCE, EVIDENCE)["entries"]}
    for label in ("float32", "+ bf16 autocast", "+ fused AdamW"):
        assert memories[label]["base_bytes"] == memories[label]["head_bytes"] == told[label]
        assert memories[label]["ratio"] == 1  # of pairs
    assert "(SAME by pairs, 1.000)" in " ".join(ladder("compare", EVIDENCE, EVIDENCE).stdout.split())


def test_two_recipes_are_compared_where_each_side_has_one(ladder) -> None:
    records = EVIDENCE / "records"
    result = compared(ladder, records / "r1-03-bf16.json", records / "r1-04-flash.json")
    assert result["entries"][0]["recipe_diff"] == {"attention": ["manual", "flash"]}
    assert result["entries"][0]["verdict"] == "INCONCLUSIVE"  # one pair


@pytest.mark.parametrize("break_it", [
    lambda folder: (folder / "0.json").write_text('{"kind": "record"}'),
    lambda folder: [file.write_text(json.dumps({**json.loads(file.read_text()), "status": "failed", "failure": {
        "kind": "exit", "message": "it fell"}})) for file in folder.iterdir()],
])
def test_bad_input(ladder, measured, tmp_path, break_it) -> None:
    base, head = write(tmp_path / "a", measured, 1.0), write(tmp_path / "b", measured, 1.0)
    break_it(head)
    done = ladder("compare", base, head)
    assert done.returncode == 2 and done.stdout == ""
    assert str(head) in done.stderr
