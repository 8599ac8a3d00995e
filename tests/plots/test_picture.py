"""plots/picture.py and plots/letters.py: a chart as a picture of its own, and the places of its texts."""

import re
import xml.etree.ElementTree as ET

import pytest
from builders import NASTY, make, part_of
from drawings import draw, texts

import letters
import page
import picture
import theme

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def framed():
    pytest.importorskip("vl_convert")
    study = make()
    study["warnings"] = ["1 of 35 runs was disturbed", "load average 9 on 2 cores"]
    chart = draw("ladder", part_of(study))
    return picture.framed(chart, page.drawn(chart.wide, chart.title))


def test_a_picture_says_what_it_is_of_how_to_read_it_and_where_it_is_from(framed):
    on_picture = texts(framed)
    assert [text for text, *_ in on_picture[:2]] == ["2.61× faster than “plain fp32”",
                                                     "median of 5 runs · no interval · × paired within repeats · green: gained over the rung before"]
    foot = [text for text, *_ in sorted(on_picture, key=lambda t: t[3])][-2:]
    assert foot == ["EXAMPLE DATA, not a measurement · gpt2-124m · Example Processor 9000 @ 2.70GHz · 2026-01-02",
                    "1 of 35 runs was disturbed load average 9 on 2 cores"]
    warned = [node.get("fill") for node in ET.fromstring(framed).iter(f"{SVG}text") if (node.text or "") == foot[1]]
    assert warned == [theme.DOUBT_INK] and "<a " not in framed  # a link of the page leads nowhere here


def test_a_picture_is_dark_where_its_reader_is(framed):
    dark = re.search(r"<style>@media screen and \(prefers-color-scheme: dark\) \{(.*)\}</style>", framed, re.S)[1]
    used = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6}|white)"', framed))
    assert used and all(f'[fill="{colour}"]' in dark and f'[stroke="{colour}"]' in dark for colour in used)


def test_every_text_of_a_picture_has_the_width_it_was_laid_out_for(framed):
    nodes = [node for node in ET.fromstring(framed).iter(f"{SVG}text") if len(node.text or "") > 1]
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


def test_what_is_joined_takes_the_room_of_one_letter_and_a_guess_is_not_imposed():
    family = "\u200d".join("👨👩👧👦")
    assert letters.text_width(family, 10) == letters.text_width("👨", 10) == letters.text_width("👍\U0001f3fd", 10) == 10
    assert letters.text_width("e\u0301", 10) == letters.text_width("e", 10)
    assert letters.fitted('<text font-size="13px">家族</text><text font-size="13px">plain</text>').count("textLength") == 1


def test_letters_that_no_font_here_has_are_named(monkeypatch):
    vl_convert = pytest.importorskip("vl_convert")
    monkeypatch.setattr(vl_convert, "svg_to_png", lambda svg: b"box" if re.search("[家\U0010fffd]", svg) else svg.encode())
    assert picture.boxes(["<text>plain → 家 é あ</text>".encode()]) == "家" and picture.boxes([b"<text>plain</text>"]) == ""
