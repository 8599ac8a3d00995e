"""`ladder history` over stored studies: copies of a real one with planted changes."""

import copy
import hashlib
import json
import math
import os
import random
import re
import shutil
import unicodedata

import jsonschema
from conftest import DRAWN, EVIDENCE, ROOT, read_json, write_json

REAL = read_json(EVIDENCE / "study.json")
LAST = len(REAL["rungs"]) - 1


def stored(folder, day, factor=1.0, **environment):
    """The real study on another day, with a last rung that takes `factor` times as long."""
    study = copy.deepcopy(REAL)
    when = f"2026-{1 + day // 28:02}-{1 + day % 28:02}T01:00:00Z"
    study |= {"id": f"nightly-{day:03}", "created": when, "finished": when}
    study["environment"] |= {"git_commit": f"{day:03}" + "ab" * 18 + "c", **environment}
    study["rungs"] = [study["rungs"][0], study["rungs"][LAST] | {"index": 1}]
    study["runs"] = [run | {"rung": min(run["rung"], 1)} for run in study["runs"] if run["rung"] in (0, LAST)]
    study["headline"] = None
    noise = random.Random(day)
    for rung, factor_of_rung in zip(study["rungs"], (1.0, factor)):
        ms = rung["ms_per_step"]
        for name in ("median", "lo", "hi"):
            ms[name] *= factor_of_rung * math.exp(noise.gauss(0, 0.005))
        ms["lo"], ms["hi"] = min(ms["lo"], ms["median"]), max(ms["hi"], ms["median"])
    place = folder / f"night-{day:03}"
    place.mkdir(parents=True, exist_ok=True)
    return write_json(place / "study.json", study)


def narrow(text):
    return [line for line in text.split("Open ")[0].splitlines() if len(line) > 80] == []


def history(ladder, folder):
    done = ladder("history", folder, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.Draft7Validator(read_json(ROOT / "results" / "schemas" / "history.v1.json")).validate(document)
    return document


def test_a_planted_step_is_found_named_and_drawn(ladder, tmp_path) -> None:
    studies = tmp_path / "studies"
    for day in range(30):
        stored(studies, day, 1.05 if day >= 20 else 1.0)
    first, last = history(ladder, studies)["series"]
    assert (first["verdict"], last["verdict"]) == ("unchanged", "slower") and [step["at"] for step in last["steps"]] == [20]
    assert last["points"][20]["study"] == "nightly-020" and last["points"][20]["file"] == "night-020/study.json"

    done = ladder("history", studies, "--out", tmp_path / "out", variables=DRAWN)
    assert done.returncode == 0, done.stderr
    assert narrow(done.stdout) and "1 of 2 rungs is slower than at its best" in done.stdout
    words = " ".join(done.stdout.split())
    assert re.search(r"SLOWER: \+[45]\.\d % at 2026-01-21, nightly-020, commit 020ababab, after commit 019ababab", words)
    assert done.stdout.splitlines()[-1] == f"Open {tmp_path / 'out' / 'history.svg'}"
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"history.json", "history.svg", "history.png", "history.vl.json"}
    assert "slower than at its best" in (tmp_path / "out" / "history.svg").read_text()
    assert ladder("history", studies, "--fail-on-slowdown").returncode == 1


def test_a_slowdown_too_small_to_matter_does_not_fail(ladder, tmp_path) -> None:
    for day in range(30):
        stored(tmp_path, day, 1.015 if day >= 15 else 1.0)
    done = ladder("history", tmp_path, "--fail-on-slowdown")
    assert done.returncode == 0 and "No rung is known to be slower than at its best" in done.stdout
    done = ladder("history", tmp_path, "--fail-on-slowdown", "--min-effect", "1", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 1 and document["min_effect"] == 0.01 and [s["verdict"] for s in document["series"]] == ["unchanged", "slower"]


def test_a_rung_that_stops_being_measured_is_no_pass(ladder, tmp_path) -> None:
    for day in range(30):
        place = stored(tmp_path, day)
        if day >= 15:
            study = read_json(place)
            study["rungs"][-1] |= {"status": "failed", "reason": "exit 7", "ms_per_step": None}
            write_json(place, study)
    document = history(ladder, tmp_path)
    assert [s["missed"] and s["missed"]["study"] for s in document["series"]] == [None, "nightly-029"] and document["missed"] == 1
    label, recipe = (document["series"][1][name] for name in ("label", "recipe_hash"))
    assert document["notes"] == [f"{label} ({recipe}) is not known in the newest study, 2026-02-02, nightly-029: failed: exit 7"]
    done = ladder("history", tmp_path, "--fail-on-slowdown")
    assert done.returncode == 3 and "note: " + label in done.stdout and narrow(done.stdout)
    assert "slower than at its best; 1 is not known in the newest study" in " ".join(done.stdout.split())
    assert ladder("history", tmp_path).returncode == 0
    stored(tmp_path, 30)  # measured again
    assert ladder("history", tmp_path, "--fail-on-slowdown").returncode == 0


def test_one_study_has_no_history(ladder, tmp_path) -> None:
    stored(tmp_path, 0)
    done = ladder("history", tmp_path)
    assert done.returncode == 0 and done.stdout == "1 study: a history begins with two; six show a drift, ten a jump\n"


def test_shards_and_their_study_are_counted_once(ladder, tmp_path) -> None:
    hashes = {f"records/r{i}.json": f"{i:064}" for i in (1, 2)}
    for day, part in enumerate((["records/r1.json"], ["records/r2.json"], list(hashes))):  # started at three times
        file = stored(tmp_path, day)
        study = read_json(file) | {"id": "fleet", "hashes": {name: hashes[name] for name in ("plan.json", *part) if name in hashes}}
        study["plan"]["runs_ok"] = len(part)
        write_json(file, study)
    document = history(ladder, tmp_path)
    assert document["studies"] == 1 and len(document["notes"]) == 2
    assert [point["file"] for point in document["series"][0]["points"]] == ["night-002/study.json"]


def test_two_machines_that_begin_in_the_same_second_are_two(ladder, tmp_path) -> None:
    for machine in ("AMD EPYC", "Intel Xeon"):
        file = stored(tmp_path / machine, 0, cpu={"model": machine})
        study = read_json(file)
        records = [name for name in study["hashes"] if name.startswith("records/")]
        write_json(file, study | {"hashes": {name: hashlib.sha256((machine + name).encode()).hexdigest() for name in records}})
    document = history(ladder, tmp_path)
    assert document["studies"] == 2 and document["notes"] == []
    for file in tmp_path.rglob("study.json"):  # without records the rest of the environment decides
        write_json(file, read_json(file) | {"hashes": {}})
    assert history(ladder, tmp_path)["studies"] == 2
    shutil.copytree(tmp_path / "AMD EPYC", tmp_path / "copy")
    assert history(ladder, tmp_path)["studies"] == 2


def test_what_cannot_be_read_is_named_and_skipped(ladder, tmp_path) -> None:
    stored(tmp_path, 0)
    for name, content in {"cut": json.dumps(REAL)[:5000], "kind": json.dumps({"kind": "plan"}), "binary": "\0" * 9,
                          "time": json.dumps({**REAL, "finished": "yesterday"}), "future": json.dumps({**REAL, "finished": "2099-01-01T00:00:00Z"}),
                          "past": json.dumps({**REAL, "finished": "1970-01-01T00:00:00Z"})}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.json").write_text(content)
    os.mkfifo(tmp_path / "cut" / "other.json")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "study.json")  # reading it would never end
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "folder" / "study.json").mkdir(parents=True)
    done = ladder("history", tmp_path)
    assert done.returncode == 0 and narrow(done.stdout)
    skipped = [line for line in done.stderr.splitlines() if line.startswith("skipped: ")]
    assert sorted(line.split(":")[1].strip() for line in skipped) == [f"{name}/study.json" for name in
                                                                      ("binary", "cut", "future", "kind", "past", "pipe", "time")]
    assert "in the future" in done.stderr and "before this program existed" in done.stderr
    assert history(ladder, tmp_path)["studies"] == 1


def test_what_has_no_history_is_refused(ladder, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "study.json").write_text("{")
    study = read_json(stored(tmp_path / "unmeasured", 0))
    for rung in study["rungs"]:
        rung["status"] = "void"
    write_json(tmp_path / "unmeasured" / "night-000" / "study.json", study)
    for name, words in {"absent": "no such file or folder", "file": "not a folder", "broken": "none of its studies can be read",
                        "unmeasured": "no study in it has a measured rung"}.items():
        done = ladder("history", tmp_path / name, "--out", tmp_path / "out")
        assert done.returncode == 2 and done.stdout == "" and not (tmp_path / "out").exists()
        assert words in done.stderr.splitlines()[-1] and str(tmp_path / name) in done.stderr
    assert ladder("history", tmp_path, "--json", "--out", tmp_path / "out").returncode == 2


def test_a_picture_that_cannot_be_drawn_changes_no_exit_status(ladder, tmp_path) -> None:
    for day in range(20):
        stored(tmp_path / "studies", day, 1.1 if day >= 10 else 1.0)
    (tmp_path / "python").write_text("#!/bin/sh\nexit 4\n")
    (tmp_path / "python").chmod(0o755)
    done = ladder("history", tmp_path / "studies", "--fail-on-slowdown", "--out", tmp_path / "out",
                  variables={"LADDER_PYTHON": str(tmp_path / "python")})
    assert done.returncode == 1 and "the history was not drawn" in done.stderr
    assert (tmp_path / "out" / "history.json").exists()
    done = ladder("history", tmp_path / "studies", "--fail-on-slowdown", "--out", tmp_path / "python" / "out")
    assert done.returncode == 1 and "the history was not written" in done.stderr and done.stdout


def test_hostile_names_reach_neither_terminal_nor_picture(ladder, tmp_path) -> None:
    evil = "\x1b]0;owned\x07| <script>alert(1)</script> \u202e\u0085 " + "x" * 300
    for day in range(12):
        place = stored(tmp_path / "studies", day, 1.3 if day >= 6 else 1.0, git_commit="e\u20ac" * 9, torch=evil, cpu={"model": evil})
        study = read_json(place)
        study["id"] = evil + str(day)
        study["ladder"]["title"] = study["workload"]["model"] = evil
        for rung in study["rungs"]:
            rung["title"] = rung["label"] = evil
        if day == 5:
            study["environment"] |= {"git_commit": "\u20ac" * 40, "git_dirty": True}  # its first nine bytes are not UTF-8
        if day == 7:
            study["environment"] |= {"git_commit": [7], "git_dirty": 7}
        write_json(place, study)
    odd = tmp_path / "studies" / "a\x1b[31m|\udcff"
    odd.mkdir()
    (odd / "study.json").write_text("{")
    out = tmp_path / "o\x1b[31mut\u202e"
    done = ladder("history", tmp_path / "studies", "--out", out, variables=DRAWN)
    assert done.returncode == 0, done.stderr
    for text in (done.stdout, done.stderr):
        assert not [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert narrow(done.stdout) and "SLOWER" in done.stdout
    svg = (out / "history.svg").read_text()
    assert "<script" not in svg and "\x1b" not in svg and "\u202e" not in svg
    jsonschema.Draft7Validator(read_json(ROOT / "results" / "schemas" / "history.v1.json")).validate(
        read_json(out / "history.json"))
