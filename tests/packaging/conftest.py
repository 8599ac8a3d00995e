"""What the tests of wheel, bundle and gpu-check share: a bundle as somebody unpacks it elsewhere, another folder, with a space in its
name; an empty home, no `make data`. LADDER_BUILD names the build folder; the python that runs the tests has torch.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))
MAKE = ROOT / "packaging" / "bundle.py"
FEW_RUNGS = ["memory", "flash", "fused_adamw"]


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def call(program, *arguments, environment, cwd):
    return subprocess.run([str(program), *map(str, arguments)], env=environment, cwd=cwd, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False, timeout=840)


def hidden(*command):
    """The command where the source tree is an empty folder."""
    return ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', ROOT, *command]


@pytest.fixture(scope="session")
def build():
    folder = pathlib.Path(os.environ.get("LADDER_BUILD") or pytest.skip("LADDER_BUILD is not set"))
    if not (folder / "ladder").is_file():
        pytest.skip(f"{folder} holds no program")
    return folder


@pytest.fixture(scope="session")
def bundle(build, tmp_path_factory):
    made = tmp_path_factory.mktemp("made") / "bundle"
    done = subprocess.run([sys.executable, MAKE, "--build-dir", build, "--out", made], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\[bundle\] .*: [\d.]+ MB; needs glibc 2\.\d+, GLIBCXX 3\.4\.\d+; libraries of this machine in it: .+\n", done.stderr)
    assert [path.name for path in made.parent.iterdir()] == ["bundle"]
    unpacked = made.rename(tmp_path_factory.mktemp("un packed") / "the bundle")
    # A rung takes seconds, and a library or a file that the bundle lacks would be missing for every rung.
    tiny = unpacked / "share" / "gpt2-ladder" / "ladders" / "tiny.json"
    tiny.write_text(json.dumps(json.loads(tiny.read_text()) | {"rungs": FEW_RUNGS}))
    return unpacked


@pytest.fixture
def elsewhere(tmp_path):
    """An environment with nothing but a python3 that has torch, and a folder to be in."""
    for name in ("home", "cwd"):
        (tmp_path / name).mkdir()
    script(tmp_path / "bin" / "python3", f'echo started >> "{tmp_path}/starts"\nexec "{sys.executable}" "$@"')
    environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path / "home"), "OMP_WAIT_POLICY": "PASSIVE",
                   "XDG_CACHE_HOME": str(tmp_path / "home" / "cache"), "CUDA_VISIBLE_DEVICES": "", "LC_ALL": "C.UTF-8",
                   "LADDER_BUSY": "1",  # tests share the machine
                   "LADDER_LOCK_DIR": os.environ["LADDER_LOCK_DIR"]}  # the locks of this test run, not the machine's
    return {"environment": environment, "cwd": tmp_path / "cwd"}
