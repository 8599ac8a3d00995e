"""The workflows against GitHub's schema and zizmor's security audits, and who reaches our GPU; all without a network.

Each check is also run on copies with one fault each, so that a check that finds nothing any more is noticed.
"""

import pathlib
import shutil
import subprocess
import sys

import pytest

yaml = pytest.importorskip("ruamel.yaml")
ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = pathlib.Path(yaml.__file__).resolve().parents[2]
OUR_OWN = "github.event_name != 'pull_request' || github.event.pull_request.head.repo.full_name == github.repository"


@pytest.fixture
def copy(tmp_path) -> pathlib.Path:
    return pathlib.Path(shutil.copytree(ROOT / ".github", tmp_path / ".github"))


def files(folder: pathlib.Path, kind: str) -> list[pathlib.Path]:
    found = sorted(folder.glob({"workflows": "workflows/*.yml", "actions": "actions/*/action.yml"}[kind]))
    assert found
    return found


def load(file: pathlib.Path) -> dict:
    return yaml.YAML(typ="safe").load(file.read_text())  # YAML 1.2, where `on` is a word


def plant(folder: pathlib.Path, name: str, good: str, bad: str) -> None:
    file = folder / name
    text = file.read_text()
    assert good in text, f"{name} no longer holds: {good}"
    file.write_text(text.replace(good, bad))


# ---- GitHub's schema

def schema_faults(folder: pathlib.Path) -> str:
    said = ""
    for kind in ("workflows", "actions"):
        done = subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.github-{kind}",
                               *files(folder, kind)], capture_output=True, text=True, check=False)
        said += done.stdout + done.stderr if done.returncode != 0 else ""
    return said


# ---- zizmor

def audits(folder: pathlib.Path) -> set[str]:
    """The idents of zizmor's findings."""
    program = PACKAGES / "bin" / "zizmor"
    done = subprocess.run([program, "--offline", "--no-config", "--no-progress", "--collect", "all", "--strict-collection",
                           "--format", "json", folder], capture_output=True, text=True, check=False)
    found = yaml.YAML(typ="safe").load(done.stdout) if done.stdout else None
    assert found is not None, done.stderr
    return {finding["ident"] for finding in found}


# ---- Who reaches our GPU, and for how long

def steps(document: dict) -> list[dict]:
    if "runs" in document:
        return document["runs"]["steps"]
    return [step for job in document["jobs"].values() for step in job.get("steps", [])]


def gpu_faults(folder: pathlib.Path) -> list[str]:
    faults = []
    for file in files(folder, "workflows"):
        workflow = load(file)
        triggers = set(workflow["on"])
        for name, job in workflow["jobs"].items():
            if "steps" not in job:  # it calls gpu.yml
                reached = triggers & {"push", "pull_request"} and job.get("if") != OUR_OWN
            else:
                reached = "ubuntu-24.04" not in job["runs-on"] and (triggers != {"workflow_call"} or "'gpu'" not in job.get("environment", ""))
                if not 0 < job.get("timeout-minutes", 0) <= 120:
                    faults.append(f"{file.name}: {name}: timeout")
            if reached:
                faults.append(f"{file.name}: {name}: strangers reach it")
    return faults


@pytest.mark.parametrize("faults", [schema_faults, audits, gpu_faults])
def test_nothing_is_wrong(faults) -> None:
    assert not faults(ROOT / ".github")


@pytest.mark.parametrize("faults, words, name, good, bad", [
    (schema_faults, "run-on", "workflows/ci.yml", "runs-on: ubuntu-24.04", "run-on: ubuntu-24.04"),
    (schema_faults, "compose", "actions/toolchain/action.yml", "using: composite", "using: compose"),
    (audits, "unpinned-uses", "workflows/gpu.yml", "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c", "actions/download-artifact@v8"),
    (audits, "template-injection", "workflows/gpu.yml", '"$SIDE.tar" bundle', '"${{ inputs.base }}" bundle'),
    (audits, "template-injection", "actions/toolchain/action.yml", "python3-venv $PACKAGES", "python3-venv ${{ inputs.packages }}"),
    (audits, "excessive-permissions", "workflows/ci.yml", "contents: read", "contents: write"),
    (gpu_faults, "timeout", "workflows/gpu.yml", "    timeout-minutes: 60\n", ""),
    (gpu_faults, "strangers", "workflows/gpu.yml", "'gpu-nightly' || 'gpu'", "'' || ''"),
    (gpu_faults, "strangers", "workflows/gpu.yml", "  workflow_call:\n", "  pull_request:\n  workflow_call:\n"),
    (gpu_faults, "strangers", "workflows/gpu-gate.yml", f"    if: {OUR_OWN}\n", ""),
    (gpu_faults, "strangers", "workflows/ci.yml", "runs-on: ubuntu-24.04", "runs-on: [self-hosted, gpu]"),
])
def test_what_is_planted_is_found(copy, faults, words, name, good, bad) -> None:
    plant(copy, name, good, bad)
    assert words in "".join(faults(copy))


# ---- The newest PyTorch

STAND_INS = {
    "python3": 'mkdir -p "$3/bin"; printf \'#!/bin/sh\\n[ "$1" = -m ] || echo %s/torch\\n\' "$HERE" > "$3/bin/python"; chmod +x "$3/bin/python"',
    "cmake": 'echo "cmake $*" >> "$HERE/calls"; case $1 in --fresh) exit "$CONFIGURE" ;; esac; echo "a.cpp:3: error: no such member"; exit "$BUILD"',
    "ctest": 'echo "ctest $*" >> "$HERE/calls"; printf "noise\\n[  FAILED  ] Ops.Gelu\\n"; exit "$TESTS"',
}


@pytest.mark.parametrize("configure, build, tests, words, calls", [
    (0, 0, 0, "PyTorch 2.15.0+cu132: the program builds, and its C++ tests pass.\n", 3),
    (1, 0, 0, "**PyTorch 2.15.0+cu132: the configuration fails.**", 1),
    (0, 1, 0, "**PyTorch 2.15.0+cu132: the build fails.**\n\n```\na.cpp:3: error: no such member\n```\n", 2),
    (0, 0, 8, "**PyTorch 2.15.0+cu132: a test fails.**\n\n```\n[  FAILED  ] Ops.Gelu\n```\n", 3),
])
def test_a_jobs_summary_says_what_the_newest_pytorch_breaks(tmp_path, configure, build, tests, words, calls) -> None:
    for folder in (".ci", "bin", "torch"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / ".ci" / "newest", tmp_path / ".ci")
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.15.0+cu132'\n")
    for name, text in STAND_INS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    summary = tmp_path / "summary.md"
    done = subprocess.run([tmp_path / ".ci" / "newest"], capture_output=True, text=True, check=False, env={
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HERE": str(tmp_path), "GITHUB_STEP_SUMMARY": str(summary),
        "CONFIGURE": str(configure), "BUILD": str(build), "TESTS": str(tests)})
    assert (done.returncode != 0) == any((configure, build, tests)), done.stderr
    assert summary.read_text().startswith(words) and done.stdout.endswith(summary.read_text())
    called = (tmp_path / "calls").read_text().splitlines()
    assert len(called) == calls and f"-DCMAKE_PREFIX_PATH={tmp_path}/torch" in called[0]


# ---- The shell in them

def shell_faults(folder: pathlib.Path, scratch: pathlib.Path) -> str:
    checker = shutil.which("shellcheck") or pytest.skip("shellcheck is not installed")
    scripts = [ROOT / "packaging" / "gate", *(ROOT / ".ci").iterdir()]
    for file in [*files(folder, "workflows"), *files(folder, "actions")]:
        for number, step in enumerate(step for step in steps(load(file)) if "run" in step):
            scripts.append(scratch / f"{file.parent.name}-{file.stem}-{number}.sh")
            scripts[-1].write_text("#!/usr/bin/env bash\nset -eo pipefail\n" + step["run"])
    done = subprocess.run([checker, *scripts], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_shell(copy, tmp_path) -> None:
    assert shell_faults(copy, tmp_path) == ""
    plant(copy, "workflows/gpu.yml", '"$SIDE.tar"', "$SIDE.tar")
    assert "SC2086" in shell_faults(copy, tmp_path)
