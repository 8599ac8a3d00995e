"""client/examples: each trains, is the same every time, and prints a step and a loss in a line; or says what is to be installed."""

import re
import shutil
import subprocess
import sys

import pytest
from conftest import CLIENT

EXAMPLES = CLIENT / "examples"


def losses(printed: str) -> list[float]:
    found = re.findall(r"^step (\d+) loss (\S+)$", printed, re.M)
    assert [int(step) for step, _ in found] == list(range(len(found)))
    return [float(loss) for _, loss in found]


@pytest.mark.parametrize("name", ["loop", "trainer", "lightning_loop", "numpy_loop"])
def test_in_python(name) -> None:
    def run(*flags):
        return subprocess.run([sys.executable, EXAMPLES / f"{name}.py", "--steps", "8", *flags], capture_output=True, text=True, check=False)

    done = run()
    if done.returncode != 0:
        assert re.fullmatch(rf"{name}\.py: No module named '\w+': pip install \w.*\n", done.stderr), done.stderr
        assert done.returncode == 1 and done.stdout == ""
        return
    if name == "trainer":  # as transformers prints
        first, *_, last = map(float, re.findall(r"'loss': '?([\d.]+)", done.stdout))
        assert last < first
        return
    found = losses(done.stdout)
    assert len(found) == 8 and found[-1] < found[0] and run().stdout == done.stdout
    if name == "numpy_loop":
        other = losses(run("--float32").stdout)
        assert other == pytest.approx(found, abs=1e-4)


def test_in_c(tmp_path) -> None:
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler")
    printed = []
    for flags in ("-O2",), ("-O3", "-march=native", "-ffast-math"):
        subprocess.run([compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", *flags, "-o", tmp_path / "loop", EXAMPLES / "loop.c", "-lm"],
                       check=True)
        printed.append(losses(subprocess.run([tmp_path / "loop", "200"], capture_output=True, text=True, check=True).stdout))
    assert len(printed[0]) == 200 and printed[0][-1] < 0.2 * printed[0][0]
    assert printed[1] == pytest.approx(printed[0], abs=1e-3)
