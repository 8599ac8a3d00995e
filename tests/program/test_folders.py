"""Folders that already contain something: records of another plan, files of the user, links that somebody else made, and plans that
name programs. None of these is taken over, lost, written through or run.
"""

import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import MEASURED, DRAWN, EVIDENCE, HANGS_AFTER_S, ladder_document, read_json, records, snapshot, wait_for, write_json
from gates import SMALL, script, verdict_of

ARGUMENTS = ["--no-look", "--threads", "1", "-B", "1", "-T", "8", "--order-seed", "3"]
MINE = "a line of my own\n"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    document = ladder_document(rungs=["flash"], plan={"repeats": 1, "warmup_steps": 1, "timed_steps": 2})
    return write_json(tmp_path_factory.mktemp("ladder") / "small.json", document)


@pytest.fixture(scope="module")
def made(ladder, small, tmp_path_factory) -> pathlib.Path:
    """A study of two runs, with its report."""
    folder = tmp_path_factory.mktemp("made") / "study"
    done = ladder("ablate", "--ladder", small, *ARGUMENTS, "--out", folder, variables=DRAWN)
    assert done.returncode in MEASURED and (folder / "report.html").exists(), done.stderr
    return folder


@pytest.fixture
def study(made, tmp_path) -> pathlib.Path:
    """A copy that a test may change."""
    return pathlib.Path(shutil.copytree(made, tmp_path / "study"))


@pytest.fixture
def mine(tmp_path) -> pathlib.Path:
    file = tmp_path / "mine.txt"
    file.write_text(MINE)
    return file


@pytest.fixture
def refused(ladder, tmp_path):
    """refused("it says", "ablate", ...): exit status 2, one line, nothing printed, made, changed or removed."""

    def check(says: str, *arguments, **options) -> None:
        before = snapshot(tmp_path)
        done = ladder(*arguments, **options)
        assert done.returncode == 2 and done.stdout == "", done.stdout + done.stderr
        assert says in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert snapshot(tmp_path) == before

    return check


# ---- records of another plan

def test_what_an_earlier_study_left_is_not_taken_over(refused, program, small, study) -> None:
    for file in study.iterdir():  # rm study/*
        if file.is_file():
            file.unlink()
    for command in (["ablate"], ["gate", "--base", program], ["profile", "--diff", "flash"]):
        refused(f"{study}: is not empty", *command, "--ladder", small, "--out", study)
    refused(f"{study}: is not empty", "merge", "--out", study, EVIDENCE)


def test_records_of_another_plan_are_refused(refused, ladder, study, tmp_path) -> None:
    plan = read_json(study / "plan.json")
    write_json(study / "plan.json", plan | {"created": "2026-01-01T00:00:00Z"})
    (study / "study.json").unlink()
    for command in (["ablate", "--resume", "--out", study], ["report", study], ["compare", study, EVIDENCE], ["merge", "--out", tmp_path / "merged", study]):
        refused(f"was made for another plan ({plan['id']}, SHA-256 ", *command)


def test_records_that_name_no_plan_are_read_and_not_gone_on_with(refused, ladder, study, tmp_path) -> None:
    """Older programs wrote such records; the recorded evidence has some."""
    for run, record in records(study).items():
        del record["plan"]
        write_json(study / "records" / f"{run}.json", record)
    for file in study.glob("records/*.flagged.json"):
        file.unlink()
    (study / "study.json").unlink()
    for command in (["report", study], ["verify", study], ["compare", study, study], ["merge", "--out", tmp_path / "merged", study],
                    ["verify", tmp_path / "merged"]):
        done = ladder(*command)
        assert done.returncode in MEASURED, done.stderr
    refused("does not say for which plan it was made", "ablate", "--resume", "--out", study)


# ---- files of the user's own

def test_a_report_replaces_only_reports(refused, study, tmp_path) -> None:
    for name in ("report.md", "rungs.csv", "charts", "report.json"):
        out = tmp_path / f"out-{name}"
        out.mkdir()
        (out / name).mkdir() if name == "charts" else (out / name).write_text(MINE)
        refused(f"{out}: holds {name}", "report", study, "--out", out)


def test_a_report_stands_beside_other_files_and_is_drawn_again(ladder, study, tmp_path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text(MINE)
    for _ in range(2):
        done = ladder("report", study, "--out", out, variables=DRAWN)
        assert done.returncode in MEASURED and (out / "report.html").exists(), done.stderr
        (out / "charts" / "mine.svg").write_text(MINE)
    assert (out / "notes.txt").read_text() == (out / "charts" / "mine.svg").read_text() == MINE
    # A copy of a study can be drawn in its own folder, which is known by its plan.
    assert ladder("report", study).returncode in MEASURED


def test_a_history_and_a_trace_replace_only_their_own(refused, small, study, tmp_path) -> None:
    for name in ("history.svg", "start.timeline.json"):
        (tmp_path / name).write_text(MINE)
    refused("holds history.svg, but no history.json", "history", study, "--out", tmp_path)
    refused("holds start.timeline.json, but no start.trace.json", "profile", "--trace", "--ladder", small, "--rung", "start",
            "--out", tmp_path)
    refused("is a study's folder, whose plan must not change", "profile", "--diff", "flash", "--ladder", small, "--out", study)


@pytest.mark.parametrize("arguments", [
    ["run", "--ladder", "in.json", "--rung", "start", "--out", "in.json"],
    ["run", "--plan", "study/plan.json", "--run", "r1-00-start", "--out", "text"],
    ["profile", "--trace", "--recipe", "recipe.trace.json", "--out", "."],
    ["report", "study", "--with", "study/benchmark.json"],
    ["ablate", "--resume", "--out", "study"],
], ids=lambda arguments: " ".join(arguments[:2]))
def test_what_is_read_is_not_written_over(refused, small, study, tmp_path, arguments) -> None:
    shutil.copy(small, tmp_path / "in.json")
    write_json(tmp_path / "recipe.trace.json", {"kind": "trace"})
    (tmp_path / "text").write_text("Some words. " * 20)
    plan = read_json(study / "plan.json")
    plan["workload"] |= {"data": str(tmp_path / "text"), "tokens": str(study / "rungs.csv")}
    if arguments[0] == "run":
        del plan["workload"]["tokens"]
    if arguments[0] in ("run", "ablate"):
        write_json(study / "plan.json", plan)
    refused("would be overwritten" if arguments[0] == "ablate" else "is the file that --", *arguments, cwd=tmp_path)


def test_the_text_of_all_runs_is_not_written_over(refused, environment, tmp_path) -> None:
    """No flag names it."""
    text = pathlib.Path(environment["XDG_CACHE_HOME"]) / "gpt2-ladder" / "data" / "shakespeare.txt"
    (tmp_path / "link").symlink_to(text)
    size = text.stat().st_size
    refused("is the file that --data names", "run", "--model", "tiny", "-T", "8", "--out", tmp_path / "link")
    assert text.stat().st_size == size


# ---- links

def test_links_in_a_study_are_replaced(ladder, study, mine) -> None:
    lost = next(study.glob("records/*-flash.json"))
    lost.unlink()
    lost.with_suffix(".flagged.json").unlink(missing_ok=True)
    links = [study / name for name in ("study.json", "report.json", "report.html", "report.md", "rungs.csv", "steps.csv", "benchmark.json",
                                       "drawing.log", "charts/ladder.svg", f"logs/{lost.stem}.log", f"records/{lost.stem}.child.tmp")]
    for link in links:
        link.unlink(missing_ok=True)
        link.symlink_to(mine)
    done = ladder("ablate", "--resume", "--out", study, variables=DRAWN)
    assert done.returncode in MEASURED and lost.exists(), done.stderr
    assert mine.read_text() == MINE and not any(link.is_symlink() for link in links)
    assert ladder("verify", study).returncode == 0


@pytest.mark.parametrize("name", ["records", "logs", "traces", "charts"])
def test_linked_folders_are_refused(refused, study, tmp_path, name) -> None:
    elsewhere = tmp_path / "elsewhere"
    if (study / name).exists():
        shutil.move(study / name, elsewhere)
    else:
        elsewhere.mkdir()
    (study / name).symlink_to(elsewhere)
    refused(f"{study / name}: is a symbolic link", "ablate", "--resume", "--explain", "--out", study)
    if name == "charts":
        refused(f"{study / name}: is a symbolic link", "report", study)


def test_a_folder_that_is_named_may_be_a_link(ladder, small, study, tmp_path) -> None:
    (tmp_path / "link").symlink_to(study)
    done = ladder("report", f"{tmp_path}/link/")
    assert done.returncode in MEASURED and (tmp_path / "link").is_symlink(), done.stderr
    done = ladder("report", study, "--out", f"{tmp_path}/link/")
    assert done.returncode in MEASURED, done.stderr


# ---- programs and other places that a plan names

@pytest.fixture
def trap(tmp_path) -> pathlib.Path:
    """A program that leaves a file when it runs."""
    return script(tmp_path / "trap", f"touch {tmp_path}/ran\nexit 7\n")


def test_a_study_runs_no_program_of_its_plan(refused, study, trap, tmp_path) -> None:
    plan = read_json(study / "plan.json")
    plan["rungs"][0]["program"] = str(trap)
    write_json(study / "plan.json", plan)
    for file in (study / "records").iterdir():
        file.unlink()
    refused('rung 0 has a "program", which only a gate\'s plan may have', "ablate", "--resume", "--out", study)
    assert not (tmp_path / "ran").exists()


def test_a_gate_runs_what_the_command_line_names(refused, ladder, program, trap, tmp_path) -> None:
    out, ran = tmp_path / "gate", tmp_path / "ran"
    done = ladder("gate", "--base", program, "--head", trap, *SMALL, "--pairs", 6, "--top-up", 0, "--out", out)
    assert done.returncode == 1 and verdict_of(out)["verdict"] == "FAILED" and f"head: {trap}\n" in done.stderr
    ran.unlink()
    refused(f"its plan names the program {trap}, but a folder cannot decide which program is run; name it with --head PATH", "gate", "--resume", "--out", out)
    other = script(tmp_path / "other", "exit 7\n")
    refused(f"--head {other}: is not the program that this gate began with", "gate", "--resume", "--head", other, "--out", out)
    verdict = verdict_of(out)
    write_json(out / "gate.json", verdict | {"comparison": {"entries": 3}})
    refused("gate.json: field [comparison]", "gate", "--resume", "--head", trap, "--out", out)
    write_json(out / "gate.json", verdict)
    assert not ran.exists()
    done = ladder("gate", "--resume", "--head", shutil.move(trap, tmp_path / "moved"), "--out", out)
    assert done.returncode == 1 and ran.exists() and f"head: {tmp_path}/moved\n" in done.stderr, done.stderr


def test_a_gate_that_is_interrupted_says_how_to_go_on(start, small, trap, tmp_path) -> None:
    sleeper = script(tmp_path / "sleeper", f"touch {tmp_path}/ran\nexec sleep 1000\n")
    gate = start("gate", "--base", sleeper, "--head", sleeper, "--ladder", small, "--baselines", tmp_path / "b", "--out", tmp_path / "gate")
    wait_for((tmp_path / "ran").exists, "a run")
    gate.terminate()
    words = gate.communicate(timeout=HANGS_AFTER_S)[1]
    assert gate.returncode == 130, words
    assert f"resume with: ladder gate --resume --out {tmp_path}/gate --base {sleeper} --head {sleeper} --baselines {tmp_path}/b\n" in words


def test_baselines_go_where_the_command_line_says(refused, ladder, trap, tmp_path) -> None:
    out = tmp_path / "gate"
    ladder("gate", "--calibrate", "--head", trap, *SMALL, "--pairs", 6, "--save", "--baselines", tmp_path / "b", "--out", out)
    refused(f"name it with --baselines {tmp_path}/b", "gate", "--resume", "--head", trap, "--out", out)


# ---- broken folders

def test_a_working_directory_that_is_gone(program, environment, tmp_path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(["sh", "-c", 'rmdir "$PWD" && exec "$0" doctor', program], cwd=gone, env=environment, capture_output=True,
                          text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ladder: the working directory has been deleted; change to another one\n"


def test_a_history_of_a_folder_with_more_than_studies(ladder, study, tmp_path) -> None:
    """Circles of links, pipes, and folders of processes, which come and go and cannot all be read."""
    (tmp_path / "circle").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "study.json")
    done = ladder("history", tmp_path)
    assert done.returncode == 0, done.stderr
    done = ladder("history", "/proc/self")
    assert done.returncode == 2 and done.stderr.startswith("ladder: /proc/self: no study.json") and done.stderr.count("\n") == 1
