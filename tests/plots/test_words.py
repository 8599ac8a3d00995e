"""Names and figures, which are the same on the page, in Markdown and in charts."""

import pytest
from builders import make, part_of, valid

import markdown
import words
from charts import ladder


@pytest.mark.parametrize("text, short", [("a whole word", "a whole word"), ("busy for 38 % of the time", "busy for 38 %…"), ("x" * 20, "x" * 15 + "…"),
                                         ("a " + "x" * 20, "a " + "x" * 13 + "…")])
def test_a_text_is_cut_after_a_whole_word(text, short):
    assert words.shorten(text, 16) == short


@pytest.mark.parametrize("show, value, text", [
    (words.count, 16384, "16.4K"), (words.count, 999.6, "1.00K"), (words.count, 999_600, "1.00M"), (words.count, 5.123, "5.12"),
    (words.milliseconds, 1234.4, "1,234 ms"), (words.milliseconds, 99.96, "100 ms"), (words.milliseconds, 0.0579, "0.0579 ms"),
    (words.times, 1.0, "1.00×"), (words.times, 0.998, "0.998×"), (words.times, 9.999, "10.0×"), (words.times, 123.4, "123×"),
    (words.times, 0.004, "0.004×"), (words.clean, " a\n\tb ", "a b"),
])
def test_formats(show, value, text):
    assert show(value) == text


def test_memory_has_one_unit_for_the_column():
    study = part_of(make())["study"]
    assert [r["memory"] for r in ladder.rows(study)][:2] == ["3.1", "2.9"]
    study["rungs"][1]["peak_memory_bytes"] = 2**29
    assert [r["memory"] for r in ladder.rows(study)][:2] == ["3.1", "0.5"]
    study = make()
    study["rungs"][1]["peak_memory_bytes"] = None
    for r in study["rungs"]:
        r["peak_memory_bytes"] = r["peak_memory_bytes"] and r["peak_memory_bytes"] // 8
    rows = ladder.rows(part_of(valid(study))["study"])
    assert [r["memory"] for r in rows][:3] == ["397", "—", "346"]
    assert words.memory(1, ("GiB", 2**30)) == "<0.1" and words.memory(0, ("GiB", 2**30)) == "0.0"


def test_commands_stay_code_in_a_sentence():
    assert markdown.commands("`a --b`, then *c* or `d`; **e** and `f`.") == r"`a --b`, then \*c\* or `d`; **e** and `f`."
    for text in ("`", "``<b>`` x", "** **", "***a***", "`a", "**`a`**"):
        assert "<b>" not in markdown.commands(text).replace("`<b>`", ""), text
