"""plots/picture.py and plots/letters.py: a chart as a picture of its own, and the places of its texts."""

import re
import xml.etree.ElementTree as ET

import pytest
from builders import NASTY, make, report_of
from drawings import draw, texts

import letters
import picture
import theme

SVG = "{http://www.w3.org/2000/svg}"


def framed(study):
    vl_convert = pytest.importorskip("vl_convert")
    chart = draw("ladder", report_of(study)["studies"][0])
    return picture.framed(chart, vl_convert.vegalite_to_svg(theme.bare(chart.wide, chart.finding), allowed_base_urls=[]))


def test_a_picture_says_what_it_is_of_how_to_read_it_and_where_it_is_from():
    study = make()
    study["warnings"] = ["1 of 35 runs was disturbed", "load average 9 on 2 cores"]
    on_picture = texts(framed(study))
    assert on_picture[0][0] == "Training gpt2-124m: 2.61× faster, from the first to the last rung"
    foot = " ".join(text for text, *_ in sorted(on_picture, key=lambda t: t[3])).partition("ms per step EXAMPLE DATA")[2]
    assert foot.startswith(", not a measurement · gpt2-124m · Example Processor 9000 @ 2.70GHz · 2026-01-02")
    assert foot.endswith("Warnings: 1 of 35 runs was disturbed; load average 9 on 2 cores")
    warned = [node.get("fill") for node in ET.fromstring(framed(study)).iter(f"{SVG}text") if (node.text or "").startswith("Warnings: ")]
    assert warned == [theme.DOUBT_INK]


def test_a_title_that_one_line_has_no_room_for_is_broken_after_what_it_is_of():
    chart = draw("ladder", report_of(make())["studies"][0])
    subject, finding = "Training gpt2-124m:", "2.61× faster, from the first to the last rung"
    assert picture.title(chart, 2000) == [f"{subject} {finding}"] and picture.title(chart, 500) == [subject, finding]
    unknown = chart._replace(about=chart.about._replace(subject=""), finding="Slower: flash")
    assert picture.title(unknown) == ["Slower: flash"]
    known = chart._replace(finding="Peak memory 3 GiB")
    assert picture.title(known)[0].endswith(": peak memory 3 GiB")
    assert picture.title(chart._replace(finding="PyTorch is faster"))[0].endswith(": PyTorch is faster")


def test_a_picture_is_dark_where_its_reader_is():
    svg = framed(make())
    dark = re.search(r"<style>@media screen and \(prefers-color-scheme: dark\) \{(.*)\}</style>", svg, re.S)[1]
    used = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6}|white)"', svg))
    assert used and all(f'[fill="{colour}"]' in dark and f'[stroke="{colour}"]' in dark for colour in used)
    assert len(ET.fromstring(svg)) > 3


def test_every_text_of_a_picture_has_the_width_it_was_laid_out_for():
    nodes = [node for node in ET.fromstring(framed(make())).iter(f"{SVG}text") if len(node.text or "") > 1]
    assert len(nodes) > 40
    for node in nodes:
        size, bold = float(node.get("font-size")[:-2]), node.get("font-weight") == "bold"
        assert float(node.get("textLength")) == pytest.approx(letters.text_width(node.text, size, bold), abs=0.06)
        assert node.get("lengthAdjust") == "spacingAndGlyphs"


def test_widths_are_those_of_liberation_sans():
    assert letters.text_width("iW", 1000) == 222 + 944 and letters.text_width("iW", 1000, bold=True) == 278 + 944
    assert letters.text_width("2.61×", 10) == pytest.approx(5.56 * 3 + 2.78 + 5.84)
    assert letters.text_width("漢", 10) == 10 and letters.text_width("д", 10) == 6


def test_texts_are_cut_and_broken_by_width():
    assert letters.cut("short", 100, 10) == "short"
    for text in ("a name of some length", "W" * 50, NASTY):
        short = letters.cut(text, 80, 12)
        assert short.endswith("…") and letters.text_width(short, 12) <= 80
    lines = letters.wrapped("one two three four five six seven", 60, 12, most=2)
    assert len(lines) == 2 and lines[0] == "one two" and lines[1].endswith("…") and all(letters.text_width(line, 12) <= 60 for line in lines)
    assert letters.wrapped("one two three", 1000, 12) == ["one two three"]
