"""`ladder profile` as a command: the summary follows its schema and adds up, Perfetto can read the timeline, and the difference of two
rungs names what changed."""

import collections
import json
import pathlib
import re

import jsonschema
import pytest
from conftest import MEASURED, DRAWN, ROOT, assert_perfetto_reads, ladder_document, read_json, snapshot, write_json


@pytest.fixture(scope="module", name="flags")
def fixture_flags(tmp_path_factory) -> list[str]:
    """Flags for a trace of few short steps, of a ladder that every machine can run."""
    document = ladder_document(rungs=["memory", "flash"], workload={"model": "tiny", "batch": 2, "context": 32})
    small = write_json(tmp_path_factory.mktemp("ladder") / "small.json", document)
    return ["--ladder", str(small), "--steps", "2", "--warmup", "1", "--threads", "1"]


@pytest.fixture(scope="module", name="traced")
def fixture_traced(ladder, flags, tmp_path_factory):
    """{rung: (summary document, timeline)}, each traced once."""
    folder = tmp_path_factory.mktemp("traces")
    result = {}
    for rung in ("memory", "flash"):
        done = ladder("profile", "--trace", "--rung", rung, *flags, "--out", folder)
        assert done.returncode == 0, done.stderr
        assert "ui.perfetto.dev" in done.stdout and max(map(len, done.stdout.splitlines()[:-3])) <= 80
        shares = re.findall(r"^(?:data|forward|backward|clip|update) +[\d,]+ +[\d.,]+ +([\d.]+)$", done.stdout.split("\npart")[0], re.M)
        assert len(shares) == 5 and 50 < sum(map(float, shares)) < 100.3, "of the traced step"
        result[rung] = (read_json(folder / f"{rung}.trace.json"), read_json(folder / f"{rung}.timeline.json"))
    result["folder"] = folder
    return result


def test_the_summary_follows_its_schema_and_adds_up(traced) -> None:
    document = traced["flash"][0]
    schema = read_json(ROOT / "results" / "schemas" / "trace.v1.json")
    jsonschema.validate(document, schema)
    summary = document["summary"]
    assert {row["phase"] for row in summary["by_phase"]} == {"data", "forward", "backward", "clip", "update"}
    for rows in ("by_phase", "by_part", "by_name"):
        assert sum(row["count"] for row in summary[rows]) == pytest.approx(summary["operations"])
    total = sum(row["ms"] for row in summary["by_phase"])
    assert sum(row["ms"] for row in summary["by_part"]) == pytest.approx(total)
    assert summary["busy_ms"] == pytest.approx(total)  # one thread: nothing overlaps
    assert summary["busy_ms"] <= summary["traced_wall_ms"]
    assert summary["unlabelled_ms"] == 0
    assert document["device"]["kind"] == "cpu" and summary["launch_bound_percent"] is None


def test_every_part_of_the_model_is_there_forward_and_backward(traced) -> None:
    parts = collections.defaultdict(dict)
    for row in traced["flash"][0]["summary"]["by_part"]:
        parts[row["phase"]][row["part"]] = row["count"]
    model = {"embed", "ln_1", "c_attn", "attention", "attn_proj", "residual", "ln_2", "c_fc", "gelu", "mlp_proj", "ln_f",
             "head", "cross_entropy"}
    assert model <= parts["forward"].keys()
    assert model - {"residual"} <= parts["backward"].keys()  # the gradient of a sum needs no computation
    assert "accumulate_grad" in parts["backward"]
    assert {row["layer"] for row in traced["flash"][0]["summary"]["by_layer"]} == {0, 1}


def test_the_timeline_is_what_perfetto_reads(traced) -> None:
    summary, timeline = traced["flash"][0]["summary"], traced["flash"][1]
    assert 0.1 < assert_perfetto_reads(timeline) / (1e3 * summary["steps"] * summary["traced_wall_ms"]) < 10  # microseconds


def test_a_difference_of_two_files(ladder, traced) -> None:
    files = [traced["folder"] / f"{rung}.trace.json" for rung in ("memory", "flash")]
    done = ladder("profile", "--diff", *files, "--json")
    assert done.returncode in MEASURED, done.stderr
    explanation = json.loads(done.stdout)
    changes = {name["name"]: name["change"] for name in explanation["names"]}
    assert changes["aten::scaled_dot_product_attention"] == "came"
    assert changes["aten::masked_fill"] == changes["aten::softmax"] == "went"
    assert done.returncode == 3 or "operations became" in explanation["words"]
    text = ladder("profile", "--diff", *files).stdout
    assert done.returncode == 3 or "operations became" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


def test_a_rung_against_the_one_before_it(ladder, flags, tmp_path) -> None:
    done = ladder("profile", "--diff", "flash", *flags, "--out", tmp_path)
    assert done.returncode in MEASURED, done.stderr  # 3: other tests disturbed it, and no cause is stated
    assert done.returncode == 3 or "operations became" in " ".join(done.stdout.split())
    assert sorted(path.name for path in (tmp_path / "traces").iterdir()) == sorted(
        f"{rung}.{kind}.json" for rung in ("memory", "flash") for kind in ("timeline", "trace"))
    # A second call traces again, into the same folder.
    assert ladder("profile", "--diff", "flash", *flags, "--out", tmp_path).returncode in MEASURED


def test_a_study_explains_its_rungs(ladder, tmp_path) -> None:
    rungs = write_json(tmp_path / "small.json", ladder_document(rungs=["gpu", "flash", "fused_adamw"]))
    done = ladder("ablate", "--no-look", "--ladder", rungs, "--repeats", "1", "--threads", "1", "--explain", "-v", "--out", tmp_path / "study",
                  variables=DRAWN)
    assert done.returncode in MEASURED, done.stderr
    assert max(map(len, done.stdout.split("Open ")[0].splitlines())) <= 80
    study = read_json(tmp_path / "study" / "study.json")
    words = {rung["optimization"]: rung.get("explanation") for rung in study["rungs"]}
    assert words[None] is None and words["gpu"] is None  # the first has no rung before it, the second is not applicable
    # One repeat has no interval, so no step changed clearly.
    assert all(words[name].startswith(("No clear change of the step; ", "Not usable: ")) for name in ("flash", "fused_adamw")), words
    assert words["flash"].startswith("Not usable: ") or "operations became" in words["flash"]
    assert not any(said in words["flash"] for said in (" ms", "by phase"))
    assert {"busy_percent", "by_phase"} <= study["rungs"][0]["profile"].keys()
    report = (tmp_path / "study" / "report.md").read_text()
    assert "**What changed.**" not in report, "one pair of runs has nothing to explain"
    # A resumed study makes no trace twice.
    before = snapshot(tmp_path / "study" / "traces")
    assert before and ladder("ablate", "--resume", "--explain", "--out", tmp_path / "study").returncode in MEASURED
    assert snapshot(tmp_path / "study" / "traces") == before


@pytest.mark.parametrize(("arguments", "words"), [
    (["profile"], "one of --trace, --diff, --counters"),
    (["profile", "--trace", "--diff", "flash"], "cannot be combined with"),
    (["profile", "--diff", "nothing", "--ladder", "tiny"], "--diff nothing: no such rung; ladder tiny has start, gpu, memory"),
    (["profile", "--diff", "start", "--ladder", "tiny"], "no rung comes before it here; name two rungs"),
    (["profile", "--diff", "a.json", "b.json"], "a.json: No such file"),
], ids=lambda value: value if isinstance(value, str) else " ".join(value))
def test_bad_input(ladder, arguments, words) -> None:
    done = ladder(*arguments)
    assert done.returncode == 2
    assert words in done.stderr and done.stderr.count("\n") <= 2


def test_a_rung_that_this_machine_cannot_run(ladder) -> None:
    done = ladder("profile", "--trace", "--ladder", "tiny", "--rung", "graph")
    assert done.returncode == 3 and done.stderr == "ladder: --rung graph: not applicable here: no CUDA device (no NVIDIA driver)\n"


def test_traces_of_other_sizes_are_not_compared(ladder, traced, tmp_path) -> None:
    document = traced["flash"][0]
    document["workload"]["batch"] += 1
    other = pathlib.Path(tmp_path / "other.json")
    other.write_text(json.dumps(document))
    done = ladder("profile", "--diff", traced["folder"] / "memory.trace.json", other)
    assert done.returncode == 2 and "traces of different workload" in done.stderr
