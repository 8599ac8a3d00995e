"""`ladder` has no PyTorch; `ladder-gpt2`, the program beside it, measures and trains."""

import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import EVIDENCE

ANSWERS_ALONE = [("--version",), ("--help",), ("help", "--techniques"), ("help", "gate"), ("compare", EVIDENCE, EVIDENCE),
                 ("verify", EVIDENCE), ("history", EVIDENCE.parent)]
STARTS_THE_OTHER = [("doctor",), ("ablate", "--no-such-flag"), ("run", "--help"), ("profile",), ("gate", "--calibrate"), ("train",), ("sample",),
                    ("tokenize",), ("help", "ablate"), ("help", "--markdown")]


@pytest.fixture
def alone(program, environment, tmp_path):
    """alone("run", ...): a copy of `ladder` that no other program lies beside."""
    own = shutil.copy(program, tmp_path / "ladder")

    def run(*arguments) -> subprocess.CompletedProcess:
        return subprocess.run([own, *map(str, arguments)], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)

    return run


def needed(program) -> list[str]:
    dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)


def test_ladder_links_neither_pytorch_nor_cuda(program) -> None:
    heavy = re.compile(r"lib(torch|c10|cu|nv|nccl|gomp|mkl)")
    assert [name for name in needed(program) if heavy.match(name)] == []
    assert any(heavy.match(name) for name in needed(f"{program}-gpt2"))


@pytest.mark.parametrize("arguments", ANSWERS_ALONE, ids=lambda words: " ".join(map(str, words[:2])))
def test_ladder_answers_alone(alone, arguments) -> None:
    done = alone(*arguments)
    assert done.returncode == 0 and done.stdout, done.stderr


@pytest.mark.parametrize("arguments", STARTS_THE_OTHER, ids=lambda words: " ".join(map(str, words[:2])))
def test_without_the_other_program(alone, tmp_path, arguments) -> None:
    done = alone(*arguments)
    missing = pathlib.Path(tmp_path).resolve() / "ladder-gpt2"
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"ladder: {missing} is missing, which measures and trains GPT-2; in the sources `make` builds it, " \
                          "and `make bundle` packs it for other machines; your own programs need only `ladder measure` and `gate`\n"


def test_without_the_other_program_it_names_what_it_can_do(alone) -> None:
    text = alone("--help").stdout
    begin = text.split("Begin with")[1].split("\n\n")[0]
    assert re.findall(r"  ladder (\w+)", begin) == ["measure", "gate", "report"] and "Only the full build has doctor, ablate, " in text
    assert re.fullmatch(r"ladder \S+( with uncommitted changes)?\n", alone("--version").stdout)


def test_the_other_program_gets_every_argument(alone, tmp_path) -> None:
    other = tmp_path / "ladder-gpt2"
    other.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
    other.chmod(0o755)
    for arguments in (("run", "--data", "two words", ""), ("help", "train"), ("gate", "--json")):
        done = alone(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (7, "".join(f"{word}\n" for word in arguments), "")


def test_a_program_that_cannot_be_started(alone, tmp_path) -> None:
    (tmp_path / "ladder-gpt2").write_text("no program\n")
    done = alone("run", "--model", "tiny")
    assert done.returncode == 2 and re.fullmatch(r"ladder: .*/ladder-gpt2: Permission denied\n", done.stderr)
