"""The modules under test lie in plots/, whose scripts find each other there."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "plots"))


@pytest.fixture(scope="session", autouse=True)
def nothing_is_drawn_twice():
    """vl-convert takes most of the time of these tests, and they ask for the same drawings again and again."""
    try:
        import vl_convert
    except ImportError:
        yield
        return
    draw, kept = vl_convert.vegalite_to_svg, {}

    def once(specification, **options):
        key = json.dumps([specification, options])
        if key not in kept:
            kept[key] = draw(specification, **options)
        return kept[key]

    vl_convert.vegalite_to_svg = once
    yield
    vl_convert.vegalite_to_svg = draw
