"""`ladder export`: what it puts into wandb, trackio, mlflow and tensorboard is what report.json has, read back from what each library
stored. A library that is not installed is skipped; requirements-test.txt has tensorboardX, the smallest.

Each stays without a network: wandb writes offline runs, the others into files.
"""

import contextlib
import csv
import importlib
import importlib.util
import io
import json
import math
import os
import pathlib
import struct
import sys
from typing import Any, NamedTuple

import pytest
from conftest import EVIDENCE, MEASURED, ROOT, read_json, snapshot, write_json
from gates import script

KEPT = [ROOT / "results" / "evidence" / name for name in (
    "intel-xeon-measure-numpy-2026-11-27", "nvidia-h200-ladder-2026-11-26", "amd-epyc-avx512-two-pytorch-2026-11-29")]
MODULES = {"wandb": "wandb", "trackio": "trackio", "mlflow": "mlflow", "tensorboard": "tensorboardX"}
WORDS = ("status", "reason", "verdict", "guard", "disturbed")
SINGLE = 1.2e-7  # TensorBoard keeps float32
PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 700, 400, 8, 6, 0, 0, 0)


class Stored(NamedTuple):
    """A run, as its library reads it back."""
    config: dict[str, Any]
    words: dict[str, str]
    figures: dict[str, float]
    steps: dict[str, dict[int, float]]
    state: str = ""


@pytest.fixture
def export(ladder, tmp_path):
    def run(study, place, *more, **variables):
        offline = {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_CACHE_DIR": str(tmp_path / "cache"),
                   "WANDB_ERROR_REPORTING": "false", "TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1",
                   "MLFLOW_TRACKING_URI": f"file:{tmp_path / 'mlruns'}", "MLFLOW_ALLOW_FILE_STORE": "true",
                   "MLFLOW_DISABLE_TELEMETRY": "true"}
        return ladder("export", study, "--to", place, *more, cwd=tmp_path, variables=offline | variables)

    return run


@pytest.fixture
def report(ladder, tmp_path):
    """report.json of a kept study."""
    def make(study) -> dict:
        done = ladder("report", study, "--out", tmp_path / "drawn" / study.name)
        assert done.returncode in MEASURED, done.stderr
        return read_json(tmp_path / "drawn" / study.name / "report.json")

    return make


def needs(place: str) -> None:
    if importlib.util.find_spec(MODULES[place]) is None:
        pytest.skip(f"{MODULES[place]} is not installed")


# ---- what each library stored: {name of the run: Stored}, and the table of the whole as rows

def blocks_of(file: pathlib.Path) -> list[bytes]:
    """The records of a .wandb file: LevelDB's log format, in blocks of 32 KiB, after a header of 7 bytes."""
    content, at, records = file.read_bytes(), 7, []
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", content, at)
        part = content[at + 7:at + 7 + length]
        if kind in (1, 2):  # a whole record, or its first part
            records.append(part)
        elif kind in (3, 4):
            records[-1] += part
        at += 7 + length
    return records


def in_wandb(folder: pathlib.Path, _project: str):
    from wandb.proto import wandb_internal_pb2 as protos

    def values(items) -> dict[str, Any]:
        return {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}

    found, rows = {}, []
    for file in (folder / "wandb").glob("offline-run-*/*.wandb"):
        name, config, summary, steps, state = "", {}, {}, {}, None
        for content in blocks_of(file):
            record = protos.Record.FromString(content)
            which = record.WhichOneof("record_type")
            if which == "run":
                name, config = record.run.display_name, values(record.run.config.update)
                assert "whole" in record.run.tags or config["status"] in record.run.tags
            elif which == "summary":
                summary |= values(record.summary.update)
            elif which == "history":
                row = values(record.history.item)
                for key, value in row.items():
                    if key.startswith(("step_ms/", "loss/", "void/", "not usable/", "base_", "head_")):
                        steps.setdefault(key, {})[row["_step"]] = float(value)
            elif which == "exit":
                state = "FINISHED" if record.exit.exit_code == 0 else "FAILED"
        words = {key: value for key, value in summary.items() if isinstance(value, str)}
        figures = {key: value for key, value in summary.items() if isinstance(value, (int, float)) and not key.startswith("_")}
        found[name] = Stored(config, words, figures, steps, state)
        for table in file.parent.glob("files/media/table/rungs*.json"):
            content = read_json(table)
            rows = [dict(zip(content["columns"], row, strict=True)) for row in content["data"]]
    return found, rows


def in_trackio(folder: pathlib.Path, project: str):
    import sqlite3

    found, rows = {}, []
    with contextlib.closing(sqlite3.connect(folder / "trackio" / f"{project}.db")) as base:
        configs = {name: json.loads(config) for name, config in base.execute("SELECT run_name, config FROM configs")}
        for name, config in configs.items():
            figures, steps = {}, {}
            for step, logged in base.execute("SELECT step, metrics FROM metrics WHERE run_name = ? ORDER BY id", (name,)):
                for key, value in json.loads(logged).items():
                    if isinstance(value, dict):
                        rows = value["_value"] if key == "rungs" else rows
                    elif "/" in key:
                        steps.setdefault(key, {})[step] = float(value)
                    else:
                        figures[key] = value
            words = {key: value for key, value in config.items() if key in WORDS}
            found[name] = Stored(config, words, figures, steps)
    return found, rows


def in_mlflow(folder: pathlib.Path, project: str):
    import mlflow

    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    client = mlflow.MlflowClient(f"file:{folder / 'mlruns'}")
    runs = client.search_runs([client.get_experiment_by_name(project).experiment_id])
    parent, = (run for run in runs if "mlflow.parentRunId" not in run.data.tags)
    found = {parent.info.run_name: Stored({}, {}, {}, {}, parent.info.status)}
    for run in runs:
        if run is parent:
            continue
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        of = run.info.run_id
        steps = {name: {one.step: one.value for one in client.get_metric_history(of, name)} for name in run.data.metrics if "/" in name}
        figures = {name: value for name, value in run.data.metrics.items() if "/" not in name}
        words = {name: value for name, value in run.data.tags.items() if not name.startswith("mlflow.")}
        found[run.info.run_name] = Stored(run.data.params, words, figures, steps, run.info.status)
    artifacts = pathlib.Path(parent.info.artifact_uri.removeprefix("file:").removeprefix("//"))
    return found, list(csv.DictReader(io.StringIO((artifacts / "rungs.csv").read_text())))


def events(folder: pathlib.Path):
    """The values of a folder's event file, which has TensorFlow's records: length, its check, bytes, their check."""
    from tensorboardX.proto.event_pb2 import Event

    file, = folder.glob("events.*")
    content, at = file.read_bytes(), 0
    while at < len(content):
        length, = struct.unpack_from("<Q", content, at)
        event = Event.FromString(content[at + 12:at + 12 + length])
        for value in event.summary.value:
            yield event.step, value
        at += length + 16


def in_tensorboard(folder: pathlib.Path, project: str):
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

    found, rows = {}, []
    for place in [folder / "runs" / project, *(folder / "runs" / project).glob("*/")]:
        config, figures, steps = {}, {}, {}
        for step, value in events(place):
            if value.tag.startswith("_hparams_"):
                start = HParamsPluginData.FromString(value.metadata.plugin_data.content).session_start_info.hparams
                config |= {name: getattr(of, of.WhichOneof("kind")) for name, of in start.items()}
            if value.WhichOneof("value") == "simple_value" and "/" in value.tag:
                steps.setdefault(value.tag, {})[step] = value.simple_value
            elif value.WhichOneof("value") == "simple_value":
                figures[value.tag] = value.simple_value
            elif value.tag.startswith("rungs"):
                heads, _, *lines = [line[1:-1].split("|") for line in value.tensor.string_val[0].decode().splitlines()]
                rows = [dict(zip(heads, line, strict=True)) for line in lines]
        words = {key: value for key, value in config.items() if key in WORDS}
        found[place.name] = Stored(config, words, figures, steps)
    return found, rows


READERS = {"wandb": in_wandb, "trackio": in_trackio, "mlflow": in_mlflow, "tensorboard": in_tensorboard}


def stored_in(place: str, folder: pathlib.Path, project: str):
    """Names of folders are not names of runs, so the numbers in front tell runs. The run of the whole has none."""
    found, rows = READERS[place](folder, project)
    return {name[:2]: run for name, run in found.items() if name[:2].isdigit()}, rows


def measured_figures(rung: dict) -> dict[str, float]:
    """Of the document itself, by the names of rungs.csv."""
    parts = {name: rung[name] or {} for name in ("ms_per_step", "tokens_per_s", "speedup_first", "speedup_previous")}
    parts |= {f"speedup_over_{peer['peer']}": {name: peer[name] for name in ("ratio", "lo", "hi")} for peer in rung.get("peers", [])}
    figures = {f"{name}_{leaf}": value for name, part in parts.items() for leaf, value in part.items() if value is not None}
    return figures | {"peak_memory_bytes": rung["peak_memory_bytes"]}


@pytest.mark.parametrize("place", MODULES)
@pytest.mark.parametrize("study", KEPT, ids=lambda study: study.name)
def test_what_is_stored_is_what_was_measured(export, report, tmp_path, place, study) -> None:
    needs(place)
    before = snapshot(study)
    done = export(study, place)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1 and f"exported to {place}, project {study.name}: " in done.stdout
    assert snapshot(study) == before
    part, = report(study)["studies"]
    rungs = [rung for rung in part["study"]["rungs"] if rung["status"] not in ("not_measured", "not_applicable")]
    found, rows = stored_in(place, tmp_path, study.name)
    assert list(found) != [] and sorted(found) == [f"{rung['index']:02}" for rung in rungs]
    exact = {"rel": SINGLE if place == "tensorboard" else 0, "abs": 0}
    for rung, row in zip(rungs, rows, strict=True):
        run = found[f"{rung['index']:02}"]
        expected = measured_figures(rung)
        assert {name: run.figures[name] for name in expected} == pytest.approx(expected, **exact)
        assert {name: float(row[name]) for name in expected} == pytest.approx(expected, rel=0, abs=0)
        runs = [one for one in part["runs"] if one["rung"] == rung["index"]]
        assert len(run.steps) == 2 * len(runs)
        for one in runs:
            for what, values in (("step_ms", one["step_ms"]), ("loss", one["loss"])):
                assert run.steps[f"{what}/repeat_{one['repeat'] + 1}"] == pytest.approx(dict(enumerate(values, 1)), **exact)
        assert run.words["status"] == row["status"] == "measured"
        assert run.words.get("guard", "") == part["said"]["rungs"][rung["index"]]["guard"]
        ratio = rung["speedup_first"]
        assert run.words.get("verdict") == (None if not ratio or ratio["ratio"] == 1 else "faster" if ratio["lo"] > 1 else "slower")
        assert run.state in ("", "FINISHED")
        assert run.config["device.name"] == part["study"]["device"]["name"]
        assert str(run.config["plan.warmup_steps"]).removesuffix(".0") == str(part["study"]["plan"]["warmup_steps"])
        if "command" in rung:
            assert run.config["command"] == rung["command"]["text"]
        elif "peer" not in rung:
            assert run.config["recipe.attention"] == rung["recipe"]["attention"] and run.config["environment.torch"] == "2.11.0"


@pytest.mark.parametrize("place", MODULES)
def test_what_does_not_count_is_no_plain_number(export, report, tmp_path, place) -> None:
    needs(place)
    document = report(EVIDENCE)
    part, = document["studies"]
    part["losses"], rungs = [], part["study"]["rungs"]
    none = dict.fromkeys(("ms_per_step", "tokens_per_s", "speedup_first", "speedup_previous", "peak_memory_bytes", "page_faults_per_step",
                          "guard"))
    rungs[2] |= {"status": "void", "reason": "losses leave the reference's"}
    rungs[3] |= none | {"runs_ok": 0, "proofs": [], "status": "failed", "reason": "run r1: killed by signal 9"}
    part["runs"] = [run for run in part["runs"] if run["rung"] != 3]
    part["runs"][0]["loss"][0] = None  # not finite
    diverged = part["runs"][0]
    done = export(write_json(tmp_path / "report.json", document), place, "--project", "odd")
    assert done.returncode == 0, done.stderr
    found, rows = stored_in(place, tmp_path, "odd")
    assert {name: run.words["status"] for name, run in found.items() if run.words["status"] != "measured"} == {"02": "void", "03": "failed"}
    assert "losses leave the reference's" in found["02"].words["reason"] and "killed by signal 9" in found["03"].words["reason"]
    assert found["02"].figures == found["03"].figures == found["03"].steps == {}
    assert found["02"].steps and all(name.startswith("void/") for name in found["02"].steps)
    assert {found["02"].state, found["03"].state} <= {"", "FAILED"} and found["01"].state in ("", "FINISHED")
    assert not [value for row in rows[2:4] for name, value in row.items() if value and name not in {"run", *WORDS} - {"verdict"}]
    assert math.isnan(found[f"{diverged['rung']:02}"].steps[f"loss/repeat_{diverged['repeat'] + 1}"][1])


@pytest.mark.parametrize("place", MODULES)
def test_a_study_that_is_not_usable_has_no_figure(export, tmp_path, place) -> None:
    needs(place)
    study = ROOT / "results" / "evidence" / "nvidia-h200-pytorch-b16-2026-11-26"  # two pairs
    done = export(study, place, "--project", "few")
    assert done.returncode == 0, done.stderr
    found, rows = stored_in(place, tmp_path, "few")
    assert len(found) == len(rows) == 4
    for run in found.values():
        assert run.figures == {} and "verdict" not in run.words
        assert run.words["status"] == "not usable" and "Not usable" in run.words["reason"]
        assert run.steps and all(name.startswith(("not usable/", "not_usable/")) for name in run.steps)  # as TensorBoard spells it


@pytest.mark.parametrize("place", MODULES)
def test_a_gate(ladder, export, tmp_path, place) -> None:
    needs(place)
    compared = json.loads(ladder("compare", "--json", KEPT[1], KEPT[1]).stdout)
    entries = compared["entries"] = compared["entries"][:3]
    entries[2]["unusable"] = "half of the runs were disturbed"
    lists = dict.fromkeys(("reasons", "warnings", "noise", "calibration", "saved", "added_to"), [])
    said = {"title": "a machine", "headline": "The same", "lines": [], "remarks": [], "command": ""}
    (tmp_path / "verdict").mkdir()
    write_json(tmp_path / "verdict" / "gate.json", {
        "kind": "gate", "schema_version": 1, "created": "2026-01-02T03:04:05Z", "subject": "", "verdict": "SAME", "exit_status": 0,
        "against": "program", "pairs": 4, "topped_up": False, "min_effect": 0.02, "said": said, **lists, "noise": [None] * 3,
        "comparison": compared})
    done = export(tmp_path / "verdict", place)
    assert done.returncode == 0, done.stderr
    found, rows = stored_in(place, tmp_path, "verdict")
    for (_, run), entry, row in list(zip(sorted(found.items()), entries, rows, strict=True))[:2]:
        assert run.figures["head_ms"] == pytest.approx(entry["head_ms"], rel=SINGLE) and float(row["ratio"]) == entry["ratio"] == 1
        assert run.words["verdict"] == row["verdict"] == entry["verdict"] == "SAME"
    assert found["02"].figures == {} and found["02"].words["status"] == "not usable" and "disturbed" in found["02"].words["reason"]


def test_charts_go_along_but_no_links(export, report, tmp_path) -> None:
    needs("tensorboard")
    document = report(KEPT[0])
    document["studies"][0]["source"] = "../elsewhere"  # a place is called as the folder, whatever the document says
    folder, secret = tmp_path / "drawn" / KEPT[0].name, tmp_path / "secret.png"
    write_json(folder / "report.json", document)
    secret.write_bytes(b"secret")
    (folder / "charts").mkdir()
    (folder / "charts" / "ladder.png").write_bytes(PNG)
    (folder / "charts" / "steps.png").symlink_to(secret)
    done = export(folder / "report.json", "tensorboard")
    assert done.returncode == 0, done.stderr
    stored = [value for _, value in events(tmp_path / "runs" / KEPT[0].name) if value.WhichOneof("value") == "image"]
    images = {value.tag: (value.image.width, value.image.height, value.image.encoded_image_string) for value in stored}
    assert images == {"charts/ladder": (700, 400, PNG)}
    # TensorBoard would mix a second export with the first.
    again = export(folder / "report.json", "tensorboard")
    assert again.returncode == 2 and "must be empty" in again.stderr and again.stderr.count("\n") == 1, again.stderr
    assert export(folder / "report.json", "tensorboard", "--out", "other").returncode == 0 and (tmp_path / "other").is_dir()


def test_a_library_that_is_missing(export, tmp_path) -> None:
    bare = script(tmp_path / "bare", f'exec {sys.executable} -S -E "$@"\n')
    for place, package in {"wandb": "wandb", "trackio": "trackio", "mlflow": "mlflow", "tensorboard": "tensorboardX"}.items():
        done = export(KEPT[0], place, LADDER_PYTHON=str(bare))
        assert done.returncode == 3 and done.stdout == "", done.stderr
        assert done.stderr == (f"ladder: {package} is not installed in {sys.executable}; type: {sys.executable} -m pip install {package}; "
                               "LADDER_PYTHON names another Python\n")


@pytest.mark.parametrize(("place", "more", "variables", "words"), [
    ("wandb", ["--project", "a/b"], {}, "Invalid project name"),
    ("trackio", [], {"TRACKIO_DIR": "file/trackio"}, "Not a directory"),
    ("mlflow", [], {"MLFLOW_TRACKING_URI": "nowhere://"}, "nowhere"),
    ("tensorboard", ["--out", "file/runs"], {}, "NotADirectoryError: ")])
def test_a_library_that_fails(export, tmp_path, place, more, variables, words) -> None:
    needs(place)
    (tmp_path / "file").touch()
    done = export(KEPT[0], place, *more, **variables)
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(f"ladder: {place}: ") and words in done.stderr


def test_refusals(export, tmp_path, report) -> None:
    two = report(KEPT[0])
    two["studies"] *= 2
    for study, place, more, words in (
            (KEPT[0], "neptune", [], "--to must be one of wandb, trackio, mlflow, tensorboard, got"),
            (KEPT[0], "wandb", ["--out", "x"], "--out is for --to tensorboard, got --to wandb"),
            (KEPT[0], "mlflow", ["--offline"], "--offline is for --to wandb, got --to mlflow"),
            (tmp_path / "drawn", "wandb", [], "holds no study"),
            (write_json(tmp_path / "two.json", two), "wandb", [], "is of two studies; export each by its folder")):
        done = export(study, place, *more)
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, done.stderr
    done = export(KEPT[0], "wandb", LADDER_PYTHON="/no/python")
    assert done.returncode == 1 and "/no/python" in done.stderr and "LADDER_PYTHON" in done.stderr
