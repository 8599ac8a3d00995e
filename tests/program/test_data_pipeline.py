"""The ladder of batches, from text that is tokenized in the step to a thread that makes them ahead: the same losses to the bit in
every way, and what each was seen to read, of windows at random places. Of times it is only asked that they are there."""

import json
import pathlib
import re

import pytest
from conftest import MEASURED, DRAWN, ROOT, assert_complete, ladder_document, read_json, records, validator, write_json

SEQUENCES, CONTEXT, WARMUP, STEPS = 6, 16, 3, 5  # with fewer the median step still faults memory in
SMALL = ["-B", SEQUENCES, "-T", CONTEXT, "--warmup", WARMUP, "--steps", STEPS, "--threads", "1"]
WAYS = {"start": "tokenized", "token_file": "read", "mapped_file": "mapped", "preloaded": "preloaded", "gather": "gather",
        "prefetch": "prefetched"}


@pytest.fixture(scope="module", name="pipeline")
def fixture_pipeline(ladder, tmp_path_factory):
    """The ladder, once through, with an empty page cache: its folder and the finished process."""
    folder = tmp_path_factory.mktemp("pipeline") / "study"
    done = ladder("ablate", "--no-look", "--ladder", "data-pipeline-cpu", *SMALL, "--repeats", "1", "--order-seed", "1", "--cold-cache",
                  "--random-windows", "--out", folder, variables=DRAWN)
    assert done.returncode in MEASURED, done.stdout + done.stderr
    return folder, done


@pytest.fixture(scope="module", name="by_way")
def fixture_by_way(pipeline):
    """{"read": record, ...}"""
    return {record["recipe"]["batches"]: record for record in records(pipeline[0]).values()}


def test_every_way_is_proven_and_trains_on_the_same_batches(pipeline, by_way) -> None:
    assert_complete(pipeline[0])
    assert set(by_way) == set(WAYS.values())
    for way, record in by_way.items():
        assert not list(validator("record").iter_errors(record))
        assert record["timing"]["loss"] == by_way["gather"]["timing"]["loss"], way  # to the bit
        assert record["workload"]["random_windows"] is True
        assert all(proof["passed"] for proof in record["proofs"]), record["proofs"]
    study = read_json(pipeline[0] / "study.json")
    assert [rung["optimization"] or "start" for rung in study["rungs"]] == list(WAYS)
    assert [rung["recipe"]["batches"] for rung in study["rungs"]] == list(WAYS.values())
    assert {rung["status"] for rung in study["rungs"]} == {"measured"}


def test_each_step_has_the_time_of_its_batch(by_way) -> None:
    for way, record in by_way.items():
        timing = record["timing"]
        assert len(timing["data_ms"]) == len(timing["step_ms"]) == WARMUP + STEPS, way
        assert all(0 < data <= step for data, step in zip(timing["data_ms"], timing["step_ms"])), timing


def test_what_is_read_is_counted(by_way) -> None:
    data = {way: record["data"] for way, record in by_way.items()}
    assert {way for way, of in data.items() if of["file"].endswith(".txt")} == {"tokenized"}
    if data["read"]["bytes_read"] is None:
        pytest.skip("this kernel does not count what a process reads")
    in_the_window = 2 * (CONTEXT + 1) * SEQUENCES * STEPS  # bytes of the timed steps
    assert data["read"]["bytes_read"] >= in_the_window and data["read"]["reads"] >= SEQUENCES * STEPS, data["read"]
    assert data["tokenized"]["bytes_read"] > 0 and data["tokenized"]["reads"] > 0
    for way in ("mapped", "preloaded", "gather", "prefetched"):
        assert data[way]["bytes_read"] < data["read"]["bytes_read"], (way, data[way])
    seen = {way: record["observations"]["batches"] for way, record in by_way.items()}
    assert {way for way, of in seen.items() if of["tokenized"]} == {"tokenized"}
    assert {way for way, of in seen.items() if of["mapping"]} == {"mapped"}
    assert {way for way, of in seen.items() if of["by_a_thread"]} == {"prefetched"}
    assert seen["read"]["bytes_read"] == 2 * (CONTEXT + 1) * SEQUENCES


def test_a_cold_cache_is_what_it_is_called_or_the_study_says_not(pipeline, by_way) -> None:
    study = read_json(pipeline[0] / "study.json")
    told = [text for text in study["warnings"] if "page cache" in text]
    before = [(record["data"]["cached_before"], record["data"]["file_bytes"]) for record in by_way.values()]
    assert all(record["data"]["cold"] for record in by_way.values())
    doubtful = [cached for cached, size in before if cached is None or 2 * cached > size]
    assert bool(told) == bool(doubtful), (told, before)
    again = (pipeline[0] / "report.md").read_text().split("<summary>Reproduce")[1]
    assert "--cold-cache" in again and "--random-windows" in again


def test_study_table_pages_and_exports_show_what_batches_cost(ladder, pipeline) -> None:
    folder, done = pipeline
    study = read_json(folder / "study.json")
    for rung in study["rungs"]:
        assert 0 < rung["batches"]["share"] <= 1 and rung["batches"]["ms"]["median"] > 0, rung["batches"]
    assert re.search(r"^a step's batch +ms +of step +read +disk +faults +held +cached$", done.stdout, re.M), done.stdout
    assert all(len(line) <= 80 for line in done.stdout.partition("Open ")[0].splitlines()), done.stdout
    assert "What a batch costs" in (folder / "report.md").read_text() and "What a batch costs" in (folder / "report.html").read_text()
    header, *rows = (folder / "rungs.csv").read_text().splitlines()
    assert "batches_ms_median" in header.split(",") and len(rows) == len(WAYS)
    assert "data_ms" in (folder / "steps.csv").read_text().splitlines()[0].split(",")
    verified = ladder("verify", folder)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_large_text_is_made_of_copies_and_kept(ladder, environment, tmp_path) -> None:
    text = tmp_path / "play.txt"
    text.write_text("Enter two murderers.\nFirst Murderer: My lord, we are ready.\n" * 100)
    run = ["run", "--ladder", "data-pipeline-cpu", "--rung", "mapped_file", *SMALL, "--data", text, "--repeat-to", "100kB",
           "--out", tmp_path / "record.json"]
    assert ladder(*run).returncode == 0
    (copies,) = (pathlib.Path(environment["XDG_CACHE_HOME"]) / "gpt2-ladder" / "texts").glob("play-*")
    assert copies.stat().st_size >= 100_000 and copies.stat().st_size % text.stat().st_size == 0
    made, tokens = copies.stat().st_mtime_ns, read_json(tmp_path / "record.json")["workload"]["data"]["tokens"]
    assert ladder(*run[:-2], "--json").returncode == 0 and copies.stat().st_mtime_ns == made
    done = ladder("tokenize", "--data", copies, "--out", tmp_path / "copies.bin")
    said = re.fullmatch(r".*copies\.bin: (\d+) tokens in ([\d,]+) bytes, from ([\d,]+) bytes of text \(0\.\d\d of its size\)\n", done.stdout)
    assert int(said[1]) == tokens and int(said[2].replace(",", "")) == 2 * tokens, done.stdout
    assert int(said[3].replace(",", "")) == copies.stat().st_size


def test_a_study_says_how_its_text_was_made(ladder, small, tmp_path) -> None:
    text, out = tmp_path / "play.txt", tmp_path / "study"
    text.write_text("Enter two murderers.\nFirst Murderer: My lord, we are ready.\n" * 100)
    done = ladder("ablate", "--no-look", "--ladder", small, "--repeats", 1, "--threads", 1, "--data", text, "--repeat-to", "100kB", "--cold-cache", "--out", out)
    assert done.returncode in MEASURED, done.stderr
    plan = read_json(out / "study.json")["plan"]
    assert plan["cold_cache"] is True and plan["repeated"] == {"source": "play.txt", "bytes": 100_000}
    assert " --data play.txt --repeat-to 100000 --cold-cache " in read_json(out / "report.json")["studies"][0]["said"]["command"]
    assert ladder("verify", out).returncode == 0


def test_a_token_file_cannot_be_tokenized_in_the_step(ladder, tmp_path) -> None:
    text, tokens = tmp_path / "play.txt", tmp_path / "play.bin"
    text.write_text("Exeunt all but Hamlet. " * 100)
    assert ladder("tokenize", "--data", text, "--out", tokens).returncode == 0
    done = ladder("run", "--recipe", '{"batches": "tokenized"}', "--model", "tiny", *SMALL, "--data", tokens)
    assert done.returncode == 2
    assert done.stderr == "ladder: recipe: batches tokenized needs a text, and play.bin is a token file; --data names a text\n"
    done = ladder("run", "--model", "tiny", *SMALL, "--data", tokens, "--repeat-to", "1MB")
    assert done.returncode == 2 and "--repeat-to: needs a text" in done.stderr and done.stderr.count("\n") == 1
    # A ladder goes on without the rung.
    own = write_json(tmp_path / "own.json", ladder_document(start={"batches": "tokenized"}, rungs=["token_file"]))
    done = ladder("ablate", "--no-look", "--ladder", own, *SMALL, "--repeats", "1", "--data", tokens, "--out", tmp_path / "study", "--json")
    assert done.returncode in MEASURED, done.stderr
    start, token_file = json.loads(done.stdout)["rungs"]
    assert (start["status"], token_file["status"]) == ("not_applicable", "measured")
    assert "needs a text" in start["reason"] and "batches" not in token_file  # it is alone


def test_the_ladder_of_a_gpu_names_that_of_a_cpu(ladder, tmp_path) -> None:
    done = ladder("ablate", "--no-look", "--ladder", "data-pipeline", "--limit-s", "1", "--out", tmp_path / "study")
    assert done.returncode == 3 and "this machine's ladder is data-pipeline-cpu: ladder ablate --ladder data-pipeline-cpu" in done.stderr
    assert not (tmp_path / "study").exists()
    on_gpu, on_cpu = (read_json(ROOT / "ladders" / f"{name}.json") for name in ("data-pipeline", "data-pipeline-cpu"))
    assert on_gpu["rungs"] == ["gpu", *on_cpu["rungs"]] and (on_gpu["workload"]["batch"], on_gpu["workload"]["context"]) == (64, 512)
