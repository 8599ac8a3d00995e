"""The wheel, installed without a network into an empty environment: no compiler on PATH, no PyTorch, and the source tree out of sight."""

import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from conftest import ROOT, call, hidden
from wheel import tag

MAKE = ROOT / "packaging" / "wheel.py"
STUDY = ROOT / "results" / "evidence" / "amd-epyc-2-cores-2026-11-22"
DRAWN = {"report.json", "report.md", "rungs.csv", "steps.csv", "benchmark.json", "charts"}
# The C library and what it needs itself.
EVERYWHERE = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def make(build, folder):
    done = subprocess.run([sys.executable, MAKE, "--build-dir", build, "--out", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and re.fullmatch(r"\[wheel\] .*\.whl: \d\.\d MB\n", done.stderr), done.stderr
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(build, tmp_path_factory):
    return make(build, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def prefix(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed") / "an environment"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "python", "-I", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps",
                    wheel], check=True)
    return folder


@pytest.fixture
def ladder(prefix, tmp_path):
    """ladder("report", ..., NAME=value): the installed program, which finds nothing but what its environment has."""
    (tmp_path / "home").mkdir()
    shutil.copytree(STUDY, tmp_path / "study")
    environment = {"PATH": str(prefix / "bin"), "HOME": str(tmp_path / "home"), "LC_ALL": "C.UTF-8"}
    can_hide = call(*hidden("true"), environment=os.environ, cwd=tmp_path).returncode == 0  # with root's rights

    def run(*arguments, **variables) -> subprocess.CompletedProcess:
        command = [prefix / "bin" / "ladder", *arguments]
        if can_hide:
            unshare, *words = hidden("env", "-i", *(f"{name}={value}" for name, value in {**environment, **variables}.items()), *command)
            return call(shutil.which(unshare), *words, environment=os.environ, cwd=tmp_path)
        return call(*command, environment=environment | variables, cwd=tmp_path)

    return run


def test_contents(wheel) -> None:
    version, tagged = re.fullmatch(rf"gpt2_ladder-(\d+\.\d+\.\d+)-(py3-none-manylinux_\d+_\d+_{platform.machine()})\.whl",
                                   wheel.name).groups()
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = f"gpt2_ladder-{version}"
    record = files.pop(f"{name}.dist-info/RECORD").decode().splitlines()
    assert record.pop() == f"{name}.dist-info/RECORD,,"
    assert record == [f"{file},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip('=')},{len(content)}"
                      for file, content in files.items()]
    assert f"\nTag: {tagged}\n" in files[f"{name}.dist-info/WHEEL"].decode()
    assert {f"{name}.data/data/share/gpt2-ladder/{file}" for file in (
        "ladders/gpt2.json", "results/schemas/record.v1.json", "plots/render.py", "plots/page.html.j2",
        "plots/charts/ladder.py", "ablations/peers/pytorch.json", "docs/claims.md")} <= set(files)
    assert not [file for file in files if re.search(r"__pycache__|\.(cpp|h|tmp|pyc|so.*)$", file)]
    assert [file for file, content in files.items() if str(ROOT).encode() in content and "/scripts/" not in file] == []


def test_the_tag_is_true(wheel, prefix) -> None:
    shown = subprocess.run(["objdump", "-p", "-T", prefix / "bin" / "ladder"], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"NEEDED +(\S+)", shown)) <= EVERYWHERE
    glibc = max(tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([\d.]+)", shown))
    assert wheel.name.endswith("-manylinux_{}_{}_{}.whl".format(*glibc[:2], platform.machine()))


@pytest.mark.parametrize("number, processor", [(62, "x86_64"), (183, "aarch64")])
def test_the_tag_names_the_programs_processor(prefix, tmp_path, number, processor) -> None:
    program = bytearray((prefix / "bin" / "ladder").read_bytes())
    program[18:20] = number.to_bytes(2, "little")  # e_machine
    (tmp_path / "ladder").write_bytes(program)
    assert tag(tmp_path / "ladder").endswith(f"_{processor}")


def test_what_is_compiled_in_comes_with_its_licence(wheel) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (about,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
        texts = [archive.read(f"{wheel.name.split('-py3')[0]}.dist-info/licenses/{name}").decode()
                 for name in re.findall(r"^License-File: (.+)$", about, re.M)]
    holders = ["MIT License", "University of Cambridge", "Niels Lohmann", "Henry Schreiner"]
    assert [holder for text, holder in zip(texts, holders, strict=True) if holder in text] == holders


def test_the_same_program_makes_the_same_wheel(build, wheel, tmp_path) -> None:
    assert make(build, tmp_path).read_bytes() == wheel.read_bytes()


def test_optional_packages_are_those_that_were_tested(prefix) -> None:
    done = subprocess.run([prefix / "bin" / "python", "-I", "-c", "import importlib.metadata as m; print(*m.requires('gpt2-ladder'), sep='\\n')"],
                          capture_output=True, text=True, check=True)
    tested = dict(re.findall(r"^([\w-]+)==([\d.]+[\w.]*)", (ROOT / "requirements.txt").read_text(), re.M))
    assert done.stdout.splitlines() == [f'jinja2>={tested["jinja2"]}; extra == "charts"', f'vl-convert-python>={tested["vl-convert-python"]}; extra == "charts"',
                                        f'torch=={tested["torch"].rsplit(".", 1)[0]}.*; extra == "gpt2"']


def test_it_answers(ladder) -> None:
    assert re.fullmatch(r"ladder ([0-9a-f]{12}|unknown)( with uncommitted changes)?\n", ladder("--version").stdout)
    done = ladder("--help")
    assert (done.returncode, done.stderr) == (0, "") and "\n  report " in done.stdout
    assert ladder("help", "--claims").stdout == (ROOT / "docs" / "claims.md").read_text()
    verified = ladder("verify", "study")
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_report_without_the_optional_packages(ladder, prefix, tmp_path) -> None:
    done = ladder("report", "study", "--out", "drawn")
    assert done.returncode in (0, 3), done.stderr  # 3: of two repeats
    assert "ms/step" in done.stdout and (tmp_path / "drawn" / "report.md").read_text().startswith("# ")
    assert {file.name for file in (tmp_path / "drawn").iterdir()} >= DRAWN
    assert {file.suffix for file in (tmp_path / "drawn" / "charts").iterdir()} == {".json"}
    assert done.stdout.endswith(f"The page and the pictures are not drawn: they need Jinja2 and vl-convert; type: {prefix}/bin/python3 -m pip install "
                                "'gpt2-ladder[charts]'\n")


def test_a_report_with_the_optional_packages(ladder, tmp_path) -> None:
    (tmp_path / "packages").mkdir()
    for name in ("jinja2", "markupsafe", "vl_convert"):
        place = pathlib.Path(__import__(name).__file__).parent
        (tmp_path / "packages" / name).symlink_to(place)
    done = ladder("report", "study", "--out", "drawn", PYTHONPATH=tmp_path / "packages")
    assert done.returncode in (0, 3) and done.stdout.endswith("Open drawn/report.html\n"), done.stdout + done.stderr
    assert {file.name for file in (tmp_path / "drawn").iterdir()} >= {*DRAWN, "report.html"}


def test_a_program_that_is_not_built(tmp_path) -> None:
    done = subprocess.run([sys.executable, MAKE, "--build-dir", tmp_path, "--out", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and re.fullmatch(r"packaging/wheel.py: .*no CMAKE_COMMAND in its CMakeCache.txt; .*\n", done.stderr)
    assert not list(tmp_path.iterdir())


def test_what_a_release_tries(wheel, tmp_path) -> None:
    done = subprocess.run([ROOT / "packaging" / "try-wheel", wheel.parent, sys.executable], capture_output=True, text=True, check=False,
                          env={"PATH": "/usr/bin:/bin", "LADDER_LOCK_DIR": str(tmp_path)})
    assert done.returncode == 0 and re.search(r"\ntry-wheel: ladder .+ works on \S+\n$", done.stdout), done.stdout + done.stderr


def test_it_measures_any_program(ladder, prefix, tmp_path) -> None:
    program = "python3 -c \"import time; [(time.sleep({}), print('step', i, 'loss', 4 - i / 100, flush=True)) for i in range(99)]\""
    done = ladder("measure", "--repeats", "2", "--warmup", "2", "--steps", "8", "--out", "measured", program.format(0.01), "less: " + program.format(0.005),
                  LADDER_LOCK_DIR=str(tmp_path), LADDER_BUSY="1")
    assert done.returncode in (0, 3), done.stderr  # 3: of two repeats
    assert "less" in done.stdout and "ms/step" in done.stdout and (tmp_path / "measured" / "report.md").exists()
    imported = subprocess.run([prefix / "bin" / "python", "-I", "-c", "import ladder_client; ladder_client.step(1.0)"], capture_output=True, check=False)
    assert imported.returncode == 0 and (prefix / "share" / "gpt2-ladder" / "client" / "look" / "sitecustomize.py").is_file()
