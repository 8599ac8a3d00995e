"""plots/render.py and files: what it refuses, what it leaves after a failure, and what it does without its libraries."""

import json
import os
import re
import subprocess
import sys

import pytest
from builders import ENTRIES, SCRIPT, comparison_of, files_in, gate_of, make, report_of, run, without

import documents

CHARTS = [f"charts/ladder.{end}" for end in ("svg", "png", "vl.json")]
NAMES = ["report.html", "report.md", *CHARTS]


def refused(done):
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr
    return done.stderr


# ---- what is refused

@pytest.mark.parametrize("change, said", [
    ({"schema_version": 2}, "schema_version is 2"), ({"schema_version": True}, "schema_version is true"),
    ({"kind": "record"}, 'kind is "record"'), ({"kind": "study"}, 'kind is "study"'), ({"kind": []}, "kind is []"), ({"studies": None}, "does not follow"),
    ({"studies": [{}]}, "older program's"), ({"studies": [{"words": {"headline": "2× faster"}}]}, "older program's"),
])
def test_wrong_input_is_refused(tmp_path, change, said):
    source, folder = tmp_path / "report.json", tmp_path / "out"
    source.write_text(json.dumps(report_of(make()) | change))
    assert said in refused(run(source, folder))
    assert not folder.exists()


def test_an_older_programs_gate_is_refused(tmp_path):
    def told_less(gate, *fields):
        return gate | {"words": {name: said for name, said in gate["words"].items() if name not in fields}}

    gate, comparison = gate_of("SAVED", None, []), comparison_of(ENTRIES[0])
    without_words = {name: value for name, value in comparison.items() if name != "words"}
    older = [{name: value for name, value in gate.items() if name != "words"}, told_less(gate, "pairs", "pairs_note", "noise", "how_to_read"),
             gate_of("SAME", without_words, [None])]
    source = tmp_path / "document.json"
    for document in older:
        source.write_text(json.dumps(document))
        assert "`ladder report GATE.json` draws it" in refused(run(source, tmp_path / "out"))
    for beside in ({"gates": [older[1]]}, {"comparison": without_words}):
        source.write_text(json.dumps(report_of(make(), make(), **beside)))
        assert "`ladder report REPORT.json` draws it" in refused(run(source, tmp_path / "out"))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000,
                                     b'{"kind": "report", "schema_version": NaN}'])
def test_rubbish_is_refused(tmp_path, content):
    source = tmp_path / "report.json"
    source.write_bytes(content)
    assert str(source) in refused(run(source, tmp_path / "out"))


def test_numbers_json_cannot_hold_are_refused(tmp_path):
    source = tmp_path / "report.json"
    source.write_text(json.dumps(report_of(make())).replace("1512.0", "1e999"))
    refused(run(source, tmp_path / "out"))


def test_unreadable_file_and_wrong_usage(tmp_path):
    assert "cannot be read" in refused(run(tmp_path / "none.json", tmp_path / "out"))
    assert "cannot be read" in refused(run(tmp_path, tmp_path / "out"))
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True)
    assert "usage" in refused(done)


def test_unwritable_folder(tmp_path):
    source = tmp_path / "report.json"
    source.write_text(json.dumps(report_of(make())))
    (tmp_path / "file").write_text("kept")
    assert "cannot be written" in refused(run(source, tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "kept"


def test_failure_leaves_nothing_half_written(tmp_path):
    source, folder = tmp_path / "report.json", tmp_path / "out"
    source.write_text(json.dumps(report_of(make())))
    (folder / "charts").mkdir(parents=True)
    for name in NAMES:
        (folder / name).write_text("old")
    source.write_text(json.dumps(report_of(make() | {"statistics": 3})))
    refused(run(source, folder))
    assert {n: (folder / n).read_text() for n in files_in(folder)} == dict.fromkeys(NAMES, "old")


def test_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    """The third of five files cannot be written: none is replaced, no temporary file stays."""
    (tmp_path / "report.md").write_text("old")
    calls = []

    def fsync(descriptor):
        calls.append(descriptor)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(documents.os, "fsync", fsync)
    with pytest.raises(documents.Refused, match="No space left"):
        documents.write(dict.fromkeys(NAMES, b"new"), tmp_path)
    assert files_in(tmp_path) == ["report.md"] and (tmp_path / "report.md").read_text() == "old"


def test_files_are_replaced_and_readable_by_others(tmp_path):
    (tmp_path / "charts").mkdir()
    for name in NAMES:
        (tmp_path / name).write_text("old")
    old = os.umask(0o022)
    try:
        documents.write(dict.fromkeys(NAMES, b"new"), tmp_path)
    finally:
        os.umask(old)
    for name in NAMES:
        assert (tmp_path / name).read_text() == "new" and (tmp_path / name).stat().st_mode & 0o777 == 0o644


# ---- what somebody may have prepared in the folder

def test_links_are_replaced_and_linked_folders_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    folder = tmp_path / "out"
    (folder / "charts").mkdir(parents=True)
    for name in NAMES:
        (folder / name).symlink_to(tmp_path / "mine.txt")
    documents.write(dict.fromkeys(NAMES, b"new"), folder)
    assert all((folder / name).read_text() == "new" and not (folder / name).is_symlink() for name in NAMES)

    elsewhere = tmp_path / "elsewhere"
    (folder / "charts").rename(elsewhere)
    (folder / "charts").symlink_to(elsewhere)
    for content in (b"newer", None):
        with pytest.raises(documents.Refused, match="charts: is a symbolic link"):
            documents.write(dict.fromkeys(NAMES, content), folder)
    assert {name.name for name in elsewhere.iterdir()} == {name.rsplit("/")[-1] for name in CHARTS}
    assert all(file.read_text() == "new" for file in elsewhere.iterdir())
    assert (tmp_path / "mine.txt").read_text() == "mine" and sorted(folder.glob("*.tmp")) == []


# ---- what is not installed

def test_without_vl_convert_everything_but_the_pictures_is_written(tmp_path):
    source, folder = tmp_path / "report.json", tmp_path / "out"
    source.write_text(json.dumps(report_of(make())))
    assert run(source, folder).returncode == 0
    with_pictures, spec = (folder / "report.md").read_text(), (folder / "charts/ladder.vl.json").read_text()
    assert "![" in with_pictures

    done = run(source, folder, env=without("vl_convert", tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    report, drawings, said = done.stdout.splitlines()
    assert report == str(folder / "report.md")
    assert re.fullmatch(re.escape(f"{folder}/charts: ladder") + ".*, each as Vega-Lite", drawings)
    assert said.startswith("The page and the pictures are not drawn: ") and said.endswith("-m pip install vl-convert-python")
    assert all(file == "report.md" or file.endswith(".vl.json") for file in files_in(folder))  # no picture of an older study stays
    assert (folder / "charts/ladder.vl.json").read_text() == spec and json.loads(spec)["data"]["values"]
    report = (folder / "report.md").read_text()
    assert "![" not in report and "`charts/ladder.vl.json` holds the chart" in report
    def words_in(text):
        return [line for line in text.splitlines() if not line.startswith(("![", "*No picture"))]

    assert words_in(report) == words_in(with_pictures)


def test_no_chart_of_another_study_stays(tmp_path):
    source, folder = tmp_path / "report.json", tmp_path / "out"
    study = make()
    for r in study["rungs"]:
        r["joules_per_token"] = 0.1
    source.write_text(json.dumps(report_of(study)))
    assert run(source, folder).returncode == 0
    (folder / "charts" / "mine.svg").write_text("kept")
    assert "charts/energy.svg" in files_in(folder)
    source.write_text(json.dumps(report_of(make())))
    assert run(source, folder).returncode == 0
    assert not any("energy" in file for file in files_in(folder)) and "charts/mine.svg" in files_in(folder)


def test_without_jinja2_nothing_is_written(tmp_path):
    source, folder = tmp_path / "report.json", tmp_path / "out"
    source.write_text(json.dumps(report_of(make())))
    done = run(source, folder, env=without("jinja2", tmp_path))
    assert done.returncode == 3 and done.stdout == "" and not folder.exists()
    assert re.fullmatch(r"render.py: No module named 'jinja2': the report needs it; type: .* -m pip install jinja2\n", done.stderr)
