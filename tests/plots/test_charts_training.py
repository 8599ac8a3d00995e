"""The charts of a training, of a sweep of learning rates and of a study of time to loss, and their pages: structure and texts, not pixels."""

import copy
import re

import pytest
from builders import NASTY, REASONS, lr_sweep_of, table, to_loss_of, training_report_of, valid
from drawings import data, drawn, spoken, values

import charts
import markdown
import page
import theme
import views
from charts import draw
from charts.losses import LINE


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


def test_a_sweep_tells_its_rates_apart():
    chart = draw("lr_sweep", lr_sweep_of())
    svg = drawn(chart)
    points = next(layer for layer in chart.drawing["layer"] if layer["mark"]["type"] == "point")["encoding"]
    kinds = points["color"]["scale"]["domain"]
    assert kinds == ["too low: falls slowly", "too low: still falling", "good", "too high: falls behind", "too high: oscillates", "too high: diverged"]
    assert points["shape"]["scale"]["domain"] == kinds and len(set(points["shape"]["scale"]["range"])) == len(kinds)
    assert points["color"]["scale"]["range"] == [theme.BAR] * 2 + [theme.FASTER_INK] + [theme.BAD_INK] * 3
    rows = chart.drawing["data"]["values"]
    assert [row["kind"].split(": ")[-1] for row in rows] == [reason if reason != "near the best" else "good" for reason in REASONS]
    assert [row["beyond"] for row in rows] == [False] * 6 + [True] * 2 and rows[5]["hi"] - rows[5]["lo"] == pytest.approx(2, abs=0.6)
    assert chart.lines[1] == "at the upper edge: 2 rates whose losses ended beyond it, or were not finite"
    assert "1e-1: too high: oscillates, as was planted" in spoken(svg)
    zones = chart.drawing["layer"][0]["data"]["values"]
    assert [zone["from"] for zone in zones] == pytest.approx([10 ** -4.5, 10 ** -3.5]) and zones[-1]["to"] == pytest.approx(10 ** -2.5)


def test_the_curves_of_a_sweep_are_named():
    chart = draw("lr_curves", lr_sweep_of())
    drawn(chart)
    names = [row for row in data(chart.drawing) if "text" in row]
    assert [row["text"] for row in names][:3] == ["1e-6 too low", "1e-5 too low", "1e-4 good"] and len(names) == len(REASONS)
    places = sorted(row["to"] for row in names)
    assert all(b - a >= LINE - 1e-6 for a, b in zip(places, places[1:]))
    assert {row["line"] for row in data(chart.drawing) if "loss" in row} == {f"{i}, 0" for i in range(8)}
    assert {row["width"] for row in data(chart.drawing) if row.get("line") == "2, 0"} == {3}  # the best one
    many = draw("lr_curves", lr_sweep_of(["near the best"] * 60, steps=12))
    assert len([row for row in data(many.drawing) if "text" in row]) == 20 and many.lines[0].endswith("1 of every 3 rates")
    for reasons in (["diverged", "diverged"], ["near the best"], ["falls slowly", "near the best"]):
        for name in charts.OF_LR_SWEEP:
            drawn(draw(name, lr_sweep_of(reasons)))


def test_each_rung_has_a_line_to_the_loss():
    study = to_loss_of()
    chart = draw("to_loss", study)
    svg = drawn(chart)
    legend = chart.drawing["layer"][1]["encoding"]["color"]
    assert legend["scale"]["domain"] == ["float32", "bf16 autocast", "flash attention"] and legend["legend"]["columns"] == 1
    assert {row["text"] for row in data(chart.drawing) if "at" in row and "seconds" in row} == {"3.50 s", "1.75 s", "1.17 s"}
    assert {row["seconds"] for row in data(chart.drawing) if {"at", "seconds"} <= row.keys()} == {rung["seconds"] for rung in study["rungs"] if rung["seconds"]}
    assert {row["line"] for row in data(chart.drawing) if "line" in row} == {*(f"training {i}" for i in range(9)), *(f"rung {i}" for i in range(3))}
    points = [row for row in data(chart.drawing) if row.get("line") == "rung 1"]
    assert [(row["seconds"], row["loss"]) for row in points] == [(at["seconds"], at["loss"]) for at in study["rungs"][1]["medians"]]
    assert "dashes: loss 7" in chart.lines[0] and "bf16 autocast: as planted 1" in spoken(svg)
    study["trainings"] = []
    for rung in study["rungs"]:
        rung["medians"] = []
    assert isinstance(draw("to_loss", valid(study)), charts.Missing)  # before the first training has ended


@pytest.mark.parametrize("study", [to_loss_of(["float32"], seeds=1), to_loss_of([f"rung {i} of a long name" for i in range(30)], seeds=2)],
                         ids=["one training", "many rungs"])
def test_studies_of_few_and_of_many_rungs_are_drawn(study):
    for rung in study["rungs"][3:]:
        rung["seconds"] = None
    chart = draw("to_loss", study)
    drawn(chart)
    assert chart.lines[0].endswith("8 of 30 rungs are drawn") == (len(study["rungs"]) > 8)  # each has its own colour


# ---- their pages

def made(document):
    shown = views.view_training(valid(document))
    return page.render(shown), markdown.render(shown, has_pictures=True)


def without_script(html):
    return re.sub(r"<script>\s*// Tooltips", "", html)


def test_a_training_has_a_page_and_markdown():
    html, report = made(training_report_of())
    assert report.startswith("# Validation loss 6.02 after 60 steps\n\nGPT-2 18M on AMD EPYC, 2 threads · CPU figures\n\nThe `figures` behind it.\n\n"
                             "> It has not ended. **`--resume` goes on.**\n")
    for text in ("\n**Loss**: mean over", "\n| `learning_rate.max` | `0.0006` |\n", "\n| `cpu.model` | `AMD EPYC` |\n", "\n![Tokens per second](charts/training_speed.svg)\n"):
        assert text in report, text
    assert report.count("![") == 4 and "Rate by rate" not in report + html and "What it writes" not in html
    for text in ("<title>Validation loss 6.02 after 60 steps · GPT-2 18M on AMD EPYC", "It has not ended.\n<strong><code>--resume</code> goes on.</strong>",
                 '<div class="beside">', "<strong>Loss</strong>: mean over", "<code>report.json</code>"):
        assert text in html, text
    assert html.count("<figure>") == 4


def test_what_a_model_writes_stays_text():
    html, report = made(training_report_of(samples=["of of of", "KING:\n\n\n\nHence, <b>thou</b> art\n```\n# no heading"]))
    assert "<summary>What it writes after step 10</summary>\n\n````text\nKING:\n\nHence, <b>thou</b> art\n```\n# no heading\n````\n" in report
    assert "<summary>What it wrote before</summary>\n\n**After step 1**\n\n```text\nof of of\n```\n" in report
    assert '<pre tabindex="0">KING:\n\nHence, &lt;b&gt;thou&lt;/b&gt; art\n```\n# no heading</pre>' in html


def test_a_sweep_has_a_page_and_a_table():
    sweep = lr_sweep_of()
    sweep["rates"][0]["words"] = sweep["said"]["remarks"][0]["text"] = sweep["device"]["name"] = NASTY
    html, report = made(sweep)
    rows = table(report, "learning rate | ends at | falls by | swings by | verdict | why")
    assert rows[2] == ["1e-4", "6.038", "0.05", "0.05", "good", "near the best, as was planted"] and rows[7][1:4] == ["—"] * 3
    assert len(rows) == len(REASONS) and "learning_rate.max" not in report and "| `learning_rate.warmup_steps` |" in report
    assert "<script>alert" not in report + without_script(html) and "lr_sweep.json" in html


def test_a_study_of_time_to_loss_has_a_page_and_a_table():
    study = to_loss_of()
    study["rungs"][2]["title"] = study["rungs"][2]["words"] = study["device"]["name"] = NASTY
    html, report = made(study)
    rows = table(report, "rung | seconds to the loss | speedup | ends at | quality | what was seen")
    assert rows[0] == ["float32", "3.50", "—", "6.0833", "reference", "as planted 0"]
    assert rows[1][:3] == ["bf16 autocast", "1.75", "**2.10×**"] and rows[1][4:] == ["same quality", "as planted 1"]
    assert rows[2][2] == "—" and rows[2][4] == "worse" and rows[3][1:] == ["—", "—", "—", "skipped", "skipped: no CUDA device"]
    assert "recipe.autocast" not in report and "`seed`" not in report and "| `steps` |" in report
    assert "<script>alert" not in report + without_script(html) and "to_loss.json" in html
