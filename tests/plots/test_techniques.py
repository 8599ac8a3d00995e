"""The text about an optimization, in the sections of rungs."""

import re

import page
from builders import NASTY, make, report_of, valid

import markdown
import view


def told(text="Products in `16 bits`.\n\n    1/3    0.333\n    1/10   0.100\n\nWeights stay\nas they are."):
    return {"mechanism": text, "faster": "", "costs": text, "no_help": text, "pytorch": "with autocast():\n    step()",
            "proven": text, "claims": [{"claim": "2x", "source": "a lecture", "standing": "not measured", "words": "`ladder ablate` measures it."}]}


def shown(techniques):
    document = report_of(make())
    document["studies"][0]["techniques"] = techniques
    view_of_it = view.view(valid(document))
    return page.render("report.html.j2", view_of_it), markdown.render(view_of_it | {"has_pictures": True})


def test_a_text_has_its_paragraphs_and_its_blocks():
    html, _ = shown({"bf16": told()})
    mechanism = html.split("<h4>How it works</h4>\n")[1].split("\n<h4>")[0]
    assert mechanism == ('<p>Products in <code>16 bits</code>.</p>\n<pre tabindex="0">1/3    0.333\n1/10   0.100</pre>\n'
                         "<p>Weights stay as they are.</p>")
    assert '<pre tabindex="0">with autocast():\n    step()</pre>' in html
    assert "Why it is faster" not in html  # it has none
    assert "<strong>not measured</strong>. <code>ladder ablate</code> measures it." in html


def test_each_is_told_once_and_only_what_is_known():
    document = report_of(make())
    rungs = document["studies"][0]["study"]["rungs"]
    rungs[3]["optimization"] = rungs[2]["optimization"]  # as in a sweep
    document["studies"][0]["techniques"] = {rungs[2]["optimization"]: told()}
    html = page.render("report.html.j2", view.view(valid(document)))
    assert html.count('<details class="technique">') == 1
    assert '<details class="technique">' not in page.render("report.html.j2", view.view(report_of(make())))  # an older report


def test_the_markdown_says_when_it_does_not_help():
    _, report = shown({"bf16": told("Where `T` is\nsmall.")})
    assert re.search(r"### 1\. \+ bf16 autocast\n\nWhat .*\n\n\*\*When it does not help:\*\* Where `T` is small\.\n\n", report)
    assert "a lecture" not in report


def test_markup_in_a_text_stays_text():
    evil = told(f"    {NASTY}\n\n{NASTY}")
    evil["pytorch"] = evil["claims"][0]["claim"] = evil["claims"][0]["words"] = NASTY
    for text in shown({"bf16": evil}):
        assert "<script>alert(1)" not in text and not re.search("[\x07\u202e]", text)
