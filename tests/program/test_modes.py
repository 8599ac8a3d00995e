"""Studies beside the cumulative ladder, from the command line to the report: the tiny model, and a stand-in for PyTorch.

The stand-in is this program again under the peer's name, so its losses are right and only its times are made longer; what
the real peer computes is tested elsewhere.
"""

import json
import math
import pathlib
import re
import shlex

import jsonschema
import pytest
from conftest import MEASURED, DRAWN, PYTHON, ROOT, ladder_document, read_json, write_json
from gates import script

METHODS = ["shapley", "cumulative", "leave_one_out", "one_at_a_time"]
SMALL = ["--no-look", "-B", "1", "-T", "8", "--threads", "1", "--steps", "2", "--repeats", "1", "--order-seed", "1"]

STAND_IN = '''
import json, os, subprocess, sys
torch = os.environ.get("FAKE_TORCH")
if sys.argv[1:] == ["--tell-version"]:
    os.write(3, torch.encode() + b"\\n")
    sys.exit()
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
plan = json.load(open(arguments["--plan"]))
run = next(r for r in plan["runs"] if r["id"] == arguments["--run"])
rung = plan["rungs"][run["rung"]]
peer = rung.pop("peer")
assert sys.argv[-1] == "--report-steps-to-parent"
record = {"kind": "record", "schema_version": 1, "id": run["id"], "started": "2026-01-01T00:00:00Z", "duration_s": 0.1,
          "status": "failed", "failure": {"kind": "out_of_memory", "message": "asked for 9 GiB, 8 GiB were there"}}
if peer.endswith("-eager"):
    own = arguments["--record"] + ".plan.json"
    json.dump(plan, open(own, "w"))
    subprocess.run([os.environ["LADDER"], "run", "--plan", own, "--run", run["id"], "--record", arguments["--record"]],
                   env={**os.environ, "LADDER_LOCK_DIR": os.path.dirname(own)}, check=True)  # the runner holds the device
    os.remove(own)
    record = json.load(open(arguments["--record"]))
    record["timing"]["step_ms"] = [3 * ms for ms in record["timing"]["step_ms"]]
    record["observations"]["peer"] = {name: value for name, value in os.environ.items() if "MALLOC" in name or "THP_" in name or "LIBRARY" in name}
    record["environment"]["torch"] = os.environ.get("LATER_TORCH") or torch or record["environment"]["torch"]
    record["environment"]["load_average"] = [77.0, 77.0, 77.0]
    del record["environment"]["kernel_switches"]  # as PyTorch's, whose script does not tell them
json.dump(record, open(arguments["--record"], "w"))
os.write(3, b"1 1\\n")
'''


@pytest.fixture
def home(environment, tmp_path, monkeypatch):
    """A LADDER_HOME whose PyTorch is the stand-in."""
    folder = tmp_path / "home"
    (folder / "ablations" / "peers").mkdir(parents=True)
    for name in ("ladders", "results", "plots"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "ablations" / "techniques").symlink_to(ROOT / "ablations" / "techniques")
    (folder / "ablations" / "peers" / "pytorch_ladder.py").write_text(STAND_IN)
    (folder / "ablations" / "peers" / "pytorch.json").write_text((ROOT / "ablations" / "peers" / "pytorch.json").read_text())
    monkeypatch.setitem(environment, "LADDER_HOME", str(folder))
    return folder


@pytest.fixture
def small(tmp_path):
    return write_json(tmp_path / "small.json", ladder_document())


def study_of(folder) -> dict:
    study = read_json(folder / "study.json")
    schema = read_json(ROOT / "results" / "schemas" / "study.v1.json")
    jsonschema.Draft7Validator(schema).validate(study)
    plan_schema = read_json(ROOT / "results" / "schemas" / "plan.v1.json")
    jsonschema.Draft7Validator(plan_schema).validate(read_json(folder / "plan.json"))
    return study


def again(folder) -> str:
    """The command that measures the study again, as its report shows it."""
    (study,) = read_json(folder / "report.json")["studies"]
    return study["said"]["command"]


def narrow(text: str) -> bool:
    return all(len(line) <= 80 for line in text.split("Open ")[0].splitlines())


def test_factorial(small, ladder, tmp_path) -> None:
    folder = tmp_path / "study"
    done = ladder("ablate", "--ladder", small, *SMALL, "--mode", "factorial", "--out", folder, variables=DRAWN)
    assert done.returncode in MEASURED, done.stderr
    study = study_of(folder)
    names = [run["id"] for run in sorted(study["runs"], key=lambda run: run["rung"])]
    assert names == ["r1-00-start", "r1-01-flash", "r1-02-fused_adamw", "r1-03-flash-fused_adamw"]
    assert [rung["status"] for rung in study["rungs"]] == ["measured"] * 4
    median = [run["median_ms"] for run in sorted(study["runs"], key=lambda run: run["rung"])]
    by_method = {m: {w["optimization"]: w["ratio"] for w in study["attribution"] if w["method"] == m} for m in METHODS}
    assert [w["method"] for w in study["attribution"]] == [m for m in METHODS for _ in range(2)]
    worth = by_method["shapley"]
    assert math.isclose(worth["flash"], math.sqrt(median[0] / median[1] * median[2] / median[3]), rel_tol=1e-9)
    assert math.isclose(worth["flash"] * worth["fused_adamw"], study["headline"]["speedup"]["ratio"], rel_tol=1e-9)
    assert by_method["cumulative"] == pytest.approx({"flash": median[0] / median[1], "fused_adamw": median[1] / median[3]})
    assert by_method["leave_one_out"] == pytest.approx({"flash": median[2] / median[3], "fused_adamw": median[1] / median[3]})
    assert by_method["one_at_a_time"] == pytest.approx({"flash": median[0] / median[1], "fused_adamw": median[0] / median[2]})
    assert all(w["lo"] is None and w["repeats"] == 1 for w in study["attribution"])
    assert done.stdout.count("flash attention") <= 3  # its rungs and its worth, not one for each method
    assert "averaged over all orders" in done.stdout and narrow(done.stdout)
    report = (folder / "report.md").read_text()
    assert "| optimization | worth |" in report and "--mode factorial" in report


def test_a_budget_is_spent_first_on_what_others_are_compared_with(small, ladder, tmp_path) -> None:
    began_elsewhere, seed = False, 0
    while not began_elsewhere:  # a plan that begins with them proves nothing
        seed += 1
        assert seed < 10, "no plan begins with another rung"
        folder = tmp_path / str(seed)
        done = ladder("ablate", "--ladder", small, *SMALL[:-1], seed, "--mode", "leave-one-out", "--budget-s", "1", "--out", folder)
        assert done.returncode in MEASURED, done.stderr
        runs = {run["id"]: run["rung"] for run in read_json(folder / "plan.json")["runs"]}
        assert re.search(r"^1/4 (baseline|full), repeat 1: ", done.stderr, re.M), done.stderr
        began_elsewhere = next(iter(runs.values())) > 1


def test_a_budget_ends_a_study_that_resume_completes(small, ladder, tmp_path) -> None:
    folder = tmp_path / "study"
    short = ladder("ablate", "--ladder", small, *SMALL, "--mode", "leave-one-out", "--budget-s", "1", "--out", folder)
    assert short.returncode in MEASURED, short.stderr  # nothing failed
    made = len({path.name.split(".")[0] for path in (folder / "records").glob("*.json")})
    assert 1 <= made < 4
    # On a busy machine a run may be disturbed, and its second one is not made either.
    waiting = sum(read_json(file)["flags"] != [] and not file.with_suffix(".flagged.json").exists()
                  for file in (folder / "records").glob("*.json") if not file.name.endswith(".flagged.json"))
    words = "1 run was not made" if made == 3 else f"{4 - made} runs were not made"
    if waiting:
        words += ", 1 disturbed run was not made again" if waiting == 1 else f", {waiting} disturbed runs were not made again"
    assert f"{words}: the budget of 1 s is spent; resume with: ladder ablate --resume --out {folder}" in short.stderr
    assert f"{made} of 4 runs" in " ".join(short.stdout.split()) and study_of(folder)["finished"] is None
    assert any("not been made yet" in worth["reason"] for worth in study_of(folder)["attribution"])

    # Its token file is made anew from the same text, and from no other.
    tokens = pathlib.Path(read_json(folder / "plan.json")["workload"]["tokens"])
    tokens.unlink()
    plan = read_json(folder / "plan.json")
    (tmp_path / "other.txt").write_text("Another text. " * 100)
    changed = tmp_path / "changed"
    changed.mkdir()
    write_json(changed / "plan.json", {**plan, "workload": {**plan["workload"], "data": str(tmp_path / "other.txt")}})
    refused = ladder("ablate", "--resume", "--out", changed)
    assert refused.returncode == 2 and f"{tokens}: the study's token file is missing" in refused.stderr

    done = ladder("ablate", "--resume", "--budget-s", "600", "--out", folder)
    assert done.returncode in MEASURED, done.stderr
    study = study_of(folder)
    assert [rung["title"] for rung in study["rungs"]] == ["baseline", "everything on",
                                                          "without flash attention", "without fused AdamW"]
    assert study["finished"] and [w["method"] for w in study["attribution"]] == ["leave_one_out"] * 2
    compared = ladder("compare", folder, folder).stdout
    assert "without flash attention" in compared and "+ " not in compared, compared
    assert study["ladder"]["file"] == small.name and f"--ladder {small.name} " in again(folder), "by which the command finds it"
    flash = study["attribution"][0]
    median = {run["rung"]: run["median_ms"] for run in study["runs"]}
    assert flash["optimization"] == "flash" and math.isclose(flash["ratio"], median[2] / median[1], rel_tol=1e-9)
    assert "what is lost without it" in done.stdout and narrow(done.stdout)


@pytest.mark.thorough
def test_a_sweep_beyond_the_positions_of_the_model(small, home, ladder, tmp_path) -> None:
    folder = tmp_path / "study"
    flags = [flag for flag in SMALL if flag not in ("-T", "8")]
    done = ladder("ablate", "--ladder", small, *flags, "--sweep", "context=32,96", "--rung", "start,flash",
                  "--with-peer", "pytorch", "--peer-modes", "eager", "--out", folder)
    assert done.returncode in MEASURED, done.stdout + done.stderr
    study, plan = study_of(folder), read_json(folder / "plan.json")
    assert plan["workload"]["positions"] == 96 and plan["workload"]["tokens"].endswith(".bin")
    assert [rung["workload"]["context"] for rung in study["rungs"]] == [32, 32, 96, 96] * 2
    assert [rung["guard"] is None for rung in study["rungs"]][:4] == [True, False, True, False]
    assert [rung["against"] for rung in study["rungs"][4:]] == [0, 1, 2, 3]
    for rung in study["rungs"]:
        assert rung["status"] == "measured", rung["reason"]
        record = read_json(folder / "records" / next(run["id"] + ".json" for run in study["runs"] if run["rung"] == rung["index"]))
        assert record["workload"]["positions"] == 96 and record["workload"]["context"] == rung["workload"]["context"]
        assert record["workload"]["data"]["source"] == "shakespeare.txt"
        assert rung["tokens_per_s"]["median"] == pytest.approx(
            rung["workload"]["context"] / rung["ms_per_step"]["median"] * 1000)
    assert "T=96 + flash" not in done.stdout and "T=96 flash attention" in done.stdout and narrow(done.stdout)
    assert "the same work in PyTorch" in done.stdout
    one = ladder("run", "--model", "tiny", "-T", "96", "--positions", "96", "--steps", "1", "--warmup", "0", "--json")
    assert json.loads(one.stdout)["workload"]["positions"] == 96


def test_peers_beside_the_ladder(small, home, ladder, tmp_path) -> None:
    folder = tmp_path / "study"
    document = ladder_document(rungs=["memory", "flash"])
    done = ladder("ablate", "--ladder", write_json(small, document), *SMALL, "--with-peer", "pytorch", "--out", folder, variables=DRAWN)
    # One peer found too little memory: its rung has no number, and the others go on.
    assert done.returncode == 1, done.stdout + done.stderr
    study = study_of(folder)
    assert [rung.get("peer") for rung in study["rungs"]] == [None] * 3 + ["pytorch-eager"] * 3 + ["pytorch-compile"]
    ids = {run["rung"]: run["id"] for run in study["runs"]}
    assert ids[4] == "r1-04-memory-pytorch-eager" and ids[6] == "r1-06-flash-pytorch-compile"
    assert study["rungs"][6]["out_of_memory"] and "8 GiB were there" in study["rungs"][6]["reason"]
    median = {run["rung"]: run["median_ms"] for run in study["runs"]}
    peer = study["rungs"][1]["peers"][0]
    assert peer["rung"] == 4 and peer["ratio"] == pytest.approx(median[4] / median[1])
    assert study["rungs"][2]["peers"][1]["ratio"] is None
    assert study["headline"] is None or study["headline"]["last"] == 2
    assert study["environment"]["load_average"][0] != 77  # our own record's
    said = [read_json(folder / "records" / f"{ids[rung]}.json")["observations"]["peer"] for rung in (3, 4)]
    assert "MALLOC_MMAP_MAX_" not in said[0]
    assert said[1].items() >= {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000",
                               "THP_MEM_ALLOC_ENABLE": "1"}.items()
    table = done.stdout.split("the same work in PyTorch")[1]
    assert re.search(r"\+ keep host memory +eager +!? +[\d.]+ +(\?[\d.]+x|-)\n", table) and "out of memory: run r1-06" in table
    assert narrow(done.stdout)
    names = [entry["name"].split("/")[1] for entry in read_json(folder / "benchmark.json")["benchmarks"]]
    assert {"start", "memory", "flash", "start-pytorch-eager", "memory-pytorch-eager", "flash-pytorch-eager"} >= set(names)
    assert {"memory", "memory-pytorch-eager"} <= set(names) or study["rungs"][1]["status"] != "measured"
    report = (folder / "report.md").read_text()
    assert "PyTorch, in numbers" in report and "| \\+ PyTorch" not in report
    refused = ladder("run", "--plan", folder / "plan.json", "--run", ids[4])
    assert refused.returncode == 2 and "is for PyTorch" in refused.stderr


def test_pytorch_compiles_beside_the_rungs_that_are_named(small, home, ladder, tmp_path) -> None:
    document = write_json(small, ladder_document(rungs=["memory", "flash"]))
    peers = ["ablate", "--ladder", document, *SMALL, "--with-peer", "pytorch", "--peer-modes", "compile"]
    done = ladder(*peers, "--peer-rung", "memory", "--out", tmp_path / "study")
    study = study_of(tmp_path / "study")
    assert [(rung["peer"], rung["against"]) for rung in study["rungs"] if "peer" in rung] == [("pytorch-compile", 1)], done.stderr
    assert "--peer-modes compile --peer-rung memory " in again(tmp_path / "study")
    for flags, says in ((["--peer-rung", "warp"], "--peer-rung warp: no such rung; ladder small has start, memory, flash"), (["--peer-rung", "flash", "--peer-rung", "flash"], "--peer-rung flash,flash: flash is given twice"),
                        (["--peer-rung", "flash", "--mode", "factorial"], "")):
        done = ladder(*peers, *flags, "--out", tmp_path / "no")
        assert done.returncode == 2 and says in done.stderr and not (tmp_path / "no").exists(), done.stderr


def test_pytorch_has_no_twin_of_what_it_does_not_declare(small, home, ladder, tmp_path) -> None:
    """Of a field that it does not name it can do the plain value, and of the others those that it names."""
    declared = home / "ablations" / "peers" / "pytorch.json"
    document = read_json(declared)
    fields = document["fields"]
    write_json(declared, document | {"fields": {**{name: values for name, values in fields.items() if name != "host_memory"}, "attention": ["manual"]}})
    document = write_json(small, ladder_document(rungs=["memory", "flash"], start={"optimizer": "fused"}))
    done = ladder("ablate", "--ladder", document, *SMALL, "--with-peer", "pytorch", "--peer-modes", "eager", "--out", tmp_path / "study")
    twins = [(rung["status"], rung["reason"]) for rung in study_of(tmp_path / "study")["rungs"] if "peer" in rung]
    assert twins == [("measured", ""), ("not_applicable", 'PyTorch cannot do host_memory "keep"'),
                     ("not_applicable", 'PyTorch cannot do attention "flash"')], done.stderr


@pytest.fixture
def pythons(home, environment, tmp_path, monkeypatch) -> list[str]:
    """Two Pythons with names that a shell would take apart, by path and on PATH: the stand-in as PyTorch 2.15 and as our own."""
    for name in ("it's new", "bin"):
        (tmp_path / name).mkdir()
    new = script(tmp_path / "it's new" / "python", f'FAKE_TORCH=2.15.0+cpu exec {shlex.quote(PYTHON)} "$@"')
    script(tmp_path / "bin" / "-old python", f'FAKE_TORCH=2.11.0 exec {shlex.quote(PYTHON)} "$@"')
    monkeypatch.setitem(environment, "PATH", f"{tmp_path / 'bin'}:{environment['PATH']}")
    return ["--peer-python", str(new), "--peer-python", "-old python"]


def test_two_pytorchs_side_by_side(small, pythons, ladder, tmp_path) -> None:
    folder = tmp_path / "study"
    write_json(small, ladder_document(rungs=["flash"]))
    # As packaging/environment.sh sets them.
    libraries = {"LD_LIBRARY_PATH": "/ours:/users", "LADDER_USERS_LIBRARY_PATH": "/users"}
    done = ladder("ablate", "--ladder", small, *SMALL, "--with-peer", "pytorch", "--peer-modes", "eager", *pythons, "--out", folder,
                  variables=libraries | DRAWN)
    assert done.returncode in MEASURED, done.stdout + done.stderr
    peers = [rung for rung in study_of(folder)["rungs"] if "peer" in rung]
    assert [(rung["peer"], rung["title"], rung["against"]) for rung in peers] == [
        (f"pytorch-{torch}-eager", f"PyTorch {torch} eager", own) for own in (0, 1) for torch in ("2.15", "2.11")]
    records = {rung: read_json(folder / "records" / f"r1-0{3 + rung}-flash-pytorch-{torch}-eager.json")
               for rung, torch in ((1, "2.15"), (2, "2.11"))}
    assert [record["environment"]["torch"] for record in records.values()] == ["2.15.0+cpu", "2.11.0"]
    assert {record["observations"]["peer"]["LD_LIBRARY_PATH"] for record in records.values()} == {"/users"}
    assert re.search(r"flash attention +2\.15 eager", done.stdout) and narrow(done.stdout)
    assert "| PyTorch 2.15 eager |" in (folder / "report.md").read_text()
    assert "--peer-python python --peer-python '-old python' " in again(folder), "as all files are: by name"
    joined = ladder("merge", folder, "--out", tmp_path / "joined")
    assert joined.returncode in MEASURED, joined.stderr


def test_a_study_is_told_its_pythons_again(small, pythons, ladder, tmp_path) -> None:
    """Nothing that stands in a study's folder is run."""
    folder, run = tmp_path / "study", "r1-02-start-pytorch-2.15-eager"
    write_json(small, ladder_document(rungs=["flash"]))
    begin = ["ablate", "--ladder", small, *SMALL, "--with-peer", "pytorch", "--peer-modes", "eager"]
    later = ladder(*begin, *pythons[:2], "--out", folder, variables={"LATER_TORCH": "2.16.0"})
    assert later.returncode == 1, later.stderr
    assert read_json(folder / "records" / f"{run}.json")["failure"]["message"].endswith("its PyTorch is 2.16, not the planned 2.15")
    resume = ["ablate", "--resume", "--out", folder]
    was = f"--peer-python: the study in {folder} was begun with PyTorch 2.15, and"
    for named, words in (([], f"{was} none is named now"), (pythons[2:], f"{was} PyTorch 2.11 is named now"),
                         (pythons, f"{was} PyTorch 2.11 and 2.15 is named now")):
        done = ladder(*resume, *named)
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, done.stderr
    done = ladder(*resume, *pythons[:2])
    assert done.returncode in MEASURED, done.stderr
    assert read_json(folder / "records" / f"{run}.json")["environment"]["torch"] == "2.15.0+cpu"
    own = ladder(*begin, "--budget-s", "1", *pythons[:2], "--out", tmp_path / "more")
    assert f"--peer-python {shlex.quote(pythons[1])}" in own.stderr.splitlines()[-1]


NO_PEER = {  # text of a program, or what is there in its place; words
    "nothing": (None, "is not there; name a Python that has PyTorch"),
    "a name": (None, "is not on PATH; name a Python that has PyTorch"),
    "a folder": (None, "is a folder; name a Python that has PyTorch"),
    "a file": (None, "is no program; name a Python that has PyTorch"),
    "data": ("", r"has no PyTorch that can be used: it could not be started: Exec format error; `\S+ -m pip install torch` installs"),
    "silent": ("exit 0", "tells no version of PyTorch; `"),
    "no version": ("echo 'PyTorch 2.15' >&3", "tells no version of PyTorch; `"),
    "no torch": ('exec {python} -S "$@"', r"it ended with exit status 1: ModuleNotFoundError: No module named 'torch'; `"),
    "broken": ('exec env PYTHONPATH={folder} {python} "$@"', r"it ended with exit status 1: ImportError: libc10\.so; `"),
    "old": ('exec env PYTHONPATH={folder} {python} "$@"', r"1: AttributeError: module 'torch' has no attribute 'uint16'; `"),
}


@pytest.mark.parametrize("what", NO_PEER)
def test_a_python_that_cannot_be_a_peer_is_refused(what, small, ladder, tmp_path) -> None:
    text, words = NO_PEER[what]
    python = tmp_path / what.replace(" ", "-")
    if what == "broken":
        (tmp_path / "torch.py").write_text("raise ImportError('libc10.so')\n")
    elif what == "old":
        (tmp_path / "sitecustomize.py").write_text("import torch\ndel torch.uint16\n")
    elif what == "a folder":
        python.mkdir()
    elif what in ("a file", "data"):
        python.write_bytes(b"\x7fELF")
        python.chmod(0o755 if what == "data" else 0o644)
    if text:
        script(python, text.format(python=shlex.quote(PYTHON), folder=tmp_path))
    named = python.name if what == "a name" else python
    done = ladder("ablate", "--ladder", small, "--with-peer", "pytorch", "--peer-python", named, "--out", tmp_path / "study")
    assert done.returncode == 2 and done.stdout == "" and not (tmp_path / "study").exists()
    assert re.fullmatch(rf"ladder: --peer-python {named}: .*{words}.*\n", done.stderr), done.stderr


def test_pythons_that_do_not_fit_the_other_flags(small, pythons, ladder, tmp_path) -> None:
    done = ladder("ablate", "--ladder", small, *pythons, "--dry-run")
    assert done.returncode == 2 and "--peer-python needs --with-peer pytorch" in done.stderr
    done = ladder("ablate", "--ladder", small, "--with-peer", "pytorch", *pythons, *pythons[2:], "--dry-run")
    assert done.returncode == 2 and re.search(r"--peer-python -old python: has PyTorch 2\.11, as \S.*-old python has; name one", done.stderr)


def test_a_peer_that_is_not_there_is_refused(small, home, environment, ladder, tmp_path, monkeypatch) -> None:
    arguments = ["ablate", "--ladder", small, "--with-peer", "pytorch", "--out", tmp_path / "study"]
    monkeypatch.setitem(environment, "LADDER_PYTHON", "/nowhere/python")
    done = ladder(*arguments)
    assert done.returncode == 2 and "/nowhere/python cannot be run; --peer-python names another" in done.stderr
    (home / "ablations" / "peers" / "pytorch_ladder.py").unlink()
    done = ladder(*arguments)
    assert done.returncode == 2 and "pytorch_ladder.py is missing" in done.stderr and not (tmp_path / "study").exists()
