"""`ladder measure`: how long a program waits for input, told by the client."""

import shlex
import sys

from conftest import MEASURED, ROOT, records
from measuring import here, measure, study  # noqa: F401

# Batches that take as long as said, made in time or ahead.
LOADS = """
import sys, time
import ladder_client as ladder
def slow():
    while True:
        time.sleep(0.02)
        yield 1
for step, batch in enumerate(ladder.wait(slow() if sys.argv[1] == "slow" else range(10**6))):
    time.sleep(0.02)
    ladder.step(1 / (step + 1))
"""


def test_what_a_command_waits_for_input(measure, here, study, tmp_path) -> None:  # noqa: F811
    (here / "loads.py").write_text(LOADS)
    loads = f"PYTHONPATH={ROOT / 'client'} {shlex.quote(sys.executable)} loads.py"
    done = measure(f"slow: {loads} slow", f"ahead: {loads} ahead")
    assert done.returncode in (*MEASURED, 1), done.stderr  # 1: the second may be slower on a busy machine
    slow, ahead = [records(tmp_path / "study")[name] for name in sorted(records(tmp_path / "study"))]
    assert 20 <= slow["command"]["wait_ms"] <= slow["timing"]["window_ms"] / (len(slow["timing"]["step_ms"]) - 1)
    assert ahead["command"]["wait_ms"] < slow["command"]["wait_ms"]
    first, second = (rung["command"]["input"] for rung in study()["rungs"])
    assert first == {"wait_ms": slow["command"]["wait_ms"], "step_ms": study()["rungs"][0]["command"]["mean_ms"]}
    assert second["wait_ms"] == ahead["command"]["wait_ms"]
