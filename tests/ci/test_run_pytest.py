"""tests/run_pytest.py: what ctest is told of pytest's tests."""

import os
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "run_pytest.py"
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
