"""gpu-check without a GPU: its way from end to end on the two-layer model, and each of its parts with made-up programs."""

import json
import pathlib
import re
import shutil

import pytest
from conftest import ROOT, call, script

NAMES = ["README.md", "b16.records.jsonl", "b16.study.json", "b64.records.jsonl", "b64.study.json", "check.log",
         "leave-one-out.records.jsonl", "leave-one-out.study.json"]


def test_gpu_check_without_a_gpu(bundle, elsewhere) -> None:
    done = call(bundle / "gpu-check", **elsewhere)
    assert done.returncode == 3 and done.stdout == "" and not list(elsewhere["cwd"].iterdir())
    assert re.fullmatch(r"gpu-check: no CUDA device \(.*\); --cpu tries this script without one\n", done.stderr)


def test_gpu_check_leaves_eight_files(bundle, elsewhere) -> None:
    if "--budget-s" not in call(bundle / "ladder", "ablate", "--help", **elsewhere).stdout:
        pytest.skip("this program's ablate has no --budget-s")
    done = call(bundle / "gpu-check", "--cpu", "evidence", **elsewhere)
    folder = elsewhere["cwd"] / "evidence"
    assert done.returncode == 0, done.stdout
    assert sorted(path.name for path in folder.iterdir()) == NAMES
    assert (folder / "check.log").read_text() == done.stdout
    readme = (folder / "README.md").read_text()
    assert "CPU figures" in readme and "FAILED" not in readme and "0 passed; " in readme
    for name in ("b16", "b64", "leave-one-out"):
        study = json.loads((folder / f"{name}.study.json").read_text())
        records = [json.loads(line)["document"] for line in (folder / f"{name}.records.jsonl").read_text().splitlines()]
        # Of a run that was disturbed, both.
        assert {record["id"] for record in records if record["kind"] == "record"} == {run["id"] for run in study["runs"]}
        traced = [record["title"] for record in records if record["kind"] == "trace"]
        ours = [rung for rung in study["rungs"] if rung["status"] == "measured" and "peer" not in rung]
        assert len(traced) == (len(ours) + 1 if name == "b16" else 0)
        assert traced.count("+ flash attention") == (2 if name == "b16" else 0)  # the study's, and the profile's
        runs = len(study["runs"])
        assert study["workload"]["batch"] == (64 if name == "b64" else 16)
        assert f"| {name} | ok: {runs} of {runs} runs | " in readme
        verified = call(bundle / "ladder", "verify", f"evidence/{name}.study.json", **elsewhere)
        assert verified.returncode == 0, verified.stdout + verified.stderr
    both = call(bundle / "ladder", "compare", "evidence/b16.study.json", "evidence/leave-one-out.study.json", **elsewhere)
    assert both.returncode == 0, both.stderr
    history = call(bundle / "ladder", "history", "evidence", "--json", **elsewhere)
    assert history.returncode == 0 and json.loads(history.stdout)["studies"] == 3, history.stderr
    assert call(bundle / "gpu-check", "--cpu", "evidence", **elsewhere).returncode == 2
    drawn = call(bundle / "ladder", "report", "evidence/b16.study.json", "--out", "drawn", **elsewhere)
    assert drawn.returncode == 0, drawn.stderr
    page = (elsewhere["cwd"] / "drawn" / "report.md").read_text()
    assert "charts/phases.svg" in page and "charts/steps.svg" in page
    lines = (folder / "b16.records.jsonl").read_text().splitlines()
    traces = json.loads((elsewhere["cwd"] / "drawn" / "report.json").read_text())["traces"]
    kept = [line["document"] for line in map(json.loads, lines) if line["document"]["kind"] == "trace"]
    assert sorted(traces, key=json.dumps) == sorted(kept, key=json.dumps)


def test_gpu_check_takes_the_steps_that_are_named(bundle, elsewhere) -> None:
    done = call(bundle / "gpu-check", "--cpu", "--only", "micro,b64,tests", "evidence", **elsewhere)
    assert done.returncode == 0, done.stdout
    folder = elsewhere["cwd"] / "evidence"
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "b64.records.jsonl", "b64.study.json", "check.log",
                                                              "micro.json"]
    assert re.findall(r"^\| (.*?) \| ok", (folder / "README.md").read_text(), re.M) == ["device tests", "b64", "micro"]
    drawn = call(bundle / "ladder", "report", "evidence/b64.study.json", "--with", "evidence/micro.json", "--out", "drawn", **elsewhere)
    assert drawn.returncode == 0, drawn.stderr
    (micro,) = json.loads((elsewhere["cwd"] / "drawn" / "report.json").read_text())["micro"]
    assert {one["name"].split("/")[0] for one in micro["benchmarks"]} == {"gelu"} and "host_name" not in (folder / "micro.json").read_text()
    for steps in ("b16,b64,leave-one-out,peers", "tests,profiles,b64,micro,leave-one-out"):
        too_many = call(bundle / "gpu-check", "--only", steps, **elsewhere)
        assert too_many.returncode == 2 and "--only: 4 of these steps leave files" in too_many.stderr
    for arguments in (["--cpu", "--only", "b128"], ["--quick", "--only", "b64"]):
        refused = call(bundle / "gpu-check", *arguments, **elsewhere)
        assert refused.returncode == 2 and f'there is no step "{arguments[-1]}" here; there are doctor, tests, b16' in refused.stderr


def test_gpu_check_goes_on_after_a_failure_and_says_so(bundle, elsewhere, tmp_path) -> None:
    shutil.copytree(bundle, tmp_path / "own")
    (tmp_path / "own" / "ladders" / "tiny.json").unlink()
    done = call(tmp_path / "own" / "gpu-check", "--cpu", **elsewhere)
    assert done.returncode == 1 and done.stderr == ""
    (folder,) = elsewhere["cwd"].iterdir()
    assert re.fullmatch(r"gpu-check-cpu-\d{4}-\d\d-\d\d", folder.name)
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "check.log"]
    readme, log = (folder / "README.md").read_text(), (folder / "check.log").read_text()
    assert re.search(r"^\| doctor \| ok \| ", readme, re.M)
    for name in ("b16", "b64", "leave-one-out"):
        assert re.search(rf"^\| {name} \| \*\*FAILED\*\*: exit status 2 \| ", readme, re.M)
    # Without a device no test passes, and each says why it was skipped.
    tests = len(re.findall(r"^\[ RUN      \]", log, re.M))
    assert f"| device tests | ok: 0 passed; {tests} skipped; " in readme and tests > 0
    assert re.search(r"\| device tests \| ok: .* skipped: no CUDA device \(.*\) \| ", readme)
    assert log.count("Skipped\nno CUDA device (") == tests and "[       OK ]" not in log


def made_up_study(folder, record):
    for name in ("records", "logs"):
        (folder / name).mkdir(parents=True)
    (folder / "plan.json").write_text('{"kind": "plan"}')
    (folder / "study.json").write_text('{"plan": {"runs_ok": 1, "runs_planned": 2}}')
    (folder / "records" / "r1.json").write_text(json.dumps(record, indent=1))
    (folder / "logs" / "r1.log").write_text("last words\n")
    return folder


def test_what_gpu_check_keeps(gpu_check, evidence, tmp_path, monkeypatch) -> None:
    (out := tmp_path / "out").mkdir()
    check = gpu_check.Check(out, gpu_check.QUICK, "A check", "a machine")
    record = {"id": "r1", "status": "failed", "ms": [0.1, 1e-7]}
    assert evidence.collect(check, "b16", made_up_study(tmp_path / "small", record)) == "1 of 2 runs"
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
    assert "again.study.json would have 43 bytes, and at most 40 are kept" in check.outcomes[-1].words
    assert not (out / "again.study.json").exists() and not (out / "b64.records.jsonl").exists()


def test_the_profiles_of_gpu_check_are_ones_that_the_program_makes(gpu_check, bundle, elsewhere) -> None:
    for arguments in sorted({*gpu_check.FULL.profiles, *gpu_check.QUICK.profiles}):
        done = call(bundle / "ladder", "profile", *arguments.split(), "--model", "tiny", "-B", "1", "-T", "16", **elsewhere)
        # Without a GPU a trace is the processor's, and there are no counters.
        assert done.returncode == (3 if "--counters" in arguments else 0), (arguments, done.stderr)


def test_counters_of_a_profile_are_kept(gpu_check, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_check, "HOME", tmp_path)
    script(tmp_path / "bin" / "ladder", """while [ $# -gt 1 ]; do
        if [ "$1" = --out ]; then echo '{"kind": "counters"}' > "$2"; fi; shift; done""")
    (out := tmp_path / "out").mkdir()
    check = gpu_check.Check(out, gpu_check.QUICK, "A check", "a machine")
    gpu_check.profile(check, "--counters --rung gpu", 10, "b16", tmp_path)
    assert (out / "profile.counters.json").read_text() == '{"kind":"counters"}\n'
    (out / "b16.records.jsonl").write_text("one\n")
    gpu_check.profile(check, "--counters --rung gpu", 10, "b16", tmp_path)
    assert (out / "b16.records.jsonl").read_text() == 'one\n{"file":"counters/4.json","document":{"kind":"counters"}}\n'
    assert all(outcome.good for outcome in check.outcomes)


def test_a_suite_that_crashes_costs_only_itself(gpu_check, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_check, "HOME", tmp_path)
    script(tmp_path / "bin" / "device_tests", """case "$*" in
        *list_tests*) printf 'Memory.\\n  A\\nGood.\\n  B\\n  Z\\nBad.\\n  C\\nHanging.\\n  D\\nSilent.\\n  E\\n';;
        *Good.Z*) printf 'a.cpp:7: Skipped\\nnot permitted\\n\\n[  PASSED  ] 2 tests.\\n[  SKIPPED ] 1 test, listed below:\\n';;
        *Bad*) kill -9 $$;;
        *Hanging*) exec sleep 1000;;
        *Memory*) sleep 3; echo "[  PASSED  ] 2 tests.";;
        *Silent*) ;;
        *) echo "[  PASSED  ] 2 tests.";; esac""")
    check = gpu_check.Check(tmp_path, gpu_check.QUICK, "A check", "a machine")
    monkeypatch.setattr(gpu_check, "ALONE_S", 10)
    gpu_check.device_tests(check, 12, tmp_path)
    outcome = check.outcomes[-1]
    assert outcome.words.startswith("6 passed; 1 skipped; Good.Z skipped: not permitted; ") and not outcome.good
    for fault in ("Bad.C: ended by SIGKILL; ", "Hanging.D: ended by SIGTERM; ", "Silent.E: exit status 0 without a verdict"):
        assert fault in outcome.words + "; "
    assert "Memory" not in outcome.words and "Good.B" not in outcome.words
    script(tmp_path / "bin" / "device_tests", "exit 3")
    gpu_check.device_tests(check, 12, tmp_path)
    assert check.outcomes[-1].words == "device_tests cannot say what tests it has: exit status 3"


def test_an_interrupt_keeps_what_is_measured(gpu_check, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_check, "HOME", tmp_path)
    (out := tmp_path / "out").mkdir()
    made_up_study(tmp_path / "b16", {"id": "r1", "status": "ok"})
    script(tmp_path / "bin" / "ladder", "sleep 0.3; kill -INT $PPID; exec sleep 1000")
    check = gpu_check.Check(out, gpu_check.QUICK, "A check", "a machine")
    with pytest.raises(KeyboardInterrupt):
        gpu_check.study(check, gpu_check.QUICK.studies[0], 1.0, 0, tmp_path)
    assert check.outcomes[-1].words == "1 of 2 runs; interrupted"
    assert (out / "b16.records.jsonl").is_file() and "**FAILED**: 1 of 2 runs; interrupted" in (out / "README.md").read_text()


def test_an_interrupt_does_not_wait_for_the_tests_that_run(gpu_check, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_check, "HOME", tmp_path)
    script(tmp_path / "bin" / "device_tests", """case "$*" in
        *list_tests*) printf 'Good.\\n  A\\nHanging.\\n  B\\n';;
        *Good*) echo "[  PASSED  ] 1 test."; sleep 1; kill -INT $PPID;;
        *) trap "" TERM; echo $$ > stubborn; exec sleep 1000;; esac""")
    check = gpu_check.Check(tmp_path, gpu_check.QUICK, "A check", "a machine")
    with pytest.raises(KeyboardInterrupt):
        gpu_check.device_tests(check, 900, tmp_path)
    assert check.outcomes[-1].words == "interrupted" and check.outcomes[-1].seconds < 300
    assert not pathlib.Path("/proc", (tmp_path / "stubborn").read_text().strip()).exists()
    assert "--gtest_filter=Hanging.B" not in (tmp_path / "check.log").read_text()


def test_what_is_not_available_says_why(gpu_check, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_check, "HOME", tmp_path)
    script(tmp_path / "bin" / "ladder", "echo note: this and that; echo ladder: counters are not permitted >&2; exit 3")
    check = gpu_check.Check(tmp_path, gpu_check.QUICK, "A check", "a machine")
    gpu_check.profile(check, "--counters --rung gpu", 10, "b16", tmp_path)
    assert check.outcomes[-1].good and check.outcomes[-1].words == "not available here: ladder: counters are not permitted"


def test_without_a_compiler_the_peer_runs_eagerly(gpu_check, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_check, "HOME", tmp_path)
    (tmp_path / "ablations").mkdir()
    (tmp_path / "ablations" / "peers").symlink_to(ROOT / "ablations" / "peers")
    script(tmp_path / "bin" / "ladder", "exit 0")
    (out := tmp_path / "out").mkdir()
    check = gpu_check.Check(out, gpu_check.FULL, "A check", "a machine")
    compiler = script(tmp_path / "bin" / "cc", "exit 0")
    for compiler, modes, words in ((compiler, "compile", None), ("/nowhere/cc", "eager", "needs a C compiler, and /nowhere/cc is not there")):
        monkeypatch.setenv("CC", str(compiler))
        if modes == "compile" and gpu_check.obstacle_to_compiling():
            continue  # no headers of Python
        gpu_check.study(check, gpu_check.FULL.studies[0], 1.0, 0, tmp_path)
        outcome = check.outcomes[-1]
        assert outcome.good and f"--peer-modes {modes} " in outcome.command and (words or "") in outcome.words


def test_a_step_is_stopped_at_its_limit(gpu_check, tmp_path) -> None:
    check = gpu_check.Check(tmp_path, gpu_check.QUICK, "A check", "a machine")
    status, output = check.run(["sh", "-c", "echo begun; exec sleep 1000"], "sleep", 0.2, tmp_path)
    assert status == -15 and "begun\n".startswith(output)  # a slow machine may not have come so far
    assert gpu_check.ending(status, 0.2).startswith("ended by SIGTERM")


def test_the_log_has_a_largest_size_too(gpu_check, tmp_path) -> None:
    check = gpu_check.Check(tmp_path, gpu_check.QUICK, "A check", "a machine")
    for _ in range(20):
        check.say("x" * 2**20)
    assert (tmp_path / "check.log").stat().st_size <= 16 * 2**20
    assert [outcome.good for outcome in check.outcomes] == [False]
