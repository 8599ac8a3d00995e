"""The charts of gates, two studies and histories: their data and texts, not their pixels."""

import json

from builders import (ENTRIES, NASTY, comparison_of, disturbed, entry, gate_of, history_of, make, mixed,
                      other_losses, report_of, series_of, without_number)
from drawings import data, draw, drawn, spoken

import charts
import theme
from charts import pairs


# ---- gates and two studies

def test_gate_shows_ratio_interval_band_floor_and_verdict():
    noise = [{"floor": 0.013, "source": "calibration"}] * 3 + [None]
    chart = draw("gate", report_of(make(), gates=[gate_of("REGRESSION", comparison_of(*ENTRIES), noise)]))
    wide, _ = drawn(chart)
    assert chart.finding == "What gate shows"
    lines = [row for row in data(chart.wide) if "ratio" in row]
    assert [row["word"] for row in lines] == ["the same", "slower", "faster", "inconclusive"]
    assert [row["lo"] for row in lines] == [e["lo"] for e in ENTRIES] and lines[0]["most"] == 1.02 and lines[3]["floor_lo"] is None
    assert lines[0]["floor_hi"] == 1.02 * 1.013  # on top of the least effect
    assert "95 % of studies find a change beyond it" in chart.lines[1]
    assert "slower, 1.04× (1.04× – 1.05×), 500 ms → 522 ms, 6 pairs, noise floor 1.3 %" in spoken(wide)


def test_gates_of_several_machines_are_told_apart():
    gates = [gate_of("SAME", comparison_of(ENTRIES[0]), [None]) for _ in range(2)]
    chart = draw("gate", report_of(make(), gates=gates))
    assert chart.about.subject == "Training a model on a machine" and chart.notes == []
    gates[0]["words"]["origin"] = {"subject": "Training a model on another", "source": "another · 2026-01-01", "warnings": ""}
    chart = draw("gate", report_of(make(), gates=gates))
    assert chart.about.subject == "" and chart.about.source.startswith("a machine · ") and chart.notes == ["another · 2026-01-01"]


def test_gates_with_and_without_ratios():
    for of in (("SAME", comparison_of(ENTRIES[0]), [None]), ("IMPROVEMENT", comparison_of(ENTRIES[2]), []),
               ("INCONCLUSIVE", comparison_of(entry("a", 1.02, "INCONCLUSIVE", None)), [None], ["too few pairs"])):
        drawn(draw("gate", report_of(make(), gates=[gate_of(*of)])))
    chart = draw("gate", report_of(make(), gates=[gate_of("FAILED", None, [], [f"killed {NASTY}"])]))
    drawn(chart)
    assert [row["reason"] for row in data(chart.wide) if "reason" in row] == ["What gate shows"]
    assert "`ladder gate" in draw("gate", report_of(make())).run


def test_pairs_show_each_pair_in_order_and_where_it_lies():
    runs = {"base_runs_ms": [500.0, 500.0, 500.0, 500.0], "head_runs_ms": [500.0, 505.0, 520.0, 480.0], "pairs": 4, "slower_pairs": 2}
    chart = pairs.of_gate(gate_of("SAME", comparison_of(entry("+ flash", 1.0, "SAME") | runs), [None]))
    wide, _ = drawn(chart)
    marks = [row for row in data(chart.wide) if "pair" in row]
    assert [(row["pair"], row["ratio"]) for row in marks] == [(1, 1.0), (2, 1.01), (3, 1.04), (4, 0.96)]
    assert [row["ink"] for row in marks] == [theme.BAR, theme.BAR, theme.SLOWER_INK, theme.FASTER_INK]
    assert chart.finding == "What pairs shows" and "pair 3: 1.04×, 500 ms → 520 ms" in spoken(wide)
    assert {"from": 1 / 1.02, "to": 1.02} in data(chart.wide) and not any("baseline" in line for line in chart.lines + chart.notes)


def test_pairs_say_what_is_left_out():
    many = gate_of("REGRESSION", comparison_of(*[entry(f"{i}{NASTY}", 1.0, "SAME") for i in range(31)]), [None] * 31)
    chart = pairs.of_gate(many | {"words": many["words"] | {"pairs_note": f"base is older {NASTY[:99]}"}})
    drawn(chart)
    assert "the first 24 of 31 rungs are drawn" in chart.notes and chart.notes[0].startswith("base is older <script>")
    long = entry("+ flash", 1.0, "SAME") | {"base_runs_ms": [500.0] * 600, "head_runs_ms": [500.0] * 600, "pairs": 600}
    chart = pairs.of_gate(gate_of("SAME", comparison_of(long), [None]))
    drawn(chart)
    assert "the first 500 pairs are drawn" in chart.notes and len([row for row in data(chart.wide) if "pair" in row]) == 500
    assert not isinstance(pairs.of_gate(gate_of("FAILED", None, [], ["x"])), charts.Chart)


def test_pairs_beside_sessions_say_of_what_the_ratio_is():
    of_sessions = entry("+ flash", 1.05, "REGRESSION") | {"sessions": 4}
    of_sessions["words"] = of_sessions["words"] | {"pairs": ["base: the mean of 4 sessions", "head took longer in 3 of 6 pairs with base's own runs"]}
    chart = pairs.of_gate(gate_of("REGRESSION", comparison_of(of_sessions), [None]))
    wide, _ = drawn(chart)
    assert "dashes: head's median over the mean of the baseline's sessions" in chart.lines[1] and "their centre" not in chart.lines[1]
    assert "1.05× (1.04× – 1.06×) · base: the mean of 4 sessions · head took longer in 3 of 6 pairs with base's own runs" in wide.replace("&#39;", "'")


def test_gate_marks_what_no_longer_learns_the_same():
    def chart_of(*entries):
        gate = gate_of("REGRESSION", comparison_of(*entries), [None] * len(entries), ["a", "b"])
        chart = draw("gate", report_of(make(), gates=[gate]))
        return chart, *drawn(chart)

    message = "step 3 has loss 9.5000, the reference 9.1900: 0.3100 nats apart, 0.02 allowed"
    for ratio, verdict, word in ((0.80, "IMPROVEMENT", "faster"), (1.0, "SAME", "the same"), (1.1, "REGRESSION", "slower")):
        chart, wide, narrow = chart_of(ENTRIES[1], other_losses(entry("+ flash", ratio, verdict)))
        first, second = [row for row in data(chart.wide) if "ratio" in row]
        assert (first["word"], second["word"]) == ("slower", "losses differ") and second["ink"] == theme.BAD_INK
        assert f"+ flash: losses differ ({message}), {word}, " in spoken(wide) and "losses differ" in narrow
    chart_of(other_losses(ENTRIES[0]), other_losses(entry(NASTY, 1.0, "SAME")))


def test_hints_name_files_where_with_takes_no_folder():
    for name, file in (("gate", "FOLDER/gate.json"), ("roofline", "DIR/RUNG.trace.json"), ("history", "DIR/history.json")):
        assert f"`ladder report STUDY --with {file}`" in draw(name, report_of(make())).run


def test_side_by_side_pairs_the_rungs_and_names_the_others():
    chart = draw("side_by_side", report_of(make(), make(device="cuda"), comparison=comparison_of(*ENTRIES[:3])))
    wide, _ = drawn(chart)
    assert chart.finding == "What side_by_side shows"
    assert [row["both"] for row in data(chart.wide) if "both" in row] == ["500 → 500 ms", "500 → 522 ms", "500 → 475 ms"]
    assert chart.notes[0].startswith("not compared: <script>")
    assert "first: Example Processor 9000 @ 2.70GHz · 2026-01-02" in wide and "second: NVIDIA Example · 2026-01-02" in wide


def test_side_by_side_tells_other_losses_disturbed_runs_and_what_is_left_out():
    comparison = comparison_of(ENTRIES[0], disturbed(ENTRIES[1]), disturbed(other_losses(ENTRIES[2])))
    comparison["words"]["notes"] = ["losses differ: + flash", "2 runs of the first left out, not a number"]
    chart = draw("side_by_side", report_of(make(), make(device="cuda"), comparison=comparison))
    wide, narrow = drawn(chart)
    assert [row["text"] for row in data(chart.wide) if "both" in row] == ["1.001× (0.99× – 1.01×)", "1.04× (1.04× – 1.05×)",
                                                                          "0.95×, losses differ"]
    assert "slower, disturbed, 1.04× (1.04× – 1.05×)" in spoken(wide) and "faster, disturbed, 0.95×, losses differ" in spoken(narrow)
    assert chart.notes[:2] == comparison["words"]["notes"]
    clean = draw("side_by_side", report_of(make(), make(device="cuda"), comparison=comparison_of(*ENTRIES[:3])))
    texts = " ".join([*clean.lines, *clean.notes])
    assert not any(word in texts for word in ("losses", "disturbed", "left out", "Warning"))


def test_side_by_side_without_a_common_recipe_has_no_ratio():
    first = mixed()
    without_number(first, 0, "failed", NASTY)
    chart = draw("side_by_side", report_of(first, make(device="cuda")))
    drawn(chart)
    lines = {row["label"]: row for row in data(chart.wide) if "label" in row}
    assert lines["plain fp32"]["both"] == "— → 1,512 ms" and lines["plain fp32"]["reason"] == "first: failed"
    assert lines["+ TF32"]["reason"] == "first: not applicable; second: no such rung" and lines["+ vocab 50304"]["reason"] == "first: no such rung"
    assert not any(row["text"] for row in lines.values())
    many = [make([(f"{i}{NASTY}", 10.0 + i) for i in range(200)], runs=1) for _ in range(2)]
    chart = draw("side_by_side", report_of(*many))
    drawn(chart)
    assert "the first 60 of 200 rungs are drawn" in chart.notes and "no interval" in " ".join(chart.lines)
    assert "`ladder report STUDY STUDY`" in draw("side_by_side", report_of(make())).run
    drawn(draw("side_by_side", report_of(make([]), make([]))))


def test_side_by_side_marks_an_interval_that_goes_on_beyond_the_edge():
    def chart_of(hi):
        first, second = make(), make(device="cuda")
        first["rungs"][2]["ms_per_step"]["hi"] = second["rungs"][3]["ms_per_step"]["hi"] = hi
        chart = draw("side_by_side", report_of(first, second))
        drawn(chart)
        return chart

    chart = chart_of(40000.0)
    assert any(line.endswith("in the second, arrow: it goes on") for line in chart.lines)
    for drawing in (chart.wide, chart.narrow):
        arrows = [layer for layer in drawing["layer"] if layer["mark"].get("shape") == "triangle-right"]
        assert [[mark["row"] for mark in layer["data"]["values"]] for layer in arrows] == [[2], [3]]
        end = arrows[0]["encoding"]["x"]["scale"]["domain"][1]
        assert all(mark["to"] < end < mark["hi"] for layer in arrows for mark in layer["data"]["values"])
        rules = [layer for layer in drawing["layer"] if layer["mark"]["type"] == "rule"]
        assert [len(layer["data"]["values"]) for layer in rules] == [7, 7]
        assert all(mark["to"] < end for layer in rules for mark in layer["data"]["values"])
        assert rules[0]["encoding"]["x2"]["field"] == "to"
    short = chart_of(1200.0)
    assert "triangle-right" not in json.dumps([short.wide, short.narrow]) and "arrow" not in " ".join(short.lines)


# ---- history

def test_history_keeps_its_width_and_the_panels_with_a_change():
    one = history_of(series_of("+ flash", "slower", jump=1.04), series_of(NASTY, "unchanged"), series_of("x", "too_few", points=1))
    chart = draw("history", report_of(make(), histories=[one]))
    wide, _ = drawn(chart)
    assert [row["ms"] for row in data(chart.wide) if "ms" in row][:20] == [point["median"] for point in one["series"][0]["points"]]
    assert "2026-01-02, s3: 500 ms (495 ms to 505 ms), disturbed" in spoken(wide) and "purple triangles: disturbed runs" in chart.lines
    many = history_of(*(series_of(f"r{i}", "unchanged", 3) for i in range(199)), series_of("last", "slower", 8, 1.1))
    chart = draw("history", report_of(make(), histories=[many]))
    drawn(chart)
    assert "24 of 200 panels are drawn, those with a change first" in chart.notes and "last" in json.dumps(chart.wide["vconcat"][-1]["title"])


def test_an_interval_that_two_runs_leave_stays_within_its_panel():
    series = series_of("+ flash", "too_few", points=2)
    series["points"][0].update(lo=1e-8, hi=3.7e10)
    chart = draw("history", report_of(make(), histories=[history_of(series)]))
    drawn(chart)
    shown = next(row for row in data(chart.wide) if row.get("i") == 0)
    assert 0 <= shown["lo"] < 500 < shown["hi"] < 1000
    assert "500 ms (1e-08 ms to 37,000,000,000 ms)" in shown["aria"]
