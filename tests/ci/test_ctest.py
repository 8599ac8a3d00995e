"""What tests/CMakeLists.txt tells ctest, as ctest understands it, and what tests/run_pytest.py tells it of pytest's tests."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", name="entries")
def fixture_entries(tmp_path_factory) -> list[dict]:
    """{name, program, command, and every property} of each entry of the build folder. Listed from elsewhere: ctest writes its log anew
    where it only lists, too."""
    build = os.environ.get("LADDER_BUILD") or pytest.skip("LADDER_BUILD is not set")
    elsewhere = tmp_path_factory.mktemp("ctest")
    (elsewhere / "CTestTestfile.cmake").write_text(f'subdirs("{build}")\n')
    shown = subprocess.run(["ctest", "--show-only=json-v1"], cwd=elsewhere, capture_output=True, text=True, check=True).stdout
    return [{"name": entry["name"], "program": pathlib.Path(entry["command"][0]).name, "command": entry["command"],
             **{each["name"]: each["value"] for each in entry["properties"]}} for entry in json.loads(shown)["tests"]]


def test_what_is_alone_on_a_device_is_so_in_both_places(entries) -> None:
    (alone,) = re.findall(r"^ALONE = (\[.+\])", (ROOT / "packaging" / "gpu_check.py").read_text(), re.M)
    device = {entry["name"]: entry for entry in entries if entry["program"] == "device_tests"}
    suites = ":".join(f"{suite}.*" for suite in json.loads(alone))
    assert f"--gtest_filter={suites}" in device["device_tests.alone"]["command"] and device["device_tests.alone"]["RUN_SERIAL"]
    assert f"--gtest_filter=*-{suites}" in device["device_tests"]["command"] and not device["device_tests"].get("RUN_SERIAL", False)


def test_no_words_of_a_failing_test_make_it_a_skipped_one(entries) -> None:
    for_python = [entry for entry in entries if entry["name"].startswith("pytest.")]
    assert for_python and {entry.get("SKIP_RETURN_CODE") for entry in for_python} == {77}
    assert not [entry["name"] for entry in for_python if "SKIP_REGULAR_EXPRESSION" in entry]


# ---- tests/run_pytest.py

SCRIPT = ROOT / "tests" / "run_pytest.py"
PASSES = "def test_passes(): pass\n"
SKIPS = "import pytest\ndef test_skips(): pytest.skip('no GPU')\n@pytest.mark.skipif(True, reason='no')\ndef test_too(): pass\n"
SKIPS_ALL = "import pytest\npytest.importorskip('no_such_package')\n"
FAILS = "def test_fails(): raise ImportError(\"No module named 'transformers'\")\n"
CANNOT_BEGIN = "import no_such_package\n"
THOROUGH = "import pytest\n@pytest.mark.thorough\ndef test_is_slow_and_fails(): raise ValueError\n"
SKIPS_AND_CANNOT_END = """import pytest
@pytest.fixture
def broken():
    yield
    raise ValueError
def test_skips(broken): pytest.skip('no GPU')
"""


def run(folder: pathlib.Path, *flags: str, **variables: str) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if name not in ("TEST_PACKAGES_NEEDED", "TEST_THOROUGH")} | variables
    return subprocess.run([sys.executable, *flags, SCRIPT, "-q", "-rs", "-p", "no:cacheprovider", folder], cwd=folder,
                          env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("status, files", [
    (0, [PASSES]), (0, [PASSES, SKIPS]), (0, [SKIPS_ALL, PASSES]), (77, [SKIPS]), (77, [SKIPS_ALL]), (77, [SKIPS, SKIPS_ALL]),
    (0, [PASSES, THOROUGH]), (77, [THOROUGH]), (1, [FAILS]), (1, [FAILS, SKIPS]), (1, [SKIPS_AND_CANNOT_END]), (2, [CANNOT_BEGIN]), (2, [SKIPS, CANNOT_BEGIN]), (5, [""]),
])
def test_exit_status(tmp_path, status, files) -> None:
    for number, text in enumerate(files):
        (tmp_path / f"test_{number}.py").write_text(text)
    done = run(tmp_path, TEST_PACKAGES_NEEDED="1")
    assert done.returncode == status, done.stdout + done.stderr


def test_thorough_tests_run_when_they_are_asked_for(tmp_path) -> None:
    (tmp_path / "test_0.py").write_text(THOROUGH)
    assert run(tmp_path, TEST_PACKAGES_NEEDED="1", TEST_THOROUGH="1").returncode == 1


@pytest.mark.parametrize("status, variables", [(77, {}), (1, {"TEST_PACKAGES_NEEDED": "1"})])
def test_without_the_packages(tmp_path, status, variables) -> None:
    done = run(tmp_path, "-I", "-S", **variables)  # Python without any package
    assert done.returncode == status and done.stderr == ""
    assert done.stdout.startswith("Not run: Python packages are missing: transformers, numpy, ") and "make test" in done.stdout
