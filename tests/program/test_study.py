"""Whole studies as a user makes them: what stands in their files and on the terminal, and what is made again of them.

Times are never asserted, only that numbers follow from the records: every derived number of study.json is computed again
here, from the records alone.
"""

import collections
import itertools
import json
import math
import os
import re
import shlex
import shutil
import statistics

import numpy as np
import pytest
from conftest import (MEASURED, DRAWN, assert_complete, assert_goes_on, assert_kept, is_first_of_two, ladder_document, losses, made_runs, read_json,
                      records, run_ids, snapshot, validator, write_json)


def test_a_study_is_complete(study) -> None:
    folder, done = study
    assert done.returncode in MEASURED, done.stdout + done.stderr
    assert_complete(folder)
    assert not list(validator("plan").iter_errors(read_json(folder / "plan.json")))
    for record in records(folder).values():
        assert not list(validator("record").iter_errors(record)), record["id"]


def trainings(folder) -> dict:
    """By the rung's name, of those that were measured: whether it is the same training as the reference."""
    return {rung["optimization"]: rung.get("training", {}).get("verdict") for rung in read_json(folder / "study.json")["rungs"] if rung["runs_ok"]}


def test_honest_rungs_are_the_same_training(study, ladder, tmp_path) -> None:
    folder = tmp_path / "whole-way"
    done = ladder("ablate", "--ladder", "whole-way-cpu", "-B", 2, "-T", 32, "--repeats", 1, "--warmup", 1, "--steps", 1, "--out", folder)
    for made in (study[0], folder):
        (first, none), *others = trainings(made).items()
        assert (first, none) == (None, None) and len(others) >= 7 and {verdict for _, verdict in others} == {"same"}, others
    said = " ".join(done.stdout.split())
    assert "By their first steps the same training as their reference:" in said, said
    assert re.search(r'"bf16 autocast": 28 of 28 gradients agree to 0\.0\d+ \(bfloat16 allows 0\.\d+\)', said), said


def test_another_training_is_void_and_only_missing_looks_are_taken(study, ladder, tmp_path) -> None:
    folder = shutil.copytree(study[0], tmp_path / "study")
    look = read_json(folder / "looks" / "flash.json")
    frozen = look["sketch"]["parameters"][3]
    frozen["gradients"] = [[0] * 9] * 3
    write_json(folder / "looks" / "flash.json", look)
    (folder / "looks" / "bf16.json").unlink()
    done = ladder("ablate", "--resume", "--out", folder)
    assert re.findall("^looking at (.*) [.]{3}$", done.stderr, re.M) == ['"bf16 autocast"'], done.stderr
    (flash,) = (rung for rung in read_json(folder / "study.json")["rungs"] if rung["optimization"] == "flash")
    assert flash["status"] == "void" and flash["reason"] == flash["training"]["words"], flash
    assert flash["reason"].startswith(f"another training: its gradient at step 1 is 1 of its norm off in {frozen['name']} (bfloat16 allows ")
    assert done.returncode == 1 and "27 of 28 gradients agree" in " ".join(done.stdout.split()), done.stdout


def test_the_reports_command_plans_the_same_study(study, ladder, tmp_path) -> None:
    (command,) = re.findall(r"^ladder (ablate .*)$", (study[0] / "report.md").read_text(), re.M)
    again = ladder(*shlex.split(command), "--budget-s", "1", "--out", tmp_path / "again")
    assert "the budget of 1 s is spent" in again.stderr, again.stderr
    ours, theirs = ({name: value for name, value in read_json(folder / "plan.json").items() if name not in ("id", "created")}
                    for folder in (study[0], tmp_path / "again"))
    assert ours == theirs


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
        logarithms = [math.log(medians[before][repeat] / medians[after][repeat]) for repeat in range(2)]
        pairs = itertools.combinations_with_replacement(logarithms, 2)
        return math.exp(statistics.median((first + second) / 2 for first, second in pairs))  # Hodges and Lehmann's

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
    headline = {key: value for key, value in result["headline"].items() if key != "fastest"}  # which this machine may have
    assert headline == {"first": 0, "last": previous, "speedup": result["rungs"][previous]["speedup_first"]}


def test_what_is_printed(study) -> None:
    folder, done = study
    assert " | CPU figures | " in " ".join(done.stdout.split())
    for rung in read_json(folder / "study.json")["rungs"]:
        assert rung["title"][:20] in done.stdout
    assert done.stdout.splitlines()[-1] == f"Open {folder / 'report.html'}"
    for name in ("study.json", "report.json", "rungs.csv", "steps.csv", "benchmark.json", "report.html", "report.md"):
        assert (folder / name).stat().st_size > 0
    ladder = folder / "charts" / "ladder.svg"
    assert ladder.with_suffix(".png").read_bytes().startswith(b"\x89PNG") and b"<svg" in ladder.read_bytes()
    assert "<!doctype html>" in (folder / "report.html").read_text()
    assert "CPU" in (folder / "report.md").read_text()
    runs = len(run_ids(folder))
    assert [made for made in made_runs(done) if made != "again"] == [f"{run}/{runs}" for run in range(1, runs + 1)]
    for text in (done.stdout, done.stderr):
        assert "\x1b" not in text and "\r" not in text
    assert max(map(len, done.stdout.split("Open ")[0].splitlines())) <= 80


def test_the_same_seed_gives_the_same_losses(study, ladder, tmp_path) -> None:
    folder, _ = study
    by_rung = collections.defaultdict(list)
    for run in read_json(folder / "plan.json")["runs"]:
        by_rung[run["rung"]].append(losses(folder)[run["id"]])
    assert all(every == 2 * [every[0]] for every in by_rung.values())
    document = ladder_document(rungs=[], workload={"model": "tiny", "batch": 2, "context": 32},
                               plan={"repeats": 1, "warmup_steps": 4, "timed_steps": 5})
    for seed, same in ((1, True), (2, False)):
        again = tmp_path / f"seed{seed}"
        done = ladder("ablate", "--ladder", write_json(tmp_path / "start.json", document), "--seed", seed, "--threads", "1",
                      "--json", "--out", again)
        assert done.returncode in MEASURED and json.loads(done.stdout) == read_json(again / "study.json")
        assert (losses(again)["r1-00-start"] == by_rung[0][0]) == same


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


def test_an_operation_of_our_own_is_timed_once_for_all_runs(ladder, tmp_path) -> None:
    """Which is faster is this machine's affair. What its times say decides, for every run."""
    file = write_json(tmp_path / "own.json", ladder_document(rungs=["packed_products", "fused_adamw"]))
    done = ladder("ablate", "--ladder", file, "--threads", "1", "--json", "--out", tmp_path / "study")
    assert done.returncode in MEASURED, done.stderr
    plan = read_json(tmp_path / "study" / "plan.json")
    validator("plan").validate(plan)
    timings, (_, packed, last) = plan["product_timings"], plan["rungs"]
    assert [one["product"] for one in timings] == ["qkv", "linear_attn_proj", "linear_c_fc", "linear_mlp_proj", "head"]
    library, ours = (sum((1 if one["product"] == "head" else 2) * one[f"{way}_microseconds"] for one in timings) for way in ("plain", "own"))
    is_taken = library >= 1.03 * ours
    assert {one["algorithm"] for one in timings} == {0 if is_taken else -1}
    assert packed["status"] == ("planned" if is_taken else "not_applicable")
    assert is_taken or re.fullmatch("not faster here: the library makes [^ ]+ GFLOP/s, ours [^ ]+ GFLOP/s", packed["reason"])
    assert last["recipe"]["products"] == ("packed" if is_taken else "aten")
    for record in records(tmp_path / "study").values():
        assert record["observations"]["product_timings"] == timings


def spoil(record: dict, **changes) -> str:
    return json.dumps({**record, **changes})


def test_spoilt_records_are_made_again(study, ladder, tmp_path) -> None:
    folder = tmp_path / "study"
    shutil.copytree(study[0], folder)
    good = records(folder)
    ids = run_ids(folder)
    timing = good[ids[5]]["timing"]
    other_repeat = next(run for run in ids if run != ids[2] and run.partition("-")[2] == ids[2].partition("-")[2])
    for run, content in zip(ids, [
        json.dumps(good[ids[0]])[:-50],
        "",
        json.dumps(good[other_repeat]),
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
    assert done.returncode in MEASURED, done.stderr
    assert_goes_on(done.stderr, len(ids), 8)
    assert_complete(folder)
    spoilt = {f"{run}.json" for run in ids[:8]}
    assert_kept({name: status for name, status in before.items() if name not in spoilt and not is_first_of_two(name)}, folder)
    assert all(before.get(name) != status for name, status in snapshot(folder / "records").items() if name in spoilt)
    assert losses(folder) == losses(study[0])


def test_a_study_goes_on_with_the_same_kernels_only(study, ladder, environment, monkeypatch, tmp_path) -> None:
    folder = tmp_path / "study"
    shutil.copytree(study[0], folder)
    (folder / "records" / f"{run_ids(folder)[3]}.json").unlink()
    with monkeypatch.context() as patch:
        patch.setitem(environment, "ATEN_CPU_CAPABILITY", "default")
        done = ladder("ablate", "--resume", "--out", folder)
    assert done.returncode == 3 and "other circumstances" in done.stderr, done.stderr
    assert re.search(r"kernel_switches: .* against ATEN_CPU_CAPABILITY=default", done.stderr), done.stderr
    assert f"{run_ids(folder)[3]}.json" not in os.listdir(folder / "records")
    assert all(record["since_boot"]["seconds"] > 0 for record in records(folder).values())


def test_a_quick_look_goes_on_as_the_whole_ladder(ladder, tmp_path) -> None:
    folder = tmp_path / "study"
    document = ladder_document(rungs=["flash", "fused_adamw"], plan={"repeats": 2, "warmup_steps": 1, "timed_steps": 3})
    done = ladder("ablate", "--ladder", write_json(tmp_path / "small.json", document), "--quick", "--force", "--threads", "1", "--order-seed",
                  "3", "--out", folder, variables=DRAWN)
    assert done.returncode in MEASURED, done.stderr
    assert_complete(folder)
    quick, plan = read_json(folder / "study.json"), read_json(folder / "plan.json")
    assert quick["quick"] is True and plan["quick"] == {"repeats": 8, "left_out": [1]} and len(run_ids(folder)) == 8
    assert [rung["status"] for rung in quick["rungs"]] == ["measured", "not_measured", "measured"]
    assert "attention" in quick["rungs"][2]["recipe_diff"], "a rung's difference is to the one that it is compared with"
    assert quick["rungs"][2]["speedup_first"]["pairs"] == 4
    said = "Not usable" if "Not usable" in done.stdout else "A quick look"
    for page in (done.stdout, *((folder / page).read_text() for page in ("report.md", "report.html"))):
        assert said in page and "Most of it" not in page, "the last rung has more than the optimization that names it"
    (command,) = re.findall(r"^ladder (ablate .*)$", (folder / "report.md").read_text(), re.M)
    assert "--quick" in command and "--repeats" not in command
    made = snapshot(folder / "records")
    refused = ladder("ablate", "--quick", "--resume", "--json", "--out", folder)
    assert refused.returncode in MEASURED and snapshot(folder / "records") == made, "there is nothing left to do of a quick look"

    done = ladder("ablate", "--resume", "--budget-s", "1", "--out", folder)
    assert done.returncode in MEASURED, done.stderr
    assert_goes_on(done.stderr, 20, 12)
    assert "quick" not in read_json(folder / "study.json") and "quick" not in read_json(folder / "plan.json")
    assert "quick look" not in done.stdout and ladder("verify", folder).returncode == 0
    assert_kept(made, folder)
    assert "is of the whole ladder" in ladder("ablate", "--quick", "--resume", "--budget-s", "1", "--out", folder).stderr


def test_what_is_expected_to_be_stopped_is_not_begun(ladder, tmp_path) -> None:
    """That --force begins it, test_runner.py shows."""
    document = ladder_document(rungs=[], plan={"repeats": 1, "warmup_steps": 0, "timed_steps": 100000})
    asked = ["ablate", "--ladder", write_json(tmp_path / "long.json", document), "--limit-s", "1", "--out", tmp_path / "study"]
    refused = ladder(*asked)
    assert refused.returncode == 3 and "--limit-s stops it after 1 s" in refused.stderr and not (tmp_path / "study").exists()
    assert "fewer --steps, a smaller --batch, --context or --model take less; --force starts anyway" in refused.stderr


def test_one_folder_holds_one_study(study, ladder) -> None:
    folder, _ = study
    before = snapshot(folder)
    done = ladder("ablate", "--ladder", "tiny", "--out", folder)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "holds a study already; --resume" in done.stderr
    assert snapshot(folder) == before


def test_the_report_says_when_it_cannot_be_drawn(study, ladder, environment, monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(environment, "LADDER_PYTHON", "/nowhere/python")
    done = ladder("report", study[0], "--out", tmp_path / "drawn")
    assert done.returncode != 0 and "LADDER_PYTHON" in done.stderr and "could not be started" in done.stderr
    assert "ms/step" in done.stdout  # the table is there all the same


def test_a_study_counts_though_its_report_cannot_be_drawn(ladder, environment, monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(environment, "LADDER_PYTHON", "/nowhere/python")
    one_rung = write_json(tmp_path / "one.json", ladder_document(rungs=[]))
    done = ladder("ablate", "--ladder", one_rung, "--repeats", "1", "--threads", "1", "--out", tmp_path / "study")
    assert done.returncode in MEASURED
    assert done.stderr.endswith(f"ladder report {tmp_path / 'study'}\n") and "the report was not drawn" in done.stderr
    assert_complete(tmp_path / "study")
