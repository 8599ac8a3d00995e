"""The noise of gradients in results/evidence follows from the norms that are kept, and the estimate finds a known one."""

import importlib.util
import json
import pathlib
import random

import pytest

(SCRIPT,) = (pathlib.Path(__file__).resolve().parents[2] / "results" / "evidence").glob("*-gradient-noise-*/noise.py")


@pytest.fixture(scope="module", name="noise")
def fixture_noise():
    specification = importlib.util.spec_from_file_location("noise", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_figures_follow_from_the_kept_norms(noise):
    for kept in json.loads((SCRIPT.parent / "noise.json").read_text())["at_fixed_weights"]:
        for name, figure in noise.estimate({int(B): norms for B, norms in kept["norms"].items()}).items():
            assert json.loads(json.dumps(figure)) == pytest.approx(kept[name]), name


def test_a_known_noise_is_found(noise):
    """Gradients of 100 numbers, each 0.3 on average with a deviation of 2: |G|^2 = 9, tr(S) = 400."""
    chance = random.Random(3)
    norms = {B: [sum(chance.gauss(0.3, 2 / B**0.5) ** 2 for _ in range(100)) ** 0.5 for _ in range(steps)]
             for B, steps in noise.STEPS.items()}
    found = noise.estimate(norms)
    for name, right in {"squared_gradient": 9, "trace": 400, "noise_scale_sequences": 400 / 9}.items():
        assert found[name]["lo"] < right < found[name]["hi"], (name, found[name])
        assert found[name]["value"] == pytest.approx(right, rel=0.2), name
