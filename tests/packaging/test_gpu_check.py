"""gpu-check without a GPU: its calls from end to end on the two-layer model, and with programs that fail."""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time

import pytest
from conftest import FEW_RUNGS, ROOT, call, script


def verdicts(summary):
    return {name: verdict for verdict, name in re.findall(r"^(ok|no result|partly|FAILED|not begun) +(\S+)", summary, re.M)}


@pytest.mark.thorough
def test_all_calls_without_a_gpu(bundle, elsewhere) -> None:
    done = call(bundle / "gpu-check", "prove", "out", **elsewhere)
    assert done.returncode == 3 and done.stdout == "" and not list(elsewhere["cwd"].iterdir())
    assert re.fullmatch(r"gpu-check: no CUDA device \(.*\); --cpu tries this script without one\n", done.stderr)
    done = call(bundle / "gpu-check", "prove", "out", "--cpu", **elsewhere)
    folder, runs = elsewhere["cwd"] / "out", [f"tiny/{rung}" for rung in ("start", *FEW_RUNGS)]
    assert done.returncode == 0 and done.stdout == (folder / "summary.txt").read_text(), done.stdout + done.stderr
    found = verdicts(done.stdout)
    assert {"doctor", "tests", *runs} <= {name for name, verdict in found.items() if verdict == "ok"}
    records = {file.stem: json.loads(file.read_text()) for file in (folder / "once").iterdir()}
    assert len(records) == len(runs) and all(record["status"] == "ok" for record in records.values())
    assert "Skipped\nno CUDA device (" in (folder / "logs" / "test.*.log").read_text()

    done = call(bundle / "gpu-check", "measure", "out", "--cpu", **elsewhere)
    found = verdicts(done.stdout)
    assert done.returncode == 0 and [found[name] for name in ("trace/fused_adamw", "trace/flash", "counters", "micro")] == ["ok", "ok", "no result", "ok"], done.stdout
    assert {found[name] for name in ("ladder", "peers", "large", "losses")} <= {"ok", "no result"}  # so few and short runs may show nothing
    study = json.loads((folder / "ladder" / "study.json").read_text())
    assert study["plan"]["runs_ok"] == study["plan"]["runs_planned"] == len(runs)
    assert {rung.get("peer") for rung in json.loads((folder / "peers" / "study.json").read_text())["rungs"]} == {None, "pytorch-eager"}
    losses = json.loads((folder / "losses" / "study.json").read_text())
    assert len(losses["rungs"]) == 2 and losses["plan"]["runs_ok"] == 4
    assert {one["name"].split("/")[0] for one in json.loads((folder / "micro.json").read_text())["benchmarks"]} == {"gelu"}

    tokens = next(bundle.rglob("*.bin"))
    done = call(bundle / "gpu-check", "sources", "out", "--cpu", "--text", tokens, **elsewhere)
    found, studies = verdicts(done.stdout), ("without", "order", "graphs", "peers_flash", "gate", "float16")
    assert {found[name] for name in studies} <= {"ok", "no result"}, done.stdout
    assert (folder / "gate_planted" / "gate.json").is_file()  # what it finds is a matter of noise here
    assert found["training_float16"] == "ok" and len((folder / "training_float16" / "log.jsonl").read_text().splitlines()) == 12
    assert found["training"] == "ok" and len((folder / "training" / "log.jsonl").read_text().splitlines()) == 20
    for study in ("ladder", "peers", "without", "order"):
        verified = call(bundle / "ladder", "verify", f"out/{study}", **elsewhere)
        assert verified.returncode == 0, verified.stdout + verified.stderr
    rungs = [rung["optimization"] for rung in json.loads((folder / "order" / "study.json").read_text())["rungs"]]
    assert rungs == [None, "flash", "memory", "fused_adamw"]
    assert json.loads((folder / "without" / "plan.json").read_text())["mode"] == "leave-one-out"
    assert json.loads((folder / "gate" / "gate.json").read_text())["verdict"]
    with tarfile.open(folder / "packed" / "measure.tgz") as packed:
        names = set(packed.getnames())
    assert {"summary.txt", "ladder/study.json", "logs/peers.log", "trace/flash/flash.trace.json"} <= names
    assert not [name for name in names if name.endswith((".timeline.json", ".safetensors"))]
    again = call(bundle / "gpu-check", "measure", "out", "--cpu", **elsewhere)
    assert again.returncode == 0 and again.stdout == "", again.stdout  # all was made


# ---- With made-up programs: $1 is the command, and so on

DOCTOR = json.dumps({"environment": {"gpu": {"name": "H100", "memory_bytes": 79 * 2**30}}, "ladders": {
    **{ladder: [] for ladder in ("gpt2-fp16", "qkv", "data-pipeline")},
    "gpt2": [{"rung": rung, "status": "can be measured"} for rung in ("gpu", "graph", "flash")] +
            [{"rung": "residual16", "status": "not applicable here", "reason": "no CUDA kernels"}]}})
RECORD = {"status": "ok", "proofs": [{"field": "device", "passed": True}]}
UNPROVEN = {"status": "ok", "proofs": [{"field": "execution", "passed": False, "expected": "one graph launch", "observed": "2 waits"}]}


@pytest.fixture
def started(tmp_path):
    """started(call, graph="...", tests="..."): gpu-check where rung graph and the device tests do as the shell says."""
    (tmp_path / "share").mkdir()
    (tmp_path / "share" / "gpt2-ladder").symlink_to(ROOT)
    (tmp_path / "good").write_text(json.dumps(RECORD))
    (tmp_path / "unproven").write_text(json.dumps(UNPROVEN))
    (tmp_path / "doctor").write_text(DOCTOR)
    processes = []

    def start(name, graph="", tests="", seconds=600, planted=":"):
        script(tmp_path / "bin" / "ladder", f"""for last; do :; done; case "$*" in
            *--json*) cat {tmp_path}/doctor;;
            *"run "*"--rung graph"*) {graph};;
            "gate "*gate_planted*) {planted};;
            "run "*) cp {tmp_path}/good "$last";;
            *"--out ladder"|*"--out large") echo '3 runs were not made: the budget of 1 s is spent; resume with: ...'
                case "$*" in *ladder) exit 3;; esac;;
            profile*--counters*) echo note: this; echo ladder: counters are not permitted >&2; exit 3;; esac""")
        script(tmp_path / "bin" / "device_tests", f"""case "$*" in
            *list_tests*) printf 'Good.\\n  B\\n  Z\\nMemory.\\n  A\\nBad.\\n  C\\n';;
            *Good.Z*) printf 'a.cpp:7: Skipped\\nnot permitted\\n\\n[  PASSED  ] 0 tests.\\n';;
            {tests} esac""")
        script(tmp_path / "bin" / "micro", "kill -SEGV $$")
        processes.append(subprocess.Popen([sys.executable, ROOT / "packaging" / "gpu_check.py", name, "out", "--seconds", str(seconds)], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                          text=True, env={**os.environ, "LADDER_BUNDLE": str(tmp_path)}))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("graph, words", [
    ("cp $LADDER_BUNDLE/unproven $last; exit 1", "execution is not proven: expected: one graph launch; observed: 2 waits"),
    ("echo 'ladder: CUDA error: no kernel image'; echo what was buffered; exit 1", "exit status 1: ladder: CUDA error: no kernel image"),
    ('echo \'{"status": "failed", "failure": {"kind": "out_of_memory", "message": "asked for 9 GiB"}}\' > $last; exit 1',
     "out_of_memory: asked for 9 GiB")])
def test_a_step_that_fails_says_why_and_stops_no_other(started, graph, words) -> None:
    process = started("prove", graph, "*Bad*) kill -9 $$;;")
    summary = process.communicate(timeout=600)[0]
    assert process.returncode == 1 and re.search(rf"^FAILED +gpt2/graph +\d+ s  {re.escape(words)}$", summary, re.M), summary
    assert [verdicts(summary)[name] for name in ("doctor", "gpt2/residual16", "gpt2/gpu", "gpt2/flash", "test/Bad.C", "tests")] == [
        "ok", "no result", "ok", "ok", "FAILED", "FAILED"]
    assert re.search(r"^FAILED +tests .* 2 ok, 1 no result, 1 FAILED$", summary, re.M), summary


def test_what_hangs_is_stopped_and_what_has_no_time_is_not_begun(started) -> None:
    process = started("prove", "sleep 1000", seconds=14)
    summary = process.communicate(timeout=600)[0]
    assert process.returncode == 1 and re.search(r"^FAILED +gpt2/graph +\d+ s  stopped at its limit$", summary, re.M), summary
    late = verdicts(started("prove", seconds=5).communicate(timeout=600)[0])
    assert (late["gpt2/graph"], late["tests"]) == ("not begun", "FAILED"), late


def test_the_newest_rungs_come_first(started, tmp_path) -> None:
    summary = started("prove", seconds=300).communicate(timeout=600)[0]
    proven = [name for name in verdicts(summary) if name in ("gpt2/gpu", "gpt2/graph", "gpt2/flash")]
    assert set(proven) == {"gpt2/gpu", "gpt2/graph", "gpt2/flash"} and verdicts(summary)["gpt2/graph"] == "ok", summary
    sys.path.insert(0, str(ROOT / "packaging"))
    os.environ.setdefault("LADDER_BUNDLE", str(tmp_path))
    import gpu_check

    rungs = [(ladder, f"{i}") for ladder in ("gpt2", "other") for i in range(8)]
    order = gpu_check.newest_first(rungs, ["gpt2", "other"])
    assert order[:7] == [("gpt2", f"{i}") for i in range(7, 1, -1)] + [("other", "7")] and sorted(order) == sorted(rungs)


def test_measuring_goes_on_too(started, tmp_path) -> None:
    process = started("measure")
    summary = process.communicate(timeout=600)[0]
    found = verdicts(summary)
    assert process.returncode == 1 and [found[name] for name in ("ladder", "large", "trace/flash", "trace/graph", "counters", "micro", "losses")] == [
        "partly", "partly", "ok", "ok", "no result", "FAILED", "ok"], summary  # whether what was made gives a verdict or not
    assert "  ladder: counters are not permitted\n" in summary
    assert (tmp_path / "out" / "packed" / "measure.tgz").is_file()
    (tmp_path / "out" / "ladder").mkdir()
    (tmp_path / "out" / "ladder" / "plan.json").touch()
    again = verdicts(started("measure").communicate(timeout=600)[0])
    assert again["ladder"] == "partly" and not {"losses", "trace/flash"} & set(again)  # they were made
    command = (tmp_path / "out" / "logs" / "ladder.log").read_text().splitlines()[0]
    assert re.search(r"ladder ablate --resume --budget-s \d+ --out ladder$", command), command


@pytest.mark.parametrize("verdict, status, expected", [("REGRESSION", 1, "ok"), ("SAME", 0, "FAILED"), ("FAILED", 1, "FAILED"), ("INCONCLUSIVE", 3, "no result")])
def test_a_planted_slowdown_must_be_found(started, tmp_path, verdict, status, expected) -> None:
    """A gate ends with 1 also where the head failed."""
    (tmp_path / "doctor").write_text(DOCTOR.replace('"gpt2-fp16": []', '"gpt2-fp16": [{"rung": "fp16", "status": "can be measured"}]'))
    out = tmp_path / "out" / "gate_planted"
    found = verdicts(started("sources", planted=f"mkdir -p {out}; echo '{{\"verdict\": \"{verdict}\"}}' > {out}/gate.json; exit {status}").communicate(timeout=600)[0])
    assert found["gate_planted"] == expected and found["gate"] == "ok", found
    assert len((tmp_path / "out" / "planted" / "train.py").read_text().splitlines()) > 5


def test_a_gate_is_resumed_with_its_program(started, tmp_path) -> None:
    (tmp_path / "doctor").write_text(DOCTOR.replace('"gpt2-fp16": []', '"gpt2-fp16": [{"rung": "fp16", "status": "can be measured"}]'))
    (tmp_path / "out" / "gate").mkdir(parents=True)
    (tmp_path / "out" / "gate" / "plan.json").touch()
    started("sources").communicate(timeout=600)
    command = (tmp_path / "out" / "logs" / "gate.log").read_text().splitlines()[0]
    assert command.endswith(f"gate --base {tmp_path}/bin/ladder --resume --out gate"), command


def test_a_step_that_the_seconds_do_not_suffice_for_is_not_begun(started, tmp_path) -> None:
    found = verdicts(started("sources", seconds=20).communicate(timeout=600)[0])
    assert set(found.values()) == {"no result", "not begun"} and not list((tmp_path / "out" / "logs").iterdir())


PREDICTED = json.loads((ROOT / "results" / "predictions" / "hopper.json").read_text())


def test_what_is_predicted_is_scored(started, tmp_path) -> None:
    """By the study's rungs, not by a peer's beside them, and of the model and the GPU that it was predicted for."""
    (tmp_path / "doctor").write_text(DOCTOR.replace("H100", PREDICTED["device"]))
    rungs = [{"optimization": rung, "workload": {"batch": 16}, "ms_per_step": {"median": ms}, "peer": peer}
             for rung, ms, peer in (("fp8", 23.1, None), ("fp8_head", 40, None), ("fused_norm", 1, "pytorch-eager"), ("vocab", 44, None))]
    (tmp_path / "out" / "ladder").mkdir(parents=True)
    for model, words in (("gpt2-355m", {}), (PREDICTED["model"], {"predicted/fp8-B16": "within", "predicted/fp8_head-B16": "outside"})):
        study = {"workload": {"model": model, "context": PREDICTED["context"]}, "rungs": [*rungs, rungs[0] | {"optimization": "flash", "ms_per_step": None}]}
        (tmp_path / "out" / "ladder" / "study.json").write_text(json.dumps(study))
        summary = started("measure").communicate(timeout=600)[0]
        found = dict(reversed(pair) for pair in re.findall(r"^(within|outside) +(\S+)", summary, re.M))
        assert found == words, summary


def test_predictions_are_of_rungs_and_stand_on_the_page() -> None:
    rungs = json.loads((ROOT / "ladders" / f"{PREDICTED['ladder']}.json").read_text())["rungs"]
    page = (ROOT / "docs" / "explaining.md").read_text()
    for one in PREDICTED["steps"]:
        assert one["rung"] in rungs and one["low"] < one["ms"] < one["high"] and one["because"]
        assert f"{one['ms']} [{one['low']}-{one['high']}]" in page, one


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_ends_what_runs_and_begins_nothing(started, tmp_path, number) -> None:
    # A shell may lose a signal that comes while it waits for a program.
    (tmp_path / "saves.py").write_text("import pathlib, signal, sys, time\n"
                                       "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(130)))\n"
                                       "pathlib.Path(sys.argv[1]).touch()\ntime.sleep(1000)\n")
    process = started("prove", f'exec "{sys.executable}" {tmp_path}/saves.py {tmp_path}/begun')
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    summary = process.communicate(timeout=600)[0]
    assert process.returncode == 130 and re.search(r"^FAILED +gpt2/graph +\d+ s  exit status 130: saved$", summary, re.M), summary
    assert verdicts(summary)["tests"] == "FAILED" and not (tmp_path / "out" / "logs" / "test.Memory.A.log").exists()


def test_where_doctor_does_not_work_nothing_is_made(started, tmp_path) -> None:
    (tmp_path / "doctor").unlink()
    process = started("prove")
    assert "gpu-check: " in process.communicate(timeout=600)[1] and process.returncode == 3 and not (tmp_path / "out").exists()
