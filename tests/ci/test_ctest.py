"""What tests/CMakeLists.txt tells ctest, as ctest understands it."""

import json
import os
import pathlib
import re
import subprocess

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
