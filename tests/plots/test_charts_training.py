"""The charts of a training, and its page: structure and texts, not pixels."""

import copy

import pytest
from builders import training_report_of, valid
from drawings import data, drawn, spoken, values

import charts
import markdown
import page
import views
from charts import draw


@pytest.mark.parametrize("report", [training_report_of(), training_report_of(200, 20), training_report_of(1)], ids=["steps", "stretches", "one step"])
def test_a_training_has_a_chart_for_each_of_its_figures(report):
    for name in charts.OF_TRAINING:
        chart = draw(name, report)
        drawn(chart)
        assert chart.about == ("GPT-2 18M on AMD EPYC, 2 threads · CPU figures", "It has not ended.")
        assert {row["step"] for row in data(chart.drawing) if "step" in row} == {s["last"] for s in report["stretches"]}
        assert next(values(chart.drawing, "domain"))[1] >= report["steps"]
    loss = draw("training_loss", report)
    assert loss.title == "Validation loss 6.02 after 60 steps"
    assert ("band: lowest and highest of 20 steps" in loss.lines[0]) == (len(report["stretches"]) == 200)
    assert any(mark["type"] == "area" for mark in values(loss.drawing, "mark")) == (len(report["stretches"]) == 200)


def test_validation_spikes_and_clipping_are_marked():
    report = training_report_of()
    loss = draw("training_loss", report)
    svg = drawn(loss)
    assert loss.lines == ["blue: training loss · green: loss on text that is not trained on · triangles: spikes"]
    assert "step 10: validation loss 8.567" in spoken(svg) and "step 59: 1 spike, highest loss 6.04" in spoken(svg)
    assert draw("norm", report).lines[-1].endswith("dashes: clipped to 1 · log scale")
    plain = copy.deepcopy(report)
    plain["training"]["settings"]["clip"] = None
    for stretch in plain["stretches"]:
        stretch.update(validation_loss=None, spikes=0)
    plain["stretches"][30]["norm"] = plain["stretches"][31]["loss"] = None
    valid(plain)
    assert draw("training_loss", plain).lines == ["blue: training loss"] and "clipped" not in draw("norm", plain).lines[0]
    for name in charts.OF_TRAINING:
        drawn(draw(name, plain))
    for stretch in report["stretches"]:
        stretch.update(loss=None, norm=None)
    assert isinstance(draw("training_loss", valid(report)), charts.Missing) and isinstance(draw("norm", report), charts.Missing)


# ---- its page

def made(document):
    shown = views.view_training(valid(document))
    return page.render(shown), markdown.render(shown, has_pictures=True)


def test_a_training_has_a_page_and_markdown():
    html, report = made(training_report_of())
    assert report.startswith("# Validation loss 6.02 after 60 steps\n\nGPT-2 18M on AMD EPYC, 2 threads · CPU figures\n\nThe `figures` behind it.\n\n"
                             "> It has not ended. **`--resume` goes on.**\n")
    for text in ("\n**Loss**: mean over", "\n| `learning_rate.max` | `0.0006` |\n", "\n| `cpu.model` | `AMD EPYC` |\n", "\n![Tokens per second](charts/training_speed.svg)\n"):
        assert text in report, text
    assert report.count("![") == 4 and "What it writes" not in html
    for text in ("<title>Validation loss 6.02 after 60 steps · GPT-2 18M on AMD EPYC", "It has not ended.\n<strong><code>--resume</code> goes on.</strong>",
                 '<div class="beside">', "<strong>Loss</strong>: mean over", "<code>report.json</code>"):
        assert text in html, text
    assert html.count("<figure>") == 4


def test_what_a_model_writes_stays_text():
    html, report = made(training_report_of(samples=["of of of", "KING:\n\n\n\nHence, <b>thou</b> art\n```\n# no heading"]))
    assert "<summary>What it writes after step 10</summary>\n\n````text\nKING:\n\nHence, <b>thou</b> art\n```\n# no heading\n````\n" in report
    assert "<summary>What it wrote before</summary>\n\n**After step 1**\n\n```text\nof of of\n```\n" in report
    assert '<pre tabindex="0">KING:\n\nHence, &lt;b&gt;thou&lt;/b&gt; art\n```\n# no heading</pre>' in html
