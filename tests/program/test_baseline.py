"""What `ladder gate` keeps of earlier measurements: baselines, their sessions, noise floors. The programs repeat records of earlier
runs, most with another time in them (gates.py)."""

import itertools
import json
import pathlib
import shlex

import pytest
from conftest import records
from gates import LARGE_EFFECT, SMALL, editing, script, taking, verdict_of


def test_a_stored_baseline(ladder, remembered, tmp_path) -> None:
    baselines = tmp_path / "baselines"
    common = (*SMALL, *LARGE_EFFECT, "--pairs", 6, "--top-up", 0, "--baselines", baselines)
    usual, slower = taking(tmp_path / "usual", remembered, "10"), taking(tmp_path / "slower", remembered, "90")
    none = ladder("gate", "--head", usual, *common, "--out", tmp_path / "none")
    assert none.returncode == 3
    assert "--save" in none.stderr and not (tmp_path / "none").exists()
    saved = ladder("gate", "--head", usual, *common, "--save", "--out", tmp_path / "saved")
    assert saved.returncode == 0, saved.stdout + saved.stderr
    (file,) = verdict_of(tmp_path / "saved")["saved"]
    device, name = pathlib.Path(file).relative_to(baselines).parts
    assert name == json.loads(pathlib.Path(file).read_text())["recipe_hash"] + ".json"
    assert device.endswith("-1-threads")
    before = json.loads(pathlib.Path(file).read_text())
    slow = ladder("gate", "--head", slower, *SMALL, *LARGE_EFFECT, "--pairs", 8, "--top-up", 2, "--baselines", baselines, "--save",
                  "--out", tmp_path / "slow")
    assert slow.returncode == 1, slow.stdout + slow.stderr
    assert "a baseline has only 6 runs" in slow.stderr
    assert verdict_of(tmp_path / "slow")["pairs"] == 6 and len(records(tmp_path / "slow")) == 6
    after = json.loads(pathlib.Path(file).read_text())
    assert after["records"] == before["records"]  # a regression does not become the baseline
    assert any("not interleaved" in warning for warning in verdict_of(tmp_path / "slow")["warnings"])
    # Runs with other steps or another seed cannot be compared.
    for changed, words in ((("--warmup", 2), "warm-up steps: 3 against 2"), (("--steps", 8), "timed steps: 9 against 8"),
                           (("--seed", 7), "seed: 1 against 7")):
        flags = [word for word in zip(common[::2], common[1::2]) if word[0] != changed[0]]
        other = ladder("gate", "--head", usual, *itertools.chain(*flags), *changed, "--out", tmp_path / "other")
        assert other.returncode == 3 and words in other.stderr and not (tmp_path / "other").exists(), other.stderr
    # A file that was edited, or that belongs elsewhere, is refused.
    before["records"][0]["environment"]["threads"] = 64
    pathlib.Path(file).write_text(json.dumps(before))
    bad = ladder("gate", "--head", usual, *common, "--out", tmp_path / "bad")
    assert bad.returncode == 2 and name in bad.stderr


def test_what_becomes_a_baseline(ladder, remembered, tmp_path) -> None:
    """A rung without a baseline gets one, and a faster run replaces it. A slower run does not: small slowdowns would add up unseen."""
    baselines = tmp_path / "baselines"

    def of_exactly(ms: float) -> pathlib.Path:
        return taking(tmp_path / f"of-{ms}-ms", remembered, str(ms), commit=f"{10 * ms:04.0f}" * 10)

    common = (*SMALL, "--pairs", 6, "--top-up", 0, "--baselines", baselines, "--save")

    def gate(name: str, ms: float, *rungs: str):
        chosen = [word for rung in rungs for word in ("--rung", rung)]
        done = ladder("gate", "--head", of_exactly(ms), *common, *chosen, "--out", tmp_path / name)
        return done, {pathlib.Path(file).name for file in verdict_of(tmp_path / name)["saved"]}

    done, saved = gate("first", 10, "start")
    assert done.returncode == 0 and len(saved) == 1
    (file,) = baselines.glob("*/*.json")
    before = file.read_bytes()
    done, saved = gate("same", 10.1, "start")
    assert done.returncode == 0 and verdict_of(tmp_path / "same")["verdict"] == "SAME" and not saved
    done, saved = gate("slow", 11, "start", "memory")
    assert done.returncode == 1 and not saved and file.read_bytes() == before  # memory has none, and start regressed
    done, saved = gate("fast", 9, "start", "memory")
    assert done.returncode == 0 and len(saved) == 2 and file.read_bytes() != before
    refused = ladder("compare", tmp_path / "first", tmp_path / "same")
    assert refused.returncode == 2 and "is a gate" in refused.stderr
    # A gate that is shown again is not compared with the baseline that it saved.
    shown = ladder("gate", "--resume", "--out", tmp_path / "fast")
    assert shown.returncode == 0 and "\nIMPROVEMENT" in shown.stdout, shown.stdout + shown.stderr
    # Baselines of other circumstances are refused before anything is measured. --save replaces them.
    for stored in baselines.glob("*/*.json"):
        stored.write_text(stored.read_text().replace('"torch": "', '"torch": "1.'))
    refused = ladder("gate", "--head", of_exactly(9), *common[:-1], "--rung", "start", "--out", tmp_path / "old")
    assert refused.returncode == 3 and "was made under other circumstances" in refused.stderr and not (tmp_path / "old").exists()
    done, saved = gate("renewed", 10, "start")
    assert done.returncode == 0 and len(saved) == 1 and '"torch": "1.' not in file.read_text()
    # A gate without --save is resumed, but its baselines are gone: it says so before it measures.
    done = ladder("gate", "--head", of_exactly(9), *common[:-1], "--rung", "start", "--out", tmp_path / "gone")
    next((tmp_path / "gone" / "records").glob("*.json")).unlink()
    for stored in baselines.glob("*/*.json"):
        stored.unlink()
    again = ladder("gate", "--resume", "--head", of_exactly(9), "--out", tmp_path / "gone")
    assert again.returncode == 3 and "there is no baseline" in again.stderr


def test_nothing_is_saved_before_its_verdict_stands(ladder, remembered, tmp_path) -> None:
    """Otherwise a gate that is interrupted between the two would be compared with its own baseline when it is resumed."""
    out, baselines = tmp_path / "gate", tmp_path / "b"
    in_the_way = script(tmp_path / "in-the-way", f'mkdir -p {shlex.quote(str(out))}/gate.json\nexec {shlex.quote(remembered)} "$@"\n')
    done = ladder("gate", "--head", in_the_way, *SMALL, "--pairs", 6, "--top-up", 0, "--baselines", baselines, "--save", "--out", out)
    assert done.returncode == 2 and "gate.json" in done.stderr and not baselines.exists(), done.stderr
    (out / "gate.json").rmdir()
    # Nor anything of another device, which a prepared folder may hold. The folder to save into is not there yet.
    resume = ("gate", "--resume", "--head", in_the_way, "--baselines", "b", "--out", out)
    last = sorted((out / "records").glob("*.json"))[-1]
    whole = last.read_text()
    record = json.loads(whole)
    record["environment"]["cpu"]["model"] = "Another"
    last.write_text(json.dumps(record))
    done = ladder(*resume, cwd=tmp_path)
    assert done.returncode == 3 and "device: Another against" in done.stderr and not baselines.exists(), done.stderr
    last.write_text(whole)
    done = ladder(*resume, cwd=tmp_path)
    assert done.returncode == 0 and verdict_of(out)["verdict"] == "SAVED", done.stderr
    (file,) = verdict_of(out)["saved"]


def test_what_a_verdict_could_not_save_is_saved_by_resume(ladder, remembered, tmp_path) -> None:
    out, baselines = tmp_path / "gate", tmp_path / "b"
    in_the_way = script(tmp_path / "in-the-way", f'touch {shlex.quote(str(baselines))}\nexec {shlex.quote(remembered)} "$@"\n')
    done = ladder("gate", "--head", in_the_way, *SMALL, "--rung", "start", "--rung", "memory", "--pairs", 6, "--top-up", 0,
                  "--baselines", baselines, "--save", "--out", out)
    assert done.returncode == 2 and verdict_of(out)["verdict"] == "SAVED" and (out / "unsaved.json").exists(), done.stderr
    baselines.unlink()
    unsaved = (out / "unsaved.json").read_text()
    assert ladder("gate", "--resume", "--out", out).returncode == 2 and not baselines.exists()  # the folder does not say where to write
    resume = ("gate", "--resume", "--baselines", baselines, "--out", out)
    assert ladder(*resume).returncode == 0
    saved = {pathlib.Path(file) for file in verdict_of(out)["saved"]}
    assert len(saved) == 2 and set(baselines.glob("*/*.json")) == saved and not (out / "unsaved.json").exists()
    # One of the two was saved already; and a document that somebody has put there is not.
    kept, lost = saved
    before, planted = kept.read_bytes(), json.loads(lost.read_text())
    planted |= {"median_ms": 1, "recipe_hash": "0123456789ab", "label": "planted"}
    lost.unlink()
    (out / "unsaved.json").write_text(json.dumps(json.loads(unsaved) | {"files": [{"document": planted, "path": str(tmp_path / "victim")}]}))
    done = ladder(*resume)
    assert done.returncode == 2 and 'unknown field "files"' in done.stderr, done.stderr
    (out / "unsaved.json").write_text(unsaved)
    assert ladder(*resume).returncode == 0
    assert set(baselines.glob("*/*.json")) == saved and kept.read_bytes() == before and "planted" not in lost.read_text()
    assert not (tmp_path / "victim").exists() and verdict_of(out)["verdict"] == "SAVED"
    # The file is of another verdict, which was never written.
    for file in verdict_of(out)["saved"]:
        pathlib.Path(file).unlink()
    (out / "unsaved.json").write_text(unsaved.replace(verdict_of(out)["created"], "2026-01-01T00:00:00Z"))
    assert ladder(*resume).returncode == 0
    assert not (out / "unsaved.json").exists() and not list(baselines.rglob("*.json"))
    (out / "unsaved.json").write_text("{}")
    refused = ladder(*resume)
    assert refused.returncode == 2 and "unsaved.json: was not written by a gate" in refused.stderr


def test_a_program_that_differs_from_itself_is_no_noise(ladder, remembered, tmp_path) -> None:
    biased = taking(tmp_path / "biased", remembered, '13 if "-head-" in sys.argv[1] else 10')
    done = ladder("gate", "--calibrate", "--head", biased, *SMALL, "--pairs", 6, "--baselines", tmp_path / "b", "--save", "--out",
                  tmp_path / "gate")
    assert done.returncode == 3 and verdict_of(tmp_path / "gate")["verdict"] == "UNFIT"
    assert "the program differs from itself" in " ".join(done.stdout.split()) and not (tmp_path / "b").exists()


def test_a_disturbed_baseline_says_so(ladder, remembered, tmp_path) -> None:
    throttled = editing(tmp_path / "throttled", remembered, 'record["flags"] = ["throttled: heat", "shared: a neighbour"]')
    done = ladder("gate", "--head", throttled, *SMALL, "--pairs", 6, "--top-up", 0, "--baselines", tmp_path / "b", "--save", "--out",
                  tmp_path / "gate")
    assert done.returncode == 0
    (warning,) = verdict_of(tmp_path / "gate")["warnings"]
    assert "6 of 6 runs were disturbed: head " in warning and "throttled: heat" in warning


def test_without_flags_it_compares_with_the_stored_baseline(ladder, tmp_path) -> None:
    done = ladder("gate", *SMALL, "--out", tmp_path / "gate")
    assert done.returncode == 3 and not (tmp_path / "gate").exists()
    assert "there is no baseline" in done.stderr and "/results/baselines" in done.stderr and "--save makes one" in done.stderr


def test_calibration_publishes_a_noise_floor_that_the_gate_reads(ladder, remembered, tmp_path) -> None:
    baselines = tmp_path / "baselines"
    # Times half a percent up and down. With a real clock, one of a hundred calibrations finds a difference.
    noisy = taking(tmp_path / "noisy", remembered, '10 + int(sys.argv[1].split("/r")[-1][0]) * (2 if "-head-" in sys.argv[1] else 1) % 3 / 20')
    done = ladder("gate", "--calibrate", "--head", noisy, *SMALL, "--pairs", 6, "--baselines", baselines, "--save", "--out", tmp_path / "c")
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = verdict_of(tmp_path / "c")["saved"]
    noise = json.loads(pathlib.Path(file).read_text())
    assert len(noise["differences"]) == 6
    floors = [entry["floor"] for entry in noise["floors"]]
    assert floors == sorted(floors, reverse=True)  # more pairs show less
    # A machine that can show only half and more: the gate says that the least effect is too small for it.
    noise["floors"] = [entry | {"floor": 0.5} for entry in noise["floors"]]
    pathlib.Path(file).write_text(json.dumps(noise))
    gate = ladder("gate", "--base", remembered, "--head", remembered, *SMALL, "--pairs", 6, "--top-up", 0, "--baselines", baselines,
                  "--out", tmp_path / "g", variables={"GITHUB_ACTIONS": "true"})
    verdict = verdict_of(tmp_path / "g")
    assert verdict["noise"] == [{"floor": 0.5, "source": "calibration"}], gate.stderr
    assert [warning for warning in verdict["warnings"] if "these 6 pairs can show changes above 50.0 % only; you asked for 2 %" in warning], verdict["warnings"]
    assert [line for line in gate.stderr.splitlines() if line.startswith("::warning title=ladder gate::") and "can show changes above 50.0 %25 only" in line]


@pytest.mark.thorough
def test_a_baseline_learns_how_its_sessions_differ(ladder, remembered, tmp_path) -> None:
    """From three sessions on, the interval contains one more session of the same program in 95 % of cases."""
    baselines = tmp_path / "baselines"
    common = (*SMALL, "--rung", "start", "--pairs", 6, "--top-up", 2, "--baselines", baselines)

    def gate(name: str, ms: float, day: int, commit: str = "a", *flags: str, disturbed: tuple = ()):
        head = taking(tmp_path / f"head-{name}", remembered, str(ms), commit * 40, f"2026-11-{day:02}T11:05:00Z", disturbed)
        done = ladder("gate", "--head", head, *common, *flags, "--save", "--out", tmp_path / name)
        return done, verdict_of(tmp_path / name)

    def medians() -> list[float]:
        (file,) = baselines.glob("*/*.json")
        return [session["median_ms"] for session in json.loads(file.read_text())["sessions"]]

    assert gate("first", 10, 1)[1]["verdict"] == "SAVED" and medians() == [10]
    # On other days its own program is 4 % slower or faster. At first that counts as a change.
    done, verdict = gate("slower", 10.4, 2)
    assert done.returncode == 1 and verdict["verdict"] == "REGRESSION" and len(verdict["added_to"]) == 1
    assert medians() == [10, 10.4] and "one more session of the baseline's program" in done.stdout
    warnings = " ".join(verdict["warnings"])
    assert "the baseline has only 1 session, so" in warnings and "not interleaved" in warnings
    assert "base and head are the same program: this difference is the machine's" in warnings
    assert verdict["noise"] == [None]  # one session does not show how far two are apart
    # A session soon after the last one, a disturbed one, or one with other steps is not added.
    done, verdict = gate("disturbed", 12, 4, disturbed=("throttled: heat",))
    assert any("baseline's program: some of its runs were disturbed" in warning for warning in verdict["warnings"])
    done, verdict = gate("again", 10.1, 2)
    assert any("it began only 0.0 hours from a known session" in warning for warning in verdict["warnings"])
    done, verdict = gate("other-steps", 10.1, 4, "a", "--seed", "7", "--force")
    assert any("not counted as a session of the baseline's program: seed: 1 against 7" in warning for warning in verdict["warnings"])
    assert medians() == [10, 10.4]
    done, verdict = gate("faster", 9.6, 3)
    assert verdict["verdict"] == "IMPROVEMENT" and not verdict["saved"] and medians() == [10, 10.4, 9.6]
    (file,) = baselines.glob("*/*.json")  # as if it came from a ladder in which another rung has this recipe
    file.write_text(json.dumps(json.loads(file.read_text()) | {"label": "+ another name"}))
    # Now others are judged by its sessions: 4 % is not more than they differ by.
    done, verdict = gate("same", 10.4, 4, "b")
    (entry,) = verdict["comparison"]["entries"]
    assert done.returncode == 3 and entry["sessions"] == 3 and medians() == [10, 10.4, 9.6]
    assert entry["pairs"] == 8 and not verdict["added_to"]
    mean = (10 * 10.4 * 9.6) ** (1 / 3)
    assert abs(entry["base_ms"] - mean) < 1e-9 and abs(entry["ratio"] - 10.4 / mean) < 1e-9 and entry["lo"] < 0.9 < 1.2 < entry["hi"]
    (noise,) = verdict["noise"]
    assert noise["source"] == "sessions" and noise["floor"] > 0.2
    assert any("these 3 sessions can show changes above" in warning for warning in verdict["warnings"])
    assert not any("not interleaved" in warning for warning in verdict["warnings"])
    assert "base: the mean of 3 sessions of one program" in " ".join(done.stdout.split())
    (file,) = baselines.glob("*/*.json")
    # A single record is not a session.
    record = next((tmp_path / "same" / "records").iterdir())
    compared = json.loads(ladder("compare", file, record, "--json").stdout)
    assert compared["entries"][0]["sessions"] is None and compared["entries"][0]["verdict"] == "INCONCLUSIVE"
    # A faster program replaces it, and begins with one session.
    done, verdict = gate("improved", 5, 4, "b")
    assert done.returncode == 0 and len(verdict["saved"]) == 1 and medians() == [5]
    document = json.loads(file.read_text())
    document["sessions"][0]["median_ms"] = 6
    file.write_text(json.dumps(document))
    bad = ladder("gate", "--head", remembered, *common, "--out", tmp_path / "bad")
    assert bad.returncode == 2 and "median_ms does not follow from its records" in bad.stderr
