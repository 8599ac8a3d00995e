"""Hostile names in ladders, plans, records, traces and paths. A terminal shows them as text on one line, Markdown and SVG show them as
text, and nothing is written outside the named folder.

These tests run whole commands. tests/plots has the tests of such texts in reports.
"""

import csv
import io
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET

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
    report = (study / "report.md").read_text()
    assert_plain(report)
    outside_code = re.sub(r"(?s)```.*?```|(?<!\\)(`+)[^`\n].*?(?<!`)\1(?!`)", "", report)
    assert "&lt;script&gt;" in outside_code
    assert "<script" not in outside_code and "<!--" not in outside_code
    assert not re.search(r"(?<!\\)\]\(javascript", outside_code)
    page = (study / "report.html").read_text()
    assert page.count("<script") == 1 and "&lt;script&gt;" in page and not re.search(r"<(?:a|img)[^>]+(?:javascript|https?):", page)
    drawings = sorted((study / "charts").glob("*.svg"))
    assert len(drawings) > 3
    for svg in drawings:
        assert not {e.tag.rsplit("}", 1)[-1] for e in ET.fromstring(svg.read_text()).iter()} & {"script", "a", "foreignObject", "image"}
        assert_plain(svg.read_text())
    written = {pathlib.Path(name) for name in set(snapshot(tmp_path)) - before}
    assert {name.name for name in written if "charts" not in (name.name, name.parent.name)} == {
        "study.json", "report.json", "rungs.csv", "steps.csv", "benchmark.json", "report.md", "report.html"}
    for name in ("rungs.csv", "steps.csv"):
        table = list(csv.reader(io.StringIO((study / name).read_bytes().decode(), newline=""), strict=True))
        assert len({len(row) for row in table}) == 1
        for cell in (cell for row in table for cell in row):
            assert_plain(cell)
            assert not cell.startswith(tuple("=+-@"))
    # No name from a study is in an expression of Vega.
    for file in (study / "charts").glob("*.vl.json"):
        for e in re.findall(r'"(?:filter|test|expr|calculate|signal|labelExpr|href|url)": ("(?:[^"\\]|\\.)*")', file.read_text()):
            assert "script" not in e and "javascript" not in e and "rtl" not in e, (file.name, e)


def test_a_study_as_json_is_ascii(ladder, study) -> None:
    (study / "tokens.bin").write_bytes(struct.pack("<256i", 20240520, 1, 100, *[0] * 253) + bytes(200))
    plan = read_json(study / "plan.json")
    plan["workload"]["data"] = str(study / "tokens.bin")
    plan["runs"] = []  # without runs to make the plan is shown
    for rung in plan["rungs"]:
        rung["status"] = "not_applicable"
    write_json(study / "plan.json", plan)
    shutil.rmtree(study / "records")  # they name no plan
    done = ladder("ablate", "--resume", "--json", "--out", study)
    assert done.stdout.isascii() and "alert" in done.stdout, done.stderr
    assert json.loads(done.stdout)["ladder"]["title"] == HOSTILE
    assert_plain(done.stdout)
    assert_plain(done.stderr)


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
        assert "alert" in done.stdout


@pytest.mark.parametrize("arguments", [
    ["ablate", "--ladder", f"./{FILE_NAME}.json", "--out", "x"], ["ablate", "--ladder", HOSTILE.replace("/", "_"), "--out", "x"],
    ["ablate", "--ladder", "tiny", "--model", HOSTILE, "--out", "x"], ["run", "--rung", HOSTILE],
    ["run", "--recipe", json.dumps({HOSTILE: 1})], ["run", "--recipe", json.dumps({"autocast": HOSTILE})], ["report", FILE_NAME],
    [HOSTILE], ["profile", "--diff", f"{FILE_NAME}.json", f"{FILE_NAME}.json"], ["ablate", "--mode", HOSTILE],
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
    for status in (0, 1):
        done = ladder("verify", folder)
        assert done.returncode == status and (status == 0 or "red" in done.stdout + done.stderr), done.stderr
        assert_plain(done.stdout + done.stderr)
        (folder / "records" / "r1-00-start.json").write_text("{")


TRICKS = ["../../x", "/etc/x", "-x", "a\0b", "a\n/../b", "x" * 10_000]


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
