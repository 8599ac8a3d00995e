"""`ladder gate` with real processes: programs whose clock runs fast or slow by a known factor, programs that fail,
and what GitHub is told. No test asserts a time: a planted change is 30 % and more, equal programs are never blamed
for 10 %, and where the clock is not the subject any verdict will do."""

import json
import os
import pathlib
import shlex
import shutil
import subprocess

import pytest
from conftest import ladder_document, records, run_ids, write_json
from gates import LARGE_EFFECT, SMALL, editing, script, verdict_of


def test_a_checkout_may_have_spaces_in_its_path(program, at_pace, environment, tmp_path) -> None:
    checkout = tmp_path / "a checkout"
    checkout.mkdir()
    (checkout / "ladder").symlink_to(program)
    shutil.copy(os.environ["FAST_CLOCK_LIBRARY"], checkout / "clock.so")
    edited = editing(tmp_path / "edited", str(checkout / "ladder"), 'record["edited"] = True')
    paced = at_pace(9, str(checkout / "ladder"), str(checkout / "clock.so"))
    run = ["run", "--model", "tiny", "-B", "1", "-T", "8", "--threads", "1", "--warmup", "1", "--steps", "1", "--recipe", "{}"]
    for made in (edited, paced):
        done = subprocess.run([made, *run, "--record", tmp_path / "record.json"], env=environment, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0 and "ld.so" not in done.stderr, done.stderr
        assert json.loads((tmp_path / "record.json").read_text()).get("edited", False) == (made == edited)


def test_a_slowdown_ends_with_exit_status_1(ladder, at_pace, tmp_path) -> None:
    out = tmp_path / "gate"
    # By a real clock: what a busy machine adds must not hide 30 %, with twice as many pairs where it first does.
    done = ladder("gate", "--base", at_pace(1), "--head", at_pace(1.3), *SMALL, "--min-effect", 5, "--pairs", 8, "--top-up", 12,
                  "--out", out)
    assert done.returncode == 1, done.stdout + done.stderr
    verdict = verdict_of(out)
    assert verdict["verdict"] == "REGRESSION" and verdict["exit_status"] == 1
    (entry,) = verdict["comparison"]["entries"]
    assert entry["lo"] > 1.05 and entry["setting"]["batch"] == 1
    for side in ("base", "head"):  # each pair's times, in the order in which they were made
        ran = [json.loads(file.read_text()) for file in sorted((out / "records").glob(f"*-{side}-*.json"), key=lambda f: int(f.name.split("-")[0][1:]))
               if ".flagged." not in file.name]
        assert entry[f"{side}_runs_ms"] == [record["summary"]["median_ms"] for record in ran] and len(ran) == entry["pairs"]
    assert entry["loss"]["identical"]  # slower, and otherwise the same
    assert "REGRESSION" in done.stdout and "REGRESSION" in (out / "summary.md").read_text()
    assert max(map(len, done.stdout.splitlines())) <= 80 or str(out) in done.stdout
    # The order is base head, head base, ...
    runs = [run["id"].split("-")[2] for run in json.loads((out / "plan.json").read_text())["runs"]]
    assert runs[:8] == ["base", "head", "head", "base", "base", "head", "head", "base"]


def test_a_speedup_ends_with_exit_status_0_and_a_new_baseline(ladder, at_pace, tmp_path) -> None:
    out = tmp_path / "gate"
    done = ladder("gate", "--base", at_pace(1.0), "--head", at_pace(0.6), *SMALL, *LARGE_EFFECT, "--pairs", 6, "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = verdict_of(out)
    assert verdict["verdict"] == "IMPROVEMENT"
    (file,) = verdict["saved"]
    assert file in done.stdout
    baseline = json.loads(pathlib.Path(file).read_text())
    assert baseline["kind"] == "baseline"
    assert baseline["recipe_hash"] == verdict["comparison"]["entries"][0]["recipe_hash"]
    assert [record["id"].split("-")[2] for record in baseline["records"]] == ["head"] * verdict["pairs"]


def test_equal_programs_are_not_blamed(ladder, program, tmp_path) -> None:
    out = tmp_path / "gate"
    done = ladder("gate", "--base", program, *SMALL, *LARGE_EFFECT, "--pairs", 6, "--top-up", 2, "--out", out)
    verdict = verdict_of(out)
    assert verdict["verdict"] in ("SAME", "IMPROVEMENT", "INCONCLUSIVE"), verdict["reasons"]
    assert done.returncode == (3 if verdict["verdict"] == "INCONCLUSIVE" else 0), done.stdout + done.stderr
    assert verdict["topped_up"] == (verdict["pairs"] == 8)
    assert verdict["topped_up"] or verdict["verdict"] != "INCONCLUSIVE"
    (entry,) = verdict["comparison"]["entries"]
    assert entry["pairs"] == verdict["pairs"]
    assert entry["loss"]["identical"]
    (noise,) = verdict["noise"]
    warned = any("noise floor" in warning for warning in verdict["warnings"])
    assert warned == (noise["floor"] > 0.1)
    # A second time into the folder, or as a study, is refused; there is nothing left to resume.
    assert ladder("gate", "--base", program, *SMALL, "--out", out).returncode == 2
    assert "is a gate" in ladder("ablate", "--resume", "--out", out).stderr
    drawn = ladder("report", out, "--out", tmp_path / "drawn")
    assert drawn.returncode == done.returncode and f"\n{verdict['verdict']}" in drawn.stdout, drawn.stderr
    assert ladder("report", out / "gate.json", "--with", out / "gate.json").returncode == 2
    for part in ({"comparison": {}}, {"calibration": [{}]}):
        (tmp_path / "edited.json").write_text(json.dumps(verdict | part))
        edited = ladder("report", tmp_path / "edited.json", "--out", tmp_path / "drawn")
        assert edited.returncode == 2 and f"field [{next(iter(part))}]" in edited.stderr, edited.stderr
    # A page that cannot be drawn takes nothing from the verdict.
    (out / "gate.html").write_text("an earlier verdict's")
    (out / "charts" / "mine.svg").write_text("mine")
    (out / "drawing.log").mkdir()
    shown = ladder("gate", "--resume", "--out", out)
    assert shown.returncode == done.returncode and verdict["verdict"] in shown.stdout and "was not drawn: " in shown.stderr
    (out / "drawing.log").rmdir()
    shown = ladder("gate", "--resume", "--json", "--out", out)
    assert json.loads(shown.stdout) == verdict_of(out) and (out / "gate.html").read_text().startswith("<!doctype html>")
    records = {file.name: file.read_bytes() for file in (out / "records").iterdir()}
    again = ladder("gate", "--resume", "--out", out)
    assert {file.name: file.read_bytes() for file in (out / "records").iterdir()} == records
    assert again.returncode == done.returncode
    # Nor does another verdict remove what is not of the one before it.
    drawn = {file for file in (out / "charts").iterdir() if file.name != "mine.svg"}
    assert len(drawn) == 6
    (out / "gate.json").unlink()
    shown = ladder("gate", "--resume", "--out", out, variables={"LADDER_PYTHON": "/bin/false"})
    assert shown.returncode == done.returncode and [file.name for file in (out / "charts").iterdir()] == ["mine.svg"], shown.stderr


@pytest.mark.parametrize("blocked", [False, True])
def test_several_recipes_in_balanced_order(ladder, program, tmp_path, blocked) -> None:
    failing = script(tmp_path / "fails", "exit 7\n")  # the plan is what is looked at
    out = tmp_path / "gate"
    ladder("gate", "--base", failing, "--head", failing, *SMALL, "--rung", "memory", "--rung", "start", "--pairs", 6, "--top-up",
           0, "--out", out, *(["--blocked"] if blocked else []))
    runs = [tuple(run["id"].split("-")[i] for i in (0, 2, 3)) for run in json.loads((out / "plan.json").read_text())["runs"]]
    assert len(set(runs)) == 24
    if blocked:
        assert [side for _, side, _ in runs] == ["base"] * 12 + ["head"] * 12
    else:
        assert runs[:4] == [("r1", "base", "memory"), ("r1", "head", "memory"), ("r1", "base", "start"), ("r1", "head", "start")]
        assert runs[4:8] == [("r2", "head", "start"), ("r2", "base", "start"), ("r2", "head", "memory"), ("r2", "base", "memory")]


def test_a_head_that_dies_after_its_record_fails(ladder, program, tmp_path) -> None:
    """How its process ends is part of a run."""
    dying = script(tmp_path / "dies", f'{shlex.quote(program)} "$@"\nkill -SEGV $$\n')
    out = tmp_path / "gate"
    done = ladder("gate", "--base", program, "--head", dying, *SMALL, "--pairs", 6, "--top-up", 0, "--out", out)
    assert done.returncode == 1 and verdict_of(out)["verdict"] == "FAILED", done.stdout + done.stderr
    (failed,) = [record for record in records(out).values() if record["status"] != "ok"]
    assert failed["failure"]["kind"] == "signal"
    assert failed["failure"]["message"] == "killed by signal 11 (Segmentation fault) after it had written its record, which does not count"


@pytest.mark.parametrize("what", ["a record", "base's program"])
def test_a_head_that_changes_what_is_not_its_own_decides_nothing(ladder, program, tmp_path, what) -> None:
    out = tmp_path / "gate"
    base = script(tmp_path / "base", f'exec {shlex.quote(program)} "$@"\n')
    target = base if what == "base's program" else out / "records" / "r1-00-base-flash.json"
    meddling = script(tmp_path / "meddles", f'echo >> {shlex.quote(str(target))}\nexec {shlex.quote(program)} "$@"\n')
    done = ladder("gate", "--base", base, "--head", meddling, *SMALL, "--rung", "flash", "--pairs", 6, "--top-up", 0, "--out", out)
    assert done.returncode == 3 and "while run r1-01-head-flash was made, records of other runs or one of the programs were changed" \
        in done.stderr, done.stderr
    assert not (out / "gate.json").exists() and not (out / "records" / "r1-01-head-flash.json").exists()


def test_a_head_that_fails_is_blamed_and_a_base_that_fails_is_not(ladder, program, tmp_path) -> None:
    failing = script(tmp_path / "fails", 'echo "cannot open shop" >&2\nexit 7\n')
    common = (*SMALL, "--pairs", 6, "--top-up", 0)
    head = ladder("gate", "--base", program, "--head", failing, *common, "--out", tmp_path / "h")
    assert head.returncode == 1
    assert verdict_of(tmp_path / "h")["verdict"] == "FAILED"
    assert "cannot open shop" in " ".join(head.stdout.split())
    # The first pair has decided it.
    assert "runs that are not made: 10\n" in head.stderr and len(records(tmp_path / "h")) == 2
    base = ladder("gate", "--base", failing, "--head", program, *common, "--out", tmp_path / "b")
    assert base.returncode == 3
    assert verdict_of(tmp_path / "b")["verdict"] == "UNFIT"


def test_a_head_that_proves_less_fails(ladder, program, tmp_path) -> None:
    """The proofs are the head's own: one that it no longer makes must not pass for one that passed."""
    proves_less = editing(tmp_path / "proves-less", program, 'record["proofs"].pop()')
    done = ladder("gate", "--base", program, "--head", proves_less, *SMALL, "--pairs", 6, "--top-up", 0, "--out", tmp_path / "gate")
    assert done.returncode == 1 and verdict_of(tmp_path / "gate")["verdict"] == "FAILED"
    assert "its record has no proof of " in " ".join(done.stdout.split())


def test_losses_of_one_recipe_are_held_to_its_rounding(ladder, program, tmp_path) -> None:
    """Of the ladder's last rung, in bfloat16 where this CPU has it and else in float32: both allow 0.0005 nats and not 0.04."""
    for shift, status in ((0.04, 1), (5e-4, None)):
        moved = editing(tmp_path / f"by-{shift}", program, f"""
record["timing"]["loss"] = [loss + {shift} for loss in record["timing"]["loss"]]
""")
        out = tmp_path / f"gate-{shift}"
        done = ladder("gate", "--base", program, "--head", moved, *SMALL, *LARGE_EFFECT, "--pairs", 6, "--top-up", 0,
                      "--out", out)
        verdict = verdict_of(out)
        (entry,) = verdict["comparison"]["entries"]
        assert entry["loss"]["passed"] == (status is None), entry
        if status:
            assert done.returncode == status and "no longer learns the same" in " ".join(done.stdout.split())
        else:
            assert any("no longer the same to the bit: 0.0005 nats" in warning for warning in verdict["warnings"]), verdict["warnings"]


def test_a_failure_that_says_nothing_is_a_failure(ladder, program, tmp_path) -> None:
    silent = script(tmp_path / "silent", """while [ "$1" != --record ]; do shift; done
echo '{"kind":"record","schema_version":1,"id":"x","started":"2026-01-01T00:00:00Z","duration_s":1,"status":"failed",
"failure":{"kind":"exit","message":""}}' > "$2"
""")
    for side, other, verdict, status in (("--base", "--head", "UNFIT", 3), ("--head", "--base", "FAILED", 1)):
        done = ladder("gate", side, silent, other, program, *SMALL, "--pairs", 6, "--top-up", 0, "--out", tmp_path / verdict)
        assert (done.returncode, verdict_of(tmp_path / verdict)["verdict"]) == (status, verdict), done.stdout + done.stderr


@pytest.mark.thorough
def test_a_failure_is_not_forgotten_when_the_gate_goes_on(ladder, program, tmp_path) -> None:
    once = script(tmp_path / "once", f"""case "$*" in *r1-01-head*)
  [ -e {tmp_path}/failed ] || {{ touch {tmp_path}/failed; echo "an illegal memory access" >&2; exit 7; }}
esac
exec {shlex.quote(program)} "$@"
""")
    out = tmp_path / "gate"
    done = ladder("gate", "--base", program, "--head", once, *SMALL, "--pairs", 6, "--top-up", 0, "--out", out)
    assert done.returncode == 1 and verdict_of(out)["verdict"] == "FAILED"
    for _ in range(2):
        ladder("gate", "--resume", "--head", once, "--out", out)
        verdict = verdict_of(out)
        assert verdict["verdict"] != "FAILED" and verdict["comparison"]["entries"][0]["pairs"] == 6
        (warning,) = [warning for warning in verdict["warnings"] if warning.startswith("went on after FAILED: head run r1-01-head-")]
        assert "an illegal memory access" in warning


@pytest.mark.thorough
def test_a_head_that_is_rebuilt_meanwhile_is_another_program(ladder, program, tmp_path) -> None:
    out = tmp_path / "gate"
    rebuilt = tmp_path / "rebuilt"
    editing(rebuilt, program, "")
    head = script(tmp_path / "head", f'exec {shlex.quote(str(rebuilt))} "$@"\n')  # a launcher, as a bundle's, stays as it is
    command = ("gate", "--base", program, "--head", head, *SMALL, "--pairs", 6, "--top-up", 0, "--out", out)
    first = ladder(*command)
    assert verdict_of(out)["comparison"]["entries"][0]["pairs"] == 6, first.stderr
    lost = next(out / "records" / f"{run}.json" for run in run_ids(out) if run.startswith("r3-") and "-head-" in run)
    lost.unlink()
    editing(rebuilt, program, 'record["environment"]["git_commit"] = "1" * 40')
    again = ladder("gate", "--resume", "--head", head, "--out", out)
    assert again.returncode == 3 and "does not belong to run" in again.stderr and "git_commit" in again.stderr
    assert not lost.exists()  # what the other program measured is not kept


def test_a_loss_that_is_not_finite_is_blamed_on_whose_it_is(ladder, program, tmp_path) -> None:
    diverges = editing(tmp_path / "diverges", program, 'record["timing"]["loss"][0] = None')
    common = (*SMALL, "--pairs", 6, "--top-up", 0)
    for side, other, verdict, status in (("--base", "--head", "UNFIT", 3), ("--head", "--base", "FAILED", 1)):
        out = tmp_path / verdict
        done = ladder("gate", side, diverges, other, program, *common, "--out", out)
        assert (done.returncode, verdict_of(out)["verdict"]) == (status, verdict), done.stdout + done.stderr
        assert "the loss of step 1 is not finite" in " ".join(done.stdout.split())


def test_only_what_is_measured_is_asked(ladder, tmp_path) -> None:
    """A rung that could not run refuses the gates of itself, and not those of others."""
    file = write_json(tmp_path / "small.json", ladder_document(start={"vocabulary_rows": 50200}, rungs=["vocab"]))
    common = ("gate", "--ladder", file, "--baselines", tmp_path / "none", "--out", tmp_path / "gate")
    refused = ladder(*common, "--rung", "start")
    assert refused.returncode == 2 and "vocabulary_rows must be at least 50257, got 50200" in refused.stderr
    asked = ladder(*common, "--rung", "vocab")
    assert asked.returncode == 3 and "there is no baseline" in asked.stderr


def test_github_is_told(program, environment, tmp_path) -> None:
    failing = script(tmp_path / "fails", 'echo "50% of it::warning::x" >&2\nexit 7\n')
    summary = tmp_path / "summary.md"
    summary.write_text("# before\n")
    command = [program, "gate", "--base", program, "--head", str(failing), *map(str, SMALL), "--pairs", "6", "--top-up", "0",
               "--out", str(tmp_path / "g")]
    told = {**environment, "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    done = subprocess.run(command, env=told, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("::error")]
    assert line.startswith("::error title=ladder gate::FAILED: head run r1-01-head-")
    assert "50%25 of it" in line
    text = summary.read_text()
    assert text.startswith("# before\n## ladder gate: FAILED")
    command[-1] = str(tmp_path / "g2")
    quiet = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert "::error" not in quiet.stdout + quiet.stderr


@pytest.mark.parametrize(("arguments", "words"), [
    (["--base", "nowhere"], "nowhere"),
    (["--base", "/etc/passwd"], "is not a program"),
    (["--base", "/bin/true", "--calibrate"], "--calibrate"),
    (["--base", "/bin/true", "--save"], "--save"),
    (["--calibrate", "--pairs", "5"], "got 5"),
    (["--calibrate", "--min-effect", "2"], "--calibrate"),
    (["--base", "/bin/true", "--min-effect", "2 percent"], "got 2 percent"),
    (["--base", "/bin/true", "--ladder", "tiny", "--rung", "none"], "--rung none: no such rung; ladder tiny has start, gpu, memory"),
    (["--resume"], "--out"),
    (["--resume", "--out", "nowhere"], "no plan.json"),
])
def test_bad_input(ladder, arguments, words) -> None:
    done = ladder("gate", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""
