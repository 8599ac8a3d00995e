"""The workflows against GitHub's schema, zizmor's security audits and the rules of this repository, all without a network.

Each check is also run on copies with one fault each, so that a check that finds nothing any more is noticed.
"""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

yaml = pytest.importorskip("ruamel.yaml")
ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = pathlib.Path(yaml.__file__).resolve().parents[2]
# A pull request's event has a `before`, too: the last state of its own branch.
OF_A_PUSH = "github.event_name == 'push' && !github.event.created && !github.event.forced && github.event.before"
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


def test_schema() -> None:
    assert schema_faults(ROOT / ".github") == ""


@pytest.mark.parametrize("name, good, bad", [
    ("workflows/ci.yml", "runs-on: ubuntu-24.04", "run-on: ubuntu-24.04"),
    ("workflows/gpu-gate.yml", "workflow_dispatch:", "workflow_dispach:"),
    ("actions/toolchain/action.yml", "using: composite", "using: compose"),
])
def test_the_schema_finds(copy, name, good, bad) -> None:
    plant(copy, name, good, bad)
    assert schema_faults(copy) != ""


# ---- zizmor

def audits(folder: pathlib.Path) -> set[str]:
    """The idents of zizmor's findings."""
    program = PACKAGES / "bin" / "zizmor"
    done = subprocess.run([program, "--offline", "--no-config", "--no-progress", "--collect", "all", "--strict-collection",
                           "--format", "json", folder], capture_output=True, text=True, check=False)
    found = yaml.YAML(typ="safe").load(done.stdout) if done.stdout else None
    assert found is not None, done.stderr
    return {finding["ident"] for finding in found}


def test_security() -> None:
    assert audits(ROOT / ".github") == set()


@pytest.mark.parametrize("ident, name, good, bad", [
    ("dangerous-triggers", "workflows/gpu-gate.yml", "  pull_request:\n", "  pull_request_target:\n"),
    ("unpinned-uses", "workflows/gpu.yml", "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c",
     "actions/download-artifact@v8"),
    ("template-injection", "workflows/gpu.yml", 'build "$COMMIT"', 'build "${{ inputs.base }}"'),
    ("template-injection", "actions/toolchain/action.yml", "python3-venv $PACKAGES", "python3-venv ${{ inputs.packages }}"),
    ("excessive-permissions", "workflows/ci.yml", "permissions:\n  contents: read\n", ""),
    ("excessive-permissions", "workflows/ci.yml", "contents: read", "contents: write"),
    ("artipacked", "workflows/ci.yml", "persist-credentials: false", "clean: true"),
])
def test_security_finds(copy, ident, name, good, bad) -> None:
    plant(copy, name, good, bad)
    assert ident in audits(copy)


# ---- This repository's rules

def steps(document: dict) -> list[dict]:
    if "runs" in document:
        return document["runs"]["steps"]
    return [step for job in document["jobs"].values() for step in job.get("steps", [])]


def our_faults(folder: pathlib.Path) -> list[str]:
    faults = []
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    for file in files(folder, "workflows"):
        workflow = load(file)
        triggers = workflow["on"]
        if workflow.get("permissions") != {"contents": "read"}:
            faults.append(f"{file.name}: permissions")
        if set(triggers) == {"workflow_call"}:
            pass  # its callers say that
        elif set(workflow.get("concurrency", {})) != {"group", "cancel-in-progress"}:
            faults.append(f"{file.name}: concurrency")
        elif not re.search(r"github\.(sha|run_id)\b", workflow["concurrency"]["group"]):
            faults.append(f"{file.name}: concurrency: a push to main ends the run of the one before it")
        if not set(triggers) <= {"push", "pull_request", "schedule", "workflow_dispatch", "workflow_call"}:
            faults.append(f"{file.name}: trigger")
        if "push" in triggers and triggers["push"].get("branches") != ["main"]:
            faults.append(f"{file.name}: push of more than main")
        for name, job in workflow["jobs"].items():
            if "permissions" in job or "secrets" in str(job):
                faults.append(f"{file.name}: {name}: more rights")
            if "event.before" in str(job).replace(OF_A_PUSH, ""):
                faults.append(f"{file.name}: {name}: `before` of what is no push")
            if "steps" not in job:
                for trigger in {"push", "pull_request"} & set(triggers):
                    if job.get("if") != OUR_OWN:
                        faults.append(f"{file.name}: {name}: strangers reach it")
                    if not {"docs/**", "**.md"} <= set(triggers[trigger].get("paths-ignore", [])):
                        faults.append(f"{file.name}: {name}: a change of the documentation takes the GPU")
                continue
            if not 0 < job.get("timeout-minutes", 0) <= (120 if name == "test-all" else 60):
                faults.append(f"{file.name}: {name}: timeout")
            if ("event.before" in str(job) or "$COMMIT" in str(job)) and [
                    step["with"].get("fetch-depth") for step in job["steps"] if "actions/checkout" in step.get("uses", "")] != [0]:
                faults.append(f"{file.name}: {name}: what it compares with is not fetched")
            if sum(step.get("run", "").count("packaging/gate build") for step in job["steps"]) > 1:
                faults.append(f"{file.name}: {name}: two builds, whose packages do not fit on one machine")
            if "ubuntu-24.04" in job["runs-on"]:
                continue
            if set(triggers) != {"workflow_call"} or "'gpu'" not in job.get("environment", ""):
                faults.append(f"{file.name}: {name}: strangers reach it")
            if not any("results/baselines" in step.get("with", {}).get("sparse-checkout", "") for step in job["steps"]):
                faults.append(f"{file.name}: {name}: the calibrated noise floors are not there")
            if any("$/" in step.get("uses", "") for step in job["steps"]):
                faults.append(f"{file.name}: {name}: installs on a machine that is not ours to change")
    for file in [*files(folder, "workflows"), *files(folder, "actions")]:
        for line in re.findall(r"uses: (.+)", file.read_text()):
            if not re.fullmatch(r"actions/[a-z/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\$/\.github/(actions/[a-z]+|workflows/[a-z]+\.yml)", line):
                faults.append(f"{file.name}: {line} is not pinned")
            elif line.startswith("$/") and not any((folder.parent / path).is_file() for path in (line[2:], line[2:] + "/action.yml")):
                faults.append(f"{file.name}: {line} is not there")
        for step in steps(load(file)):
            if "actions/checkout" in step.get("uses", "") and step["with"].get("persist-credentials") is not False:
                faults.append(f"{file.name}: credentials stay")
            command = step.get("run", "")
            if "${{" in command:
                faults.append(f"{file.name}: an expression in: {command}")
            if "HEAD^" in command:
                faults.append(f"{file.name}: a push may be of several commits: {command}")
            packages = step.get("with", {}).get("packages", "")
            if re.search(r"clang-(tidy|format)(?!-14\b)", packages):
                faults.append(f"{file.name}: the sources are kept clean with version 14")
            if "clang-tidy" in packages and "libstdc++-12-dev" not in packages:
                faults.append(f"{file.name}: clang-tidy 14 cannot read the machine's C++ library")
            for script in re.findall(r"(?:^|\s)((?:packaging|\.ci|tests)/[\w./-]+)", command):
                if not ((ROOT / script).is_file() and (ROOT / script).stat().st_mode & 0o111):
                    faults.append(f"{file.name}: {script} is not a program")
            for made in re.findall(r"^\s*make (.+)", command, re.M):
                faults += [f"{file.name}: make {target}" for target in made.split()
                           if "=" not in target and target not in targets]
    return faults


def test_our_rules() -> None:
    assert our_faults(ROOT / ".github") == []


@pytest.mark.parametrize("words, name, good, bad", [
    ("permissions", "workflows/ci.yml", "contents: read", "contents: write"),
    ("concurrency", "workflows/ci.yml", "  cancel-in-progress: ${{ github.event_name == 'pull_request' }}\n", ""),
    ("ends the run of the one before", "workflows/ci.yml", "github.event.pull_request.number || github.sha", "github.ref"),
    ("trigger", "workflows/gpu-gate.yml", "  pull_request:\n", "  issue_comment:\n  pull_request:\n"),
    ("push of more than main", "workflows/gpu-gate.yml", "branches: [main]", "branches: ['**']"),
    ("timeout", "workflows/gpu.yml", "    timeout-minutes: 60\n", ""),
    ("more rights", "workflows/gpu.yml", "    needs: bundle\n", "    needs: bundle\n    permissions: write-all\n"),
    ("strangers", "workflows/gpu.yml", "'gpu-nightly' || 'gpu'", "'' || ''"),
    ("strangers", "workflows/gpu.yml", "  workflow_call:\n", "  pull_request:\n  workflow_call:\n"),
    ("strangers", "workflows/gpu-gate.yml", f"    if: {OUR_OWN}\n", ""),
    ("takes the GPU", "workflows/gpu-gate.yml", "docs/**, ", ""),
    ("strangers", "workflows/gpu-gate.yml", "full_name == github.repository", "full_name != ''"),
    ("strangers", "workflows/ci.yml", "runs-on: ubuntu-24.04", "runs-on: [self-hosted, gpu]"),
    ("credentials stay", "workflows/gpu.yml", "persist-credentials: false", "persist-credentials: true"),
    ("is not pinned", "workflows/ci.yml", " # v7.0.1", ""),
    ("is not a program", "workflows/ci.yml", ".ci/run", ".ci/runs"),
    ("is not a program", "workflows/gpu.yml", "packaging/gate \"$CALL", "packaging/gates \"$CALL"),
    ("make tidi", "workflows/ci.yml", "make tidy", "make tidi"),
    ("of what is no push", "workflows/gpu-gate.yml", "github.event_name == 'push' && ", ""),
    ("of what is no push", "workflows/ci.yml", "!github.event.forced && ", ""),
    ("is not fetched", "workflows/gpu.yml", "          fetch-depth: 0\n", ""),
    ("is not fetched", "workflows/ci.yml", "fetch-depth: 0", "fetch-depth: 2"),
    ("do not fit", "workflows/gpu.yml", "- run: packaging/gate build",
     "- run: packaging/gate build HEAD head.tar\n      - run: packaging/gate build"),
    ("several commits", "workflows/ci.yml", 'SINCE="$SINCE"', "SINCE=HEAD^1"),
    ("version 14", "workflows/ci.yml", "clang-tidy-14", "clang-tidy"),
    ("cannot read", "workflows/ci.yml", " libstdc++-12-dev", ""),
    ("an expression", "workflows/gpu.yml", '"$RUNNER_TEMP/out"', '"${{ runner.temp }}/out"'),
])
def test_our_rules_find(copy, words, name, good, bad) -> None:
    plant(copy, name, good, bad)
    assert any(words in fault for fault in our_faults(copy)), our_faults(copy)


# ---- The shell in them

def shell_faults(folder: pathlib.Path, scratch: pathlib.Path) -> str:
    checker = shutil.which("shellcheck") or pytest.skip("shellcheck is not installed")
    scripts = [ROOT / "packaging" / "gate", ROOT / ".ci" / "run"]
    for file in [*files(folder, "workflows"), *files(folder, "actions")]:
        for number, step in enumerate(step for step in steps(load(file)) if "run" in step):
            scripts.append(scratch / f"{file.parent.name}-{file.stem}-{number}.sh")
            scripts[-1].write_text("#!/usr/bin/env bash\nset -eo pipefail\n" + step["run"])
    done = subprocess.run([checker, *scripts], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_shell(copy, tmp_path) -> None:
    assert shell_faults(copy, tmp_path) == ""
    plant(copy, "workflows/gpu.yml", 'build "$COMMIT"', "build $COMMIT")
    assert "SC2086" in shell_faults(copy, tmp_path)
