"""The recorded evidence, and the pictures that the README shows of it, are what this program makes of the records."""

import re
import shutil

import pytest
from conftest import ROOT

FOLDERS = sorted(plan.parent for plan in (ROOT / "results" / "evidence").glob("*/plan.json"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_study_follows_from_the_records(ladder, folder):
    done = ladder("verify", folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_report_and_pictures_are_this_programs(ladder, folder, tmp_path):
    """They are stale otherwise: `ladder report FOLDER`, with what lies in its folder with/, draws them again."""
    copy, out = tmp_path / folder.name, tmp_path / "out"
    shutil.copytree(folder, copy)
    with_files = [word for file in sorted((copy / "with").glob("*.json")) for word in ("--with", file)]
    done = ladder("report", copy, "--out", out, *with_files)
    assert done.returncode == 0, done.stderr
    kept = [file for file in folder.rglob("*") if file.name == "report.md" or file.suffix == ".svg"]
    assert len(kept) > 1
    for file in kept:
        assert (out / file.relative_to(folder)).read_text() == file.read_text(), f"{file} is stale"


def test_readme_shows_only_what_is_there():
    shown = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert shown and all((ROOT / picture).is_file() for picture in shown)
