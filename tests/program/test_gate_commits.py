"""`ladder gate ... -- COMMAND`: two commits of a program in a repository that the test makes. The program says its times itself, by a
client's lines (client/ladder_client.py), so that a busy machine changes no verdict.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMALL = ["--warmup", "2", "--steps", "8"]
TRAIN = textwrap.dedent("""\
    import json, os, re, sys, time
    from settings import STEP_S, NOISE, LOSS
    repeat, side = [0, *map(int, re.findall(r"\\d+", os.path.basename(os.environ["LADDER_LOG"])))][-2:]  # r3-01-head-..., trial-01-...
    noise = NOISE * (-1) ** (repeat // 2 + side) * (0.6, 1, 0.8)[repeat % 3]  # not by chance: each test has one verdict
    pace, t = STEP_S * (1 + noise), time.monotonic()
    with open(os.environ["LADDER_LOG"], "a") as log:
        for step in range(1000000):
            time.sleep(max(0, t + step * pace - time.monotonic()))  # no line lies in the future
            log.write(json.dumps({"step": step, "t": t + step * pace, "loss": LOSS / (1 + 0.01 * step)}) + "\\n")
            log.flush()
    """)


BACKEND = """\
import os, zipfile


def build_editable(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(os.path.join(folder, "program-1-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("program.pth", os.getcwd())
        wheel.writestr("program-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: program\\nVersion: 1\\n")
        wheel.writestr("program-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("program-1.dist-info/RECORD", "")
    return "program-1-py3-none-any.whl"
"""


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "program"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "train.py").write_text(TRAIN)
    commit(folder)
    return folder


def git(folder, *words):
    return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(folder, step_s=0.02, noise=0.0, loss=4.0, more=""):
    (folder / "settings.py").write_text(f"STEP_S, NOISE, LOSS = {step_s}, {noise}, {loss}\n{more}\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Change")


def gate(program, environment, folder, *words, out="out", small=SMALL, command=("python3", "train.py"), **variables):
    return subprocess.run([program, "gate", "--out", out, *small, *words, "--", *command], cwd=folder, capture_output=True, text=True, timeout=600,
                          env=environment | {"LADDER_LOCK_DIR": str(folder)} | variables)


def verdict(folder):
    return json.loads((folder / "out" / "gate.json").read_text())


def test_a_slower_commit_fails(program, environment, repository, tmp_path):
    commit(repository, step_s=0.021)
    done = gate(program, environment, repository, "--base", "HEAD~1", "--pairs", "6", "--top-up", "0", GITHUB_ACTIONS="true",
                GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"))
    assert done.returncode == 1, done.stderr
    result = verdict(repository)
    assert result["verdict"] == "REGRESSION" and result["comparison"]["entries"][0]["ratio"] == pytest.approx(1.05)
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("## ladder gate: REGRESSION") and "\nladder gate --base 'HEAD~1' --pairs 6 --top-up 0" in summary
    assert summary.endswith("\n```\n")
    for side, revision in (("base", "HEAD~1"), ("head", "HEAD")):
        assert result["comparison"][side]["programs"] == [git(repository, "rev-parse", revision).strip()[:12]]
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert not {"worktrees", "runs"} & {path.name for path in (repository / "out").iterdir()}


def test_the_same_passes_whatever_is_not_committed(program, environment, repository):
    commit(repository, more="# nothing that matters")
    (repository / "settings.py").write_text("STEP_S, NOISE, LOSS = 9.0, 0.0, 4.0\n")
    done = gate(program, environment, repository, "--base", "HEAD~1", "--pairs", "6", "--top-up", "0")
    assert done.returncode == 0 and verdict(repository)["verdict"] == "SAME", done.stderr
    assert "not committed are not measured" in done.stderr
    runs = json.loads((repository / "out" / "plan.json").read_text())["runs"]
    assert [run["rung"] for run in runs[:8]] == [0, 1, 1, 0, 0, 1, 1, 0]


def test_other_losses_fail(program, environment, repository):
    commit(repository, loss=4.1)
    done = gate(program, environment, repository, "--base", "HEAD~1", "--pairs", "6", "--top-up", "0")
    assert done.returncode == 1 and "other losses: 0.0" in done.stdout, done.stdout


def test_a_slowdown_to_catch_sets_effect_and_pairs(program, environment, repository):
    commit(repository, noise=0.01)
    commit(repository, step_s=0.0208, noise=0.01)
    environment = environment | {"XDG_CACHE_HOME": str(repository.parent / "cache")}  # where the noise is kept
    done = gate(program, environment, repository, "--base", "HEAD~1", "--catch", "3", "--prepare", "touch prepared", out="unknown")
    assert done.returncode == 3 and "--calibrate --save" in done.stderr and "preparing" not in done.stderr, done.stderr
    done = gate(program, environment, repository, "--calibrate", "--save", out="calibrated")
    assert done.returncode == 0 and (repository / "calibrated" / "gate.json").exists(), done.stderr
    assert not (repository / "results").exists() and list((repository.parent / "cache").rglob("baselines/*")), "the repository is not written"
    done = gate(program, environment, repository, "--base", "HEAD~1", "--catch", "3", out="caught")
    plan = json.loads((repository / "caught" / "plan.json").read_text())
    assert done.returncode == 1 and plan["gate"]["min_effect"] == pytest.approx(0.015) and plan["gate"]["top_up"] == 0, done.stderr
    assert "find it in 95 % of gates" in done.stderr
    fewest = plan["repeats"]
    done = gate(program, environment, repository, "--base", "HEAD~1", "--catch", "30", out="larger")
    assert json.loads((repository / "larger" / "plan.json").read_text())["repeats"] == 6 <= fewest
    done = gate(program, environment, repository, "--base", "HEAD~1", "--catch", "0.01", out="tiny")
    assert done.returncode == 3 and re.search(r"0\.01 % cannot be caught on this machine \(noise \S+ %\); \S+ % can", done.stderr), done.stderr


def test_a_clear_answer_ends_a_gate_of_many_pairs(program, environment, repository):
    commit(repository, noise=0.01)
    commit(repository, step_s=0.03, noise=0.01)
    done = gate(program, environment, repository, "--base", "HEAD~1", "--pairs", "48")
    assert done.returncode == 1 and "clear after 12 of 48 pairs" in done.stderr, done.stderr
    made = [file for file in (repository / "out" / "records").iterdir() if ".flagged." not in file.name]  # a busy machine makes some again
    assert verdict(repository)["verdict"] == "REGRESSION" and len(made) == 24


@pytest.mark.parametrize("side, status", [("base", 3), ("head", 1)])
def test_a_commit_that_cannot_be_prepared(program, environment, repository, side, status):
    commit(repository, more="# two")
    done = gate(program, environment, repository, "--base", "HEAD~1", "--prepare", f"case $PWD in */{side}) echo no compiler; exit 4;; esac")
    assert done.returncode == status and f"--prepare failed in {side}" in done.stderr and "no compiler" in done.stderr, done.stderr
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize("words, status, said", [
    (["--base=--help"], 2, "--help"),
    ([], 2, "--base COMMIT"),
    (["--base", "HEAD~1", "--rung", "start"], 2, "--ladder and --rung"),
    (["--calibrate", "--prepare", "true"], 2, "--prepare"),
])
def test_what_cannot_be_compared(program, environment, repository, words, status, said):
    commit(repository, more="# two")
    done = gate(program, environment, repository, *words)
    assert done.returncode == status and said in done.stderr, done.stderr


PACKAGE = ("--prepare", """python3 -c 'import os, site; print(os.getcwd(), file=open(site.getsitepackages()[0] + "/settings.pth", "w"))'""")


def packaged(folder):
    """The program lies elsewhere, and imports its settings as a package that is installed."""
    (folder / "bin").mkdir()
    (folder / "train.py").rename(folder / "bin" / "train.py")
    commit(folder)
    commit(folder, step_s=0.2)


def test_each_side_has_a_python_environment_of_its_own(program, environment, repository):
    packaged(repository)
    done = gate(program, environment, repository, "--base", "HEAD~1", "--pairs", "6", "--top-up", "0", *PACKAGE, command=("python3", "bin/train.py"))
    assert done.returncode == 1 and "REGRESSION" in done.stdout, done.stderr


def test_two_sides_that_import_one_package_are_refused(program, environment, repository):
    packaged(repository)
    words = ("--base", "HEAD~1", "--pairs", "6", "--top-up", "0")
    done = gate(program, environment, repository, *words, command=("python3", "bin/train.py"), PYTHONPATH=str(repository))
    assert done.returncode == 3 and f"base and head read the same code, {repository}/settings.py" in done.stderr, done.stderr
    done = gate(program, environment, repository, *words, "--force", out="forced", command=("python3", "bin/train.py"), PYTHONPATH=str(repository))
    assert done.returncode == 0 and "base and head read the same code" in done.stderr and "SAME" in done.stdout, done.stderr


def test_a_program_of_the_checkout_that_both_sides_start_is_refused(program, environment, repository):
    (repository / ".gitignore").write_text("python\n")
    commit(repository, more="# two")
    shutil.copy(os.path.realpath(sys.executable), repository / "python")  # stands for what was built there
    done = gate(program, environment, repository, "--base", "HEAD~1", command=(repository / "python", "train.py"))
    assert done.returncode == 3 and f"{repository}/python" in done.stderr, done.stderr


def test_a_gate_in_a_hook_leaves_the_commit_as_it_is(program, environment, repository):
    commit(repository, more="# two")
    hook = repository / ".git" / "hooks" / "pre-commit"
    words = shlex.join(str(word) for word in (program, "gate", "--out", repository / "out", *SMALL, "--pairs", "6", "--base", "HEAD~1", "--", "python3", "train.py"))
    hook.write_text(f"#!/bin/sh\nexec {words} > {repository}/../said 2>&1\n")
    hook.chmod(0o755)
    (repository / "train.py").write_text(TRAIN + "# three\n")
    (repository / ".git" / "info" / "exclude").write_text("out\n*.lock\n")
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qam", "Three"], cwd=repository, check=True,
                   env=environment | {"LADDER_LOCK_DIR": str(repository)})
    assert git(repository, "show", "--name-only", "--format=", "HEAD").split() == ["train.py"] and not git(repository, "status", "--porcelain")
    assert "gate.html" in (repository.parent / "said").read_text() or "SAME" in (repository.parent / "said").read_text()


def test_hooks_do_not_run_and_a_killed_gate_is_tidied_up(program, environment, repository):
    commit(repository, more="# two")
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    gated = subprocess.Popen([program, "gate", "--out", "out", *SMALL, "--base", "HEAD~1", "--prepare", "sleep 600", "--", "python3", "train.py"],
                             cwd=repository, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment | {"LADDER_LOCK_DIR": str(repository)})
    while not (repository / "out" / "logs" / "prepare-base.log").exists() and gated.poll() is None:
        time.sleep(0.01)
    gated.kill()
    gated.wait()
    assert len(git(repository, "worktree", "list").splitlines()) == 2
    own = repository / "worktrees" / "base"
    git(repository, "-c", "core.hooksPath=/dev/null", "worktree", "add", "--detach", str(own))
    done = gate(program, environment, repository, "--base", "HEAD~1", "--pairs", "6", out="next")
    assert done.returncode == 0 and "left of a gate that was killed" in done.stderr, done.stderr
    assert [line.split()[0] for line in git(repository, "worktree", "list").splitlines()[1:]] == [str(own)], "the user's own stays"


def test_what_a_worktree_lacks_is_named(program, environment, repository):
    (repository / "data").mkdir()
    (repository / "data" / "train.bin").write_text("1")
    (repository / ".gitignore").write_text("*.bin\n")
    (repository / "train.py").write_text('open("data/train.bin").read()\n' + TRAIN)
    commit(repository, more="# two")
    done = gate(program, environment, repository, "--base", "HEAD")
    assert done.returncode == 3 and 'data/train.bin is in your folder, but not in the commit: --prepare "mkdir -p' in done.stderr, done.stderr
    shallow = repository.parent / "shallow"
    git(repository, "clone", "-q", "--depth", "1", f"file://{repository}", str(shallow))
    done = gate(program, environment, shallow, "--base", "HEAD~1")
    assert done.returncode == 2 and "--base HEAD~1: no such commit or branch in this shallow clone" in done.stderr and "fetch-depth: 0" in done.stderr, done.stderr


def test_a_head_that_makes_no_steps_fails(program, environment, repository):
    commit(repository, more="raise SystemExit('broken')")
    done = gate(program, environment, repository, "--base", "HEAD~1", out="head")
    assert done.returncode == 1 and "head:" in done.stderr and "broken" in done.stderr, done.stderr
    done = gate(program, environment, repository, "--base", "HEAD", "--head", "HEAD~1")
    assert done.returncode == 3 and "base:" in done.stderr, done.stderr


@pytest.mark.parametrize("words, begun", [(["--prepare", "sleep 600"], "logs/prepare-base.log"), ([], "records")])
def test_an_interrupt_leaves_no_worktree(program, environment, repository, words, begun):
    commit(repository, more="# two")
    gated = subprocess.Popen([program, "gate", "--out", "out", *SMALL, "--base", "HEAD~1", *words, "--", "python3", "train.py"], cwd=repository,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment | {"LADDER_LOCK_DIR": str(repository)})
    while not (repository / "out" / begun).exists() and gated.poll() is None:
        time.sleep(0.01)
    gated.send_signal(signal.SIGINT)
    _, said = gated.communicate(timeout=600)
    assert gated.returncode == 130, said
    assert len(git(repository, "worktree", "list").splitlines()) == 1 and not (repository / "out" / "worktrees").exists()


def test_a_folder_without_git(program, environment, tmp_path):
    done = gate(program, environment, tmp_path, "--base", "HEAD~1")
    assert done.returncode == 2 and "git" in done.stderr, done.stderr


def test_the_workflow_of_the_docs(program, environment, repository, tmp_path):
    """The steps that docs/your-own-program.md shows, as a runner carries them out for a pull request that is 5 % slower."""
    page = (ROOT / "docs" / "your-own-program.md").read_text()
    lines = [line.strip().removeprefix("- ").removeprefix("run: ") for line in page.splitlines() if "run: ladder gate" in line]
    assert lines, "the page shows a workflow"
    (repository / "small.yaml").write_text("steps: 100\n")
    (repository / "pyproject.toml").write_text('[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n')
    (repository / "backend.py").write_text(BACKEND)
    commit(repository, more="# main")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    calibrated = gate(program, environment, repository, "--calibrate", "--save", out="calibrated", small=[],
                      command=("python3", "train.py", "--config", "small.yaml"))
    assert calibrated.returncode == 0, calibrated.stderr
    commit(repository, step_s=0.021)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ladder").symlink_to(program)
    (tools / "python").write_text('#!/bin/sh\nexec python3 "$@"\n')
    (tools / "python").chmod(0o755)
    variables = environment | {"LADDER_LOCK_DIR": str(repository), "PATH": f"{tools}:{environment['PATH']}", "GITHUB_ACTIONS": "true",
                               "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    done = subprocess.run(["sh", "-c", lines[0].replace("python train.py", "python3 train.py").replace("${{ github.base_ref }}", "main")], cwd=repository, capture_output=True, text=True, timeout=600, env=variables)
    assert done.returncode == 1 and "::error title=ladder gate::REGRESSION" in done.stderr, done.stderr
    assert "REGRESSION" in (tmp_path / "summary.md").read_text()
