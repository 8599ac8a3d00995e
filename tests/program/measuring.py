"""What the tests of `ladder measure` share: programs that print steps, and fixtures that measure them."""

import pathlib
import shlex
import subprocess
import sys

import pytest
from conftest import read_json, records, validator

SHORT = ("--warmup", "1", "--steps", "8", "--repeats", "1")
# Without an end. Options: what is added to the loss, seconds of a step, tokens of a step.
LOOP = """
import os, sys, time
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
for step in range(1000000):
    time.sleep(float(flags.get("--sleep", 0.004)))
    rate = f" dt 4 ms, {float(flags['--tokens']) / 4 * 1000} tok/s" if "--tokens" in flags else ""
    print(f"step {step} loss {3 / (1 + step / 10) + float(flags.get('--off', 0)):.5f}{rate}", flush=True)
"""


@pytest.fixture
def here(tmp_path):
    """The folder that programs are begun in, with loop.py."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "loop.py").write_text(LOOP)
    return folder


LOOP_PY = f"{shlex.quote(sys.executable)} loop.py"


@pytest.fixture
def measure(ladder, here, tmp_path):
    """measure("python t.py", "+ --flag", "--look", repeats=2): the finished process. The study is in tmp_path / "study"."""

    def run(*arguments, out=tmp_path / "study", short=SHORT, **options) -> subprocess.CompletedProcess:
        return ladder("measure", *short, "--out", out, *arguments, cwd=here, **options)

    return run


@pytest.fixture
def study(tmp_path):
    """study(): what was found; the documents follow their schemas."""

    def read(folder=tmp_path / "study") -> dict:
        for kind, files in {"plan": [folder / "plan.json"], "record": (folder / "records").glob("*.json"), "study": [folder / "study.json"]}.items():
            for file in files:
                assert not [error.message for error in validator(kind).iter_errors(read_json(file))], file
        return read_json(folder / "study.json")

    return read


def program(text: str) -> str:
    """A command that runs that Python."""
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(text)}"


def prints(lines: str, before: str = "") -> str:
    """A Python program with a loop over `step` that prints without an end."""
    return program(f"import os, signal, sys, time\n{before}\nfor step in range(1000000):\n    time.sleep(0.004)\n    {lines}")


STEP = 'print(f"step {step} loss {3 / (step + 1)}", flush=True)'


def message(done: subprocess.CompletedProcess) -> str:
    """The one line that says why."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ladder: ") and done.stderr.count("ladder: ") == 1, done.stderr
    return last


def counted(told) -> bool:
    """Its steps, from the first on: ten were wanted. A busy machine may read one more before it ends the program."""
    return len(told["steps"]) >= 10 and told["steps"] == list(range(len(told["steps"])))


def one_record(folder: pathlib.Path) -> dict:
    (record,) = records(folder).values()
    assert record["status"] == "ok", record
    return record
