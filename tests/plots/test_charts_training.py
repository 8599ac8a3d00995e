"""The charts of a training, of a sweep of learning rates and of a study of time to loss, their page and their Markdown: structure and texts, not pixels."""

import copy
import json
import re

import pytest
from builders import NASTY, REASONS, files_in, lr_sweep_of, run, table, to_loss_of, training_report_of, valid
from drawings import data, drawn, spoken, values

import charts
import theme
from charts.losses import LINE


def chart_of(name, document):
    return charts.module(name).draw(document)


@pytest.mark.parametrize("report", [training_report_of(), training_report_of(200, 20), training_report_of(1)], ids=["steps", "stretches", "one step"])
def test_a_training_has_a_chart_for_each_of_its_figures(report):
    for name in charts.OF_TRAINING:
        chart = chart_of(name, report)
        wide, _ = drawn(chart)
        assert chart.finding == f"What {name} shows" and chart.about.subject == "Training the tiny model"
        rows = [row for row in data(chart.wide) if "step" in row]
        assert {row["step"] for row in rows} == {s["last"] for s in report["stretches"]}
        assert next(values(chart.wide, "domain"))[1] >= report["steps"]
    loss = chart_of("training_loss", report)
    assert ("band: lowest and highest of 20 steps" in loss.lines[0]) == (len(report["stretches"]) == 200)
    bands = [mark for mark in values(loss.wide, "mark") if mark["type"] == "area"]
    assert bool(bands) == (len(report["stretches"]) == 200)


def test_validation_spikes_and_clipping_are_marked():
    report = training_report_of()
    loss = chart_of("training_loss", report)
    wide, _ = drawn(loss)
    assert loss.lines == ["blue: training loss · green: loss on text that is not trained on · purple triangles: spikes"]
    assert "step 10: validation loss 8.567" in spoken(wide) and "step 59: 1 spike, highest loss 6.04" in spoken(wide)
    assert "clipped to 1" in json.dumps(chart_of("norm", report).wide)
    plain = copy.deepcopy(report)
    plain["training"]["settings"]["clip"] = None
    for stretch in plain["stretches"]:
        stretch.update(validation_loss=None, spikes=0)
    plain["stretches"][30]["norm"] = plain["stretches"][31]["loss"] = None
    valid(plain)
    assert chart_of("training_loss", plain).lines == ["blue: training loss"]
    assert "clipped" not in json.dumps(chart_of("norm", plain).wide)
    for name in charts.OF_TRAINING:
        drawn(chart_of(name, plain))


def test_without_a_finite_figure_there_is_no_chart():
    report = training_report_of(2)
    for stretch in report["stretches"]:
        stretch.update(loss=None, norm=None)
    assert isinstance(chart_of("training_loss", valid(report)), charts.Missing) and isinstance(chart_of("norm", report), charts.Missing)


def test_a_sweep_tells_its_rates_apart():
    sweep = lr_sweep_of()
    chart = chart_of("lr_sweep", sweep)
    wide, _ = drawn(chart)
    points = next(layer for layer in chart.wide["layer"] if layer["mark"]["type"] == "point")["encoding"]
    kinds = points["color"]["scale"]["domain"]
    assert kinds == ["too low: falls slowly", "too low: still falling", "good", "too high: falls behind", "too high: oscillates", "too high: diverged"]
    assert points["shape"]["scale"]["domain"] == kinds and len(set(points["shape"]["scale"]["range"])) == len(kinds)
    assert points["color"]["scale"]["range"] == [theme.BAR] * 2 + [theme.FASTER_INK] + [theme.BAD_INK] * 3
    rows = chart.wide["data"]["values"]
    assert [row["kind"].split(": ")[-1] for row in rows] == [reason if reason != "near the best" else "good" for reason in REASONS]
    assert [row["beyond"] for row in rows] == [False] * 6 + [True] * 2 and rows[5]["hi"] - rows[5]["lo"] == pytest.approx(2, abs=0.6)
    assert chart.lines[1] == "at the upper edge: 2 rates whose losses ended beyond it, or were not finite"
    assert "0.1: too high: oscillates, as was planted" in spoken(wide)
    zones = chart.wide["layer"][0]["data"]["values"]
    assert [zone["from"] for zone in zones] == pytest.approx([10 ** -4.5, 10 ** -3.5]) and zones[-1]["to"] == pytest.approx(10 ** -2.5)


def test_the_curves_of_a_sweep_are_named():
    chart = chart_of("lr_curves", lr_sweep_of())
    wide, _ = drawn(chart)
    names = [row for row in data(chart.wide) if "text" in row]
    assert [row["text"] for row in names][:3] == ["1e-06 too low", "1e-05 too low", "0.0001 good"] and len(names) == len(REASONS)
    places = sorted(row["to"] for row in names)
    assert all(b - a >= LINE - 1e-6 for a, b in zip(places, places[1:]))
    assert {row["line"] for row in data(chart.wide) if "loss" in row} == {f"{i}, 0" for i in range(8)}
    assert chart.lines[-1] == "losses far above the first ones are beyond the upper edge"
    many = chart_of("lr_curves", lr_sweep_of(["near the best"] * 60, steps=12))
    assert len([row for row in data(many.wide) if "text" in row]) == 20 and many.notes == ["1 of every 3 rates is drawn; 60 rates were trained"]


@pytest.mark.parametrize("reasons", [["diverged", "diverged"], ["near the best"], ["falls slowly", "near the best"]])
def test_sweeps_of_few_kinds_are_drawn(reasons):
    for name in charts.OF_LR_SWEEP:
        drawn(chart_of(name, lr_sweep_of(reasons)))


def rendered(document, folder):
    source = folder / "document.json"
    source.write_text(json.dumps(valid(document)))
    done = run(source, folder / "out")
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "out"


def test_a_training_has_a_page_and_markdown(tmp_path):
    folder = rendered(training_report_of(), tmp_path)
    assert files_in(folder) == sorted(["report.html", "report.md", *(f"charts/{name}.{end}" for name in charts.OF_TRAINING
                                                                    for end in ("svg", "png", "vl.json"))])
    report, html = (folder / "report.md").read_text(), (folder / "report.html").read_text()
    assert report.startswith("# Training the tiny model\n\n**Validation loss 6.02 after 60 steps.**\n")
    for text in ("\n> It has not ended: `--resume` goes on.\n", "\n- **Steps: 60 of 60** (seen `here`)\n", "\n## Does it learn?\n",
                 "\n- **The loss** is a mean.\n", "\n| `learning_rate.max` | `0.0006` |\n", "\n| `cpu.model` | `AMD EPYC` |\n"):
        assert text in report, text
    assert report.count("![") == 4 and "Rate by rate" not in report + html
    for text in ("<title>Validation loss 6.02 after 60 steps</title>", '<p class="remark">It has not ended: <code>--resume</code> goes on.</p>',
                 '<h2 id="chart-norm">Are its gradients in bounds?</h2>', "<strong>The loss</strong> is a mean.", "<code>report.json</code>"):
        assert text in html, text
    assert html.count("<figure>") == 4


def test_what_a_model_writes_stays_text(tmp_path):
    plain = "KING:\nHence, <b>thou</b> art\n```\n# no heading \x1b[31m"
    folder = rendered(training_report_of(samples=["of of of", plain]), tmp_path)
    report, html = (folder / "report.md").read_text(), (folder / "report.html").read_text()
    assert "\n## What it writes\n\nEach text begins from nothing. All have the same seed.\n\n### After step 1\n\n```text\nof of of\n```\n" in report
    assert "\n### After step 10\n\n````text\nKING:\nHence, <b>thou</b> art\n```\n# no heading \ufffd[31m\n````\n" in report
    assert '<pre class="text">KING:\nHence, &lt;b&gt;thou&lt;/b&gt; art\n```\n# no heading \ufffd[31m</pre>' in html
    (tmp_path / "none").mkdir()
    assert "What it writes" not in (rendered(training_report_of(), tmp_path / "none") / "report.html").read_text()


def test_a_sweep_has_a_page_and_a_table(tmp_path):
    sweep = lr_sweep_of()
    sweep["rates"][0]["words"] = sweep["words"]["remarks"][0] = sweep["device"]["name"] = NASTY
    folder = rendered(sweep, tmp_path)
    report, html = (folder / "report.md").read_text(), (folder / "report.html").read_text()
    rows = table(report, "## Rate by rate")
    assert rows[2] == ["0.0001", "6.038", "0.05", "0.05", "good", "near the best, as was planted"] and rows[7][1:4] == ["—"] * 3
    assert len(rows) == len(REASONS) and html.count("<tr><td class=\"n\">") == len(REASONS)
    assert "learning_rate.max" not in report and "| `learning_rate.warmup_steps` |" in report
    assert "<script>alert" not in report + re.sub(r"<script>\s*// Tooltips", "", html) and "lr_sweep.json" in html


def test_each_rung_has_a_line_to_the_loss():
    study = to_loss_of()
    chart = chart_of("to_loss", study)
    wide, _ = drawn(chart)
    assert [row["text"] for row in data(chart.wide) if "ink" in row and "text" in row] == ["float32", "bf16 autocast", "flash attention"]
    lines = {row["line"] for row in data(chart.wide) if "seconds" in row}
    assert lines == {*(f"training {i}" for i in range(9)), *(f"rung {i}" for i in range(3))}
    points = [row for row in data(chart.wide) if row.get("line") == "rung 1"]
    assert [(row["seconds"], row["loss"]) for row in points] == [(at["seconds"], at["loss"]) for at in study["rungs"][1]["medians"]]
    assert "loss 7" in [row.get("text") for row in data(chart.wide)] and "bf16 autocast: as planted 1" in spoken(wide)
    assert chart.finding == "What to_loss shows" and len(chart.notes) == 1


@pytest.mark.parametrize("study", [to_loss_of(["float32"], seeds=1), to_loss_of([f"rung {i} of a long name" for i in range(30)], seeds=2)],
                         ids=["one training", "many rungs"])
def test_studies_of_few_and_of_many_rungs_are_drawn(study):
    chart = chart_of("to_loss", study)
    drawn(chart)
    assert (chart.notes[1:] == ["24 of 30 rungs are drawn"]) == (len(study["rungs"]) > 24)
    places = sorted(row["to"] for row in data(chart.wide) if "to" in row)
    assert all(b - a >= LINE - 1e-6 for a, b in zip(places, places[1:]))


def test_before_the_first_training_has_ended_there_is_no_line():
    study = to_loss_of()
    study["trainings"] = []
    for rung in study["rungs"]:
        rung["medians"] = []
    assert isinstance(chart_of("to_loss", valid(study)), charts.Missing)


def test_a_study_of_time_to_loss_has_a_page_and_a_table(tmp_path):
    study = to_loss_of()
    study["rungs"][2]["title"] = study["rungs"][2]["words"] = study["device"]["name"] = NASTY
    folder = rendered(study, tmp_path)
    assert files_in(folder) == sorted(["report.html", "report.md", *(f"charts/to_loss.{end}" for end in ("svg", "png", "vl.json"))])
    report, html = (folder / "report.md").read_text(), (folder / "report.html").read_text()
    rows = table(report, "## Rung by rung")
    assert rows[0] == ["float32", "3.50", "—", "6.0833", "reference", "as planted 0"]
    assert rows[1][:3] == ["bf16 autocast", "1.75", "2.10×"] and rows[1][4:] == ["same quality", "as planted 1"]
    assert rows[2][2] == "—" and rows[2][4] == "worse" and rows[3][1:] == ["—", "—", "—", "skipped", "skipped: no CUDA device"]
    assert "recipe.autocast" not in report and "`seed`" not in report and "| `steps` |" in report
    assert "<script>alert" not in report + re.sub(r"<script>\s*// Tooltips", "", html) and "to_loss.json" in html
