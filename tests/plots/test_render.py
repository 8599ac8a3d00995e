"""plots/render.py and the files it writes: what they hold, what it refuses, what it leaves after a failure, and what it does without its libraries."""

import colorsys
import json
import os
import re
import struct

import pytest
from builders import complete, files_in, gate_of, comparison_of, ENTRIES, history_of, make, report_of, run, series_of, valid, without

import page
import picture
import render
import theme

NAMES = ["report.html", "report.md", "charts/ladder.svg"]


def written(document, folder):
    """render.py's answer for a document."""
    source = folder / "document.json"
    source.write_text(json.dumps(document))
    return run(source, folder / "out")


def refused(done):
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr
    return done.stderr


# ---- what is written

def test_a_study_is_a_page_a_text_and_each_chart_in_three_forms(tmp_path):
    done, folder = written(valid(report_of(complete(runs=2))), tmp_path), tmp_path / "out"
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"Open {folder / 'report.html'}\n")
    charts = ["energy", "ladder", "losses", "memory", "phases", "phases_of_all", "steps"]
    assert files_in(folder) == sorted([f"charts/{one}.{end}" for one in charts for end in ("svg", "png", "vl.json")] + ["report.html", "report.md"])
    png = (folder / "charts/ladder.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", png[16:24])[0] > 1500
    drawing = json.loads((folder / "charts/ladder.vl.json").read_text())
    assert "2.61× faster than “plain fp32”" in drawing["description"] and "NVIDIA Example" in drawing["description"]
    assert [row["rate"] for row in drawing["data"]["values"]] == [1000.0 * (11 + i) for i in range(7)]


def test_a_gate_and_a_history_have_files_of_their_own(tmp_path):
    gate = gate_of("REGRESSION", comparison_of(ENTRIES[0]), [None])
    assert written(gate, tmp_path).stdout == f"Open {tmp_path / 'out' / 'gate.html'}\n"
    assert files_in(tmp_path / "out") == sorted(["gate.html", *(f"charts/{one}.{end}" for one in ("gate", "pairs") for end in ("svg", "png", "vl.json"))])
    (tmp_path / "history").mkdir()
    done = written(history_of(series_of("+ flash", "unchanged", 3)), tmp_path / "history")
    assert done.stdout == f"Open {tmp_path / 'history' / 'out' / 'history.svg'}\n" and len(files_in(tmp_path / "history" / "out")) == 3


def night(*verdicts):
    """A ledger with one experiment of each verdict; None: it was interrupted."""
    judged = {"keep": (1.02, 5), "discard": (0.99, 2), "undecided": (1.004, 16)}

    def entry(i, verdict):
        ratio, pairs = judged.get(verdict, (1, 0))
        begun = {"started": f"2026-11-30T0{i}:00:00Z", "base": "b" * 40, "head": f"{i}ead" + "0" * 36, "command": "python train.py", "device": "AMD EPYC",
                 "metric": "ms/step", "folder": "gates/x", "expectation": {"text": "better", "least_gain": 0, "level": 0.0009, "most_pairs": 16,
                                                                          "noise_squares": 0, "noise_freedom": 0}}
        return begun if verdict is None else begun | {"judgment": {
            "verdict": verdict, "ratio": ratio, "lo": None if pairs == 2 else ratio - 0.01, "hi": None if pairs == 2 else ratio + 0.01, "pairs": pairs,
            "runs": 2 * pairs, "evidence": 12.5, "needed": 1000, "least_shown": 0.01, "gains": [0.0] * pairs, "reasons": ["why <b>so</b>"], "next": ""}}

    said = {"title": "AMD EPYC", "headline": f"{len(verdicts)} experiments", "lines": [], "remarks": [], "command": ""}
    return valid({"kind": "ledger", "schema_version": 1, "created": "2026-11-30T00:00:00Z", "error": 0.05, "said": said,
                  "experiments": [entry(i, verdict) for i, verdict in enumerate(verdicts)]})


def test_a_night_shows_every_experiment_and_what_was_kept(tmp_path):
    done, folder = written(night("discard", "keep", None, "undecided", "keep"), tmp_path), tmp_path / "out"
    assert (done.returncode, done.stderr) == (0, "")
    assert files_in(folder) == sorted(["report.html", "report.md", *(f"charts/experiments.{end}" for end in ("svg", "png", "vl.json"))])
    rows = json.loads((folder / "charts/experiments.vl.json").read_text())["data"]["values"]
    assert [row["n"] for row in rows] == [1, 2, 4, 5] and rows[-1]["together"] == pytest.approx(1.02**2)
    page_text = (folder / "report.html").read_text()
    assert page_text.count("interrupted") == 1 and "why &lt;b&gt;so" in page_text and "12.5 of 1,000" in page_text


def test_a_night_without_a_pair_has_no_chart(tmp_path):
    assert written(night(None), tmp_path).returncode == 0
    assert files_in(tmp_path / "out") == ["report.html", "report.md"]


def test_no_chart_of_another_study_stays(tmp_path):
    study = make(runs=1)
    for r in study["rungs"]:
        r["joules_per_token"] = 0.1
    assert written(report_of(study), tmp_path).returncode == 0
    (tmp_path / "out" / "charts" / "mine.svg").write_text("kept")
    assert "charts/energy.svg" in files_in(tmp_path / "out")
    assert written(report_of(make(runs=1)), tmp_path).returncode == 0
    files = files_in(tmp_path / "out")
    assert not any("energy" in file for file in files) and "charts/mine.svg" in files


# ---- letters and colours

def test_letters_that_no_font_here_has_are_named(monkeypatch):
    vl_convert = pytest.importorskip("vl_convert")
    monkeypatch.setattr(vl_convert, "svg_to_png", lambda svg: b"box" if re.search("[家\U0010fffd]", svg) else svg.encode())
    assert picture.boxes(["<text>plain → 家 é あ</text>".encode()]) == "家" and picture.boxes([b"<text>plain</text>"]) == ""


def test_orange_is_time_that_is_lost_and_told_apart_without_colour():
    """The hue of a colour: orange lies between red and yellow."""
    def rgb(colour):
        return [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]

    def orange(colour):
        hue, _, saturation = colorsys.rgb_to_hls(*rgb(colour))
        return 12 / 360 < hue < 46 / 360 and saturation > 0.5

    def luminance(colour):
        return sum(share * part for share, part in zip((0.299, 0.587, 0.114), rgb(colour)))

    assert {colour for colour in theme.DARK if len(colour) == 7 and orange(colour)} == {theme.SLOWER_BAR, theme.SLOWER_INK}
    css = (page.HERE / "page.css").read_text()
    assert {name for name, colour in re.findall(r"--(\w+): (#\w{6})", css) if orange(colour)} == {"slower"}
    assert orange(theme.DARK[theme.SLOWER_BAR]) and orange(theme.DARK[theme.SLOWER_INK])
    for other in (theme.SLOWER_BAR, theme.SAVED, theme.PALE_BAR):
        assert luminance(other) - luminance(theme.BAR) > 0.23


# ---- what is refused

def test_what_cannot_be_read_or_written_is_refused_and_leaves_nothing_half_written(tmp_path):
    source = tmp_path / "report.json"
    source.write_text("{")
    for unreadable in (source, tmp_path / "none.json", tmp_path):
        assert f"{unreadable}: cannot be read" in refused(run(unreadable, tmp_path / "out"))
    source.write_text(json.dumps(report_of(make())))
    (folder := tmp_path / "out").mkdir()
    for name in ("report.html", "charts"):
        (folder / name).write_text("old")  # no folder `charts` can be made
    assert "cannot be written" in refused(run(source, folder))
    assert {n: (folder / n).read_text() for n in files_in(folder)} == {"report.html": "old", "charts": "old"}


def test_files_are_replaced_and_readable_by_others(tmp_path):
    (tmp_path / "charts").mkdir()
    for name in NAMES:
        (tmp_path / name).write_text("old")
    old = os.umask(0o022)
    try:
        render.write(dict.fromkeys(NAMES, b"new"), tmp_path)
    finally:
        os.umask(old)
    for name in NAMES:
        assert (tmp_path / name).read_text() == "new" and (tmp_path / name).stat().st_mode & 0o777 == 0o644


# ---- what is not installed

@pytest.mark.parametrize("missing", ["vl_convert", "jinja2"])
def test_without_a_package_everything_but_the_pictures_is_written(missing, tmp_path):
    source, folder = tmp_path / "document.json", tmp_path / "out"
    assert written(report_of(make(runs=1)), tmp_path).returncode == 0
    with_pictures, spec = (folder / "report.md").read_text(), (folder / "charts/ladder.vl.json").read_text()
    assert "![" in with_pictures

    done = run(source, folder, env=without(missing, tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("The page and the pictures are not drawn: ") and done.stdout.endswith("-m pip install jinja2 vl-convert-python\n")
    assert all(file == "report.md" or file.endswith(".vl.json") for file in files_in(folder))  # no picture of an older study stays
    assert (folder / "charts/ladder.vl.json").read_text() == spec and json.loads(spec)["data"]["values"]
    report = (folder / "report.md").read_text()
    assert "![" not in report and "\n`charts/ladder.vl.json` holds it.*\n" in report
    assert re.sub(r"(?s)\*No picture.*?holds it\.\*", "", report) == re.sub(r"!\[.*", "", with_pictures)
