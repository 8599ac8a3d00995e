"""What the tests of the client share: programs as a user has them, each run in a process of its own."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

CLIENT = pathlib.Path(__file__).resolve().parents[2] / "client"
OURS = ("LADDER_LOG", "LADDER_LOOK", "LADDER_HOOK", "RANK", "WORLD_SIZE", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCAL_RANK")


@pytest.fixture
def run(tmp_path):
    """run(TEXT, *ARGUMENTS, folders=[...], LADDER_LOG=...): the finished program, which finds modules in these folders first."""

    def start(text: str, *arguments, folders=(CLIENT,), **variables) -> subprocess.CompletedProcess:
        script = tmp_path / "program.py"
        script.write_text(text)
        environment = {name: value for name, value in os.environ.items() if name not in OURS}
        environment["PYTHONPATH"] = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
        environment.setdefault("CUDA_VISIBLE_DEVICES", "")
        return subprocess.run([sys.executable, script, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False,
                              env={**environment, **{name: str(value) for name, value in variables.items()}})

    return start


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


def lines(log: pathlib.Path) -> tuple[dict, list[dict]]:
    """The first line, and the steps'."""

    def refuse(name: str):
        raise ValueError(f"{name} is no JSON")

    first, *steps = [json.loads(line, parse_constant=refuse) for line in log.read_text().splitlines()]
    assert [step["step"] for step in steps] == list(range(len(steps)))
    times = [step["t"] for step in steps]
    assert times == sorted(times)
    return first, steps
