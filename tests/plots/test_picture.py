"""plots/picture.py: a chart as a picture of its own."""

import re
import xml.etree.ElementTree as ET

import pytest
from builders import make, part_of

import picture
from charts import draw


@pytest.fixture(scope="module")
def alone():
    pytest.importorskip("vl_convert")
    study = make()
    study["warnings"] = ["1 of 35 runs was disturbed", "load average 9 on 2 cores"]
    return picture.alone(draw("ladder", part_of(study)))


def test_a_picture_says_what_it_is_of_how_to_read_it_and_where_it_is_from(alone):
    title = next(node for node in ET.fromstring(alone).iter() if "role-title" in node.get("class", ""))
    assert [line for line in title.itertext() if line.strip()] == [
        "2.61× faster than “plain fp32”", "median of 5 runs · no interval · × paired within repeats · green: gained", "over the rung before",
        "EXAMPLE DATA, not a measurement · gpt2-124m · Example Processor 9000 @", "2.70GHz · 2026-01-02", "1 of 35 runs was disturbed load average 9 on 2 cores"]
    assert set(re.findall(r'href="([^"]*)"', alone)) == {f"#rung-{i}" for i in range(7)}  # to no other site


def test_a_picture_is_dark_where_its_reader_is(alone):
    dark = re.search(r"<style>@media screen and \(prefers-color-scheme: dark\) \{(.*)\}</style>", alone, re.S)[1]
    used = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6}|white)"', alone))
    assert used and all(f'[fill="{colour}"]' in dark and f'[stroke="{colour}"]' in dark for colour in used)


def test_letters_that_no_font_here_has_are_named(monkeypatch):
    vl_convert = pytest.importorskip("vl_convert")
    monkeypatch.setattr(vl_convert, "svg_to_png", lambda svg: b"box" if re.search("[家\U0010fffd]", svg) else svg.encode())
    assert picture.boxes(["<text>plain → 家 é あ</text>".encode()]) == "家" and picture.boxes([b"<text>plain</text>"]) == ""
