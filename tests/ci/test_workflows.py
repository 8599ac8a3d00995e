"""The workflows and actions, ours and those for others, against GitHub's schema and zizmor's security audits, and who reaches a GPU;
all without a network.

Each check is also run on copies with one fault each, so that a check that finds nothing any more is noticed.
"""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

yaml = pytest.importorskip("ruamel.yaml")
ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = pathlib.Path(yaml.__file__).resolve().parents[2]
OUR_OWN = "github.event_name != 'pull_request' || github.event.pull_request.head.repo.full_name == github.repository"
BENCH = "docs/bench.yml"  # a workflow that others copy
PLACES = {"workflows": [".github/workflows/*.yml", BENCH], "actions": [".github/actions/*/action.yml", "action.yml"]}


@pytest.fixture
def copy(tmp_path) -> pathlib.Path:
    shutil.copytree(ROOT / ".github", tmp_path / ".github")
    (tmp_path / "docs").mkdir()
    for name in (BENCH, "action.yml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def files(folder: pathlib.Path, kind: str) -> list[pathlib.Path]:
    found = [sorted(folder.glob(place)) for place in PLACES[kind]]
    assert all(found)
    return sum(found, [])


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
    """The idents of zizmor's findings. A comment may start bench.yml: `commented_faults` has what makes that safe."""
    program = PACKAGES / "bin" / "zizmor"
    checked = [*files(folder, "workflows"), *files(folder, "actions")]
    done = subprocess.run([program, "--offline", "--no-config", "--no-progress", "--collect", "all", "--strict-collection",
                           "--format", "json", *checked], capture_output=True, text=True, check=False)
    found = yaml.YAML(typ="safe").load(done.stdout) if done.stdout else None
    assert found is not None, done.stderr
    accepted = [("dangerous-triggers", BENCH), ("unpinned-uses", "OWNER/gpt2-ladder@COMMIT")]
    return {finding["ident"] for finding in found
            if not any(finding["ident"] == ident and where in json.dumps(finding["locations"]) for ident, where in accepted)}


# ---- Who reaches our GPU, and for how long

def steps(document: dict) -> list[dict]:
    if "runs" in document:
        return document["runs"]["steps"]
    return [step for job in document["jobs"].values() for step in job.get("steps", [])]


def gpu_faults(folder: pathlib.Path) -> list[str]:
    faults = []
    for file in folder.glob(PLACES["workflows"][0]):
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


# ---- Who starts a measurement by a comment

def commented_faults(folder: pathlib.Path) -> list[str]:
    workflow = load(folder / BENCH)
    asked, speed = workflow["jobs"]["asked"], workflow["jobs"]["speed"]
    faults = [] if workflow["permissions"] == {} else ["permissions of all jobs"]
    if "contains(fromJSON('[\"OWNER\", \"MEMBER\", \"COLLABORATOR\"]'), github.event.comment.author_association)" not in asked["if"]:
        faults.append("anybody starts it")
    if any("uses" in step for step in asked["steps"]) or speed["needs"] != "asked":
        faults.append("code runs before it is known who asks")
    checkout = speed["steps"][0]["with"]
    if checkout["ref"] != "${{ needs.asked.outputs.head }}" or checkout["persist-credentials"]:
        faults.append("not the commit that was asked for")
    return faults


GH = """\
#!/bin/sh
case $2 in
  */collaborators/somebody/permission) echo "$MAY" ;;
  repos/us/program/pulls/7) echo "$FROM aaa bbb" ;;
esac
"""


@pytest.mark.parametrize("may, origin, status", [
    ("write", "us/program", 0), ("admin", "us/program", 0), ("read", "us/program", 1), ("", "us/program", 1),
    ("write", "them/program", 1), ("write", "", 1),
])
def test_who_may_start_it(tmp_path, may, origin, status) -> None:
    (tmp_path / "gh").write_text(GH)
    (tmp_path / "gh").chmod(0o755)
    (step,) = load(ROOT / BENCH)["jobs"]["asked"]["steps"]
    assert set(step["env"]) == {"GH_TOKEN", "NUMBER", "WHO"}
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], capture_output=True, text=True, check=False, env={
        "PATH": f"{tmp_path}:/usr/bin:/bin", "MAY": may, "FROM": origin, "GITHUB_REPOSITORY": "us/program",
        "NUMBER": "7", "WHO": "somebody", "GITHUB_OUTPUT": str(tmp_path / "output")})
    assert done.returncode == status, done.stdout + done.stderr
    assert not status or "::error::" in done.stdout
    assert (tmp_path / "output").exists() == (status == 0)
    if status == 0:
        assert (tmp_path / "output").read_text() == "base=aaa\nhead=bbb\n"


# ---- Who can publish in our name

def identity_faults(folder: pathlib.Path) -> list[str]:
    """One job may ask for the identity that PyPI trusts: of a tag, and in an environment that the owner guards."""
    faults = []
    for file in files(folder, "workflows"):
        workflow = load(file)
        for name, job in {"all jobs": workflow, **workflow["jobs"]}.items():
            guarded = (job.get("environment"), job.get("if")) == ("pypi", "github.ref_type == 'tag'")
            if "id-token" in job.get("permissions", {}) and (file.name, name, guarded) != ("release.yml", "publish", True):
                faults.append(f"{file.name}: {name}: an identity")
    return faults


@pytest.mark.parametrize("faults", [schema_faults, audits, gpu_faults, commented_faults, identity_faults])
def test_nothing_is_wrong(faults) -> None:
    assert not faults(ROOT)


@pytest.mark.parametrize("faults, words, name, good, bad", [
    (schema_faults, "run-on", ".github/workflows/ci.yml", "runs-on: ubuntu-24.04", "run-on: ubuntu-24.04"),
    (schema_faults, "compose", ".github/actions/toolchain/action.yml", "using: composite", "using: compose"),
    (audits, "unpinned-uses", ".github/workflows/gpu.yml", "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c", "actions/download-artifact@v8"),
    (audits, "template-injection", ".github/workflows/gpu.yml", '"$SIDE.tar" bundle', '"${{ inputs.base }}" bundle'),
    (audits, "template-injection", ".github/actions/toolchain/action.yml", "python3-venv $PACKAGES", "python3-venv ${{ inputs.packages }}"),
    (audits, "excessive-permissions", ".github/workflows/ci.yml", "contents: read", "contents: write"),
    (gpu_faults, "timeout", ".github/workflows/gpu.yml", "    timeout-minutes: 60\n", ""),
    (gpu_faults, "strangers", ".github/workflows/gpu.yml", "'gpu-nightly' || 'gpu'", "'' || ''"),
    (gpu_faults, "strangers", ".github/workflows/gpu.yml", "  workflow_call:\n", "  pull_request:\n  workflow_call:\n"),
    (gpu_faults, "strangers", ".github/workflows/gpu-gate.yml", f"    if: {OUR_OWN}\n", ""),
    (schema_faults, "compose", "action.yml", "using: composite", "using: compose"),
    (audits, "unpinned-uses", "action.yml", "actions/cache/save@27d5ce7f107fe9357f9df03efb73ab90386fccae", "actions/cache/save@v5"),
    (audits, "template-injection", "action.yml", 'printf %s "$GATE_COMMAND"', 'printf %s "${{ inputs.command }}"'),
    (audits, "template-injection", BENCH, "collaborators/$WHO", "collaborators/${{ github.event.comment.body }}"),
    (commented_faults, "asked for", BENCH, "persist-credentials: false", "persist-credentials: true"),
    (commented_faults, "anybody", BENCH, '"COLLABORATOR"', '"COLLABORATOR", "NONE"'),
    (commented_faults, "asked for", BENCH, "ref: ${{ needs.asked.outputs.head }}", "ref: refs/pull/${{ github.event.issue.number }}/head"),
    (commented_faults, "who asks", BENCH, "    needs: asked\n", "    needs: []\n"),
    (commented_faults, "permissions", BENCH, "permissions: {}", "permissions: write-all"),
    (gpu_faults, "strangers", ".github/workflows/ci.yml", "runs-on: ubuntu-24.04", "runs-on: [self-hosted, gpu]"),
    (audits, "unpinned-uses", ".github/workflows/release.yml", "pypi-publish@dc37677b2e1c63e2034f94d8a5b11f265b73ba33", "pypi-publish@release/v1"),
    (identity_faults, "publish", ".github/workflows/release.yml", "    environment: pypi\n", ""),
    (identity_faults, "publish", ".github/workflows/release.yml", "    if: github.ref_type == 'tag'\n    runs-on", "    runs-on"),
    (identity_faults, "page", ".github/workflows/release.yml", "contents: write", "id-token: write"),
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
    scripts = [*(ROOT / "packaging" / name for name in ("gate", "gate-commits", "try-wheel")), *(ROOT / ".ci").iterdir()]
    for file in [*files(folder, "workflows"), *files(folder, "actions")]:
        for number, step in enumerate(step for step in steps(load(file)) if "run" in step):
            scripts.append(scratch / f"{file.parent.name}-{file.stem}-{number}.sh")
            scripts[-1].write_text("#!/usr/bin/env bash\nset -eo pipefail\n" + step["run"])
    done = subprocess.run([checker, *scripts], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_shell(copy, tmp_path) -> None:
    assert shell_faults(copy, tmp_path) == ""
    plant(copy, ".github/workflows/gpu.yml", '"$SIDE.tar"', "$SIDE.tar")
    assert "SC2086" in shell_faults(copy, tmp_path)
