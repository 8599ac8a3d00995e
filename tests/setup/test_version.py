"""cmake/version.cmake: the commit that a program says it is built from."""
import os
import pathlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "cmake" / "version.cmake"


def git(folder, *arguments):
    identity = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    return subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "file").write_text("one")
    git(folder, "init", "-q")
    git(folder, "add", "file")
    git(folder, "commit", "-qm", "one")
    return folder


def version(source, output):
    command = [shutil.which("cmake"), f"-DSOURCE={source}", f"-DOUTPUT={output}", "-DFLAGS=-O2", "-P", str(SCRIPT)]
    subprocess.run(command, check=True, capture_output=True)
    said = output.read_text()
    return re.search(r'COMMIT "(.*)"', said)[1], int(re.search(r"DIRTY (\d)", said)[1])


def test_a_repository_says_its_commit_and_whether_it_was_changed(repository, tmp_path):
    commit = git(repository, "rev-parse", "HEAD")
    assert version(repository, tmp_path / "version.h") == (commit, 0)
    (repository / "file").write_text("two")
    assert version(repository, tmp_path / "version.h") == (commit, 1)


def test_sources_that_are_no_repository_have_no_commit(repository, tmp_path):
    (repository / "unpacked").mkdir()
    (repository / "file").write_text("two")
    for source in (repository / "unpacked", tmp_path):  # within another one, and outside of git
        assert version(source, tmp_path / "version.h") == ("unknown", 0)


@pytest.mark.parametrize(("there", "said", "is_ours"), [
    (None, "linked", True), ("/nowhere/build/release/ladder", "linked", True), ("/nowhere/ladder", "stays", False), ("/bin/true", "stays", False)])
def test_make_links_the_program_and_no_file_is_lost(tmp_path, there, said, is_ours) -> None:
    root, link = SCRIPT.parents[1], tmp_path / ".local" / "bin" / "ladder"
    if there:
        link.parent.mkdir(parents=True)
        link.symlink_to(there)
    make = [shutil.which("make"), "-s", "link"]
    done = subprocess.run(make, cwd=root, env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert said in done.stdout and done.stdout.count("\n") == 1
    assert link.readlink() == pathlib.Path(root / "build" / "release" / "ladder" if is_ours else there)
