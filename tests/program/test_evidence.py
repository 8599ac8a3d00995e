"""The recorded evidence is what this program makes of its records, and links in pages lead to files and headings that exist."""

import json
import re
import shutil

import pytest
from conftest import MEASURED, DRAWN, EVIDENCE, ROOT

FOLDERS = ROOT / "results" / "evidence"
PLANNED = sorted(plan.parent for plan in FOLDERS.glob("*/plan.json"))
# Also of trainings. Earlier programs made studies of trainings of their own kinds; their pages stay as they were drawn.
REPORTED = sorted(report.parent for report in FOLDERS.glob("**/report.md")
                  if not any((report.parent / name).exists() for name in ("lr_sweep.json", "to_loss.json")))


@pytest.mark.parametrize("folder", PLANNED, ids=lambda folder: folder.name)
def test_study_follows_from_the_records(ladder, folder):
    done = ladder("verify", folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("folder", REPORTED, ids=lambda folder: folder.name)
def test_report_and_pictures_are_this_programs(ladder, folder, tmp_path):
    """If not, they are stale: `ladder report FOLDER` draws them again."""
    copy, out = tmp_path / folder.name, tmp_path / "out"
    shutil.copytree(folder, copy)
    done = ladder("report", copy, "--out", out, variables=DRAWN)
    study = folder / "study.json"
    without_number = [rung for rung in json.loads(study.read_text())["rungs"] if rung["status"] == "unproven"] if study.exists() else []
    unusable = (folder / "report.md").read_text().startswith("# Not usable")
    assert done.returncode == (1 if without_number else 3 if unusable else 0), done.stderr
    kept = [file for file in folder.rglob("*") if file.name == "report.md" or file.suffix == ".svg"]
    assert len(kept) > 1
    for file in kept:
        assert (out / file.relative_to(folder)).read_text() == file.read_text(), f"{file} is stale"


@pytest.mark.parametrize("folder", PLANNED, ids=lambda folder: folder.name)
def test_no_change_is_explained_that_the_interval_refuses(folder):
    rungs = json.loads((folder / "study.json").read_text())["rungs"]
    explained = [rung for rung in rungs if "explanation" in rung]
    for rung in explained:
        step = rung["speedup_previous"]
        assert ("No clear change of the step" in rung["explanation"]) == (step["lo"] <= 1 <= step["hi"]), rung["explanation"]


def test_rungs_on_different_devices_are_not_explained_by_each_other(ladder, tmp_path):
    """For example in a ladder that begins on the CPU and continues on a GPU."""
    copy = tmp_path / "copy"
    shutil.copytree(EVIDENCE, copy)
    explained = []
    for device in ("AMD EPYC", "another"):
        trace = copy / "traces" / "start.trace.json"
        trace.write_text(json.dumps(json.loads(trace.read_text()) | {"device": {"kind": "cpu", "name": device}}))
        (copy / "study.json").unlink(missing_ok=True)  # it follows from records and traces
        done = ladder("report", copy, "--out", tmp_path / device)
        assert done.returncode in MEASURED, done.stderr
        rungs = json.loads((tmp_path / device / "report.json").read_text())["studies"][0]["study"]["rungs"]
        explained.append({rung["title"] for rung in rungs if rung.get("explanation")})
    assert explained[0] - explained[1] == {"keep host memory"}  # it comes right after the start


def headings(page):
    """The anchors that GitHub gives a page's headings."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]), ids=lambda page: page.name)
def test_pages_lead_only_to_what_is_there(page):
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if link.startswith(("https://", "../../actions/")):  # of GitHub
            continue
        file, _, heading = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        assert not heading or heading in headings(target), link
