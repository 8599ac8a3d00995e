"""gpu-check without a GPU: its calls from end to end on the two-layer model, and their parts with made-up programs."""

import json
import pathlib
import re
import shutil

import pytest
from conftest import FEW_RUNGS, ROOT, call, script

CALLS = ["smoke", "tests", "micro", "b16", "b64", "peers", "leave-one-out", "sweep"]


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def steps_of(folder):
    """{step: outcome} as README.md has them."""
    return dict(re.findall(r"^\| (?!step )(\S.*?) \| (\S.*?) \| \d+ \| ", (folder / "README.md").read_text(), re.M))


def test_gpu_check_without_a_gpu(bundle, elsewhere) -> None:
    done = call(bundle / "gpu-check", "smoke", **elsewhere)
    assert done.returncode == 3 and done.stdout == "" and not list(elsewhere["cwd"].iterdir())
    assert re.fullmatch(r"gpu-check: no CUDA device \(.*\); --cpu tries this script without one\n", done.stderr)


def test_without_a_name_the_calls_are_listed(bundle, elsewhere) -> None:
    done = call(bundle / "gpu-check", **elsewhere)
    assert done.returncode == 0 and done.stderr == "" and not list(elsewhere["cwd"].iterdir())
    listed = re.findall(r"^  (\S+) +under (\d+) min +\w", done.stdout, re.M)
    assert [name for name, _ in listed] == CALLS and [int(minutes) for _, minutes in listed] == [3] + [10] * 7
    assert max(map(len, done.stdout.splitlines())) <= 160


def test_an_unknown_call_is_refused_with_the_list(bundle, elsewhere) -> None:
    for name in ("b128", "--only"):
        done = call(bundle / "gpu-check", name, **elsewhere)
        assert done.returncode == 2 and not list(elsewhere["cwd"].iterdir())
    assert f'there is no call "b128"; there are {", ".join(CALLS)}\n' in call(bundle / "gpu-check", "b128", **elsewhere).stderr


def test_b16_leaves_a_study_that_stands_alone(bundle, elsewhere) -> None:
    done = call(bundle / "gpu-check", "b16", "--cpu", "evidence", **elsewhere)
    folder = elsewhere["cwd"] / "evidence"
    assert done.returncode == 0, done.stdout
    assert names_in(folder) == ["README.md", "b16.records.jsonl", "b16.study.json", "check.log"]
    assert (folder / "check.log").read_text() == done.stdout
    assert done.stdout.splitlines()[-1].startswith("next: gpu-check b64: the ladder at B=64")
    readme = (folder / "README.md").read_text()
    assert readme.startswith("# gpu-check b16 without a GPU: CPU figures\n") and "\nNext: gpu-check b64: " in readme
    study = json.loads((folder / "b16.study.json").read_text())
    records = [json.loads(line)["document"] for line in (folder / "b16.records.jsonl").read_text().splitlines()]
    # Of a run that was disturbed, both.
    assert {record["id"] for record in records if record["kind"] == "record"} == {run["id"] for run in study["runs"]}
    traces = [record for record in records if record["kind"] == "trace"]
    assert len(traces) == len([rung for rung in study["rungs"] if rung["status"] == "measured"]) + 1  # the profile's
    runs = len(study["runs"])
    assert study["workload"]["batch"] == 16
    assert steps_of(folder) == {"b16": f"ok: {runs} of {runs} runs", "profile": "ok"}
    verified = call(bundle / "ladder", "verify", "evidence/b16.study.json", **elsewhere)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    history = call(bundle / "ladder", "history", "evidence", "--json", **elsewhere)
    assert history.returncode == 0 and json.loads(history.stdout)["studies"] == 1, history.stderr
    assert call(bundle / "gpu-check", "b16", "--cpu", "evidence", **elsewhere).returncode == 2
    drawn = call(bundle / "ladder", "report", "evidence/b16.study.json", "--out", "drawn", **elsewhere)
    assert drawn.returncode == 0, drawn.stderr
    page = (elsewhere["cwd"] / "drawn" / "report.md").read_text()
    assert "charts/phases.svg" in page and "charts/steps.svg" in page
    shown = json.loads((elsewhere["cwd"] / "drawn" / "report.json").read_text())["traces"]
    assert sorted(shown, key=json.dumps) == sorted(traces, key=json.dumps)


def test_smoke_runs_each_rung_once(bundle, elsewhere) -> None:
    done = call(bundle / "gpu-check", "smoke", "--cpu", "evidence", **elsewhere)
    folder = elsewhere["cwd"] / "evidence"
    assert done.returncode == 0, done.stdout
    assert names_in(folder) == ["README.md", "check.log", "profile.trace.json", "runs.jsonl"]  # a CPU has no counters
    records = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    assert len(records) == 1 + len(FEW_RUNGS) and all(record["status"] == "ok" and record["workload"]["batch"] == 16 for record in records)
    steps = steps_of(folder)
    assert list(steps) == ["doctor", *(record["id"] for record in records), "profile"]
    assert all(steps[record["id"]].startswith("ok: proven; ") for record in records)
    assert re.search(r"^\| profile \| ok: not available here: ", (folder / "README.md").read_text(), re.M)
    assert done.stdout.splitlines()[-1].startswith("next: gpu-check tests: ")


@pytest.mark.thorough
def test_tests_without_a_gpu_are_skipped_with_the_reason(bundle, elsewhere) -> None:
    done = call(bundle / "gpu-check", "tests", "--cpu", **elsewhere)
    assert done.returncode == 0, done.stdout
    (folder,) = elsewhere["cwd"].iterdir()
    assert re.fullmatch(r"gpu-check-tests-cpu-\d{4}-\d\d-\d\d", folder.name)
    assert names_in(folder) == ["README.md", "check.log"]
    log = (folder / "check.log").read_text()
    # Without a device no test passes, and each says why it was skipped.
    tests = len(re.findall(r"^\[ RUN      \]", log, re.M))
    outcome = steps_of(folder)["device tests"]
    assert tests > 0 and outcome.startswith(f"ok: 0 passed; {tests} skipped; ") and " skipped: no CUDA device (" in outcome
    assert log.count("Skipped\nno CUDA device (") == tests and "[       OK ]" not in log


def test_micro_leaves_what_a_report_shows(bundle, elsewhere) -> None:
    done = call(bundle / "gpu-check", "micro", "--cpu", "evidence", **elsewhere)
    assert done.returncode == 0 and done.stdout.splitlines()[-1].startswith("next: gpu-check b16: the ladder at B=16"), done.stdout
    folder = elsewhere["cwd"] / "evidence"
    assert names_in(folder) == ["README.md", "check.log", "micro.json"] and list(steps_of(folder)) == ["micro"]
    benchmarks = json.loads((folder / "micro.json").read_text())["benchmarks"]
    assert {one["name"].split("/")[0] for one in benchmarks} == {"gelu"} and "host_name" not in (folder / "micro.json").read_text()


def test_a_call_that_fails_says_why_and_what_to_do(bundle, elsewhere, tmp_path) -> None:
    shutil.copytree(bundle, tmp_path / "own")
    (tmp_path / "own" / "data" / "shakespeare.bin").unlink()
    for name, step in (("b64", "b64"), ("smoke", "start")):
        done = call(tmp_path / "own" / "gpu-check", name, "--cpu", name, **elsewhere)
        assert done.returncode == 1 and done.stderr == ""
        folder = elsewhere["cwd"] / name
        assert names_in(folder) == ["README.md", "check.log"]
        assert re.fullmatch(r"\*\*FAILED\*\*: exit status 2: ladder: .*`make data` fetches it.*", steps_of(folder)[step])
        assert f"\nFAILED: {step}: exit status 2: ladder: " in done.stdout
    assert list(steps_of(folder))[-1] == "start" and "next: mend what is said of start, then gpu-check smoke again" in done.stdout
    (tmp_path / "own" / "ladders" / "tiny.json").unlink()
    done = call(tmp_path / "own" / "gpu-check", "smoke", "--cpu", **elsewhere)
    assert done.returncode == 3 and re.match("gpu-check: ladder tiny is missing: `ladder doctor` knows .*gpt2", done.stderr)


# ---- its parts, with made-up programs


def test_nothing_follows_the_last_call(gpu_check) -> None:
    assert gpu_check.after(CALLS[-1]) == "nothing: this was the last call"


def test_micro_measures_all_on_the_gpu_but_fp16(gpu_calls) -> None:
    (pattern,) = re.findall(r"--benchmark_filter='(.+?)'", gpu_calls.ON_GPU.micro)
    for name in ("mlp_fused/forward/bf16", "gelu/backward/tf32", "clip/float32", "harness/measured_step"):
        assert re.search(pattern, f"{name}/cuda/manual_time") and not re.search(pattern, f"{name}/cpu/manual_time")
    assert not re.search(pattern, "mlp/forward/fp16/cuda/manual_time")


H100, H200 = ({"name": name, "memory_bytes": int(gib * 2**30)} for name, gib in (("NVIDIA H100", 79.1), ("NVIDIA H200", 139.8)))


def read_ladder(name) -> dict:
    return json.loads((ROOT / "ladders" / f"{name}.json").read_text())


def rungs_on_an_h100(gpu_calls) -> list[str]:
    """Packed attention is for GPUs whose flash attention is not cuDNN's."""
    return [rung for rung in read_ladder(gpu_calls.ON_GPU.ladder)["rungs"] if rung != "packed_attention"]


def test_smokes_plan_is_under_three_minutes(gpu_calls) -> None:
    rungs = rungs_on_an_h100(gpu_calls)
    takes = gpu_calls.SMOKE_TAKES
    planned = takes["doctor"] + len(rungs) * takes["rung"] + takes["trace"] + takes["counters"]
    seconds = gpu_calls.ON_GPU.smoke_seconds
    assert planned <= seconds < 180
    assert f"so {planned} s; it begins nothing after {seconds} s" in (ROOT / "packaging" / "README.md").read_text()


def test_the_batch_is_what_the_gpus_memory_holds(gpu_calls) -> None:
    def batches(gpu):
        setting = gpu_calls.Setting(gpu_calls.ON_GPU, ["gpu", "residual16"], gpu)
        return setting.batch(16), setting.batch(64)

    assert batches(H100) == (16, 32) and batches(H200) == (16, 64) and batches(None) == (16, 64)
    assert batches({"memory_bytes": 130 * 2**30}) == (16, 64)
    assert batches({"memory_bytes": 24 * 2**30})[1] == 8 and batches({"memory_bytes": 2**30}) == (1, 1)
    setting = gpu_calls.Setting(gpu_calls.ON_GPU, ["gpu", "residual16"], H100)
    assert setting.filled_in("-B {B} {first} {last}", 64) == "-B 32 gpu residual16"
    assert re.fullmatch(r"B=32, because B=64 needs \d+ GiB and the GPU has 79", setting.batch_note(64)[0])
    assert setting.batch_note(16) == []


def test_each_study_ends_within_ten_minutes(gpu_calls, evidence, tmp_path, monkeypatch) -> None:
    """As the program is asked: no run begins so late that it, the traces and the profiles would not fit in."""
    monkeypatch.setattr(gpu_calls, "HOME", tmp_path)
    monkeypatch.setattr(gpu_calls, "obstacle_to_compiling", lambda: "")
    script(tmp_path / "bin" / "ladder", "exit 0")
    rungs = rungs_on_an_h100(gpu_calls)
    setting = gpu_calls.Setting(gpu_calls.ON_GPU, rungs, H100)
    for number, (name, one) in enumerate(gpu_calls.ON_GPU.studies.items()):
        (out := tmp_path / str(number)).mkdir()
        check = evidence.Check(out, gpu_calls.ON_GPU.seconds, "A check", "a machine")
        gpu_calls.carry_out(name, check, setting, tmp_path)
        command = check.outcomes[0].command
        assert command.startswith("ladder ablate --ladder gpt2 ") and "{" not in command
        assert ("--rung master_weights " in command) == (name == "peers")
        assert command.endswith("--out b32" if name == "b64" else f"--out {name}")
        budget = int(re.search(r"--budget-s (\d+)", command)[1])
        profiles = gpu_calls.ON_GPU.profile_s * len(one.profiles)
        assert 300 < budget <= 600 - 60 - one.run_s - one.trace_s * len(rungs) - profiles
        assert [outcome.step for outcome in check.outcomes[1:]] == ["profile"] * len(one.profiles)
    assert gpu_calls.ON_GPU.studies["b16"].trace_s >= 12


RECORD = {"kind": "record", "status": "ok", "proofs": [{"field": "device", "passed": True}], "flags": [], "summary": {"median_ms": 100.0},
          "memory": {"peak_bytes": 2**30}, "monitor": {"unavailable": "no NVML"},
          "observations": {"cuda_calls": {"unavailable": "another tool"}}}
UNPROVEN = {**RECORD, "proofs": [*RECORD["proofs"], {"field": "execution", "passed": False, "expected": "one graph launch",
                                                     "observed": "2 waits: 2 cudaFree"}],
            "observations": {"cuda_calls": {"calls": {"cudaFree": 2, "cudaLaunchKernel": 9}}}}


@pytest.fixture
def smoke(gpu_calls, evidence, tmp_path, monkeypatch):
    """smoke(graph="...", seconds=...): the check and the advice of a smoke on a GPU whose rung graph does as the shell says."""
    monkeypatch.setattr(gpu_calls, "HOME", tmp_path)
    (out := tmp_path / "out").mkdir()
    (tmp_path / "good").write_text(json.dumps(RECORD))
    (tmp_path / "unproven").write_text(json.dumps(UNPROVEN))

    def made(graph="", seconds=600.0):
        script(tmp_path / "bin" / "ladder", f"""case "$*" in
            *"run "*"--rung graph"*) {graph};;
            *"run "*) for last; do :; done; cp {tmp_path}/good "$last";; esac""")
        check = evidence.Check(out, seconds, "A check", "a machine")
        setting = gpu_calls.Setting(gpu_calls.ON_GPU, ["gpu", "graph", "flash"], H100)
        return check, gpu_calls.smoke(check, setting, tmp_path)

    return made


def test_smoke_stops_at_the_first_rung_that_is_not_proven(smoke, tmp_path) -> None:
    check, advice = smoke(f"cp {tmp_path}/unproven graph.json; exit 1")
    assert [(one.step, one.good) for one in check.outcomes] == [("doctor", True), ("gpu", True), ("graph", False)]
    assert check.outcomes[-1].words == "execution is not proven: expected: one graph launch; observed: 2 waits: 2 cudaFree"
    assert check.outcomes[1].words == "proven; 100.0 ms/step, 1.0 GiB; calls not seen: another tool; power and clocks not seen: no NVML"
    assert "every call to CUDA in a step: 2 cudaFree, 9 cudaLaunchKernel\n" in (tmp_path / "out" / "check.log").read_text()
    assert len((tmp_path / "out" / "runs.jsonl").read_text().splitlines()) == 2
    assert advice.startswith("mend what is said of graph")


@pytest.mark.parametrize("graph, words", [
    ("echo 'ladder: CUDA error: no kernel image'; echo; exit 1", "exit status 1: ladder: CUDA error: no kernel image"),
    ("echo 'ladder run: somebody measures' >&2; echo what was buffered; exit 3", "exit status 3: ladder run: somebody measures"),
    ("exit 7", "exit status 7: it says nothing"),
    ("kill -SEGV $$", "ended by SIGSEGV; its limit was 45 s: it says nothing"),
    ('echo \'{"status": "failed", "failure": {"kind": "out_of_memory", "message": "asked for 9 GiB"}}\' > graph.json; exit 1',
     "out_of_memory: asked for 9 GiB")])
def test_smoke_names_what_ended_a_run(smoke, graph, words) -> None:
    check, _ = smoke(graph)
    assert check.outcomes[-1].step == "graph" and not check.outcomes[-1].good and check.outcomes[-1].words == words


def test_smoke_says_what_it_had_no_time_for(smoke) -> None:
    check, advice = smoke(seconds=3)
    assert check.outcomes[-1].words.startswith("not begun, because the time is up: gpu, graph, flash, trace, counters; ")
    assert advice.startswith("gpu-check smoke again")


def made_up_study(folder, record):
    for name in ("records", "logs"):
        (folder / name).mkdir(parents=True)
    (folder / "plan.json").write_text('{"kind": "plan"}')
    rungs = [{"label": label, "status": status, "reason": "so"} for label, status in (("+ TF32", "unproven"), ("+ bf16", "unproven"),
                                                                                      ("GPU", "measured"))]
    (folder / "study.json").write_text(json.dumps({"plan": {"runs_ok": 1, "runs_planned": 2}, "rungs": rungs}))
    (folder / "records" / "r1.json").write_text(json.dumps(record, indent=1))
    (folder / "logs" / "r1.log").write_text("last words\n")
    return folder


def test_what_gpu_check_keeps(evidence, tmp_path, monkeypatch) -> None:
    (out := tmp_path / "out").mkdir()
    check = evidence.Check(out, 600, "A check", "a machine")
    record = {"id": "r1", "status": "failed", "ms": [0.1, 1e-7]}
    assert evidence.collect(check, "b16", made_up_study(tmp_path / "small", record)) == [
        "1 of 2 runs", "+ TF32: unproven: so", "+ bf16: unproven, for that reason, too"]
    assert (out / "b16.records.jsonl").read_text() == (
        '{"file":"plan.json","document":{"kind":"plan"}}\n'
        '{"file":"records/r1.json","document":{"id":"r1","status":"failed","ms":[0.1,1e-07]}}\n')
    assert "the end of r1's log:\n   last words\n" in (out / "check.log").read_text()

    large = made_up_study(tmp_path / "large", {**record, "status": "ok", "text": "x" * evidence.LONGEST_LINE})
    with check.step("b64", "ladder ablate"):
        evidence.collect(check, "b64", large)
    assert not check.outcomes[-1].good and "r1.json has 10" in check.outcomes[-1].words
    assert "b64 | **FAILED**: r1.json has 10" in (out / "README.md").read_text()
    monkeypatch.setattr(evidence, "LARGEST_FILE", 40)
    with check.step("b16", "ladder ablate"):
        evidence.collect(check, "again", tmp_path / "small")
    assert "again.study.json would have 228 bytes, and at most 40 are kept" in check.outcomes[-1].words
    assert not (out / "again.study.json").exists() and not (out / "b64.records.jsonl").exists()


def test_counters_of_a_profile_are_kept(gpu_calls, evidence, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_calls, "HOME", tmp_path)
    script(tmp_path / "bin" / "ladder", """while [ $# -gt 1 ]; do
        if [ "$1" = --out ]; then echo '{"kind": "counters"}' > "$2"; fi; shift; done""")
    (out := tmp_path / "out").mkdir()
    check = evidence.Check(out, 600, "A check", "a machine")
    gpu_calls.profile(check, "--counters --rung gpu", 10, "b16", tmp_path)
    assert (out / "profile.counters.json").read_text() == '{"kind":"counters"}\n'
    (out / "b16.records.jsonl").write_text("one\n")
    gpu_calls.profile(check, "--counters --rung gpu", 10, "b16", tmp_path)
    assert (out / "b16.records.jsonl").read_text() == 'one\n{"file":"counters/4.json","document":{"kind":"counters"}}\n'
    assert all(outcome.good for outcome in check.outcomes)


def test_a_suite_that_crashes_costs_only_itself(gpu_calls, evidence, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_calls, "HOME", tmp_path)
    script(tmp_path / "bin" / "device_tests", """case "$*" in
        *list_tests*) printf 'Memory.\\n  A\\nGood.\\n  B\\n  Z\\nBad.\\n  C\\nHanging.\\n  D\\nSilent.\\n  E\\n';;
        *Good.Z*) printf 'a.cpp:7: Skipped\\nnot permitted\\n\\n[  PASSED  ] 2 tests.\\n[  SKIPPED ] 1 test, listed below:\\n';;
        *Bad*) kill -9 $$;;
        *Hanging*) exec sleep 1000;;
        *Memory*) sleep 1; echo "[  PASSED  ] 2 tests.";;
        *Silent*) ;;
        *) echo "[  PASSED  ] 2 tests.";; esac""")
    check = evidence.Check(tmp_path, 600, "A check", "a machine")
    monkeypatch.setattr(gpu_calls, "TEST_S", 5)
    gpu_calls.device_tests(check, 100, tmp_path)
    outcome = check.outcomes[-1]
    assert outcome.words.startswith("6 passed; 1 skipped; Good.Z skipped: not permitted; ") and not outcome.good
    for fault in ("Bad.C: ended by SIGKILL; ", "Hanging.D: ended by SIGTERM; ", "Silent.E: exit status 0 without a verdict"):
        assert fault in outcome.words + "; "
    assert "Memory" not in outcome.words and "Good.B" not in outcome.words
    script(tmp_path / "bin" / "device_tests", "exit 3")
    gpu_calls.device_tests(check, 12, tmp_path)
    assert check.outcomes[-1].words == "device_tests cannot say what tests it has: exit status 3"


def test_device_tests_stay_within_their_share(gpu_calls, evidence, tmp_path, monkeypatch) -> None:
    """At most six at once, whatever the processor; none is begun in the time of those that must be alone."""
    monkeypatch.setattr(gpu_calls, "HOME", tmp_path)
    monkeypatch.setattr(gpu_calls.os, "cpu_count", lambda: 64)
    (tmp_path / "at_once").mkdir()
    script(tmp_path / "bin" / "device_tests", f"""case "$*" in
        *list_tests*) printf 'Many.\\n'; for i in $(seq 20); do echo "  A$i"; done; printf 'Memory.\\n  A\\n';;
        *Many*) cd {tmp_path}; touch at_once/$$; ls at_once | wc -l >> counts; sleep 0.5; rm at_once/$$; echo "[  PASSED  ] 1 test.";;
        *) echo "[  PASSED  ] 1 test.";; esac""")
    check = evidence.Check(tmp_path, 600, "A check", "a machine")
    gpu_calls.device_tests(check, 500, tmp_path)
    assert check.outcomes[-1].words == "21 passed"
    assert max(map(int, (tmp_path / "counts").read_text().split())) <= 6
    gpu_calls.device_tests(check, gpu_calls.ALONE_S + 1, tmp_path)
    words = check.outcomes[-1].words
    assert words.startswith("1 passed; ") and words.count("not begun in time") == 20 and "Memory" not in words


def test_an_interrupt_keeps_what_is_measured(gpu_calls, evidence, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_calls, "HOME", tmp_path)
    (out := tmp_path / "out").mkdir()
    made_up_study(tmp_path / "b16", {"id": "r1", "status": "ok"})
    script(tmp_path / "bin" / "ladder", "sleep 0.3; kill -INT $PPID; exec sleep 1000")
    check = evidence.Check(out, 600, "A check", "a machine")
    with pytest.raises(KeyboardInterrupt):
        gpu_calls.carry_out("b16", check, gpu_calls.Setting(gpu_calls.ON_GPU, ["gpu"], H100), tmp_path)
    assert check.outcomes[-1].words == "1 of 2 runs; + TF32: unproven: so; + bf16: unproven, for that reason, too; interrupted"
    assert (out / "b16.records.jsonl").is_file() and "**FAILED**: 1 of 2 runs; " in (out / "README.md").read_text()


def test_an_interrupt_does_not_wait_for_the_tests_that_run(gpu_calls, evidence, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_calls, "HOME", tmp_path)
    monkeypatch.setattr(gpu_calls.os, "cpu_count", lambda: 2)
    script(tmp_path / "bin" / "device_tests", """case "$*" in
        *list_tests*) printf 'Good.\\n  A\\nHanging.\\n  B\\n';;
        *Good*) echo "[  PASSED  ] 1 test."; while [ ! -s stubborn ]; do sleep 0.05; done; kill -INT $PPID;;
        *) trap "" TERM; echo $$ > stubborn; exec sleep 1000;; esac""")
    check = evidence.Check(tmp_path, 600, "A check", "a machine")
    with pytest.raises(KeyboardInterrupt):
        gpu_calls.device_tests(check, 900, tmp_path)
    assert check.outcomes[-1].words == "interrupted" and check.outcomes[-1].seconds < 300
    assert not pathlib.Path("/proc", (tmp_path / "stubborn").read_text().strip()).exists()
    assert "--gtest_filter=Hanging.B" not in (tmp_path / "check.log").read_text()


def test_what_is_not_available_says_why(gpu_calls, evidence, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_calls, "HOME", tmp_path)
    script(tmp_path / "bin" / "ladder", "echo note: this and that; echo ladder: counters are not permitted >&2; exit 3")
    check = evidence.Check(tmp_path, 600, "A check", "a machine")
    gpu_calls.profile(check, "--counters --rung gpu", 10, "b16", tmp_path)
    assert check.outcomes[-1].good and check.outcomes[-1].words == "not available here: ladder: counters are not permitted"


def test_without_a_compiler_the_peer_runs_eagerly(gpu_calls, evidence, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_calls, "HOME", tmp_path)
    (tmp_path / "ablations").mkdir()
    (tmp_path / "ablations" / "peers").symlink_to(ROOT / "ablations" / "peers")
    script(tmp_path / "bin" / "ladder", "exit 0")
    (out := tmp_path / "out").mkdir()
    check = evidence.Check(out, 600, "A check", "a machine")
    compiler = script(tmp_path / "bin" / "cc", "exit 0")
    setting = gpu_calls.Setting(gpu_calls.ON_GPU, ["gpu"], H100)
    for compiler, modes, words in ((compiler, "eager,compile,cuda-graphs", None),
                                   ("/nowhere/cc", "eager", "needs a C compiler, and /nowhere/cc is not there")):
        monkeypatch.setenv("CC", str(compiler))
        if "compile" in modes and gpu_calls.obstacle_to_compiling():
            continue  # no headers of Python
        gpu_calls.carry_out("peers", check, setting, tmp_path)
        outcome = check.outcomes[-1]
        assert outcome.good and f"--peer-modes {modes} " in outcome.command and (words or "") in outcome.words


def test_a_step_is_stopped_at_its_limit(gpu_calls, evidence, tmp_path) -> None:
    check = evidence.Check(tmp_path, 600, "A check", "a machine")
    status, output = check.run(["sh", "-c", "echo begun; exec sleep 1000"], "sleep", 0.2, tmp_path)
    assert status == -15 and "begun\n".startswith(output)  # a slow machine may not have come so far
    assert gpu_calls.ending(status, 0.2).startswith("ended by SIGTERM")


def test_the_log_has_a_largest_size_too(evidence, tmp_path) -> None:
    check = evidence.Check(tmp_path, 600, "A check", "a machine")
    for _ in range(20):
        check.say("x" * 2**20)
    assert (tmp_path / "check.log").stat().st_size <= 16 * 2**20
    assert [outcome.good for outcome in check.outcomes] == [False]
