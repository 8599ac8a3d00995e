"""`ladder gate` with real processes: programs that fail, change foreign files or learn something else, and the output for GitHub. The
programs repeat records of earlier runs (gates.py). test_gate_clock.py has the tests with a real clock."""

import json
import re
import shlex
import subprocess

import pytest
from conftest import DRAWN, ladder_document, records, run_ids, snapshot, write_json
from gates import LARGE_EFFECT, SMALL, editing, script, verdict_of


def test_what_is_done_with_a_gate_that_has_ended(ladder, remembered, tmp_path) -> None:
    out = tmp_path / "gate"
    programs = ("--base", remembered, "--head", remembered)
    begin = ("gate", *programs, *SMALL, "--pairs", 6, "--top-up", 0, "--out", out)
    done = ladder(*begin)
    verdict = verdict_of(out)
    assert done.returncode == 0 and verdict["verdict"] == "SAME", done.stdout + done.stderr
    # A second gate in the folder is refused, and so is a study. Nothing is left to resume.
    assert ladder(*begin).returncode == 2
    assert "is a gate" in ladder("ablate", "--resume", "--out", out).stderr
    drawn = ladder("report", out, "--out", tmp_path / "drawn")
    assert drawn.returncode == done.returncode and f"\n{verdict['verdict']}" in drawn.stdout, drawn.stderr
    assert ladder("report", out / "gate.json", "--with", out / "gate.json").returncode == 2
    for part in ({"comparison": {}}, {"calibration": [{}]}):
        (tmp_path / "edited.json").write_text(json.dumps(verdict | part))
        edited = ladder("report", tmp_path / "edited.json", "--out", tmp_path / "drawn")
        assert edited.returncode == 2 and f"field [{next(iter(part))}]" in edited.stderr, edited.stderr
    # The verdict stands even if its page cannot be drawn.
    (out / "gate.html").write_text("an earlier verdict's")
    (out / "charts").mkdir()
    (out / "charts" / "mine.svg").write_text("mine")
    (out / "drawing.log").mkdir()
    shown = ladder("gate", "--resume", "--out", out)
    assert shown.returncode == done.returncode and verdict["verdict"] in shown.stdout and "was not drawn: " in shown.stderr
    (out / "drawing.log").rmdir()
    shown = ladder("gate", "--resume", "--json", "--out", out, variables=DRAWN)
    assert json.loads(shown.stdout) == verdict_of(out) and (out / "gate.html").read_text().startswith("<!doctype html>")
    before = snapshot(out / "records")
    again = ladder("gate", "--resume", "--out", out)
    assert snapshot(out / "records") == before
    assert again.returncode == done.returncode
    # A new verdict removes only files of the one before it.
    drawn = {file for file in (out / "charts").iterdir() if file.name != "mine.svg"}
    assert len(drawn) == 6
    (out / "gate.json").unlink()
    shown = ladder("gate", "--resume", *programs, "--out", out, variables={"LADDER_PYTHON": "/bin/false"})
    assert shown.returncode == done.returncode and [file.name for file in (out / "charts").iterdir()] == ["mine.svg"], shown.stderr


def test_a_head_that_dies_after_its_record_fails(ladder, remembered, tmp_path) -> None:
    """A run includes the end of its process."""
    dying = script(tmp_path / "dies", f'{shlex.quote(remembered)} "$@"\nkill -SEGV $$\n')
    out = tmp_path / "gate"
    done = ladder("gate", "--base", remembered, "--head", dying, *SMALL, "--pairs", 6, "--top-up", 0, "--out", out)
    assert done.returncode == 1 and verdict_of(out)["verdict"] == "FAILED", done.stdout + done.stderr
    (failed,) = [record for record in records(out).values() if record["status"] != "ok"]
    assert failed["failure"]["kind"] == "signal"
    assert failed["failure"]["message"] == "killed by signal 11 (Segmentation fault) after it had written its record, which does not count"


@pytest.mark.parametrize("what", ["a record", "base's program"])
def test_a_head_that_changes_what_is_not_its_own_decides_nothing(ladder, remembered, tmp_path, what) -> None:
    out = tmp_path / "gate"
    base = script(tmp_path / "base", f'exec {shlex.quote(remembered)} "$@"\n')
    target = base if what == "base's program" else out / "records" / "r1-00-base-flash.json"
    meddling = script(tmp_path / "meddles", f'echo >> {shlex.quote(str(target))}\nexec {shlex.quote(remembered)} "$@"\n')
    done = ladder("gate", "--base", base, "--head", meddling, *SMALL, "--rung", "flash", "--pairs", 6, "--top-up", 0, "--out", out)
    assert done.returncode == 3 and "while run r1-01-head-flash was made, records of other runs or one of the programs were changed" \
        in done.stderr, done.stderr
    assert not (out / "gate.json").exists() and not (out / "records" / "r1-01-head-flash.json").exists()


def test_a_head_that_fails_is_blamed_and_a_base_that_fails_is_not(ladder, remembered, tmp_path) -> None:
    failing = script(tmp_path / "fails", 'echo "cannot open shop" >&2\nexit 7\n')
    common = (*SMALL, "--pairs", 6, "--top-up", 0)
    head = ladder("gate", "--base", remembered, "--head", failing, *common, "--out", tmp_path / "h")
    assert head.returncode == 1
    assert verdict_of(tmp_path / "h")["verdict"] == "FAILED"
    assert "cannot open shop" in " ".join(head.stdout.split())
    # The first pair decides.
    assert "runs that are not made: 10\n" in head.stderr and len(records(tmp_path / "h")) == 2
    base = ladder("gate", "--base", failing, "--head", remembered, *common, "--out", tmp_path / "b")
    assert base.returncode == 3
    assert verdict_of(tmp_path / "b")["verdict"] == "UNFIT"


def test_a_head_that_proves_less_fails(ladder, remembered, tmp_path) -> None:
    """A proof that the head no longer makes must not count as passed."""
    proves_less = editing(tmp_path / "proves-less", remembered, 'record["proofs"].pop()')
    done = ladder("gate", "--base", remembered, "--head", proves_less, *SMALL, "--pairs", 6, "--top-up", 0, "--out", tmp_path / "gate")
    assert done.returncode == 1 and verdict_of(tmp_path / "gate")["verdict"] == "FAILED"
    assert "its record has no proof of " in " ".join(done.stdout.split())


def test_losses_of_one_recipe_are_held_to_its_rounding(ladder, remembered, tmp_path) -> None:
    """The ladder's last rung is in bfloat16, or in float32 if this CPU has no bfloat16. Both allow 0.0005 nats and not 0.04."""
    for shift, status in ((0.04, 1), (5e-4, None)):
        moved = editing(tmp_path / f"by-{shift}", remembered, f"""
record["timing"]["loss"] = [loss + {shift} for loss in record["timing"]["loss"]]
""")
        out = tmp_path / f"gate-{shift}"
        done = ladder("gate", "--base", remembered, "--head", moved, *SMALL, *LARGE_EFFECT, "--pairs", 6, "--top-up", 0,
                      "--out", out)
        verdict = verdict_of(out)
        (entry,) = verdict["comparison"]["entries"]
        assert entry["loss"]["passed"] == (status is None), entry
        if status:
            assert done.returncode == status and "no longer learns the same" in " ".join(done.stdout.split())
        else:
            assert any("no longer the same to the bit: 0.0005 nats" in warning for warning in verdict["warnings"]), verdict["warnings"]


def test_each_side_is_blamed_for_its_own(ladder, remembered, tmp_path) -> None:
    """A failure that says nothing, and a loss that is not finite."""
    silent = script(tmp_path / "silent", """while [ "$1" != --record ]; do shift; done
echo '{"kind":"record","schema_version":1,"id":"x","started":"2026-01-01T00:00:00Z","duration_s":1,"status":"failed",
"failure":{"kind":"exit","message":""}}' > "$2"
""")
    diverges = editing(tmp_path / "diverges", remembered, 'record["timing"]["loss"][0] = None')
    for bad, says in ((silent, ""), (diverges, "the loss of step 1 is not finite")):
        for side, other, verdict, status in (("--base", "--head", "UNFIT", 3), ("--head", "--base", "FAILED", 1)):
            out = tmp_path / f"{bad.name}-{verdict}"
            done = ladder("gate", side, bad, other, remembered, *SMALL, "--pairs", 6, "--top-up", 0, "--out", out)
            assert (done.returncode, verdict_of(out)["verdict"]) == (status, verdict), done.stdout + done.stderr
            assert says in " ".join(done.stdout.split())


def test_a_failure_is_not_forgotten_when_the_gate_goes_on(ladder, remembered, tmp_path) -> None:
    once = script(tmp_path / "once", f"""case "$*" in *r1-01-head*)
  [ -e {tmp_path}/failed ] || {{ touch {tmp_path}/failed; echo "an illegal memory access" >&2; exit 7; }}
esac
exec {shlex.quote(remembered)} "$@"
""")
    out = tmp_path / "gate"
    done = ladder("gate", "--base", remembered, "--head", once, *SMALL, "--pairs", 6, "--top-up", 0, "--out", out)
    assert done.returncode == 1 and verdict_of(out)["verdict"] == "FAILED"
    for _ in range(2):
        ladder("gate", "--resume", "--base", remembered, "--head", once, "--out", out)
        verdict = verdict_of(out)
        assert verdict["verdict"] != "FAILED" and verdict["comparison"]["entries"][0]["pairs"] == 6
        (warning,) = [warning for warning in verdict["warnings"] if warning.startswith("went on after FAILED: head run r1-01-head-")]
        assert "an illegal memory access" in warning


def test_a_head_that_is_rebuilt_meanwhile_is_another_program(ladder, remembered, tmp_path) -> None:
    out = tmp_path / "gate"
    rebuilt = tmp_path / "rebuilt"
    editing(rebuilt, remembered, "")
    head = script(tmp_path / "head", f'exec {shlex.quote(str(rebuilt))} "$@"\n')  # the launcher itself is not changed
    command = ("gate", "--base", remembered, "--head", head, *SMALL, "--pairs", 6, "--top-up", 0, "--out", out)
    first = ladder(*command)
    assert verdict_of(out)["comparison"]["entries"][0]["pairs"] == 6, first.stderr
    lost = next(out / "records" / f"{run}.json" for run in run_ids(out) if run.startswith("r3-") and "-head-" in run)
    lost.unlink()
    editing(rebuilt, remembered, 'record["environment"]["git_commit"] = "1" * 40')
    again = ladder("gate", "--resume", "--base", remembered, "--head", head, "--out", out)
    assert again.returncode == 3 and "does not belong to run" in again.stderr and "git_commit" in again.stderr
    assert not lost.exists()  # the other program's record is not kept


def test_only_what_is_measured_is_asked(ladder, tmp_path) -> None:
    """A rung that cannot run here refuses only gates of that rung."""
    file = write_json(tmp_path / "small.json", ladder_document(start={"vocabulary_rows": 50200}, rungs=["vocab"]))
    common = ("gate", "--ladder", file, "--baselines", tmp_path / "none", "--out", tmp_path / "gate")
    refused = ladder(*common, "--rung", "start")
    assert refused.returncode == 2 and "vocabulary_rows must be at least 50257, got 50200" in refused.stderr
    asked = ladder(*common, "--rung", "vocab")
    assert asked.returncode == 3 and "there is no baseline" in asked.stderr


def test_github_is_told(program, remembered, environment, tmp_path) -> None:
    failing = script(tmp_path / "fails", 'echo "50% of it::warning::x" >&2\nexit 7\n')
    summary = tmp_path / "summary.md"
    summary.write_text("# before\n")
    command = [program, "gate", "--base", remembered, "--head", str(failing), *map(str, SMALL), "--pairs", "6", "--top-up", "0",
               "--out", str(tmp_path / "g")]
    told = {**environment, "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    done = subprocess.run(command, env=told, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("::error")]
    assert line.startswith("::error title=ladder gate::FAILED: head run r1-01-head-")
    assert "50%25 of it" in line
    text = summary.read_text()
    assert re.match(r"# before\n## ladder gate: FAILED\n\nGated: rung [a-z\\\\_]+ of ladder tiny, B=1 T=\d+\n\n- head run", text), text
    # A report that cannot be written beside a verdict changes no exit status.
    failing.write_text(failing.read_text().replace("echo", f"mkdir -p {tmp_path}/g3/summary.md\necho", 1))
    command[-1] = str(tmp_path / "g3")
    told["GITHUB_STEP_SUMMARY"] = str(tmp_path / "none" / "summary.md")
    done = subprocess.run(command, env=told, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1 and "the summary was not written" in done.stderr and "::warning title=ladder gate::the step summary was not written" in done.stderr
    command[-1] = str(tmp_path / "g2")
    quiet = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert "::error" not in quiet.stdout + quiet.stderr


@pytest.mark.parametrize(("arguments", "words"), [
    (["--base", "nowhere"], "nowhere"),
    (["--base", "/etc/passwd"], "is not a program"),
    (["--base", "/bin/true", "--calibrate"], "--calibrate"),
    (["--base", "/bin/true", "--save"], "--save"),
    (["--calibrate", "--pairs", "5"], "got 5"),
    (["--base", "/bin/true", "--ladder", "tiny", "--rung", "none"], "--rung none: no such rung; ladder tiny has start, gpu, memory"),
    (["--resume", "--out", "nowhere"], "no plan.json"),
])
def test_bad_input(ladder, arguments, words) -> None:
    done = ladder("gate", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""
