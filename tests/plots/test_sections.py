"""The pages of reports and gates, as HTML and as Markdown: their sections and texts. test_page.py looks at them in a browser."""

import html
import json
import re

import pytest
from builders import (ENTRIES, LADDER, NASTY, PARTS, SETTING, about_batches, comparison_of, complete, disturbed, entry, gate_of, history_of, made, make, mixed,
                      noise_of, other_losses, remark, report_of, series_of, study_of, sweep, table, technique, trace_of, training_report_of,
                      unusable, valid, with_peers, without_number, worth)

import markdown
import page
import sections
import study_view
import theme
import views

EVIL = "<script>alert(1)</script> a|b `c|d` \n# heading [x](javascript:y) **b** <!-- @you"


def everything():
    report = report_of(about_batches(complete()), gates=[gate_of("REGRESSION", comparison_of(*ENTRIES), [None] * 4)],
                                 histories=[history_of(series_of("+ flash", "slower", jump=1.04))], traces=[trace_of(*PARTS)], notes=["a gate was left out"])
    report["studies"][0]["techniques"] = {"bf16": technique(), "sdpa": technique(NASTY)}
    return report


def two():
    return report_of(make(), make(device="cuda"), comparison=comparison_of(ENTRIES[0], disturbed(ENTRIES[1]), other_losses(ENTRIES[2])))


DOCUMENTS = {"everything": everything, "two": two, "mixed": lambda: report_of(mixed()), "not usable": lambda: unusable(report_of(mixed())),
             "one rung": lambda: report_of(make(LADDER[:1], runs=1)), "no rungs": lambda: report_of(make([])), "nothing in common": lambda: report_of(make(), make()),
             "peers": lambda: report_of(with_peers(("PyTorch eager", 2.0))), "sweep": lambda: report_of(sweep()),
             "factorial": lambda: report_of(study_of("factorial", worth("bf16", 1.82), worth("graph", None, reason="no subset | was measured"))),
             "training": lambda: training_report_of(samples=["of of of", "to be"])}


@pytest.fixture(scope="session")
def pages():
    """pages(name): (the HTML, the Markdown)"""
    kept = {}

    def of(name):
        if name not in kept:
            document = valid(DOCUMENTS[name]())
            shown = (study_view.view if document["kind"] == "report" else views.view_training)(document)
            kept[name] = page.render(shown), markdown.render(shown, has_pictures=True)
        return kept[name]

    return of


def outline(shown):
    """What a page consists of, without the long texts of optimizations: ("figure", name), ("fold", summary), ("table", heads)."""
    parts = []
    for figure, fold, heads in re.findall(r'<a [^>]*?href="charts/(\w+)\.svg"|(?s:<summary>(.*?)</summary>|<thead>(.*?)</thead>)',
                                          re.sub(r'(?s)<details id="technique.*?</details>', "", shown)):
        texts = [html.unescape(text) for text in re.split("<[^>]*>", fold or heads) if text.strip()]
        parts.append(("figure", figure) if figure else ("fold" if fold else "table", texts))
    return parts


def values_of(shown, attribute):
    """All values of that attribute of a page."""
    return [html.unescape(value) for value in re.findall(rf'\s{attribute}="([^"]*)"', re.sub(r"(?s)<(script|style)>.*?</\1>", "", shown))]


def outline_of_markdown(text):
    parts = []
    for line, below in zip(text.splitlines(), [*text.splitlines()[1:], ""]):
        if found := re.match(r"!\[.*\]\(charts/(\w+)\.svg\)$", line):
            parts.append(("figure", found[1]))
        elif found := re.match(r"<details><summary>(.*)</summary>$", line):
            parts.append(("fold", html.unescape(found[1]).split(" · ")))
        elif re.match(r"\| :?--", below):
            parts.append(("table", [head.replace("\\", "") for head in line.strip("| ").split(" | ")]))
    return parts


@pytest.mark.parametrize("name", DOCUMENTS)
def test_page_and_markdown_have_the_same_sections_in_the_same_order(pages, name):
    shown, text = pages(name)
    parts = outline(shown)
    assert parts == outline_of_markdown(text) and len(parts) >= 3
    headline = re.search(r"<h1[^>]*>(.*)</h1>", shown)[1]
    assert text.startswith(f"# {markdown.escape(html.unescape(headline))}\n")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_place_is_there_once_and_every_link_of_the_page_leads_to_one(pages, name):
    ids, links = (values_of(pages(name)[0], attribute) for attribute in ("id", "href"))
    assert len(ids) == len(set(ids)) > 0
    inside = {link[1:] for link in links if link.startswith("#")}
    assert inside <= set(ids) and (name != "mixed" or {f"rung-{i}" for i in (0, 2, 3, 4, 5, 6, 7, 8)} <= inside)
    assert all(re.fullmatch(r"#[\w-]+|data:,|charts/\w+(\.vl\.json|\.svg|\.png)", link) for link in links), links


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_page_needs_no_network_and_is_dark_in_the_dark(pages, name):
    shown = pages(name)[0]
    assert not re.search(r'(?:src|href|action|data)="?(?:https?:)?//|@import|url\((?!#)', shown)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', shown)[1]
    assert policy.startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in policy
    style = re.search(r"<style>(.*?)</style>", shown, re.S)[1]
    used = {(attribute, colour) for svg in re.findall(r"(?s)<svg.*?</svg>", shown)
            for attribute, colour in re.findall(r'(fill|stroke)="([^"]+)"', svg) if colour not in ("none", "transparent")}
    assert {colour for _, colour in used} <= set(theme.DARK)
    for attribute, colour in used:
        assert f'.drawing [{attribute}="{colour}"] {{ {attribute}: {theme.DARK[colour]}; }}' in style


def test_no_row_of_a_template_is_long():
    for template in page.HERE.glob("*.j2"):
        assert not [row for row in template.read_text().splitlines() if len(row) > 120], template.name


def test_a_chart_is_drawn_once_for_the_page_and_once_for_its_files(monkeypatch):
    vl_convert = pytest.importorskip("vl_convert")
    draw, drawn = vl_convert.vegalite_to_svg, []
    monkeypatch.setattr(vl_convert, "vegalite_to_svg", lambda specification, **options: drawn.append(json.dumps(specification)) or draw(specification, **options))
    monkeypatch.setattr(vl_convert, "svg_to_png", lambda *_, **__: b"not looked at here")
    import render

    files = render.draw(report_of(complete(runs=2)))
    assert len(drawn) == len(set(drawn)) == 2 * sum(name.endswith(".svg") and bool(content) for name, content in files.items())


# ---- one study

def test_rungs_without_a_number_say_why_and_those_left_out_are_in_one_line(pages):
    shown, text = pages("mixed")
    rows = {row[0]: row[1:] for row in table(text, "rung | ms per step | × step | × total | tokens/s | peak GiB")}
    assert rows["\\+ graph capture"] == ["**failed: 5 of 5 runs: killed by signal 9 (out of memory?)**", *["—"] * 4]
    assert rows["\\+ channels last"][0] == "**missing**" and "\\+ TF32" not in rows and len(rows) == 8
    assert "\nNot measured: TF32.\n" in text and "\nTF32: not applicable: needs a CUDA device, this machine has none.\n" in text and shown.count("TF32") == 2
    assert "<summary>+ fused AdamW · void: losses leave the reference by 0.31 at step 12, tolerance 0.02</summary>" in text
    assert "| `vocabulary` | **failed** | 50304 rows — seen: 50257 |" in text and "| r4-0 | failed | killed by signal 9 |" in text
    assert rows["\\+ zero copy data"][1] == "**0.94×** \\[0.93× – 0.95×\\]" and '<span class="slower">0.94×</span>' in shown  # slower than the one before it


def test_a_study_that_is_not_usable_claims_nothing(pages):
    (usable, plain), (shown, text) = pages("mixed"), pages("not usable")
    assert '<h1 class="bad">Not usable: other work ran during 32 of 32 runs</h1>' in shown and 'class="bad"' not in re.search(r"<h1.*", usable)[0]
    assert '<p class="remark bad banner">\nOther work ran during 32 of 32 runs.\n<strong>Stop the other work.</strong>' in shown and "banner" not in re.sub(
        "(?s)<style>.*?</style>", "", usable)
    assert "\n> Other work ran during 32 of 32 runs. **Stop the other work.**\n" in text
    claim = re.compile(r"\d\.\d+×")
    assert claim.search(plain) and claim.search(usable) and not claim.search(shown + text)


def test_what_is_not_known_is_a_dash_or_its_reason(pages):
    shown, text = pages("everything")
    assert table(text, "rung | ms | of the step | read | from a disk | page faults | held | cached before → after")[-1][3:] == ["—", "—", "0.5", "—", "—"]
    assert '<p class="warn">Note: a gate was left out.</p>' in shown and 'id="chart-roofline"' in shown and 'id="chart-gate"' in shown and 'id="chart-history"' in shown
    assert shown.count("<figcaption>2.61×") == 0 < shown.count("<figcaption>")  # the page's own heading says it
    assert table(pages("factorial")[1], "optimization | worth | repeats")[1] == ["the graph", "no subset \\| was measured", "0"]
    study = complete()
    study["rungs"][2]["clock"] = {"sm_mhz": 1785, "highest_mhz": 1980, "at_power_limit": 1}
    without_number(study, 3, "failed", "exit status 3")
    clocked = made(report_of(study))[1]
    assert [row[-1] for row in table(clocked, "rung | ms per step | × step | × total | tokens/s | peak GiB | MFU | mJ/token | SM clock, MHz")[1:4]] == ["—", "1,785", "—"]


@pytest.mark.parametrize("lo, center, hi, said", [(0.99, 1.0, 1.01, "[0.99× – 1.01×]"), (0.8, 1.0, 1.3, "[0.80× – 1.30×]"), (0.99, 1.0, 1.05, "[0.99× – 1.05×]"), (1.0, 1.0, 1.0, ""), (None, 1.0, None, ""),
                                                  (0.001, 1.0, 900.0, ""), (0.0, 1.0, 2.0, ""), (-1.0, 1.0, 2.0, ""), (0.0, 0.0, 0.5, "")])
def test_an_interval_is_short_and_one_that_tells_nothing_is_left_out(lo, center, hi, said):
    assert study_view.interval({"lo": lo, "hi": hi, "ratio": center}, study_view.times) == said


def test_a_ratio_is_bold_where_its_interval_is_clear():
    moods = [study_view.ratio({"ratio": r, "lo": lo, "hi": hi}).mood for r, lo, hi in ((2, 1.9, 2.1), (2, 0.9, 4), (0.5, 0.4, 0.6), (2, None, None), (1, 1, 1))]
    assert moods == ["strong", "grey", "slower", "strong", "strong"]
    assert study_view.ratio({"ratio": 2, "lo": None, "hi": None}).more == "(one run)" and study_view.ratio(None) == "—"


def test_an_optimization_is_told_once_with_its_paragraphs_and_blocks(pages):
    shown, text = pages("everything")
    assert ('<p class="plain"><strong>How it works.</strong></p>\n\n<p>Products in <code>16 bits</code>.</p>\n<pre tabindex="0">1/3    0.333\n1/10   0.100</pre>\n'
            "<p>Weights stay as they are.</p>") in shown and '<pre tabindex="0">with autocast():\n    step()</pre>' in shown
    assert "Why it is faster" not in shown and "step()" not in text  # it has none; the Markdown tells less
    report = report_of(make())
    report["studies"][0]["study"]["rungs"][3]["optimization"] = report["studies"][0]["study"]["rungs"][1]["optimization"]
    report["studies"][0]["techniques"] = {"bf16": technique()}
    assert made(valid(report))[0].count('<details id="technique') == 1


# ---- a training

def test_what_a_model_writes_stays_text():
    shown = views.view_training(training_report_of(samples=["of of of", "KING:\n\n\n\nHence, <b>thou</b> art\n```\n# no heading"]))
    text = markdown.render(shown, has_pictures=True)
    assert "<summary>What it writes after step 10</summary>\n\n````text\nKING:\n\nHence, <b>thou</b> art\n```\n# no heading\n````\n" in text
    assert "<summary>What it wrote before</summary>\n\n**After step 1**\n\n```text\nof of of\n```\n" in text
    assert '<pre tabindex="0">KING:\n\nHence, &lt;b&gt;thou&lt;/b&gt; art\n```\n# no heading</pre>' in page.render(shown)


# ---- two studies, and a gate

def test_a_page_of_two_studies_is_their_comparison_alone(pages):
    shown, text = pages("two")
    assert [what for kind, what in outline(shown) if kind == "figure"] == ["side_by_side"] and text.startswith("# B is 1.68× slower than A\n\nA: one · B: another")
    assert not re.search(r'id="(rung|chart|again|predictions)', shown)
    folds = [what[0] for kind, what in outline(shown) if kind == "fold"]
    assert folds == ["Every number, with its interval", "A: EXAMPLE DATA, not a measurement", "B: EXAMPLE DATA, not a measurement", "Can it be trusted?",
                     "What else could be measured"]
    rows = table(text, "rung | A ms | B ms | B / A | ")
    assert rows[1] == ["\\+ bf16 autocast", "500", "522", "**1.04×** \\[1.04× – 1.05×\\]", "B is slower"] and "\n> This compares two machines.\n" in text
    assert "`ladder report STUDY STUDY`" in pages("nothing in common")[1]


def gate_page(gate):
    return page.render(views.view_gate(valid(gate)))


def test_a_gate_shows_its_verdict_its_numbers_and_what_the_machine_can_show():
    entries = [*ENTRIES[:3], other_losses(entry("+ loses", 1.0, "SAME")) | {"memory": {"base_bytes": 2**30, "head_bytes": 3 * 2**30, "ratio": 3.0, "lo": None, "hi": None, "verdict": "REGRESSION"}}]
    comparison = comparison_of(*entries)
    gate = gate_of("REGRESSION", comparison, [None] * 4, ["too few pairs"]) | {"calibration": [noise_of((6, 0.013), (12, 0.009)), noise_of((6, 0.02))]}
    shown = gate_page(gate)
    ids = values_of(shown, "id")
    assert len(ids) == len(set(ids)) and [what for kind, what in outline(shown) if kind == "figure"] == ["gate", "pairs"]
    assert "<h1>Regression</h1>" in shown and '<p class="remark warn">\ntoo few pairs\n' in shown and '<p class="remark bad">\nWhat the verdict means.\n' in shown
    assert "step 3 has loss 9.5000" in shown and "1.0 → 3.0" in shown and ">1.3 %</td>" in shown and "± 2 %" in shown and "AMD EPYC" in shown
    assert [re.sub(r"<[^>]*>|\s+", " ", cell).split() for cell in re.findall(r"<td.*?</td>", shown)[:6]] == [
        ["float32"], ["500"], ["500"], ["1.001×", "[0.99×", "–", "1.01×]"], ["the", "same"], ["3", "of", "6", "pairs"]]
    assert "<svg" in shown and "<table" in shown
    for verdict in ("FAILED", "SAVED"):
        alone = gate_page(gate_of(verdict, None, []))
        assert f"<h1>{verdict.capitalize()}</h1>" in alone and "<table" not in alone


# ---- hostile names, and many

def hostile():
    study = about_batches(with_peers((EVIL, 2.0)))
    for r in study["rungs"]:
        r["title"] = r["label"] = r["summary"] = r["reason"] = EVIL
        r["recipe_diff"] = {EVIL: [EVIL, "\\|"]}
        r["flags"] = [EVIL]
        r["guard"]["message"] = EVIL
        r["proofs"] = [{"field": EVIL, "passed": True, "expected": EVIL, "observed": "- " + EVIL}]
    without_number(study, 3, "failed", EVIL)
    without_number(study, 4, "not_applicable", EVIL)
    study["ladder"] = {"name": "gpt2", "title": EVIL}
    study["warnings"], study["environment"] = [EVIL, "1. one"], study["environment"] | {"torch": EVIL, "kernel_switches": {EVIL: EVIL}}
    study["device"]["name"] = study["created"] = study["workload"]["model"] = study["id"] = EVIL
    study["runs"][0].update(status="failed", reason=EVIL)
    bad = entry(EVIL, 1.05, "REGRESSION") | {"flags": [f"base {EVIL}"], "recipe": {EVIL: EVIL}, "setting": SETTING | {"device": EVIL}}
    gate = gate_of("REGRESSION", comparison_of(bad), [None], [EVIL]) | {"warnings": [EVIL], "calibration": [noise_of((6, 0.01)) | {"label": EVIL}]}
    report = report_of(study, notes=[EVIL], gates=[gate])
    report["studies"][0]["said"] |= {"headline": EVIL, "lines": [EVIL], "remarks": [remark("bad", EVIL, fix=EVIL), remark("good", EVIL, "trust")]}
    report["studies"][0]["techniques"] = {"bf16": technique(f"    {EVIL}\n\n{EVIL}")}
    report["studies"][0]["techniques"]["bf16"].append({"title": EVIL, "text": EVIL})
    return report, gate


def test_markup_stays_text():
    report, gate = hostile()
    valid(report)
    both = report_of(*(part["study"] for part in report["studies"] * 2), comparison=gate["comparison"])
    pictures = []
    for document in (report, both):
        shown = study_view.view(document)
        text, web = markdown.render(shown, has_pictures=True), page.render(shown)
        pictures += [page.inline(one) for one in sections.all_figures(shown.blocks)]
        outside_code = re.sub(r"(`+)[^`].*?(?<!`)\1(?!`)", "", re.sub(r"(?s)```.*?```", "", text))
        assert not re.search(r"(?<!\\)\[x", re.sub(r"<summary>.*", "", outside_code))  # a line of HTML has no Markdown
        assert "<script" not in outside_code and "<!--" not in outside_code and "@you" not in outside_code
        assert not re.search(r"(?m)^# heading", text)
        for block in re.findall(r"(?m)(?:^\|.*\n)+", text):  # every table keeps its number of columns
            columns = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in block.splitlines()}
            assert len(columns) == 1, block
        assert web.count("<script") == 1 and "<!--" not in web and not re.search(r"<img|<b>|javascript:y\"", web)
    web = gate_page(gate)
    assert web.count("<script") == 1 and web.count("&lt;script&gt;") > 5
    assert len(pictures) > 6 and not any("<script" in svg for svg in pictures)


def test_long_texts_and_many_rungs_keep_a_page_small():
    study = make([(f"optimization {i} " + "long name " * 40, 2000.0 - 5 * i) for i in range(100)])
    study["warnings"] = ["throttled " * 90, "second", "third"]
    shown, text = made(report_of(study))
    assert len(shown) < 3_000_000 and shown.count('<details id="rung-') == 100 and "\n> second\n" in text
    from charts import about
    assert about(study_view.of.told(report_of(study)["studies"][0])["study"]).warnings.endswith("… second (and 1 more)")


def test_a_commands_ranks_and_its_waits_for_input_are_told() -> None:
    command = {"text": "train", "shape": "step STEP", "mean_ms": 31, "first_step_s": 1, "cold_first_step_s": 2}
    text = study_view.command_blocks(command, None)[1].text
    assert "rank" not in text and "waits" not in text, text
    told = command | {"ranks": {"count": 8}, "input": {"wait_ms": 9, "step_ms": 31}}
    text = study_view.command_blocks(told, None)[1].text
    assert "; a step ends with the last of 8 ranks; the host waits 9.00 of 31.0 ms for input." in text, text
    text = study_view.command_blocks(told | {"input": {"wait_ms": 0.002, "step_ms": 31, "by_look": True}}, None)[1].text
    assert "; the host waits 0 of 31.0 ms for input in a look." in text, text
