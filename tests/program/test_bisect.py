"""`ladder bisect`, and `git bisect run ladder gate --bisect`, in repositories that the tests make. The program says its times itself, by
a client's lines (client/ladder_client.py), so that a busy machine changes no verdict.
"""

import json
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import records
from test_gate_commits import git

SMALL = ["--warmup", "2", "--steps", "8"]
TRAIN = textwrap.dedent("""\
    import json, os, random, time
    from settings import STEP_S
    random.seed(os.path.basename(os.environ["LADDER_LOG"]))  # each run has its own noise, and each test one verdict
    pace, t = STEP_S * (1 + 0.002 * random.gauss(0, 1)), time.monotonic()
    with open(os.environ["LADDER_LOG"], "a") as log:
        for step in range(1000000):
            time.sleep(max(0, t + step * pace - time.monotonic()))  # no line lies in the future
            log.write(json.dumps({"step": step, "t": t + step * pace, "loss": 4 / (1 + 0.01 * step)}) + "\\n")
            log.flush()
    """)


def repository_of(folder, steps_s, broken=()):
    """Commits whose steps take so long; broken ones end before they make any."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "train.py").write_text(TRAIN)
    for number, step_s in enumerate(steps_s):
        (folder / "settings.py").write_text(f"STEP_S = {step_s}\n" + ("raise SystemExit('broken')\n" if number in broken else f"# {number}\n"))
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", f"Change {number}")
    return folder, git(folder, "rev-list", "--reverse", "main").split()


def bisect(program, environment, folder, *words, **variables):
    return subprocess.run([program, "bisect", *words], cwd=folder, capture_output=True, text=True, timeout=600,
                          env=environment | {"LADDER_LOCK_DIR": str(folder.parent)} | variables)


def test_a_planted_commit_is_found(program, environment, tmp_path):
    folder, commits = repository_of(tmp_path / "program", [0.01] * 23 + [0.012] * 10)
    done = bisect(program, environment, folder, "main~32", "main", *SMALL, "--out", "out", "--json", "--prepare", "touch prepared",
                  "--", "python3", "train.py")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads((folder / "out" / "bisect.json").read_text()) and done.stdout.count("\n") == 1
    assert result["verdict"] == "ONE" and result["changes"][0]["commits"] == [commits[23]] and "(Change 23)" in result["said"]
    assert 1.1 < result["changes"][0]["lo"] < 1.2 < result["changes"][0]["hi"] < 1.3
    assert [of["commit"] for of in result["commits"]] == commits and result["commits"][23]["probability"] >= 0.95
    assert result["runs"] == sum(of["runs"] for of in result["commits"]) == len(records(folder / "out")) <= 96, "as many as git bisect at eight pairs"
    assert len(git(folder, "worktree", "list").splitlines()) == 1 and not (folder / "out" / "worktrees").exists()
    assert git(folder, "status", "--porcelain").split() == ["??", "out/"]


def test_commits_that_do_not_run_are_skipped_and_named(program, environment, tmp_path):
    folder, commits = repository_of(tmp_path / "program", [0.01] * 5 + [0.013] * 5, broken={4, 5, 7})
    done = bisect(program, environment, folder, commits[0], "main", *SMALL, "--out", "out", "--", "python3", "train.py")
    result = json.loads((folder / "out" / "bisect.json").read_text())
    assert done.returncode == 0 and result["changes"][0]["commits"] == commits[4:7], (done.stdout, done.stderr)
    assert "one of 3 commits up to" in done.stdout and f"{commits[4][:12]} is skipped" in done.stderr and "broken" in done.stderr
    assert "ended with exit status 1" in result["commits"][5]["skipped"] and result["commits"][5]["runs"] == 0


def test_two_ends_that_do_not_differ(program, environment, tmp_path):
    folder, _ = repository_of(tmp_path / "program", [0.01] * 4)
    done = bisect(program, environment, folder, "main~3", "main", *SMALL, "--out", "out", "--", "python3", "train.py")
    assert done.returncode == 3 and "GOOD and BAD do not differ by more than" in done.stdout, done.stderr
    assert json.loads((folder / "out" / "bisect.json").read_text())["verdict"] == "SAME"


def test_runs_that_do_not_suffice(program, environment, tmp_path):
    folder, _ = repository_of(tmp_path / "program", [0.01] * 20 + [0.013] * 20)
    done = bisect(program, environment, folder, "main~39", "main", *SMALL, "--pairs", "6", "--out", "out", "--", "python3", "train.py")
    result = json.loads((folder / "out" / "bisect.json").read_text())
    assert (done.returncode == 3) == (result["verdict"] == "OPEN") and result["runs"] <= 12
    assert "not found in 12 runs; the first suspect is" in done.stdout or result["verdict"] == "ONE", done.stdout


def test_time_that_does_not_suffice(program, environment, tmp_path):
    """No pair begins after a second; the one that has begun is ended."""
    folder, _ = repository_of(tmp_path / "program", [0.02, 0.02, 0.03, 0.03])
    done = bisect(program, environment, folder, "main~3", "main", "--warmup", "2", "--steps", "40", "--budget-s", "1", "--out", "out", "--", "python3", "train.py")
    result = json.loads((folder / "out" / "bisect.json").read_text())
    assert (done.returncode, result["verdict"], result["runs"]) == (3, "OPEN", 2) and done.stdout.endswith("not found in 2 runs\n"), done.stderr


@pytest.mark.parametrize("words, status, said", [
    (["main~1", "main"], 2, "GOOD, BAD and a command are needed"),
    (["main", "main~1", "--", "python3", "train.py"], 2, "must be an ancestor"),
    (["main", "main", "--", "python3", "train.py"], 2, "must be an ancestor"),
    (["nothing", "main", "--", "python3", "train.py"], 2, "GOOD nothing: no such commit"),
    (["main~1", "main", "--prepare", "exit 7", "--", "python3", "train.py"], 3, "--prepare failed in good"),
    (["main~1", "main", "--", "true"], 3, "before a step was found"),
    (["--versions", "a==1", "--", "python3", "train.py"], 2, "--versions needs two"),
])
def test_what_cannot_be_bisected(program, environment, tmp_path, words, status, said):
    folder, _ = repository_of(tmp_path / "program", [0.01] * 2)
    done = bisect(program, environment, folder, *SMALL, "--out", "out", *words)
    assert done.returncode == status and said in done.stderr, done.stderr
    assert len(git(folder, "worktree", "list").splitlines()) == 1


def test_an_interrupt_leaves_no_worktree(program, environment, tmp_path):
    folder, _ = repository_of(tmp_path / "program", [0.01] * 3 + [0.013] * 3)
    begun = subprocess.Popen([program, "bisect", "main~5", "main", *SMALL, "--out", "out", "--", "python3", "train.py"], cwd=folder,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment | {"LADDER_LOCK_DIR": str(tmp_path)})
    while not (folder / "out" / "records").exists() and begun.poll() is None:
        time.sleep(0.01)
    begun.send_signal(signal.SIGINT)
    _, said = begun.communicate(timeout=600)
    assert begun.returncode == 130 and b"cannot be resumed" in said, said
    assert len(git(folder, "worktree", "list").splitlines()) == 1 and not (folder / "out" / "worktrees").exists()


def wheel(folder, version, step_s):
    """A package that knows how long a step takes, as pip installs it without a network."""
    import zipfile
    with zipfile.ZipFile(folder / f"steplength-{version}-py3-none-any.whl", "w") as file:
        info = f"steplength-{version}.dist-info"
        file.writestr("steplength.py", f"STEP_S = {step_s}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: steplength\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


def test_versions_of_a_package(program, environment, tmp_path):
    pytest.importorskip("pip")
    for version in range(1, 6):
        wheel(tmp_path, version, 0.01 if version < 4 else 0.013)
    (tmp_path / "train.py").write_text(TRAIN.replace("from settings", "from steplength"))
    names = [f"steplength=={version}" for version in range(1, 6)]
    # The environments show the packages of the first python on PATH, and pip among them.
    path = f"{pathlib.Path(sys.executable).parent}:{environment['PATH']}"
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PATH": path}
    done = bisect(program, environment, tmp_path, "--versions", ",".join(names), *SMALL, "--out", "out", "--", "python3", "train.py", **offline)
    assert done.returncode == 0 and "steplength==4 took" in done.stdout, (done.stdout, done.stderr)
    # A program that finds the package elsewhere is the same program five times.
    (tmp_path / "steplength.py").write_text("STEP_S = 0.01\n")
    done = bisect(program, environment, tmp_path, "--versions", ",".join(names), *SMALL, "--out", "same", "--", "python3", "train.py", **offline)
    assert done.returncode == 3 and "reads nothing of the environment" in done.stderr, done.stderr


def gate(program, environment, folder, *words):
    return subprocess.run([program, "gate", "--bisect", *SMALL, "--pairs", "6", "--top-up", "0", *words], cwd=folder, capture_output=True,
                          text=True, timeout=600, env=environment | {"LADDER_LOCK_DIR": str(folder.parent)})


def test_a_gate_tells_git_bisect_what_it_does_not_know(program, environment, tmp_path):
    folder, commits = repository_of(tmp_path / "program", [0.01, 0.01, 0.01, 0.013, 0.013, 0.0102], broken={2})
    command = ("--", "python3", "train.py")
    assert gate(program, environment, folder, "--base", commits[0], "--head", commits[1], *command).returncode == 0
    assert gate(program, environment, folder, "--base", commits[0], "--head", commits[3], *command).returncode == 1
    assert gate(program, environment, folder, "--base", commits[0], "--head", commits[2], *command).returncode == 125, "head is broken"
    assert gate(program, environment, folder, "--base", commits[2], "--head", commits[3], *command).returncode == 125, "base is broken"
    unclear = gate(program, environment, folder, "--base", commits[0], "--head", commits[5], "--min-effect", "2", *command)
    assert unclear.returncode in (125, 1, 0) and ("INCONCLUSIVE" in unclear.stdout) == (unclear.returncode == 125), unclear.stdout
    for wrong in (["--no-such-flag"], ["--base", "nothing", *command], ["--base", commits[0]], command):
        assert gate(program, environment, folder, *wrong).returncode == 129, wrong


@pytest.mark.thorough
def test_git_bisect_runs_a_gate(program, environment, tmp_path):
    folder, commits = repository_of(tmp_path / "program", [0.01] * 6 + [0.013] * 6, broken={3})
    git(folder, "bisect", "start", "main", commits[0])
    done = subprocess.run(["git", "bisect", "run", program, "gate", "--bisect", "--base", commits[0], *SMALL, "--pairs", "6", "--top-up", "0",
                           "--", "sh", "-c", "exec python3 train.py"], cwd=folder, capture_output=True, text=True, timeout=600,
                          env=environment | {"LADDER_LOCK_DIR": str(tmp_path)})
    assert f"{commits[6]} is the first bad commit" in done.stdout, (done.stdout, done.stderr)
