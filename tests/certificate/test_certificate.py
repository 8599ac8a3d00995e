"""Planted faults are found and honest flags are not accused: a few of docs/same-training.md's, by the same verdict."""

import os
import subprocess
import sys

import pytest
from conftest import HERE

pytest.importorskip("torch")

FAULTS = ["frozen layer", "other betas", "weight decay skipped", "dropout left on"]  # none of which the losses' guard finds
HONEST = ["bf16 autocast", "fused AdamW", "two micro batches"]


def test_a_few_cases() -> None:
    made = subprocess.run([sys.executable, HERE / "cases.py", "1", "1", *FAULTS, *HONEST], capture_output=True, text=True, check=True)
    assert made.stdout.count('"group": "fault"') == 2 * len(FAULTS) and made.stdout.count('"group": "honest"') == 5
    page = subprocess.run([os.environ["SAME_TRAINING_TABLE"]], input=made.stdout, capture_output=True, text=True, check=False)
    rows = dict(line.removeprefix("| ").split(" | ", 1) for line in page.stdout.splitlines() if line.startswith("| "))
    for name in FAULTS:
        assert rows[name] == "1 of 1 | 1 of 1 | 0 of 1 |", page
    for name in HONEST:
        assert rows[name].startswith("0 of "), page
    assert page.returncode == 0, page
