"""The charts of gates, two studies and histories: their data and texts, not their pixels."""

import json

import pytest
from builders import ENTRIES, NASTY, comparison_of, disturbed, entry, gate_of, history_of, make, other_losses, report_of, series_of
from drawings import data, drawn, rows_of, spoken

import charts
import theme
from charts import draw


# ---- gates

def test_gate_shows_ratio_interval_band_and_verdict():
    noise = [{"floor": 0.013, "source": "calibration"}] * 3 + [None]
    chart = draw("gate", report_of(make(), gates=[gate_of("REGRESSION", comparison_of(*ENTRIES), noise)]))
    svg = drawn(chart)
    assert chart.title == "Regression + bf16 takes 1.04× base's time"
    assert chart.lines == ["green: ±2 %, which does not matter · whiskers: 95 % confidence"]
    rows = rows_of(chart.drawing)
    assert [(row["word"], row["ink"]) for row in rows] == [("the same", theme.BAR), ("slower", theme.SLOWER_INK), ("faster", theme.FASTER_INK),
                                                           ("inconclusive", theme.GREY)]
    assert [(row["lo"], row["hi"]) for row in rows] == [(e["lo"], e["hi"]) for e in ENTRIES]
    assert {(row["least"], row["most"]) for row in rows} == {(1 / 1.02, 1.02)}
    band = chart.drawing["layer"][0]
    assert band["mark"]["color"] == theme.SAVED and (band["encoding"]["x"]["field"], band["encoding"]["x2"]["field"]) == ("least", "most")
    assert "slower, 1.04× (1.04× – 1.05×), 500 ms → 522 ms, 6 pairs, noise floor 1.3 %" in spoken(svg) and ">slower</text>" in svg


def test_gates_with_and_without_ratios():
    for of in (("SAME", comparison_of(ENTRIES[0]), [None]), ("IMPROVEMENT", comparison_of(ENTRIES[2]), [])):
        drawn(draw("gate", report_of(make(), gates=[gate_of(*of)])))
    once = draw("gate", report_of(make(), gates=[gate_of("INCONCLUSIVE", comparison_of(entry("a", 1.02, "INCONCLUSIVE", None)), [None])]))
    drawn(once)
    assert once.lines[0].endswith("no interval") and rows_of(once.drawing)[0]["lo"] is None
    gates = [gate_of("SAME", comparison_of(ENTRIES[0]), [None]), gate_of("FAILED", None, [])]
    gates[1]["said"]["lines"] = [f"killed {NASTY}"]
    chart = draw("gate", report_of(make(), gates=gates))
    drawn(chart)
    first, second = rows_of(chart.drawing)
    assert first["label"] == "2026-01-02: float32" and second["label"] == "2026-01-02: against program" and second["ratio"] is None
    assert second["reason"].startswith("Failed killed <script>") and len(second["reason"]) <= 120


def test_gate_marks_what_no_longer_learns_the_same():
    message = "step 3 has loss 9.5000, the reference 9.1900: 0.3100 nats apart, 0.02 allowed"
    for ratio, verdict, word in ((0.80, "IMPROVEMENT", "faster"), (1.0, "SAME", "the same"), (1.1, "REGRESSION", "slower")):
        gate = gate_of("REGRESSION", comparison_of(ENTRIES[1], other_losses(entry("+ flash", ratio, verdict))), [None] * 2)
        chart = draw("gate", report_of(make(), gates=[gate]))
        svg = drawn(chart)
        first, second = rows_of(chart.drawing)
        assert (first["word"], second["word"]) == ("slower", "losses differ") and second["ink"] == theme.BAD_INK
        assert f"+ flash: losses differ ({message}), {word}, " in spoken(svg) and ">losses differ</text>" in svg


# ---- pairs

def pairs_of(*entries):
    return draw("pairs", {"gates": [gate_of("SAME", comparison_of(*entries), [None] * len(entries))]})


def test_pairs_show_each_pair_in_order_and_where_it_lies():
    runs = {"base_runs_ms": [500.0, 500.0, 500.0, 500.0], "head_runs_ms": [500.0, 505.0, 520.0, 480.0], "pairs": 4, "slower_pairs": 2}
    chart = pairs_of(entry("+ flash", 1.0, "SAME") | runs)
    svg = drawn(chart)
    marks = [row for row in data(chart.drawing) if "pair" in row]
    assert [(row["pair"], row["ratio"]) for row in marks] == [(1, 1.0), (2, 1.01), (3, 1.04), (4, 0.96)]
    assert [row["ink"] for row in marks] == [theme.BAR, theme.BAR, theme.SLOWER_INK, theme.FASTER_INK]
    assert "pair 3: 1.04×, 500 ms → 520 ms" in spoken(svg) and {"from": 1 / 1.02, "to": 1.02} in data(chart.drawing)
    assert "dashes: their centre" in chart.lines[0] and "head took longer in 2 of 4 pairs" in svg
    chart = pairs_of(entry("+ flash", 1.05, "REGRESSION") | {"sessions": 4})
    assert "dashes: head's median over the mean of the baseline's sessions" in chart.lines[0]
    drawn(chart)


def test_pairs_say_what_is_left_out():
    chart = pairs_of(*[entry(f"{i}{NASTY}", 1.0, "SAME") for i in range(31)])
    drawn(chart)
    assert "at most 24 rungs and 500 pairs are drawn" in chart.lines and len(chart.drawing["vconcat"]) == 24
    chart = pairs_of(entry("+ flash", 1.0, "SAME") | {"base_runs_ms": [500.0] * 600, "head_runs_ms": [500.0] * 600, "pairs": 600})
    drawn(chart)
    assert "at most 24 rungs and 500 pairs are drawn" in chart.lines and len([row for row in data(chart.drawing) if "pair" in row]) == 500
    assert isinstance(draw("pairs", {"gates": [gate_of("FAILED", None, [], ["x"])]}), charts.Missing)


@pytest.mark.parametrize("name, file", [("gate", "FOLDER/gate.json"), ("roofline", "DIR/RUNG.trace.json"), ("history", "DIR/history.json")])
def test_hints_name_files_where_with_takes_no_folder(name, file):
    assert f"`ladder report STUDY --with {file}`" in draw(name, report_of(make())).run


# ---- two studies

def two(*entries, **more):
    comparison = comparison_of(*entries) | more
    return draw("side_by_side", report_of(make(), make(device="cuda"), comparison=comparison))


def test_side_by_side_has_a_mark_for_each_study_and_the_paired_ratio():
    chart = two(ENTRIES[0], disturbed(ENTRIES[1]), disturbed(other_losses(ENTRIES[2])))
    svg = drawn(chart)
    assert chart.title == "B is 1.68× slower than A" and chart.lines == ["×: B's time / A's, paired, with its 95 % confidence interval"]
    rows = rows_of(chart.drawing)
    assert [row["both"] for row in rows] == ["500 → 500 ms", "500 → 522 ms", "500 → 475 ms"]
    assert [row["text"] for row in rows] == ["1.001× (0.99× – 1.01×)", "1.04× (1.04× – 1.05×)", "0.95×, losses differ"]  # which is no speedup
    assert "slower, disturbed, 1.04× (1.04× – 1.05×)" in spoken(svg) and "faster, disturbed, 0.95×, losses differ" in spoken(svg)
    assert "A: Example Processor 9000 @ 2.70GHz · 2026-01-02" in svg and "B: NVIDIA Example · 2026-01-02" in svg
    assert [(row["row"], row["ms"]) for row in data(chart.drawing) if "side" in row] == [
        (0, 500.0), (1, 500.0), (2, 500.0), (0, 500 * 1.001), (1, 522.5), (2, 475.0)]


def test_side_by_side_of_many_of_one_run_and_of_nothing():
    chart = two(*[entry(f"{i}{NASTY}", 1.1, "REGRESSION", None) for i in range(70)])
    drawn(chart)
    assert chart.lines == ["×: B's time / A's, paired, no interval · the first 60 of 70 rungs"]
    unknown = entry("a", 1.5, "INCONCLUSIVE") | {"lo": 1e-5, "hi": 1e5}
    gate = draw("gate", {"gates": [gate_of("INCONCLUSIVE", comparison_of(unknown), [None])]})
    for chart in (two(unknown), gate, pairs_of(unknown)):  # an interval that tells nothing is not drawn
        assert "unknown" not in drawn(chart)
    assert (rows_of(gate.drawing)[0]["text"], rows_of(gate.drawing)[0]["lo"]) == ("1.50×", None)
    for report in (report_of(make()), report_of(make(), make(device="cuda"))):
        assert "`ladder report STUDY STUDY`" in draw("side_by_side", report).run


# ---- history

def test_history_keeps_its_width_and_the_panels_with_a_change():
    one = history_of(series_of("+ flash", "slower", jump=1.04), series_of(NASTY, "unchanged"), series_of("x", "too_few", points=1))
    chart = draw("history", report_of(make(), histories=[one]))
    svg = drawn(chart)
    assert [row["ms"] for row in data(chart.drawing) if "ms" in row][:20] == [point["median"] for point in one["series"][0]["points"]]
    assert "2026-01-02, s3: 500 ms (495 ms to 505 ms), disturbed" in spoken(svg) and "purple triangles: disturbed runs" in chart.lines
    many = history_of(*(series_of(f"r{i}", "unchanged", 2) for i in range(99)), series_of("last", "slower", 8, 1.1))
    for series in many["series"][:-1]:
        series["points"][1]["disturbed"] = False
    many["series"][-1]["points"][3]["disturbed"] = False
    chart = draw("history", report_of(make(), histories=[many]))
    drawn(chart)
    assert "24 of 100 panels are drawn, those with a change first" in chart.lines and "last" in json.dumps(chart.drawing["vconcat"][-1]["title"])


def test_an_interval_that_two_runs_leave_stays_within_its_panel():
    series = series_of("+ flash", "too_few", points=2)
    series["points"][0].update(lo=1e-8, hi=3.7e10)
    chart = draw("history", report_of(make(), histories=[history_of(series)]))
    drawn(chart)
    shown = next(row for row in data(chart.drawing) if row.get("i") == 0)
    assert 0 <= shown["lo"] < 500 < shown["hi"] < 1000
    assert "500 ms (1e-08 ms to 37,000,000,000 ms)" in shown["aria"]
