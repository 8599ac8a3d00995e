"""The bundle as somebody unpacks it elsewhere (conftest.py), and the source tree out of sight."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from conftest import FEW_RUNGS, MAKE, ROOT, call, hidden, script

RUN = ["--repeats", "1", "--steps", "5", "--warmup", "3", "--threads", "1"]  # the median step faults nothing in anew
OTHER_LADDERS = sorted(file.stem for file in (ROOT / "ladders").glob("*.json") if file.stem != "gpt2")
LAUNCHER = ["ladder-gpt2", "micro", "gpu-check"]


def fake_torch(folder, version, cuda):
    """A torch that may be looked at but not imported."""
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("raise SystemExit('imported')\n")
    (folder / "torch" / "version.py").write_text(
        f"from typing import Optional\n\n__version__ = {version!r}\ncuda: Optional[str] = {cuda!r}\n")
    return folder


def test_contents(bundle) -> None:
    files = [path for path in bundle.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 48e6
    names = {str(path.relative_to(bundle)) for path in files}
    assert names >= {"ladder", "gpu-check", "gpu_check.py", "environment.sh", "README.md", "LICENSE", "bin/ladder",
                     "ladder-gpt2", "bin/ladder-gpt2", "bin/device_tests", "bin/micro"}
    assert names >= {f"share/gpt2-ladder/{name}" for name in (
        "data/shakespeare.bin", "ladders/gpt2.json", "results/schemas/record.v1.json", "plots/render.py", "plots/page.html.j2",
        "plots/charts/ladder.py", "ablations/peers/pytorch.json", "docs/claims.md")}
    assert not [name for name in names if "__pycache__" in name or re.search(r"lib(torch|c10|cud|nv|c\.|stdc|gcc)", name)]
    for path in files:
        if path.parent.name not in ("bin", "lib", "data"):
            assert str(ROOT) not in path.read_text(), path
    for program in ("ladder", "ladder-gpt2", "micro", "device_tests"):
        dynamic = subprocess.run(["readelf", "-d", bundle / "bin" / program], capture_output=True, text=True, check=True).stdout
        assert ("[libtorch_cuda.so]" in dynamic) == (program != "ladder") and "libcuda.so.1" not in dynamic
        assert re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic) == ["$ORIGIN/../lib"] * (program != "ladder")
        assert ".symtab" not in subprocess.run(["readelf", "-SW", bundle / "bin" / program], capture_output=True, text=True,
                                               check=True).stdout


def test_the_supported_torch_is_the_one_it_is_built_for() -> None:
    version = re.search(r"LADDER_TORCH_VERSION (\S+)\)", (ROOT / "cmake" / "LibTorch.cmake").read_text())[1]
    assert f'!= {json.dumps(version.split("."))}' in (ROOT / "packaging" / "environment.sh").read_text()


def test_doctor(bundle, elsewhere, tmp_path) -> None:
    link = tmp_path / "links" / "a link"
    link.parent.mkdir()
    link.symlink_to(bundle / "ladder")
    relative = os.path.relpath(bundle / "ladder", elsewhere["cwd"])
    for program in (bundle / "ladder", link, relative):
        done = call(program, "doctor", **elsewhere)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        assert f"data     {bundle}/share/gpt2-ladder/data/shakespeare.bin" in done.stdout and "\n  tiny " in done.stdout


def test_needs_nothing_of_the_source_tree(bundle, elsewhere, tmp_path) -> None:
    """And where that is in sight, the bundle's own ladders come first."""
    own = shutil.copytree(bundle, tmp_path / "own")
    (own / "share" / "gpt2-ladder" / "ladders" / "gpt2.json").unlink()
    assert re.findall(r"^  (\S+)", call(own / "ladder", "doctor", **elsewhere).stdout, re.M) == OTHER_LADDERS
    if call(*hidden("true"), **elsewhere).returncode != 0:
        pytest.skip("a folder cannot be hidden without root's rights")
    done = call(*hidden(own / "ladder", "doctor"), **elsewhere)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^  (\S+)", done.stdout, re.M) == OTHER_LADDERS
    assert not call(*hidden("test", "-e", MAKE), **elsewhere).returncode == 0
    done = call(*hidden(own / "ladder", "ablate", "--ladder", "tiny", "-T", "8", "--out", "study", *RUN), **elsewhere)
    assert done.returncode in (0, 3), done.stderr  # 3: other tests disturbed its runs
    study = json.loads((elsewhere["cwd"] / "study" / "study.json").read_text())
    assert study["plan"]["runs_ok"] == study["plan"]["runs_planned"] == 1 + len(FEW_RUNGS)
    assert study["workload"]["data"]["source"] == "shakespeare.bin"
    assert (elsewhere["cwd"] / "study" / "report.md").is_file() and (elsewhere["cwd"] / "study" / "charts" / "ladder.vl.json").is_file()


def test_a_text_and_a_vocabulary_that_are_there_come_first(bundle, elsewhere) -> None:
    data = pathlib.Path(elsewhere["environment"]["XDG_CACHE_HOME"]) / "gpt2-ladder" / "data"
    data.mkdir(parents=True)
    (data / "shakespeare.txt").write_text("ab " * 100)
    run = ["run", "--model", "tiny", "-B", "1", "-T", "8", "--steps", "1", "--warmup", "0", "--threads", "1", "--json"]
    source = lambda: json.loads(call(bundle / "ladder", *run, **elsewhere).stdout)["workload"]["data"]["source"]  # noqa: E731
    assert source() == "shakespeare.bin"  # a text that cannot be read is none
    shutil.copy(pathlib.Path(os.environ.get("LADDER_TEST_VOCAB") or pytest.skip("LADDER_TEST_VOCAB is not set")),
                data / "gpt2.tiktoken")
    assert source() == "shakespeare.txt"
    assert f"data     {data}\n" in call(bundle / "ladder", "doctor", **elsewhere).stdout


def test_the_launcher_starts_one_python_and_does_not_import_torch(bundle, elsewhere, tmp_path) -> None:
    import torch

    real = pathlib.Path(torch.__file__).parent
    fake = fake_torch(tmp_path / "packages", "2.11.0+cu130", "13.0")
    (fake / "torch" / "lib").symlink_to(real / "lib")
    (fake / "nvidia").symlink_to(real.parent / "nvidia")
    elsewhere["environment"]["PYTHONPATH"] = str(fake)
    done = call(bundle / "ladder-gpt2", "--version", **elsewhere)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"ladder ([0-9a-f]{12}|unknown)( with uncommitted changes)?, torch 2\.11\.0\n", done.stdout)
    assert (tmp_path / "starts").read_text() == "started\n"


@pytest.mark.parametrize("users", ["/users/own", "", None])
def test_a_peers_python_can_be_spared_the_programs_pytorch(elsewhere, tmp_path, users) -> None:
    """Also where a launcher starts another one."""
    elsewhere["environment"] |= {"PYTHONPATH": str(fake_torch(tmp_path / "packages", "2.11.0+cu130", "13.0"))}
    if users is not None:
        elsewhere["environment"]["LD_LIBRARY_PATH"] = users
    again = f'. "{ROOT}/packaging/environment.sh"; '
    done = call("sh", "-c", f'{again} {again} echo "$LD_LIBRARY_PATH"; env | grep ^LADDER_USERS', **elsewhere)
    libraries, kept = done.stdout.splitlines()
    assert libraries.startswith(f"{tmp_path}/packages/torch/lib:") and libraries.endswith(users or "/torch/lib"), done.stderr
    assert kept == f"LADDER_USERS_LIBRARY_PATH={users or ''}"


def test_what_only_reads_needs_no_python(bundle, elsewhere, tmp_path) -> None:
    elsewhere["environment"]["LADDER_PYTHON"] = str(script(tmp_path / "python", f"touch {tmp_path}/started"))
    done = call(bundle / "ladder", "--help", **elsewhere)
    assert (done.returncode, done.stderr) == (0, "") and "ladder ablate" in done.stdout
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("launcher", LAUNCHER)
@pytest.mark.parametrize("version, cuda, words", [
    ("2.10.1+cu130", "13.0", r"has torch 2\.10\.1\+cu130 in .*packages/torch, and 2\.11 is needed"),
    ("2.110.0", "13.0", r"has torch 2\.110\.0 in .*, and 2\.11 is needed"),
    ("2.11.0+cpu", None, r"has torch 2\.11\.0\+cpu in .*, built without CUDA, and the build for CUDA 13 is needed"),
    ("2.11.0+cu128", "12.8", r"has torch 2\.11\.0\+cu128 in .*, built for CUDA 12\.8, and the build for CUDA 13 is needed"),
])
def test_another_torch_is_refused(bundle, elsewhere, tmp_path, launcher, version, cuda, words) -> None:
    elsewhere["environment"]["PYTHONPATH"] = str(fake_torch(tmp_path / "packages", version, cuda))
    done = call(bundle / launcher, "--help", **elsewhere)
    assert done.returncode == 3 and done.stdout == ""
    assert re.fullmatch(rf"ladder: \S+ {words}.*; type: \S+ -m pip install torch==2\.11\.0, or .* LADDER_PYTHON\n", done.stderr)


def test_a_python_without_torch_is_refused(bundle, elsewhere, tmp_path) -> None:
    (elsewhere["cwd"] / "torch").mkdir()  # a folder of that name is no torch
    bare = f'exec "{sys.executable}" -S "$@"'
    script(tmp_path / "bin" / "python3", bare)
    other = script(tmp_path / "other" / "python", bare)
    for named in ({}, {"LADDER_PYTHON": str(other)}, {"LADDER_PYTHON": "../other/python"}):
        done = call(bundle / "ladder", "doctor", environment={**elsewhere["environment"], **named}, cwd=elsewhere["cwd"])
        assert done.returncode == 3 and done.stdout == ""
        assert re.fullmatch(r"ladder: \S+ has no torch, and 2\.11 is needed; type: .*\n", done.stderr), done.stderr


def test_the_systems_python_may_refuse_pip(bundle, elsewhere) -> None:
    python = pathlib.Path("/usr/bin/python3")
    if not list(pathlib.Path("/usr/lib").glob("python3*/EXTERNALLY-MANAGED")) or not python.exists():
        pytest.skip("there is no Python that the system manages")
    done = call(bundle / "ladder", "doctor", environment={**elsewhere["environment"], "LADDER_PYTHON": str(python)}, cwd=elsewhere["cwd"])
    words = r"has no torch, and 2\.11 is needed; type: \S+ -m venv ~/torch && ~/torch/bin/pip install torch==2\.11\.0, and set LADDER_PYTHON="
    assert done.returncode == 3 and re.search(words, done.stderr), done.stderr


def test_no_python_and_a_broken_one(bundle, elsewhere, tmp_path) -> None:
    for name in ("dirname", "readlink"):
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools" / name).symlink_to(shutil.which(name))
    nothing = {**elsewhere["environment"], "PATH": str(tmp_path / "tools")}
    for environment in (nothing, {**elsewhere["environment"], "LADDER_PYTHON": "/nowhere/python"}):
        done = call(bundle / "ladder", "doctor", environment=environment, cwd=elsewhere["cwd"])
        assert done.returncode == 3 and done.stdout == ""
        assert re.match(r"ladder: there is no python3 on PATH .*LADDER_PYTHON=/path/to/python\n$", done.stderr)
    broken = script(tmp_path / "broken", "exit 7")
    done = call(bundle / "ladder", "doctor", environment={**nothing, "LADDER_PYTHON": str(broken)}, cwd=elsewhere["cwd"])
    assert done.returncode == 3 and done.stderr.startswith(f"ladder: {broken} does not work (exit status 7)")


# ---- bundle.py's refusals

def test_another_folder_is_not_overwritten(build, tmp_path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept")
    for arguments, words in [(["--build-dir", build, "--out", tmp_path / "mine"], "exists and is not a bundle"),
                             (["--build-dir", tmp_path, "--out", tmp_path / "new"], "no CMAKE_COMMAND in its CMakeCache.txt")]:
        done = subprocess.run([sys.executable, MAKE, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and words in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"] and (tmp_path / "mine" / "file").read_text() == "kept"
