"""Hostile names in ladders, plans, records, traces and paths. A terminal shows them as text on one line, Markdown and SVG show them as
text, and nothing is written outside the named folder.

These tests run whole commands. tests/plots and report_document_test.cpp test such texts on pages, in pictures and in CSV files.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from conftest import DRAWN, EVIDENCE, ROOT, ladder_document, read_json, snapshot, write_json

SEEDS = ROOT / "tests" / "fuzz" / "seeds"
# Colour, title, link, C1, bell, carriage return, right to left, no width, no break; HTML, Markdown, shell and path.
HOSTILE = ("\x1b[31mred\x1b]0;title\x07\x1b]8;;http://x\x07link\x9b1m\rover\u202ertl\u2066\u200b\ufeff\u2028"
           "<script>alert(1)</script>|pipe|`code`[x](javascript:x)<!--$(id)../../etc/x")
FILE_NAME = HOSTILE.replace("/", "_").replace("\r", "")[:60]


def assert_plain(text: str) -> None:
    """No line has control characters, marks of direction or characters of no width."""
    for line in text.splitlines():
        assert line.isprintable(), ascii(line)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), ascii(text)


def hostile(value):
    """The document with every text that people read made hostile."""
    keep = {"kind", "id", "status", "mode", "name", "peer", "optimization", "field", "device", "model", "data", "vocabulary", "swept",
            "created", "started", "sha256"}
    if isinstance(value, dict):
        return {key: inner if key in keep and isinstance(inner, str) or key in ("recipe", "applied", "optimizations")
                else hostile(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [hostile(inner) for inner in value]
    return HOSTILE if isinstance(value, str) else value


@pytest.fixture
def study(tmp_path) -> pathlib.Path:
    """A study with hostile texts in its plan and in all its records. One of the runs failed."""
    folder = tmp_path / FILE_NAME
    (folder / "records").mkdir(parents=True)
    plan = hostile(read_json(SEEDS / "plan" / "valid.json"))
    write_json(folder / "plan.json", plan)
    for run in plan["runs"]:
        name = "valid-failed.json" if run["id"] == "r2-01" else "valid-monitored.json"
        record = hostile(read_json(SEEDS / "record" / name))
        if record["status"] == "ok":
            record["environment"]["cpu"]["model"] = HOSTILE
            record["workload"]["data"]["source"] = HOSTILE
        write_json(folder / "records" / f"{run['id']}.json", record)
    return folder


def test_a_study_is_shown_as_text(ladder, study, tmp_path) -> None:
    before = set(snapshot(tmp_path))
    done = ladder("report", study, variables=DRAWN)
    assert done.returncode in (0, 1, 3), done.stderr
    assert_plain(done.stdout)
    assert_plain(done.stderr)
    assert r"\x1b[31mred" in done.stdout and r"\u{202e}rtl" in done.stdout
    assert_plain((study / "report.md").read_text())
    page = (study / "report.html").read_text()
    assert page.count("<script") == 1 and "&lt;script&gt;" in page and not re.search(r"<(?:a|img)[^>]+(?:javascript|https?):", page)
    drawings = sorted((study / "charts").glob("*.svg"))
    assert len(drawings) > 3
    for svg in drawings:
        assert "<script" not in svg.read_text()
        assert_plain(svg.read_text())
    written = {pathlib.Path(name) for name in set(snapshot(tmp_path)) - before}
    assert all((tmp_path / name).parent in (study, study / "charts") for name in written), written
    assert {name.name for name in written} >= {"study.json", "report.json", "rungs.csv", "benchmark.json", "report.md", "report.html"}


def test_traces_are_shown_as_text(ladder, tmp_path) -> None:
    trace = hostile(read_json(SEEDS / "trace" / "valid.json"))
    trace["device"] = {"kind": "cpu", "name": HOSTILE}
    trace["summary"]["by_name"][0]["name"] = HOSTILE
    other = {**trace, "summary": {**trace["summary"], "wall_ms": 3.0, "by_name": []}}
    files = [write_json(tmp_path / f"{FILE_NAME}-{name}.json", content) for name, content in (("a", trace), ("b", other))]
    for flags in ([], ["--json"]):
        done = ladder("profile", *flags, "--diff", *files)
        assert done.returncode == 0, done.stderr
        assert_plain(done.stdout)
        assert "alert" in done.stdout and (done.stdout.isascii() or not flags)


@pytest.mark.parametrize("arguments", [
    ["ablate", "--ladder", f"./{FILE_NAME}.json", "--out", "x"], ["ablate", "--ladder", "tiny", "--model", HOSTILE, "--out", "x"],
    ["run", "--recipe", json.dumps({HOSTILE: HOSTILE})], ["report", FILE_NAME], [HOSTILE], ["ablate", "--mode", HOSTILE],
])
def test_errors_are_one_line_of_text(ladder, arguments) -> None:
    done = ladder(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert_plain(done.stderr)
    assert len(done.stderr.splitlines()) <= 2


def test_what_a_child_says_is_shown_as_text(program, environment, tmp_path) -> None:
    """A Python that prints hostile lines and fails. They are in the progress, in the record, and in place of the report."""
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nimport sys\nsys.stderr.buffer.write({HOSTILE.encode()!r} + b'\\xff\\n')\nsys.exit(3)\n")
    python.chmod(0o755)
    source = write_json(tmp_path / "ladder.json", ladder_document(
        rungs=[], title=HOSTILE[:100], plan={"repeats": 1, "warmup_steps": 0, "timed_steps": 1}))
    done = subprocess.run([program, "ablate", "--ladder", source, "--with-peer", "pytorch", "--peer-modes", "eager", "--out", "study"],
                          cwd=tmp_path, env={**environment, "LADDER_PYTHON": str(python)}, stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, check=False, timeout=120)
    assert done.returncode in (1, 3), done.stderr
    assert done.stderr.count(r"\x1b[31mred") >= 2, done.stderr  # of the failed run, and of the report
    assert_plain(done.stderr)
    assert_plain(done.stdout)
    assert_plain(read_json(next((tmp_path / "study" / "records").glob("*pytorch*")))["failure"]["message"])


def test_a_job_on_github_obeys_no_name(ladder, study, tmp_path) -> None:
    """GitHub's runner takes lines that begin with "::" (after blanks), and "##[" anywhere, for commands."""
    told = "::stop-commands::x ##[error]x"
    plan = read_json(study / "plan.json")
    plan["ladder"]["title"] = plan["rungs"][0]["title"] = told
    write_json(study / "plan.json", plan)
    for path in (study / "records").iterdir():
        record = read_json(path)
        if record["status"] == "failed":
            record["failure"]["message"] = "a word that is followed by a line's worth of others, and then there is " + told
            write_json(path, record)
    for github, obeyed in (({"GITHUB_ACTIONS": "true"}, False), ({}, True)):
        done = ladder("report", study, "--out", tmp_path / "drawn", variables={"LADDER_PYTHON": "/bin/true", **github})
        lines = (done.stdout + done.stderr).splitlines()
        assert any("stop-commands" in line for line in lines), done.stderr
        assert any(line.lstrip().startswith("::") or "##[" in line for line in lines) == obeyed, lines


def test_a_folder_that_is_verified_is_shown_as_text(ladder, tmp_path) -> None:
    folder = tmp_path / FILE_NAME
    shutil.copytree(EVIDENCE, folder)
    write_json(folder / "study.json", read_json(folder / "study.json") | {HOSTILE: HOSTILE})
    done = ladder("verify", folder)
    assert done.returncode == 1 and "red" in done.stdout, done.stderr
    assert_plain(done.stdout + done.stderr)


TRICKS = ["../../x", "a\n/../b", "x" * 10_000]


@pytest.mark.parametrize("place", ["plan/id", "plan/ladder/name", "plan/runs/0/id", "plan/rungs/3/name", "ladder/name"])
def test_no_path_comes_out_of_a_name(ladder, tmp_path, place) -> None:
    kind, *path, last = place.split("/")
    folder = tmp_path / "in" / "study"
    folder.mkdir(parents=True)
    for trick in TRICKS:
        document = read_json(SEEDS / kind / "valid.json")
        inner = document
        for part in path:
            inner = inner[int(part) if part.isdigit() else part]
        inner[last] = trick
        write_json(folder / f"{kind}.json", document)
        before = snapshot(tmp_path)
        done = ladder("report", folder) if kind == "plan" else ladder("ablate", "--ladder", folder / "ladder.json")
        assert done.returncode == 2, (trick, done.stderr)
        assert last in done.stderr, (trick, done.stderr)
        assert_plain(done.stderr)
        assert len(done.stderr) < 1000
        assert snapshot(tmp_path) == before
    assert os.listdir(tmp_path) == ["in"]
