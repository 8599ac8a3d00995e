"""The bundle as somebody unpacks it elsewhere: another folder, with a space in its name, an empty home, no `make data`, and
the source tree out of sight. LADDER_BUILD names the build folder; the python that runs the tests has torch.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKE = ROOT / "packaging" / "bundle.py"
RUN = ["--repeats", "1", "--steps", "2", "--warmup", "3", "--threads", "1"]  # memory settles within three steps
LAUNCHER = ["ladder", "micro", "gpu-check"]


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def call(program, *arguments, environment, cwd):
    return subprocess.run([str(program), *map(str, arguments)], env=environment, cwd=cwd, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False, timeout=840)


@pytest.fixture(scope="session")
def build():
    folder = pathlib.Path(os.environ.get("LADDER_BUILD") or pytest.skip("LADDER_BUILD is not set"))
    if not (folder / "ladder").is_file():
        pytest.skip(f"{folder} holds no program")
    return folder


@pytest.fixture(scope="session")
def bundle(build, tmp_path_factory):
    made = tmp_path_factory.mktemp("made") / "bundle"
    done = subprocess.run([sys.executable, MAKE, "--build-dir", build, "--out", made], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\[bundle\] .*: [\d.]+ MB; libraries of this machine in it: .*libfmt.*\n", done.stderr)
    assert [path.name for path in made.parent.iterdir()] == ["bundle"]
    return made.rename(tmp_path_factory.mktemp("un packed") / "the bundle")


@pytest.fixture
def elsewhere(tmp_path):
    """An environment with nothing but a python3 that has torch, and a folder to be in."""
    for name in ("home", "cwd"):
        (tmp_path / name).mkdir()
    script(tmp_path / "bin" / "python3", f'echo started >> "{tmp_path}/starts"\nexec "{sys.executable}" "$@"')
    environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path / "home"), "OMP_WAIT_POLICY": "PASSIVE",
                   "XDG_CACHE_HOME": str(tmp_path / "home" / "cache"), "CUDA_VISIBLE_DEVICES": "", "LC_ALL": "C.UTF-8"}
    return {"environment": environment, "cwd": tmp_path / "cwd"}


def fake_torch(folder, version, cuda):
    """A torch that may be looked at but not imported."""
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("raise SystemExit('imported')\n")
    (folder / "torch" / "version.py").write_text(
        f"from typing import Optional\n\n__version__ = {version!r}\ncuda: Optional[str] = {cuda!r}\n")
    return folder


def test_contents(bundle) -> None:
    files = [path for path in bundle.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 40e6
    names = {str(path.relative_to(bundle)) for path in files}
    assert names >= {"ladder", "gpu-check", "gpu_check.py", "environment.sh", "README.md", "LICENSE", "bin/ladder",
                     "bin/device_tests", "bin/micro", "data/shakespeare.bin", "ladders/gpt2.json", "results/schemas/record.v1.json",
                     "plots/render.py", "plots/report.html.j2", "plots/charts/ladder.py", "results/published.json"}
    assert not [name for name in names if "__pycache__" in name or re.search(r"lib(torch|c10|cud|nv|c\.|stdc|gcc)", name)]
    for path in files:
        if path.parent.name not in ("bin", "lib", "data"):
            assert str(ROOT) not in path.read_text(), path
    for program in ("ladder", "micro", "device_tests"):
        dynamic = subprocess.run(["readelf", "-d", bundle / "bin" / program], capture_output=True, text=True, check=True).stdout
        assert "[libtorch_cuda.so]" in dynamic and "libcuda.so.1" not in dynamic
        assert re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic) == ["$ORIGIN/../lib"]
        assert ".symtab" not in subprocess.run(["readelf", "-SW", bundle / "bin" / program], capture_output=True, text=True,
                                               check=True).stdout


def test_the_supported_torch_is_the_one_it_is_built_for() -> None:
    version = re.search(r"LADDER_TORCH_VERSION (\S+)\)", (ROOT / "cmake" / "LibTorch.cmake").read_text())[1]
    assert f'!= {json.dumps(version.split("."))}' in (ROOT / "packaging" / "environment.sh").read_text()


def test_doctor(bundle, elsewhere, tmp_path) -> None:
    link = tmp_path / "links" / "a link"
    link.parent.mkdir()
    link.symlink_to(bundle / "ladder")
    relative = os.path.relpath(bundle / "ladder", elsewhere["cwd"])
    for program in (bundle / "ladder", link, relative):
        done = call(program, "doctor", **elsewhere)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        assert f"data     {bundle}/data/shakespeare.bin" in done.stdout and "\nladder tiny " in done.stdout


def hidden(*command):
    """The command where the source tree is an empty folder."""
    return ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', ROOT, *command]


def test_needs_nothing_of_the_source_tree(bundle, elsewhere, tmp_path) -> None:
    if call(*hidden("true"), **elsewhere).returncode != 0:
        pytest.skip("a folder cannot be hidden without root's rights")
    (own := tmp_path / "own").mkdir()
    shutil.copytree(bundle, own, dirs_exist_ok=True)
    (own / "ladders" / "gpt2.json").unlink()
    done = call(*hidden(own / "ladder", "doctor"), **elsewhere)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^ladder (\S+)", done.stdout, re.M) == ["gpt2-cpu", "gpt2-fp16", "tiny"]
    assert not call(*hidden("test", "-e", MAKE), **elsewhere).returncode == 0
    done = call(*hidden(own / "ladder", "ablate", "--ladder", "tiny", "-T", "8", "--out", "study", *RUN), **elsewhere)
    assert done.returncode == 0, done.stderr
    study = json.loads((elsewhere["cwd"] / "study" / "study.json").read_text())
    assert study["plan"]["runs_ok"] == study["plan"]["runs_planned"] >= 6
    assert study["workload"]["data"]["source"] == "shakespeare.bin"
    assert (elsewhere["cwd"] / "study" / "report.md").is_file() and (elsewhere["cwd"] / "study" / "charts" / "ladder.vl.json").is_file()


def test_its_own_ladders_come_before_the_source_trees(bundle, elsewhere, tmp_path) -> None:
    shutil.copytree(bundle, tmp_path / "own")
    (tmp_path / "own" / "ladders" / "gpt2.json").unlink()
    done = call(tmp_path / "own" / "ladder", "doctor", **elsewhere)
    assert re.findall(r"^ladder (\S+)", done.stdout, re.M) == ["gpt2-cpu", "gpt2-fp16", "tiny"]


def test_a_text_and_a_vocabulary_that_are_there_come_first(bundle, elsewhere) -> None:
    data = pathlib.Path(elsewhere["environment"]["XDG_CACHE_HOME"]) / "gpt2-ladder" / "data"
    data.mkdir(parents=True)
    (data / "shakespeare.txt").write_text("ab " * 100)
    run = ["run", "--model", "tiny", "-B", "1", "-T", "8", "--steps", "1", "--warmup", "0", "--threads", "1", "--json"]
    source = lambda: json.loads(call(bundle / "ladder", *run, **elsewhere).stdout)["workload"]["data"]["source"]  # noqa: E731
    assert source() == "shakespeare.bin"  # a text that cannot be read is none
    shutil.copy(pathlib.Path(os.environ.get("LADDER_TEST_VOCAB") or pytest.skip("LADDER_TEST_VOCAB is not set")),
                data / "gpt2.tiktoken")
    assert source() == "shakespeare.txt"
    assert f"data     {data}\n" in call(bundle / "ladder", "doctor", **elsewhere).stdout


def test_the_launcher_starts_one_python_and_does_not_import_torch(bundle, elsewhere, tmp_path) -> None:
    import torch

    real = pathlib.Path(torch.__file__).parent
    fake = fake_torch(tmp_path / "packages", "2.11.0+cu130", "13.0")
    (fake / "torch" / "lib").symlink_to(real / "lib")
    (fake / "nvidia").symlink_to(real.parent / "nvidia")
    elsewhere["environment"]["PYTHONPATH"] = str(fake)
    done = call(bundle / "ladder", "--version", **elsewhere)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"ladder ([0-9a-f]{12}|unknown)( with uncommitted changes)?, torch 2\.11\.0\n", done.stdout)
    assert (tmp_path / "starts").read_text() == "started\n"


@pytest.mark.parametrize("launcher", LAUNCHER)
@pytest.mark.parametrize("version, cuda, words", [
    ("2.10.1+cu130", "13.0", r"has torch 2\.10\.1\+cu130 in .*packages/torch, and 2\.11 is needed"),
    ("2.110.0", "13.0", r"has torch 2\.110\.0 in .*, and 2\.11 is needed"),
    ("2.11.0+cpu", None, r"has torch 2\.11\.0\+cpu in .*, built without CUDA, and the build for CUDA 13 is needed"),
    ("2.11.0+cu128", "12.8", r"has torch 2\.11\.0\+cu128 in .*, built for CUDA 12\.8, and the build for CUDA 13 is needed"),
])
def test_another_torch_is_refused(bundle, elsewhere, tmp_path, launcher, version, cuda, words) -> None:
    elsewhere["environment"]["PYTHONPATH"] = str(fake_torch(tmp_path / "packages", version, cuda))
    done = call(bundle / launcher, "--help", **elsewhere)
    assert done.returncode == 3 and done.stdout == ""
    assert re.fullmatch(rf"ladder: \S+ {words}.*; type: \S+ -m pip install torch==2\.11\.0, or .* LADDER_PYTHON\n", done.stderr)


def test_a_python_without_torch_is_refused(bundle, elsewhere, tmp_path) -> None:
    (elsewhere["cwd"] / "torch").mkdir()  # a folder of that name is no torch
    bare = f'exec "{sys.executable}" -S "$@"'
    script(tmp_path / "bin" / "python3", bare)
    other = script(tmp_path / "other" / "python", bare)
    for named in ({}, {"LADDER_PYTHON": str(other)}, {"LADDER_PYTHON": "../other/python"}):
        done = call(bundle / "ladder", "doctor", environment={**elsewhere["environment"], **named}, cwd=elsewhere["cwd"])
        assert done.returncode == 3 and done.stdout == ""
        assert re.fullmatch(r"ladder: \S+ has no torch, and 2\.11 is needed; type: .*\n", done.stderr), done.stderr


def test_no_python_and_a_broken_one(bundle, elsewhere, tmp_path) -> None:
    for name in ("dirname", "readlink"):
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools" / name).symlink_to(shutil.which(name))
    nothing = {**elsewhere["environment"], "PATH": str(tmp_path / "tools")}
    for environment in (nothing, {**elsewhere["environment"], "LADDER_PYTHON": "/nowhere/python"}):
        done = call(bundle / "ladder", "doctor", environment=environment, cwd=elsewhere["cwd"])
        assert done.returncode == 3 and done.stdout == ""
        assert re.match(r"ladder: there is no python3 on PATH .*LADDER_PYTHON=/path/to/python\n$", done.stderr)
    broken = script(tmp_path / "broken", "exit 7")
    done = call(bundle / "ladder", "doctor", environment={**nothing, "LADDER_PYTHON": str(broken)}, cwd=elsewhere["cwd"])
    assert done.returncode == 3 and done.stderr.startswith(f"ladder: {broken} does not work (exit status 7)")


# ---- gpu-check

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
    assert f"| device tests | ok: 0 passed; {tests} skipped | " in readme and tests > 0
    assert log.count("Skipped\nno CUDA device (") == tests and "[       OK ]" not in log


@pytest.fixture
def gpu_check(monkeypatch):
    monkeypatch.setenv("LADDER_HOME", "/nowhere")
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    import gpu_check as module

    return module


def made_up_study(folder, record):
    for name in ("records", "logs"):
        (folder / name).mkdir(parents=True)
    (folder / "plan.json").write_text('{"kind": "plan"}')
    (folder / "study.json").write_text('{"plan": {"runs_ok": 1, "runs_planned": 2}}')
    (folder / "records" / "r1.json").write_text(json.dumps(record, indent=1))
    (folder / "logs" / "r1.log").write_text("last words\n")
    return folder


def test_what_gpu_check_keeps(gpu_check, tmp_path, monkeypatch) -> None:
    (out := tmp_path / "out").mkdir()
    check = gpu_check.Check(out, gpu_check.QUICK, "A check", "a machine")
    record = {"id": "r1", "status": "failed", "ms": [0.1, 1e-7]}
    assert gpu_check.collect(check, "b16", made_up_study(tmp_path / "small", record)) == "1 of 2 runs"
    assert (out / "b16.records.jsonl").read_text() == (
        '{"file":"plan.json","document":{"kind":"plan"}}\n'
        '{"file":"records/r1.json","document":{"id":"r1","status":"failed","ms":[0.1,1e-07]}}\n')
    assert "the end of r1's log:\n   last words\n" in (out / "check.log").read_text()

    large = made_up_study(tmp_path / "large", {**record, "status": "ok", "text": "x" * gpu_check.LONGEST_LINE})
    with check.step("b64", "ladder ablate"):
        gpu_check.collect(check, "b64", large)
    assert not check.outcomes[-1].good and "r1.json has 10" in check.outcomes[-1].words
    assert "b64 | **FAILED**: r1.json has 10" in (out / "README.md").read_text()
    monkeypatch.setattr(gpu_check, "LARGEST_FILE", 40)
    with check.step("b16", "ladder ablate"):
        gpu_check.collect(check, "again", tmp_path / "small")
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
        *list_tests*) printf 'Memory.\\n  A\\nGood.\\n  B\\nBad.\\n  C\\nHanging.\\n  D\\nSilent.\\n  E\\n';;
        *Bad*) kill -9 $$;;
        *Hanging*) exec sleep 1000;;
        *Memory*) sleep 3; echo "[  PASSED  ] 2 tests.";;
        *Silent*) ;;
        *) echo "[  PASSED  ] 2 tests.";; esac""")
    check = gpu_check.Check(tmp_path, gpu_check.QUICK, "A check", "a machine")
    monkeypatch.setattr(gpu_check, "ALONE_S", 10)
    gpu_check.device_tests(check, 12, tmp_path)
    outcome = check.outcomes[-1]
    assert outcome.words.startswith("4 passed; Bad: ended by SIGKILL; ") and not outcome.good
    assert "; Hanging: ended by SIGTERM; " in outcome.words
    assert outcome.words.endswith("; Silent: exit status 0 without a verdict") and "Memory" not in outcome.words
    script(tmp_path / "bin" / "device_tests", "exit 3")
    gpu_check.device_tests(check, 12, tmp_path)
    assert check.outcomes[-1].words == "device_tests cannot say what tests it has: exit status 3"


def test_an_interrupt_keeps_what_is_measured(gpu_check, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_check, "HOME", tmp_path)
    (out := tmp_path / "out").mkdir()
    made_up_study(tmp_path / "b16", {"id": "r1", "status": "ok"})
    script(tmp_path / "bin" / "ladder", "kill -INT $PPID; exec sleep 1000")
    check = gpu_check.Check(out, gpu_check.QUICK, "A check", "a machine")
    with pytest.raises(KeyboardInterrupt):
        gpu_check.study(check, gpu_check.QUICK.studies[0], 1.0, 0, tmp_path)
    assert check.outcomes[-1].words == "1 of 2 runs; interrupted"
    assert (out / "b16.records.jsonl").is_file() and "**FAILED**: 1 of 2 runs; interrupted" in (out / "README.md").read_text()


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


# ---- bundle.py's refusals

def test_another_folder_is_not_overwritten(build, tmp_path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept")
    for arguments, words in [(["--build-dir", build, "--out", tmp_path / "mine"], "is there and no bundle"),
                             (["--build-dir", tmp_path, "--out", tmp_path / "new"], "no CMAKE_COMMAND in its CMakeCache.txt")]:
        done = subprocess.run([sys.executable, MAKE, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and words in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"] and (tmp_path / "mine" / "file").read_text() == "kept"
