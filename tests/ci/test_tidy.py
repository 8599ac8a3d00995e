"""setup/tidy_sources.py: what `make tidy` reads, in a repository made here."""

import json
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "setup" / "tidy_sources.py"
SOURCES = {
    "harness/clock/clock.h": "",
    "harness/clock/clock.cpp": '#include "harness/clock/clock.h"\n',
    "model/other_clock.h": "",
    "model/trainer.cpp": '#include "model/other_clock.h"\n',
    "tests/deep.h": "",
    "tests/helper.h": '#include "tests/deep.h"\n',
    "tests/clock_test.cpp": '#include "tests/helper.h"\n\n#include "harness/clock/clock.h"\n',
    "tests/fuzz/input.h": "",
    "tests/fuzz/seeds_test.cpp": '#include "fuzz/input.h"\n',
    "tests/fuzz/libfuzzer.cpp": '#include "fuzz/input.h"\n',
    "notes.md": "",
}


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "a checkout"
    for name, text in SOURCES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / ".gitignore").write_text("build\n")
    git(folder, "init", "-b", "main")
    commit(folder)
    (folder / "build").mkdir()
    (folder / "build" / "made.cpp").touch()
    compiled = [name for name in SOURCES if name.endswith(".cpp") and name != "tests/fuzz/libfuzzer.cpp"]
    commands = [{"directory": str(folder), "command": "c++", "file": str(folder / name)} for name in [*compiled, "later.cpp"]]
    (folder / "build" / "compile_commands.json").write_text(json.dumps(commands))
    return folder


def git(folder, *arguments) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "--allow-empty", "-m", "a change")


def change(folder, *names) -> None:
    for name in names:
        with open(folder / name, "a") as file:
            file.write("// changed\n")


def run(folder, *arguments) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, SCRIPT, "build", *arguments], cwd=folder, capture_output=True, text=True, check=False)


def sources(folder, *arguments) -> list[str]:
    done = run(folder, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_all_that_have_a_command(repository) -> None:
    assert sources(repository) == ["harness/clock/clock.cpp", "model/trainer.cpp", "tests/clock_test.cpp", "tests/fuzz/seeds_test.cpp"]
    assert run(repository).stderr == "[tidy] tests/fuzz/libfuzzer.cpp is not compiled here and is left out\n"


def test_what_has_changed(repository) -> None:
    """In all commits since, and what is not committed yet."""
    for name in ("model/trainer.cpp", "notes.md"):
        change(repository, name)
        commit(repository)
    assert sources(repository, "HEAD^1") == [] and sources(repository, "HEAD^1^1") == ["model/trainer.cpp"]
    change(repository, "harness/clock/clock.cpp", "later.cpp")
    (repository / "model" / "trainer.cpp").unlink()
    assert sources(repository, "HEAD") == ["harness/clock/clock.cpp", "later.cpp"]


@pytest.mark.parametrize("header, includers", [
    ("harness/clock/clock.h", ["harness/clock/clock.cpp", "tests/clock_test.cpp"]),
    ("model/other_clock.h", ["model/trainer.cpp"]),
    ("tests/deep.h", ["tests/clock_test.cpp"]),
    ("tests/fuzz/input.h", ["tests/fuzz/seeds_test.cpp"]),
])
def test_a_header_is_read_where_it_is_included(repository, header, includers) -> None:
    change(repository, header)
    commit(repository)
    assert sources(repository, "HEAD^1") == includers


def test_a_commit_that_is_none(repository) -> None:
    done = run(repository, "nowhere")
    assert done.returncode == 2 and done.stdout == "" and "nowhere" in done.stderr
