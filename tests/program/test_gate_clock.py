"""`ladder gate` with a real clock: programs that are faster or slower by a known factor, and two equal ones. No test asserts a time. A
planted change is threefold, which a busy machine does not hide, and equal programs are never blamed for 10 %."""

import json
import os
import pathlib
import shutil
import subprocess

from gates import LARGE_EFFECT, SMALL, editing, verdict_of


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
    done = ladder("gate", "--base", at_pace(1), "--head", at_pace(3), *SMALL, "--min-effect", 5, "--pairs", 6, "--top-up", 6,
                  "--out", out)
    assert done.returncode == 1, done.stdout + done.stderr
    verdict = verdict_of(out)
    assert verdict["verdict"] == "REGRESSION" and verdict["exit_status"] == 1
    (entry,) = verdict["comparison"]["entries"]
    assert entry["lo"] > 1.05 and entry["setting"]["batch"] == 1
    for side in ("base", "head"):  # each pair's times, in the order of the runs
        ran = [json.loads(file.read_text()) for file in sorted((out / "records").glob(f"*-{side}-*.json"), key=lambda f: int(f.name.split("-")[0][1:]))
               if ".flagged." not in file.name]
        assert entry[f"{side}_runs_ms"] == [record["summary"]["median_ms"] for record in ran] and len(ran) == entry["pairs"]
    assert entry["loss"]["identical"]  # it is slower and otherwise the same
    assert "REGRESSION" in done.stdout and "REGRESSION" in (out / "summary.md").read_text()
    assert max(map(len, done.stdout.splitlines())) <= 80 or str(out) in done.stdout
    # The order is base head, head base, ...
    runs = [run["id"].split("-")[2] for run in json.loads((out / "plan.json").read_text())["runs"]]
    assert runs[:8] == ["base", "head", "head", "base", "base", "head", "head", "base"]


def test_more_pairs_follow_though_the_programs_set_variables(ladder, at_pace, tmp_path) -> None:
    out = tmp_path / "gate"
    done = ladder("gate", "--base", at_pace(1), "--head", at_pace(1.0), *SMALL, "--min-effect", 0.01, "--pairs", 6, "--top-up", 6, "--out", out)
    assert "other circumstances" not in done.stderr, done.stderr
    verdict = verdict_of(out)
    assert verdict["pairs"] == 12 or verdict["verdict"] != "INCONCLUSIVE", done.stdout + done.stderr  # by chance, of one in thirty


def test_a_speedup_ends_with_exit_status_0_and_a_new_baseline(ladder, at_pace, tmp_path) -> None:
    out = tmp_path / "gate"
    done = ladder("gate", "--base", at_pace(1.0), "--head", at_pace(0.3), *SMALL, *LARGE_EFFECT, "--pairs", 6, "--out", out)
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
    done = ladder("gate", "--base", program, *SMALL, "--min-effect", 40, "--pairs", 6, "--top-up", 2, "--out", out)
    verdict = verdict_of(out)
    assert verdict["verdict"] in ("SAME", "IMPROVEMENT", "INCONCLUSIVE"), verdict["reasons"]
    assert done.returncode == (3 if verdict["verdict"] == "INCONCLUSIVE" else 0), done.stdout + done.stderr
    assert verdict["topped_up"] == (verdict["pairs"] == 8)
    assert verdict["topped_up"] or verdict["verdict"] != "INCONCLUSIVE"
    (entry,) = verdict["comparison"]["entries"]
    assert entry["pairs"] == verdict["pairs"]
    assert entry["loss"]["identical"]
    (noise,) = verdict["noise"]
    warned = any("can show changes above" in warning for warning in verdict["warnings"])
    assert warned == (noise["floor"] > 0.4)
