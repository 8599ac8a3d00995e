"""tests/run_pytest.py ARGUMENTS: pytest as ctest's entries run it, whose exit status ctest can tell a skip by.

77 where a package of requirements-test.txt is missing before anything runs, and where every test was skipped. With
TEST_PACKAGES_NEEDED=1, as `make test` sets it, which installs the packages, a missing one is a failure instead. Tests that are
marked `thorough` run with TEST_THOROUGH=1 only, as `make test-all` sets it.
"""
import importlib.metadata
import os
import sys
from pathlib import Path

SKIPPED = 77


def missing_packages():
    def is_missing(name):
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            return True
        return False

    lines = (Path(__file__).resolve().parents[1] / "requirements-test.in").read_text(encoding="utf-8").splitlines()
    return [name for name in lines if name and not name.startswith("#") and is_missing(name)]


class Outcomes:
    """How many tests were skipped, whole files as one, or left to `make test-all`, and how many were not."""

    def __init__(self):
        self.skipped = self.others = 0

    def pytest_collectreport(self, report):
        self.skipped += report.skipped

    def pytest_deselected(self, items):
        self.skipped += len(items)

    def pytest_runtest_logreport(self, report):
        self.skipped += report.skipped
        self.others += report.failed or (report.when == "call" and report.passed)


def main(arguments):
    if missing := missing_packages():
        print(f"Not run: Python packages are missing: {', '.join(missing)}; `make test` installs them.")
        return 1 if os.environ.get("TEST_PACKAGES_NEEDED") == "1" else SKIPPED
    import pytest  # which may be missing, above

    if os.environ.get("TEST_THOROUGH") != "1":
        arguments = [*arguments, "-m", "not thorough"]
    outcomes = Outcomes()
    status = int(pytest.main(arguments, plugins=[outcomes]))
    only_skips = outcomes.skipped and not outcomes.others
    return SKIPPED if only_skips and status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
