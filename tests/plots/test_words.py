"""Names and figures, which are the same on the page and in Markdown."""

import re

import pytest
from builders import VERDICT_WORDS, comparison_of, entry, gate_of, make, markdown_of, mixed, report_of, table, valid, with_peers, without_number

import markdown
import page
import view
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
    (words.times, 0.004, "0.004×"),
])
def test_formats(show, value, text):
    assert show(value) == text


def test_memory_has_one_unit_for_the_column():
    study = make()
    assert [r["memory"] for r in ladder.rows(study)][:2] == ["3.1", "2.9"]
    study["rungs"][1]["peak_memory_bytes"] = 2**29
    assert [r["memory"] for r in ladder.rows(study)][:2] == ["3.1", "0.5"]
    study["rungs"][1]["peak_memory_bytes"] = None
    for r in study["rungs"]:
        r["peak_memory_bytes"] = r["peak_memory_bytes"] and r["peak_memory_bytes"] // 8
    assert [r["memory"] for r in ladder.rows(valid(study))][:3] == ["397", "—", "346"]
    assert words.memory(1, ("GiB", 2**30)) == "<0.1" and words.memory(0, ("GiB", 2**30)) == "0.0"


def test_page_and_markdown_call_disturbed_runs_of_pytorch_so():
    study = with_peers(("PyTorch eager", 2.0), ("PyTorch compile", 1.5))
    study["rungs"][-1]["flags"] = ["r8-1 shared: 1 other process"]
    shown = view.view(report_of(study))
    assert [row[1] for row in table(markdown.render(shown | {"has_pictures": False}), "Each row is a recipe.")] == [
        "PyTorch eager", "PyTorch compile (disturbed)"]
    html = page.render("report.html.j2", shown)
    assert '<td>PyTorch compile <span class="warn">(disturbed)</span></td>' in html and "<td>PyTorch eager</td>" in html


def test_a_study_that_is_not_usable_has_a_banner_in_place_of_its_headline():
    study = make()
    study["notes"] = ["What costs time here: nothing."]
    without_number(study, 0, "not_measured", "before the reference")
    without_number(study, 1, "failed", "killed")
    report = report_of(study)
    usable = page.render("report.html.j2", view.view(report))
    assert 'class="banner"' not in usable and "trusted?</h2>" in usable
    said = report["studies"][0]["words"]
    said |= {"headline": "Not usable: other work ran during 32 of 32 runs", "evidence": "", "change": "", "remedy": "Stop the other work."}
    said["findings"] = dict.fromkeys(said["findings"], said["headline"])
    shown = view.view(valid(report))
    html, text = page.render("report.html.j2", shown), markdown.render(shown | {"has_pictures": False})
    assert f'<div class="banner"><p class="headline">{said["headline"]}</p><p>Stop the other work.</p></div>' in html
    assert '<p class="finding">' in usable and '<p class="finding">' not in html  # said once
    claims = re.compile(r"\d\.\d+×|What costs time")
    assert set(claims.findall(usable)) > {"What costs time"} and not claims.findall(html + text)
    assert html.count('class="headline"') == 1 and 'trusted? <span class="bad">No</span></h2>' in html
    assert f"\n**{said['headline']}.** Stop the other work.\n\n" in text and "\n## Can it be trusted? No\n\n" in text
    # Only what failed is red.
    assert '<p class="number">No number <small>not measured: before' in html and '<p class="number bad">No number <small>failed: killed' in html


def test_page_and_markdown_call_a_runs_repeat_the_same():
    failed = mixed()
    assert failed["runs"][20]["repeat"] == 0
    assert "| r4-0 | 4 | 1 | failed |" in markdown_of(failed)
    assert '<td>r4-0</td><td class="n">4</td><td class="n">1</td><td>failed</td>' in page.render("report.html.j2", view.view(report_of(failed)))


def test_verdicts_are_called_the_same_everywhere():
    entries = [entry(name, 1.01, name) for name in VERDICT_WORDS]
    comparison = comparison_of(*entries)
    report = report_of(make(), make(device="cuda"), comparison=comparison, gates=[gate_of("INCONCLUSIVE", comparison, [None] * 4)])
    shown = view.view(report)
    drawings = [one.specification() for one in view.all_charts(shown) if one.name in ("side_by_side", "gate")]
    said = list(VERDICT_WORDS.values())
    assert [[row["word"] for row in drawing["data"]["values"]] for drawing in drawings] == [said, said]
    rows = table(markdown.render(shown | {"has_pictures": False}), "Paired. Above 1 the second takes longer.")
    assert [row[4] for row in rows] == said
    assert [f'<td>{word}</td><td class="whole"></td></tr>' in page.render("report.html.j2", shown) for word in said] == [True] * 4


def test_commands_stay_code_in_a_sentence():
    assert markdown.commands("`a --b`, then *c* or `d`; `e`.") == r"`a --b`, then \*c\* or `d`; `e`."


@pytest.mark.parametrize("mode, heads", [("cumulative", ["vs previous", "so far"]), ("leave-one-out", ["vs everything on", "vs first"]),
                                         ("one-at-a-time", ["vs first"]), ("factorial", ["vs first"]), ("sweep", ["vs first"])])
def test_no_two_columns_of_one_speedup(mode, heads):
    study = make() | {"mode": mode}
    if mode == "sweep":
        study["swept"] = "batch"
        for r in study["rungs"]:
            r["workload"] = {"batch": 4, "context": 256, "accumulation": 1, "tokens_per_step": 1024}
    without_number(study, 2, "failed", "exit status 3")
    shown = view.view(valid(report_of(study)))
    report, html = markdown.render(shown | {"has_pictures": False}), page.render("report.html.j2", shown)
    head = next(line for line in report.splitlines() if line.startswith("| rung | ms per step"))
    assert [cell.strip() for cell in head.split("|")[3:-3]] == heads
    assert all(len(row) == 4 + len(heads) for row in table(report, "## The ladder" if mode == "cumulative" else "## The rungs"))
    assert f'<td colspan="{3 + len(heads)}">' in html
