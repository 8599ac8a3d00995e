"""packaging/gate, and the jobs of gpu.yml: their own commands, read from the file and run here on the tiny CPU recipe.

A bundle is here a folder whose `ladder` starts the program that was built (LADDER) and remembers what it has measured, or a
few lines of shell where only the exit status is of interest.
"""

import json
import os
import pathlib
import subprocess
import sys
import tarfile

import pytest

yaml = pytest.importorskip("ruamel.yaml")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "program"))
from gates import remembering  # noqa: E402  (found through the line above)

GATE = ROOT / "packaging" / "gate"
WORKFLOW = yaml.YAML(typ="safe").load((ROOT / ".github" / "workflows" / "gpu.yml").read_text())
JOB = WORKFLOW["jobs"]["measure"]["steps"]
BUILD = WORKFLOW["jobs"]["bundle"]["steps"]
TINY = "--ladder tiny --batch 1 --context 32 --warmup 3 --steps 9 --threads 1 --pairs 6 --top-up 0 --min-effect 10"

# As much of `ladder` and `gpu-check` as the script sees: doctor, a gate with VERDICT and STATUS, and what a night is made of.
STAND_IN = r"""
echo "$0 $*" >> "$CALLS"
given="$1 $2"
while [ $# -gt 1 ] && [ "$1" != --out ]; do shift; done
case $given in
  "doctor --json") echo '{"environment": {"gpu": GPU}}' ;;
  doctor*) echo "GPU      some"; exit DOCTOR ;;
  gate*) mkdir "$2"; [ -z "VERDICT" ] || echo '{"verdict": "VERDICT"}' > "$2/gate.json"
         case $* in *--rung*) exit SECOND ;; esac; exit STATUS ;;
  ablate*) echo "a table"; [ -z "VERDICT" ] || { mkdir "$2"; echo '{}' > "$2/study.json"; }; exit STATUS ;;
  history*) find "$STUDIES" -name study.json >> "$CALLS"; exit SECOND ;;
esac
"""


def program(path: pathlib.Path, text: str) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def bundle(folder: pathlib.Path, text: str) -> pathlib.Path:
    return program(folder / "ladder", text).parent


def stand_in(folder: pathlib.Path, verdict="SAME", status=0, gpu="null", doctor=0, second=0, tests=0) -> pathlib.Path:
    text = STAND_IN
    for name, value in {"VERDICT": verdict, "STATUS": status, "GPU}}": f"{gpu}}}}}", "DOCTOR": doctor, "SECOND": second}.items():
        text = text.replace(name, str(value))
    program(folder / "gpu-check", f'echo "$0 $*" >> "$CALLS"; echo tested; exit {tests}')
    return bundle(folder, text)


def tar(folder: pathlib.Path, file: pathlib.Path) -> None:
    with tarfile.open(file, "w") as archive:
        archive.add(folder, "bundle")


@pytest.fixture
def gate(tmp_path):
    """gate("run", ..., GATE_FLAGS=...): the finished script, in a folder of its own."""
    def call(*arguments, script=GATE, **variables) -> subprocess.CompletedProcess:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GATE_", "GITHUB_"))}
        environment |= {"CALLS": str(tmp_path / "calls"), "STUDIES": str(tmp_path / "studies"), "CUDA_VISIBLE_DEVICES": "", "LC_ALL": "C.UTF-8", **variables}
        return subprocess.run([script, *map(str, arguments)], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=600)
    return call


# ---- The job as GitHub runs it

def run_job(gate, temp: pathlib.Path, **variables) -> subprocess.CompletedProcess:
    """The job's one command with its own variables, but for those in `variables`."""
    (step,) = [step for step in JOB if "run" in step]
    variables = {"CALL": "run", "GATE_ALLOW_INCONCLUSIVE": "0", **variables}
    given = {name: value for name, value in step["env"].items() if "${{" not in value}
    assert set(variables) <= set(step["env"]) and set(step["env"]) <= {*given, *variables, "LADDER_PYTHON", "GATE_STUDIES"}
    return gate("-euo", "pipefail", "-c", f"cd '{ROOT}'; {step['run']}", script="/bin/bash", RUNNER_TEMP=str(temp),
                GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(temp / "summary.md"), **{**given, **variables})


def uploaded(temp: pathlib.Path) -> set[str]:
    (step,) = [step for step in JOB if "upload-artifact" in step.get("uses", "")]
    assert step["if"] == "always()"
    folder = pathlib.Path(step["with"]["path"].replace("${{ runner.temp }}", str(temp)))
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def downloaded(tmp_path):
    """downloaded(base, head): the runner's folder, with both as tar files where the download leaves them."""
    def put(base: pathlib.Path, head: pathlib.Path) -> pathlib.Path:
        (step,) = [step for step in JOB if "download-artifact" in step.get("uses", "")]
        temp = tmp_path / "runner temp"
        folder = pathlib.Path(step["with"]["path"].replace("${{ runner.temp }}", str(temp)))
        folder.mkdir(parents=True)
        tar(base, folder / "base.tar")
        tar(head, folder / "head.tar")
        return temp
    return put


@pytest.mark.parametrize("name", ["old", "main", "main^1"])
def test_the_job_that_builds_takes_any_name_of_a_commit(tmp_path, name) -> None:
    def git(*arguments) -> str:
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tmp_path, check=True,
                              capture_output=True, text=True).stdout.strip()
    git("init", "-b", "main")
    for commit in ("one", "two"):
        git("commit", "--allow-empty", "-m", commit)
    git("update-ref", "refs/remotes/origin/old", "main^1")  # a branch, as the checkout leaves it
    choose, _, upload = [step["run"] for step in BUILD if "run" in step]
    for command in (choose, "mkdir bundle", upload):
        subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=tmp_path, check=True, env={**os.environ, "COMMIT": name, "SIDE": "base"})
    assert git("log", "-1", "--format=%s") == ("two" if name == "main" else "one") and (tmp_path / "base.tar").exists()


@pytest.fixture(scope="session")
def real(tmp_path_factory) -> pathlib.Path:
    built = os.environ.get("LADDER") or pytest.skip("LADDER is not set")
    return remembering(tmp_path_factory.mktemp("real"), built).parent


def test_the_job_with_two_equal_programs(gate, downloaded, real) -> None:
    temp = downloaded(real, real)
    done = run_job(gate, temp, GATE_NEEDS_GPU="0", GATE_FLAGS=TINY)
    verdict = json.loads((temp / "out" / "gate" / "gate.json").read_text())
    assert verdict["verdict"] == "SAME", done.stdout + done.stderr
    assert done.returncode == verdict["exit_status"] == 0
    assert (temp / "summary.md").read_text().startswith("## ladder gate: SAME")
    assert uploaded(temp) >= {"doctor.txt", "doctor.json", "gate/gate.json", "gate/gate.html", "gate/summary.md", "gate/plan.json"}
    records = [name for name in uploaded(temp) if name.startswith("gate/records/") and ".flagged." not in name]
    assert len(records) == 12  # besides those that were made again, on a busy machine


def test_the_job_with_a_head_that_fails(gate, downloaded, real, tmp_path) -> None:
    temp = downloaded(real, bundle(tmp_path / "broken", "echo broken >&2\nexit 7"))
    done = run_job(gate, temp, GATE_NEEDS_GPU="0", GATE_FLAGS=TINY, GATE_ALLOW_INCONCLUSIVE="1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "::error title=ladder gate::FAILED" in done.stderr
    assert (temp / "summary.md").read_text().startswith("## ladder gate: FAILED")
    assert "gate/gate.json" in uploaded(temp)


def test_the_job_on_a_machine_without_a_gpu(gate, downloaded, real) -> None:
    temp = downloaded(real, real)
    done = run_job(gate, temp, GATE_FLAGS=TINY, GATE_ALLOW_INCONCLUSIVE="1")
    assert done.returncode == 3 and "GPU is not seen" in done.stderr
    assert "no verdict (exit status 3)" in (temp / "summary.md").read_text()
    assert uploaded(temp) == {"doctor.txt", "doctor.json"}


# ---- The script

@pytest.mark.parametrize("verdict, status, allowed, expected", [
    ("SAME", 0, "0", 0), ("REGRESSION", 1, "1", 1), ("INCONCLUSIVE", 3, "0", 3), ("INCONCLUSIVE", 3, "1", 0),
    ("UNFIT", 3, "1", 3), ("", 2, "1", 2),
])
def test_exit_status(gate, tmp_path, verdict, status, allowed, expected) -> None:
    base, head = stand_in(tmp_path / "base", verdict, status), stand_in(tmp_path / "head", "SAME", 0)
    done = gate("run", base, head, "out", GATE_ALLOW_INCONCLUSIVE=allowed, GITHUB_STEP_SUMMARY="/nonexistent/summary")
    assert done.returncode == expected
    assert ("there is no verdict" in done.stderr) == (verdict == "")


def test_base_is_the_judge_and_flags_arrive(gate, tmp_path) -> None:
    base, head = stand_in(tmp_path / "a base"), stand_in(tmp_path / "head")
    (tmp_path / "a-file").touch()  # which no word is a pattern of
    done = gate("run", base, head, "out/new", "--pairs", "9", GATE_FLAGS="--ladder  *\n[a]-file")
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [f"{base}/ladder doctor", f"{base}/ladder doctor --json",
                     f"{base}/ladder gate --base {base} --head {head} --out out/new/gate --ladder * [a]-file --pairs 9"]



@pytest.mark.parametrize("status", [3, 1])  # 1: the loader's, whose C library is too old, for instance
@pytest.mark.parametrize("call", [("run", "base"), ("calibrate",), ("nightly",)])
def test_a_doctor_that_fails_ends_it(gate, tmp_path, call, status) -> None:
    base = stand_in(tmp_path / "base", doctor=status)
    assert gate(call[0], base, *call[1:], "out").returncode == 3
    assert (tmp_path / "calls").read_text() == f"{base}/ladder doctor\n"


@pytest.mark.parametrize("first, second, allowed, expected", [
    (0, 1, "0", 1), (3, 1, "0", 1), (1, 3, "1", 1), (3, 0, "0", 3), (0, 3, "1", 0),
])
def test_several_gates(gate, tmp_path, first, second, allowed, expected) -> None:
    base = stand_in(tmp_path / "base", "INCONCLUSIVE", first, second=second)
    done = gate("run", base, base, "out", "--pairs", "6", GATE_FLAGS="--wait; --wait --rung bf16", GATE_ALLOW_INCONCLUSIVE=allowed)
    assert done.returncode == expected, done.stderr
    assert [call.split(f"--head {base} ")[1] for call in (tmp_path / "calls").read_text().splitlines()[2:]] == [
        "--out out/gate --wait --pairs 6", "--out out/gate-2 --wait --rung bf16 --pairs 6"]


def test_a_calibration(gate, tmp_path) -> None:
    base = stand_in(tmp_path / "base", "CALIBRATED")
    assert gate("calibrate", base, "out", "--wait").returncode == 0
    assert (tmp_path / "calls").read_text().endswith(
        f"{base}/ladder gate --calibrate --save --baselines out/baselines --out out/gate --wait\n")


@pytest.mark.parametrize("tests, ladder, history, expected", [(0, 0, 0, 0), (1, 0, 0, 1), (0, 3, 1, 1), (0, 0, 3, 3), (3, 0, 1, 1)])
def test_a_night(gate, tmp_path, tests, ladder, history, expected) -> None:
    base = stand_in(tmp_path / "base", status=ladder, second=history, tests=tests)
    summary, studies = tmp_path / "summary.md", tmp_path / "studies"
    (studies / "2026-01-01T031700Z").mkdir(parents=True)
    (studies / "2026-01-01T031700Z" / "study.json").touch()
    done = gate("nightly", base, "out", GATE_FLAGS="--wait --explain", GATE_STUDIES=str(studies), GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == expected, done.stderr
    *calls, first, second = (tmp_path / "calls").read_text().splitlines()
    assert calls[2:] == [f"{base}/gpu-check prove out/tests", f"{base}/ladder ablate --out out/study --wait --explain",
                         f"{base}/ladder history {studies} --out out/history --fail-on-slowdown"]
    assert "2026-01-01T031700Z" in first + second and len({first, second}) == 2
    assert f"## Device tests (exit status {tests})\n\n```\ntested\n```\n" in summary.read_text()
    assert f"## Ladder (exit status {ladder})\n\n```\na table\n```\n" in summary.read_text()


def test_a_night_without_a_study(gate, tmp_path) -> None:
    base = stand_in(tmp_path / "base", "", status=2)
    assert gate("nightly", base, "out", GATE_STUDIES="studies").returncode == 2
    assert "history" not in (tmp_path / "calls").read_text() and not (tmp_path / "studies").exists()


def test_refusals(gate, tmp_path) -> None:
    good = stand_in(tmp_path / "good")
    (tmp_path / "empty").mkdir()
    for arguments, words in [(["run", good, "empty", "out"], "empty is not a bundle"), (["run", good, good, "empty"], "empty exists already"),
                             (["run", good], "packaging/gate run"), ([], "packaging/gate run")]:
        done = gate(*arguments)
        assert done.returncode == 2 and words in done.stderr, done.stderr
    assert not (tmp_path / "out").exists() and not (tmp_path / "calls").exists()
