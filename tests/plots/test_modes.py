"""The charts and reports of the modes beside the cumulative ladder, on made-up studies (builders.py makes them)."""

import json

import pytest
from builders import make, report_of, rung, valid, without_number
from drawings import values
from test_render import EVIL, rendered

import page
import study as words_of
import view


def worth(name, ratio, half=0.02, reason="", method="shapley"):
    number = ratio is not None
    return {"optimization": name, "title": f"the {name}", "method": method, "ratio": ratio,
            "lo": ratio * (1 - half) if number and half else None, "hi": ratio * (1 + half) if number and half else None,
            "repeats": 5 if number else 0, "reason": reason}


def factorial():
    study = make([("plain", 100.0), ("bf16", 60.0), ("flash", 110.0), ("bf16 + flash", 50.0)])
    study["mode"] = "factorial"
    study["statistics"]["attribution"] = "means of Shapley values"
    study["attribution"] = [worth("flash", 0.99), worth("bf16", 1.82), worth("graph", None, reason="no subset | was measured")]
    for r in study["rungs"]:
        r["label"] = r["title"]
        r["workload"] = {"batch": 4, "context": 256, "accumulation": 1, "tokens_per_step": 1024}
    return study


def sweep(runs=5):
    study = make([("fused AdamW", 10.0), ("fused AdamW", 18.0), ("fused AdamW", 30.0), ("PyTorch eager", 20.0)], runs)
    study.update(mode="sweep", swept="batch", attribution=[], headline=None)
    for r, batch in zip(study["rungs"], (16, 32, 64, 16)):
        r["label"] = r["title"]
        r["workload"] = {"batch": batch, "context": 256, "accumulation": 1, "tokens_per_step": 256 * batch}
        r["tokens_per_s"]["median"] = 256e3 * batch / r["ms_per_step"]["median"]
        r["speedup_first"] = r["speedup_previous"] = None
    study["rungs"][3].update(peer="pytorch-eager", against=0)
    study["rungs"][0]["peers"] = [{"peer": "pytorch-eager", "rung": 3, "ratio": 2.0, "lo": 1.9, "hi": 2.1}]
    without_number(study, 2, "failed", "asked for 80 GiB, 79 were there")
    study["rungs"][2]["out_of_memory"] = True
    return study


def test_worth_is_sorted_and_drawn_from_one(tmp_path):
    report, texts, svg, _, spec = rendered(factorial(), tmp_path)
    data = spec["data"]["values"]
    assert [d["aria"].split(",")[0] for d in data] == ["the bf16", "the flash", "the graph"]
    assert [d["text"] for d in data] == ["1.82×", "0.99×", ""] and not data[1]["slower"]  # the interval includes 1
    assert data[2]["ratio"] is None and any(t.startswith("no number: no subset") for t in texts)
    bars = spec["layer"][0]["encoding"]
    assert bars["x2"] == {"datum": 1} and bars["x"]["scale"]["type"] == "log"
    low, high = bars["x"]["scale"]["domain"]
    assert low < min(d["lo"] for d in data[:2]) and high > max(d["hi"] for d in data[:2])
    assert spec["description"].count("A note on attribution.") == 1 and report.count("\nWhat each is worth. Ranges are intervals.\n") == 1
    assert "| the bf16 | **1.82×** (1.78× – 1.86×) | 5 |" in report
    assert "*no number: no subset \\| was measured*" in report
    assert "| bf16 + flash |" in report and "| \\+ bf16" not in report


@pytest.mark.parametrize("mode", ["leave-one-out", "one-at-a-time"])
def test_worth_of_pairs(tmp_path, mode):
    study = factorial()
    study["mode"] = mode
    study["headline"] = None
    for w in study["attribution"]:
        w["method"] = words_of.METHODS[mode]
    del study["statistics"]["attribution"]
    report, texts, *_, spec = rendered(study, tmp_path)
    assert " ".join(spec["title"]["text"]).endswith(": what attribution shows")
    assert "A note on attribution." in spec["description"] and "\nWhat each is worth. Ranges are intervals.\n" in report
    assert "Shapley" not in report


def test_worth_of_a_single_repeat_has_no_whiskers(tmp_path):
    study = factorial()
    study["attribution"] = [worth("bf16", 1.5, half=None)]
    *_, svg, _, spec = rendered(study, tmp_path)
    assert any("no interval" in line for line in spec["title"]["subtitle"])
    assert [d["lo"] for d in spec["data"]["values"]] == [None] and spec["data"]["values"][0]["interval"] == ""


def test_worths_that_differ_by_little_still_have_an_axis(tmp_path):
    study = factorial()
    study["attribution"] = [worth("bf16", 1.04, half=0.01), worth("flash", 1.01, half=0.01)]
    _, texts, *_ = rendered(study, tmp_path)
    assert sum(t in ("0.95", "1", "1.05", "1.1") or t.startswith(("0.9", "1.0")) and "×" not in t for t in texts) >= 2


def test_nothing_measured_yet(tmp_path):
    study = factorial()
    study["attribution"] = [worth("bf16", None, reason="no repeat has the runs of all subsets yet")]
    for i in range(4):
        without_number(study, i, "missing", "")
    study["headline"] = None
    assert "no number: no repeat has the runs of all subsets yet" in rendered(study, tmp_path)[1]


def test_a_sweep_is_lines_of_speed_and_memory(tmp_path):
    report, texts, _, _, spec = rendered(sweep(), tmp_path)
    data = spec["data"]["values"]
    assert [(d["series"], d["value"]) for d in data] == [("fused AdamW", 16), ("fused AdamW", 32), ("PyTorch eager, fused AdamW", 16)]
    assert data[1]["rate"] == 256e3 * 32 / 18
    speed, memory = spec["hconcat"]
    assert speed["layer"][0]["encoding"]["y"]["scale"]["domain"][0] == 0 == memory["layer"][0]["encoding"]["y"]["scale"]["domain"][0]
    assert speed["layer"][0]["encoding"]["x"]["axis"]["values"] == [16, 32, 64]
    assert spec["title"]["text"][-1].endswith("what sweep shows")
    assert "points: median of 5 runs · no interval" in spec["title"]["subtitle"]
    assert "×: no number" in spec["title"]["subtitle"] and "A note on sweep." in spec["description"]
    assert "B=4" not in spec["description"]  # the workload's own batch says nothing here
    assert {"tokens/s", "peak GiB", "batch size, sequences"} <= set(texts)
    rows = [line for line in report.splitlines() if line.startswith("| B=")]
    assert rows[1].startswith("| B=32 fused AdamW | 18.0") and "failed: asked for" in rows[2] and len(rows) == 4
    assert rows[3].startswith("| B=16 fused AdamW | PyTorch eager | 20.0") and "**2.00×** (1.90× – 2.10×)" in rows[3]


def test_a_rung_of_a_sweep_is_named_with_its_size():
    shown = view.view(report_of(sweep()))
    html = page.render("report.html.j2", shown)
    assert "B=16fused" not in html and html.count(">B=16 fused AdamW</a>") == 2 and "<td>B=16 fused AdamW</td><td>PyTorch eager</td>" in html
    steps = next(one.chart for one in shown["parts"][0]["charts"] if one.name == "steps")
    assert {"B=16 fused AdamW", "B=32 fused AdamW"} <= set(values(steps.wide, "rung"))


def test_an_interval_beyond_the_edge_has_an_arrow(tmp_path):
    study = sweep()
    study["rungs"][1]["tokens_per_s"].update(lo=1.0, hi=1e9)
    *_, spec = rendered(study, tmp_path)
    assert "points: median of 5 runs · whiskers: 95 % confidence interval, arrow: it goes on" in spec["title"]["subtitle"]
    edge = spec["hconcat"][0]["layer"][0]["encoding"]["y"]["scale"]["domain"][1]
    assert edge < 1e6 and [d["to"] for d in spec["data"]["values"]] == [None, edge, None]


def test_a_sweep_without_any_number():
    study = sweep()
    for i in range(4):
        without_number(study, i, "failed", "killed")
    shown = view.view(report_of(valid(study)))
    assert shown["headline"] == "No valid speedup: there is one rung" and shown["parts"][0]["lead"] is None
    assert "sweep" not in [one.name for one in view.all_charts(shown)] and shown["headline"] in page.render("report.html.j2", shown)


def test_a_peer_is_no_rung_of_the_ladder(tmp_path):
    study = make()
    twin = rung(7, "PyTorch eager", 1500.0, None, None)
    twin.update(peer="pytorch-eager", against=0, optimization=None)
    study["rungs"].append(twin)
    study["rungs"][0]["peers"] = [{"peer": "pytorch-eager", "rung": 7, "ratio": 0.99, "lo": 0.98, "hi": 1.0}]
    report, texts, *_, spec = rendered(study, tmp_path)
    assert len(spec["data"]["values"]) == 7 and not any("PyTorch" in t for t in texts)
    assert "| plain fp32 | PyTorch eager | 1,500 (1,485 – 1,515) | 0.99× (0.98× – 1.00×) |" in report


def test_markup_in_what_the_modes_show_stays_text(tmp_path):
    study = factorial()
    for w in study["attribution"]:
        w["title"] = w["reason"] = w["optimization"] = EVIL
    study["statistics"]["attribution"] = EVIL
    for r in study["rungs"]:
        r["label"] = EVIL
    report, _, svg, _, spec = rendered(study, tmp_path)
    assert "<script" not in svg and report.count("```") == 2
    for block in ("## What each", "## The rungs"):
        lines = report[report.index(block):].split("\n\n")[1 if block == "## The rungs" else 2].splitlines()
        assert len(lines) > 2 and all(line.startswith("| ") or line.startswith("|:") for line in lines)
    outside = report.split("```")[0]
    assert "<script" not in outside and "<!--" not in outside
    assert "\x1b" not in json.dumps(spec, ensure_ascii=False) + report
