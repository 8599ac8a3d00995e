"""`ladder gate --expect`: keep or discard, and the ledger of a night. The program of test_gate_commits.py says its times itself."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import validator
from test_gate_commits import commit, git, repository  # noqa: F401

FEW = ["--warmup", "1", "--steps", "8"]
VALUE = "import random\nfrom settings import LOSS\nprint('step 1: loss 1.0')\nprint(f'val_bpb: {LOSS * (1 + 0.002 * random.uniform(-1, 1)):.6f}')\n"


@pytest.fixture
def experiment(program, environment, repository):  # noqa: F811
    """experiment("--expect", "better"): exit status, the line of JSON, standard error. It compares the last two commits."""

    def run(*words, command=("python3", "train.py"), flags=FEW, base="HEAD~1", out=None):
        folder = out or f"gates/{time.monotonic_ns()}"
        done = subprocess.run([program, "gate", "--base", base, "--json", "--out", folder, *flags, *words, "--", *command], cwd=repository,
                              capture_output=True, text=True, timeout=600, env=environment | {"LADDER_LOCK_DIR": str(repository), "LADDER_BUSY": "1"})
        lines = done.stdout.splitlines()
        assert len(lines) <= 1, done.stdout
        return done.returncode, json.loads(lines[0]) if lines else None, done.stderr

    return run


def ledger_of(repository, name="night.json"):  # noqa: F811
    night = json.loads((repository / name).read_text())
    assert not [error.message for error in validator("ledger").iter_errors(night)], name
    return night


def test_a_faster_head_is_kept_after_few_pairs(experiment, repository):  # noqa: F811
    commit(repository, 0.004, 0.003)
    commit(repository, 0.0037, 0.003)
    status, said, error = experiment("--expect", "faster:1%", "--ledger", "night.json")
    assert (status, said["verdict"], said["experiment"]) == (0, "keep", 1), error
    assert said["pairs"] <= 8 and said["runs"] == 2 * said["pairs"]
    assert said["interval"][0] > 1.01 and said["ratio"] == pytest.approx(0.004 / 0.0037, rel=0.01)
    assert said["evidence"] >= said["needed"] == pytest.approx(1 / said["error_spent"])
    entry = ledger_of(repository)["experiments"][0]
    assert entry["judgment"]["verdict"] == "keep" and entry["head"] == git(repository, "rev-parse", "HEAD").strip()


def test_a_slower_head_is_discarded_after_two(experiment, repository):  # noqa: F811
    commit(repository, 0.004)
    commit(repository, 0.0044, 0.0001)
    status, said, error = experiment("--expect", "better")
    assert (status, said["verdict"]) == (1, "discard"), error
    assert said["pairs"] <= 4 and said["next"] == "go back to base"
    assert said["experiment"] is None and said["error_spent"] == pytest.approx(0.05)


def test_a_change_without_effect_is_discarded_by_what_the_pairs_can_show(experiment, repository):  # noqa: F811
    commit(repository, 0.004, 0.005)
    commit(repository, 0.004, 0.005, more="# another comment")
    status, said, error = experiment("--expect", "faster")
    assert status in (1, 3), error  # one in hundreds is undecided
    assert "which 16 pairs can show, is excluded" in said["reasons"][0] or said["pairs"] == 16


def test_what_gains_just_the_wanted_is_undecided_and_says_so(experiment, repository):  # noqa: F811
    commit(repository, 0.004, 0.004)
    commit(repository, 0.004 / 1.01, 0.004)
    status, said, error = experiment("--expect", "faster:1%", "--pairs", "6")
    assert (status, said["verdict"]) == (3, "undecided"), error
    assert "--pairs 12" in said["next"] and "is needed" in said["reasons"][0]


def test_a_ledger_shares_its_error_and_its_noise(experiment, repository):  # noqa: F811
    commit(repository, 0.004, 0.004)
    commit(repository, 0.0042, 0.004)
    for _ in range(2):
        assert experiment("--expect", "better", "--ledger", "night.json")[0] == 1
    commit(repository, 0.0036, 0.004)
    assert experiment("--expect", "better", "--ledger", "night.json")[0] == 0
    commit(repository, 0.0038, 0.004)
    assert experiment("--expect", "better", "--ledger", "night.json")[0] == 1
    entries = ledger_of(repository)["experiments"]
    levels = [entry["expectation"]["level"] for entry in entries]
    assert levels[0] > levels[1] > levels[2] and levels[3] > 1.8 * levels[2]  # one was kept
    known = [entry["expectation"]["noise_freedom"] for entry in entries]
    assert known[0] == 0 and known[3] == sum(entry["judgment"]["pairs"] - 1 for entry in entries[:3])


def test_the_ledger_has_a_page_and_can_be_joined(experiment, repository, program, environment):  # noqa: F811
    commit(repository, 0.004)
    commit(repository, 0.0036, 0.001)
    for name in ("a.json", "b.json"):
        assert experiment("--expect", "better", "--ledger", name)[0] == 0

    def ladder(*words):
        return subprocess.run([program, *words], cwd=repository, capture_output=True, text=True, env=environment, timeout=300)

    drawn = ladder("report", "a.json")
    assert drawn.returncode == 0 and "1 experiment: 1 kept, 1.11x together" in drawn.stdout, drawn.stdout + drawn.stderr
    assert json.loads((repository / "a-report" / "ledger.json").read_text())["said"]["headline"] == "1 experiment: 1 kept, 1.11× together"
    merged = ladder("merge", "a.json", "b.json", "--out", "both.json")
    assert merged.returncode == 0, merged.stderr
    both = ledger_of(repository, "both.json")
    assert len(both["experiments"]) == 2 and both["error"] == pytest.approx(0.1)
    assert ladder("merge", "a.json", "a.json", "--out", "twice.json").returncode == 2
    assert ladder("merge", "a.json", "b.json", "--out", "both.json").returncode == 2  # is there


def test_a_number_is_judged_as_a_time_is(experiment, repository):  # noqa: F811
    (repository / "value.py").write_text(VALUE)
    commit(repository, loss=1.0)
    commit(repository, loss=0.97)
    metric = ["--metric", r"val_bpb: (?P<value>\S+)", "--expect", "better"]
    command = ("python3", "value.py")
    status, said, error = experiment(*metric, "--better", "lower", command=command, flags=[])
    assert (status, said["verdict"]) == (0, "keep") and said["ratio"] == pytest.approx(1 / 0.97, rel=0.005), error
    assert experiment(*metric, "--better", "higher", command=command, flags=[])[0] == 1


@pytest.mark.parametrize("head, status, why", [(0.97, 3, "let {seed} in the command be the seed"), (1.0, 1, "have the same number")])
def test_a_number_that_chance_does_not_change_is_no_evidence(experiment, repository, head, status, why):  # noqa: F811
    (repository / "value.py").write_text(VALUE.replace("0.002", "0"))
    commit(repository, loss=1.0)
    commit(repository, loss=head, more="# another comment")
    done, said, error = experiment("--metric", r"val_bpb: (?P<value>\S+)", "--expect", "better", "--better", "lower", command=("python3", "value.py"), flags=[])
    assert done == status and said["pairs"] == 2 and why in said["reasons"][0], error


def test_a_head_that_learns_something_else_or_fails_is_discarded(experiment, repository):  # noqa: F811
    commit(repository, 0.004)
    commit(repository, 0.003, 0.001, loss=3.0)
    status, said, error = experiment("--expect", "better")
    assert (status, said["verdict"]) == (1, "discard") and "no longer learns the same" in said["reasons"][0], error
    commit(repository, more="raise SystemExit(3)")
    status, said, error = experiment("--expect", "better", "--ledger", "night.json")
    assert (status, said["verdict"]) == (1, "discard") and said["runs"] == 0, error
    assert not (repository / "night.json").exists()  # it has shown nothing by chance
    commit(repository, 0.004)
    status, said, error = experiment("--expect", "better")  # now base fails
    assert (status, said["verdict"]) == (3, "undecided"), error


def test_what_was_found_discards_a_head_that_looks_faster(experiment, repository):  # noqa: F811
    """It writes half of the time that passed. Nothing is sampled but how soon its lines can be read."""
    train = repository / "train.py"
    train.write_text(train.read_text().replace('"t": t + step * pace,', '"t": t + step * pace / 2,'))
    commit(repository, 0.02)
    status, said, error = experiment("--expect", "better")
    assert (status, said["verdict"]) == (1, "discard") and said["ratio"] > 1.5, (said, error)
    assert next(iter(said)) == "found" and "by the clock of who read them" in said["found"][0] and said["reasons"][0] == "found: " + said["found"][0]


TORCH = """\
import torch
torch.manual_seed(1)
torch.set_num_threads(1)
rows = [torch.randn(64, 16) for _ in range(4)]
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=DECAY)
for step in range(100000):
    loss = (model(rows[step % 4]) - rows[step % 4].sum(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.6f}", flush=True)
"""


def test_a_head_that_is_another_training_is_discarded(experiment, repository):  # noqa: F811
    """Without weight decay, its losses of sixteen steps are the same within what is allowed."""
    pytest.importorskip("torch")
    for decay in ("0.1", "0.0"):
        (repository / "train.py").write_text(TORCH.replace("DECAY", decay))
        git(repository, "commit", "-q", "-a", "-m", "Change")
    status, said, error = experiment("--expect", "faster", "--pairs", "6", command=(sys.executable, "train.py"))
    assert (status, said["verdict"], said["pairs"]) == (1, "discard", 2), error
    assert "another training: its optimizer has weight_decay 0 in place of 0.1 for 0.weight" in said["reasons"][0], said


def test_an_interrupted_experiment_has_spent_its_error(program, environment, repository):  # noqa: F811
    commit(repository, 0.004)
    commit(repository, 0.004, 0.1)
    begun = subprocess.Popen([program, "gate", "--base", "HEAD~1", *FEW, "--pairs", "500", "--expect", "faster:1%", "--ledger", "night.json", "--", "python3", "train.py"],
                             cwd=repository, env=environment | {"LADDER_LOCK_DIR": str(repository), "LADDER_BUSY": "1"}, stderr=subprocess.PIPE, text=True)
    for line in begun.stderr:
        if " after 2 pairs" in line:
            begun.send_signal(signal.SIGINT)
            break
    begun.stderr.read()
    assert begun.wait(timeout=60) == 130
    (entry,) = ledger_of(repository)["experiments"]
    assert "judgment" not in entry and not (repository / ".git" / "worktrees").exists()


def test_a_head_that_changes_earlier_records_decides_nothing(experiment, repository):  # noqa: F811
    commit(repository, 0.004)
    commit(repository, 0.004, more="""
import glob, pathlib
for file in glob.glob("../../records/*base*.json"):
    pathlib.Path(file).write_text(pathlib.Path(file).read_text() + " ")
""")
    status, said, error = experiment("--expect", "better", out="gates/here")
    assert status == 3 and "were changed" in error, (said, error)


@pytest.mark.parametrize("words, why", [
    (["--expect", "quicker"], "--expect must be"),
    (["--expect", "better", "--metric", "val: (?P<value>.)", "--better", "lower"], "--metric cannot be combined with --steps"),
    (["--ledger", "night.json"], "--expect"),
    (["--expect", "better", "--catch", "2"], "--catch"),
    (["--for-s", "10"], "--for-s needs --catch or --expect"),
    (["--expect", "better", "--ledger", "settings.py"], "settings.py"),
])
def test_wrong_usage_says_what_is_wrong(experiment, repository, words, why):  # noqa: F811
    commit(repository, 0.01)
    commit(repository, 0.011)
    status, _, error = experiment(*words)
    assert status == 2 and why in error, error


def test_a_ledger_that_spends_too_much_is_refused(experiment, repository):  # noqa: F811
    commit(repository, 0.004)
    commit(repository, 0.0036, 0.001)
    assert experiment("--expect", "better", "--ledger", "night.json")[0] == 0
    night = ledger_of(repository)
    night["experiments"][0]["expectation"]["level"] = 0.06
    (repository / "night.json").write_text(json.dumps(night))
    status, _, error = experiment("--expect", "better", "--ledger", "night.json")
    assert status == 2 and "spend an error of 0.06" in error, error


def test_seconds_end_it(experiment, repository):  # noqa: F811
    commit(repository, 0.004, 0.05)
    commit(repository, 0.004 / 1.01, 0.05)
    status, said, error = experiment("--expect", "faster:1%", "--pairs", "500", "--budget-s", "1")
    assert status == 3 and said["pairs"] < 500 and os.path.exists(repository / said["folder"]), error
