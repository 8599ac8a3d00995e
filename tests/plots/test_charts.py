"""Charts of what no kept study shows: their data and texts, not their pixels. program/test_evidence.py compares the charts of the kept ones."""

import json
import statistics

import pytest
from builders import (ENTRIES, GIB, LADDER, NASTY, PARTS, comparison_of, complete, disturbed, entry, gate_of, history_of, make, mixed, other_losses, part_of,
                      part_row, report_of, series_of, study_of, sweep, trace_of, training_report_of, valid, with_peers, without_number, worth)
from drawings import data, drawn, on_picture, rows_of, said, spoken, values

import charts
import theme
from charts import draw, ladder, losses, phases

BARS = ["ladder", "memory", "phases_of_all", "energy"]
RIGHT, LEFT = 'd="M2.905,0L-2.905,', 'd="M-2.905,0L2.905,'  # arrows


def of_study(name, study, **more):
    return draw(name, part_of(valid(study), **more))


def without_numbers(study):
    for r in study["rungs"]:
        without_number(study, r["index"], "missing", "")
    return study | {"headline": None}


# ---- nothing to draw

def two(*studies, **more):
    return report_of(make(), make(device="cuda"), **more)


def no_loss(report):
    for stretch in report["stretches"]:
        stretch.update(loss=None, norm=None)
    return report


def no_limits():
    trace = trace_of(*PARTS)
    del trace["roofline"]["limits"]["flops_per_byte"]
    return trace


@pytest.mark.parametrize("name, document, run", [
    *[(name, part_of(study), "`ladder ablate") for name in BARS[1:] for study in (make([]), without_numbers(make()))],
    ("ladder", part_of(make() | {"mode": "sweep", "swept": "batch"}), "`ladder ablate` switches"),
    ("energy", part_of(make()), "NVIDIA GPU"), ("energy", part_of(make(device="cuda")), "no run of this study has it"),
    *[(name, part, "`ladder report STUDY`") for name in ("steps", "losses") for part in (part_of(make([])), part_of(make()) | {"runs": [], "losses": []})],
    ("losses", part_of(make(LADDER[:1])), "`ladder report STUDY`"), ("peers", part_of(make()), "--with-peer pytorch"),
    ("attribution", part_of(make()), "`ladder ablate --mode leave-one-out`"), ("sweep", part_of(make()), "`ladder ablate --sweep"),
    ("sweep", part_of(without_numbers(sweep())), "no rung of this study has a number"),
    *[("roofline", report_of(make(), traces=traces), "--roofline") for traces in (
        [], [{k: v for k, v in trace_of().items() if k != "roofline"}], [trace_of()], [trace_of(PARTS[4])], [no_limits()])],
    *[(name, report_of(make()), f"`ladder report STUDY --with {file}`") for name, file in (
        ("gate", "FOLDER/gate.json"), ("roofline", "DIR/RUNG.trace.json"), ("history", "DIR/history.json"))],
    ("pairs", {"gates": [gate_of("FAILED", None, [], ["x"])]}, "a comparison"),
    ("side_by_side", report_of(make()), "`ladder report STUDY STUDY`"), ("side_by_side", two(), "`ladder report STUDY STUDY`"),
    *[(name, valid(no_loss(training_report_of())), "is finite") for name in ("training_loss", "norm")]])
def test_without_data_a_chart_says_what_makes_it(name, document, run):
    missing = draw(name, document)
    assert isinstance(missing, charts.Missing) and run in missing.run


def test_peaks_that_are_the_same_have_no_chart():
    study = make()
    for r in study["rungs"]:
        r["peak_memory_bytes"] = 44 * 2**20 + r["index"]
    assert of_study("memory", study).run == ""  # the column says it


# ---- odd documents, whose charts must only be drawn well

def of_size(factor):
    study = complete()
    for r in study["rungs"]:
        bytes_factor = min(factor, 1e3)  # 30 TiB and a step of half an hour will do
        for estimate, by in ((r["ms_per_step"], bytes_factor), (r["tokens_per_s"], factor)):
            estimate.update({k: v * by for k, v in estimate.items() if k != "n"})
        r["peak_memory_bytes"] = int(r["peak_memory_bytes"] * bytes_factor)
        r["memory"] = {k: v if k == "peak_source" else int(v * bytes_factor) for k, v in r["memory"].items()}
        step = r["profile"]["step"]
        step.update(idle_ms=step["idle_ms"] * factor, by_phase=[{**p, "ms": p["ms"] * factor} for p in step["by_phase"]])
        r["joules_per_token"] *= factor
    return study


def one_loss():
    part = part_of(make(LADDER[:2], runs=1))
    for of in part["losses"]:
        of.update({name: of[name][:1] for name in ("loss", "reference", "lo", "hi", "deviation")})
    return part


ODD = {
    "many rungs": (BARS, lambda: part_of(valid(complete([(f"{i} {NASTY if i % 20 == 0 else ''}", 1000.0 - 4 * i) for i in range(100)])))),
    "one rung": (["ladder", "memory", "energy"], lambda: part_of(valid(complete([("plain fp32", 1512.0)])))),
    **{f"times {factor}": (BARS, lambda factor=factor: part_of(valid(of_size(factor)))) for factor in (0, 1e-6, 1e6)},
    "no numbers": (["ladder"], lambda: part_of(without_numbers(make()))), "no rungs": (["ladder"], lambda: part_of(make([]))),
    "one run": (["steps"], lambda: part_of(make(LADDER[:1], runs=1))), "one loss": (["losses"], one_loss),
    "a long peer": (["peers"], lambda: part_of(with_peers((NASTY, 0.9)))),
    "many worths": (["attribution"], lambda: part_of(study_of("factorial", *[worth(f"{i}{NASTY}", 1.1) for i in range(40)]))),
    "a lone part": (["roofline"], lambda: report_of(make(), traces=[trace_of(PARTS[1], device="cpu")])),
    "many parts": (["roofline"], lambda: report_of(make(), traces=[
        trace_of(*[part_row(f"forward{i % 7}", f"{i}{NASTY}", 2e11 * (i + 1), 1e9, 900.0 + i) for i in range(200)])])),
    **{verdict: (["gate"], lambda of=of: report_of(make(), gates=[gate_of(*of)])) for verdict, *of in (
        ("same", "SAME", comparison_of(ENTRIES[0]), [None]), ("faster", "IMPROVEMENT", comparison_of(ENTRIES[2]), []))},
    **{f"training of {points} by {length}": (charts.OF_TRAINING, lambda of=(points, length): training_report_of(*of)) for points, length in (
        (60, 1), (200, 20), (1, 1))},
}


@pytest.mark.parametrize("name", ODD)
def test_odd_documents_are_drawn_well(name):
    kinds, document = ODD[name]
    for kind in kinds:
        assert len(drawn(draw(kind, document()))) < 1_000_000


# ---- rungs

@pytest.mark.parametrize("name", BARS)
def test_a_row_for_each_rung_that_was_to_be_measured_and_a_reason_where_there_is_no_bar(name):
    study = complete()
    study["rungs"][6]["flags"] = ["throttled"]
    for index, status, reason in ((1, "not_applicable", "needs another device"), (2, "not_measured", "before the reference"), (3, "failed", "exit status 3"),
                                  (4, "void", "losses differ")):
        without_number(study, index, status, reason)
        study["rungs"][index] = {k: v for k, v in study["rungs"][index].items() if k not in ("profile", "memory", "joules_per_token")} | {"mfu": None}
    chart = of_study(name, study)
    svg, rows = drawn(chart), rows_of(chart.drawing)
    assert "another device" not in str(chart.drawing) and "before the reference" not in str(chart.drawing)
    if name == "phases_of_all":  # of traced rungs only
        assert [r["rung"] for r in rows] == ["plain fp32", "+ graph capture", "+ zero copy data"]
    else:
        reasons = ["", "failed: exit status 3", "void: losses differ", "", ""]
        assert [(r["rung"], r["reason"]) for r in rows] == [*zip(["plain fp32", *("+ " + study["rungs"][i]["title"] for i in (3, 4, 5, 6))], reasons)]
        assert {*(r["rung"] for r in rows), *filter(None, reasons)} <= set(on_picture(svg)) and not any("vocab 50304:" in text for text in said(svg))
    assert name == "memory" or any(text.startswith("+ zero copy data: ") and "disturbed" in text for text in said(svg))


def test_a_gain_is_green_and_a_loss_orange_only_if_the_interval_says_so():
    study = make([("start", 1000.0), ("gains", 600.0), ("loses", 900.0), ("unclear", 850.0), ("disagrees", 800.0), ("once", 500.0), ("touches", 400.0)])
    for r in study["rungs"]:
        r["tokens_per_s"] = {"median": 1e6 / r["ms_per_step"]["median"], "lo": None, "hi": None}
    study["rungs"][3]["speedup_previous"].update(lo=0.98, hi=1.2)
    study["rungs"][4]["speedup_previous"].update(ratio=0.98, lo=0.97, hi=0.99)  # of the pairs, where the medians say the opposite
    study["rungs"][5]["speedup_previous"].update(lo=None, hi=None)
    study["rungs"][6]["speedup_previous"].update(lo=1, hi=1.4)
    chart = of_study("ladder", study)
    rate = [1e6 / ms for ms in (1000, 600, 900, 850, 800, 500, 400)]
    assert [(r["change"], r["kept"], r["before"], r["step_ink"]) for r in rows_of(chart.drawing)] == [
        ("", rate[0], None, theme.INK), ("gained", rate[0], rate[0], theme.INK), ("lost", rate[2], rate[1], theme.SLOWER_INK),
        ("unclear", rate[3], None, theme.GREY), ("", rate[4], None, theme.SLOWER_INK), ("", rate[5], None, theme.GREY), ("unclear", rate[6], None, theme.GREY)]
    assert [drawn(chart).count(f'fill="{colour}"') for colour in (theme.SAVED, theme.SLOWER_BAR, theme.PALE_BAR)] == [1, 1, 2]


@pytest.mark.parametrize("lo, hi, drawn_to, arrows", [(900, 1e7, None, 0), (0, 1e7, None, 0), (-5.0, 1e7, None, 0), (4e3, 3.9e4, 1.5 * 17000, 1)])
def test_an_interval_that_tells_nothing_has_no_whiskers_and_one_that_would_dwarf_the_bars_ends_in_an_arrow(lo, hi, drawn_to, arrows):
    study = complete()
    study["rungs"][3]["tokens_per_s"].update(lo=lo, hi=hi)
    chart = of_study("ladder", study)
    svg, row = drawn(chart), rows_of(chart.drawing)[3]
    assert row["to"] == drawn_to and svg.count(RIGHT) == arrows == ("arrow: it goes on" in chart.lines[0]) and "unknown" not in spoken(svg)
    assert drawn_to is None or "(4.00K to 39.0K)" in spoken(svg)


def test_peers_that_failed_are_no_line_of_the_ladder():
    study = with_peers(("PyTorch 2.15 compile", 1.25), ("PyTorch compile", 1.5))
    for index, rate, torch in ((-2, 1414.0, "2.15-"), (-1, 1180.0, "")):
        study["rungs"][index].update(peer=f"pytorch-{torch}compile", tokens_per_s={"median": rate, "lo": None, "hi": None})
    assert ladder.compiled(study) == [{"peer": 1414.0, "said": "PyTorch 2.15 compiled, 1.41K"}]
    for index, left in ((-2, [1180.0]), (-1, [])):
        without_number(study, len(study["rungs"]) + index, "failed", "exit status 1")
        assert [line["peer"] for line in ladder.compiled(study)] == left
    study["rungs"][-3]["peers"] = study["rungs"][-3]["peers"][:1]
    study["rungs"][-3]["peers"][0].update(ratio=None, lo=None, hi=None)
    chart = of_study("peers", study)
    drawn(chart)
    assert "failed: exit status 1" in [d["reason"] for d in rows_of(chart.drawing)[1:]] and chart.title == "Next to PyTorch"


def test_parts_of_the_memory_that_do_not_fit_into_the_peak():
    study = complete()
    study["rungs"][0]["memory"].update(activations_bytes=90 * GIB)
    study["rungs"][1]["memory"].update(activations_bytes=-5 * GIB, weight_copies_bytes=3 * GIB)
    chart = of_study("memory", study)
    drawn(chart)
    parts = next(layer for layer in chart.drawing["layer"] if layer.get("encoding", {}).get("x", {}).get("stack"))["data"]["values"]
    assert [p["part"] for p in parts if p["row"] == 1] == ["weights", "gradients", "optimizer state", "16-bit weights", "other"]
    assert [(p["part"], p["size"]) for p in parts if p["row"] == 2] == [("weights", 1.0), ("gradients", 1.0), ("optimizer state", 2.0), ("activations", 16.0),
                                                                        ("other", 7.0)]


def test_phases_of_traces_that_know_less():
    study = complete()
    for r in study["rungs"]:
        r["profile"].update(busy_percent=None, idle_ms=None)  # the traced step was slower than the others
        r["profile"]["step"]["idle_ms"] = None
    del study["rungs"][1]["profile"]
    study["rungs"][-1]["profile"]["step"].update(idle_ms=5000.0, by_phase=[{"phase": NASTY, "ms": 3.0}, {"phase": "idle", "ms": 2.0}])
    chart = of_study("phases_of_all", study)
    assert "plain fp32: no phase 4.00 ms" in said(drawn(chart)) and chart.lines[0].endswith(" · not traced: + bf16 autocast")
    assert {d["busy"] for d in rows_of(chart.drawing)} == {"—"} and len(rows_of(chart.drawing)) == len(study["rungs"]) - 1
    assert [p[0] for p in phases.parts_of(study["rungs"][-1])] == ["other", "other", "idle"]
    assert "ideal" not in str(of_study("phases", complete(), ideal=("another rung", {"forward": 1.0})).drawing)


def test_energy_has_one_unit_for_all_rows_and_a_reason_where_it_is_not_known():
    study = complete()
    del study["rungs"][1]["joules_per_token"]
    assert rows_of(of_study("energy", study, runs=[]).drawing)[1]["reason"] == "not recorded"
    short = "the timed steps took 0.90 s, too short for the energy counter"
    runs = [{"rung": 1, "flags": [], "conditions": {"notes": {"joules_per_token": short}}}]
    assert rows_of(of_study("energy", study, runs=runs).drawing)[1]["reason"] == short
    study["rungs"][0]["joules_per_token"] = 2.5
    assert [r["text"] for r in rows_of(of_study("energy", study).drawing)[::2][:2]] == ["2.50 J", "0.042 J"]


# ---- steps

def step_points(chart):
    return [row for row in data(chart.drawing) if "kind" in row and ", step " in row["aria"]]


def test_steps_of_a_rung_without_a_number_or_without_runs_are_a_row_with_the_reason():
    part = part_of(mixed())
    part["runs"] = [run for run in part["runs"] if run["rung"] != 2]
    chart = draw("steps", part)
    drawn(chart)
    rows = rows_of(chart.drawing)
    assert rows[3]["reason"].startswith("failed: 5 of 5 runs: killed by signal 9") and rows[1]["reason"] == "its runs' records are not there"
    assert {p["row"] for p in step_points(chart)} == {0, 2, 6} and not any("TF32" in row["rung"] for row in rows)


def test_steps_stay_small_and_the_slowest_is_drawn():
    chart = draw("steps", part_of(make([(f"{NASTY}{i}", 1000.0 - i) for i in range(60)])))
    assert len(drawn(chart)) < 1_000_000 and chart.lines[-1].endswith("the first 24 of 60 rungs")
    long = part_of(make(LADDER[:2], runs=2))
    for run in long["runs"]:
        run["step_ms"] = run["step_ms"] * 4000
    long["runs"][0]["step_ms"][77777] = 1e9
    chart = draw("steps", long)
    drawn(chart)
    points = step_points(chart)
    assert len(points) <= 1200 and any("1,000,000,000 ms, beyond the edge" in p["aria"] for p in points)


# ---- losses

def with_void(part, position=2):
    of = part["losses"][position]
    of["deviation"] = [0.004 * 1.3 ** i for i in range(len(of["loss"]))]
    of["loss"] = [a + b for a, b in zip(of["reference"], of["deviation"])]
    rung = part["study"]["rungs"][of["rung"]]
    rung["guard"].update(passed=False, deviation=2.17, max_deviation=2.3, message="losses leave the reference by 0.31 at step 12")
    rung.update(status="void", reason=rung["guard"]["message"])
    return part


def lines_of(chart, name):
    """[the steps that are joined] of each line of that name. A single step has a point."""
    layers = next(layer for layer in values(chart.drawing, "layer") if any(one["mark"]["type"] == "line" for one in layer))
    joining = next(layer for layer in layers if layer["mark"]["type"] == "line")["encoding"]["detail"]["field"]
    rows = [row for row in data(chart.drawing) if row.get("name") == name and row.get("faint")]
    of = {key: [row["step"] for row in rows if row[joining] == key] for key in dict.fromkeys(row[joining] for row in rows)}
    alone = {row["step"] for row in rows if row["alone"]}
    assert alone == {steps[0] for steps in of.values() if len(steps) == 1}
    assert not alone or layers[-1]["mark"]["type"] == "point"
    return list(of.values())


def names_of(drawing):
    """The labels at the lines' ends, from top to bottom."""
    return sorted((row for row in data(drawing) if "last" in row), key=lambda row: row["to"])


def test_losses_are_running_medians_with_single_steps_behind():
    part = part_of(make())
    chart = draw("losses", part)
    drawn(chart)
    points = [row for row in data(chart.drawing) if "deviation" in row]
    faint = [row for row in points if row["faint"]]
    assert points[:len(faint)] == faint, "drawn first"
    assert [row["deviation"] for row in faint] == [x for of in part["losses"] for x in of["deviation"]]
    judged = [row for row in points if not row["faint"] and row["step"] == losses.JUDGED_STEPS]
    assert [row["deviation"] for row in judged] == [statistics.median(of["deviation"][:16]) for of in part["losses"]]
    assert max(row["step"] for row in points if not row["faint"]) == losses.JUDGED_STEPS < max(row["step"] for row in faint)


@pytest.mark.parametrize("wanted, places", [([100, 10, 50], [100, 10, 50]), ([50, 50, 50], [31, 50, 69]), ([0, 0, 200, 200], [0, 19, 181, 200]), ([], [])])
def test_labels_are_spread_as_little_as_needed(wanted, places):
    assert losses.spread(wanted, 200) == pytest.approx(places)


def test_losses_name_void_rungs():
    chart = draw("losses", with_void(part_of(make())))
    drawn(chart)
    assert chart.title == "Losses: 1 rung of 6 void, vocab 50304"
    most = max(abs(row["deviation"]) for row in data(chart.drawing) if "deviation" in row)
    assert any(domain == [-most, most] for domain in values(chart.drawing, "domain"))
    void, = (row for row in names_of(chart.drawing) if row["name"] == "void: + vocab 50304")
    assert void["ink"] == theme.BAD_INK and void["text"].startswith("void: ")
    many = draw("losses", with_void(part_of(make([(f"{i}{NASTY}", 1000.0 - i) for i in range(60)])), 45))
    assert len(drawn(many)) < 400_000
    names = [row["name"] for row in names_of(many.drawing)]
    assert any(name.startswith("void: + 46") for name in names) and names.count("the other rungs") == 1 and len(names) == 9
    assert "21 of 59 rungs are drawn, void ones first" in many.lines


@pytest.mark.parametrize("known, lines", [(lambda step: not (6 <= step <= 15 or step == 17), [[*range(1, 6)], [16], [*range(18, 26)]]),
                                          (lambda step: step == 1, [[1]]), (lambda step: False, [])])
def test_losses_that_are_not_finite_break_their_line(known, lines):
    part = part_of(make())
    for field in ("loss", "deviation"):
        part["losses"][2][field] = [x if known(step) else None for step, x in enumerate(part["losses"][2][field], 1)]
    part["study"]["rungs"][3]["guard"].update(deviation=None, max_deviation=None)
    chart = draw("losses", part)
    drawn(chart)
    assert lines_of(chart, "+ vocab 50304") == lines and lines_of(chart, "+ bf16 autocast") == [[*range(1, 26)]]


# ---- worths and sizes

def test_worths_of_one_method_have_bars_from_one_the_largest_first():
    worths = (worth(*of, method="leave_one_out") for of in (("flash", 0.99), ("bf16", 1.82), ("graph", None, 0, f"no subset {NASTY}")))
    chart = draw("attribution", part_of(study_of("leave-one-out", *worths)))
    svg = drawn(chart)
    lines = [row for row in data(chart.drawing) if "ratio" in row]
    assert [(row["text"], row["slower"], row["unclear"]) for row in lines] == [("1.82×", False, False), ("0.99×", False, True), ("", False, False)]
    assert lines[2]["reason"].startswith("no number: no subset <script>") and len(lines[2]["reason"]) <= 120
    bars = chart.drawing["layer"][0]["encoding"]
    assert bars["x2"] == {"datum": 1} and bars["x"]["scale"]["type"] == "log"
    assert "the bf16, on top of all others (leave-one-out): 1.82×, 1.78× – 1.86×" in spoken(svg) and "legend" not in json.dumps(chart.drawing)
    assert chart.lines == ["5 repeats · whiskers: 95 % confidence · pale: no clear difference"]
    assert draw("attribution", part_of(study_of("one-at-a-time", worth("bf16", 0.5, None, method="one_at_a_time", repeats=1)))).lines == ["1 repeat · no interval"]
    assert "speedup" not in on_picture(drawn(draw("attribution", part_of(study_of("factorial", worth("a", None))))))  # without a number no axis


def test_worths_mark_where_an_interval_is_cut_and_draw_none_that_tells_nothing():
    chart = draw("attribution", part_of(study_of("factorial", worth("a", 0.31, 0.1), worth("b", 0.81) | {"lo": 0.6, "hi": 5.5}, worth("c", 0.9) | {
        "lo": 0.2, "hi": 2.1}, worth("d", 0.5) | {"lo": 0.06, "hi": 0.55})))
    svg = drawn(chart)
    assert svg.count(RIGHT) == svg.count(LEFT) == 1 and "unknown" not in svg
    assert [row["lo"] for row in data(chart.drawing) if "ratio" in row] == [None, 0.6, 0.06, pytest.approx(0.279)]
    assert chart.lines == ["5 repeats · whiskers: 95 % confidence · pale: no clear difference · orange: it costs time"]


def test_a_sweep_marks_what_has_no_number_and_draws_no_interval_that_tells_nothing():
    once = sweep(runs=1)
    assert draw("sweep", part_of(once)).lines == ["a single run · no interval · ×: no number"]
    once["rungs"][1]["tokens_per_s"].update(lo=4.0, hi=1e5)
    once["rungs"][3]["tokens_per_s"].update(lo=4000, hi=3.9e4)
    chart = draw("sweep", part_of(once))
    assert "B=64 fused AdamW: failed: CUDA out of memory" in spoken(drawn(chart))
    assert chart.lines == ["a single run · whiskers: 95 % confidence, arrow: it goes on · ×: no number"]
    assert [p["lo"] for p in data(chart.drawing) if "rate" in p] == [None, None, 4000, None, None, None]


def test_no_two_series_of_a_sweep_look_alike_or_leave_their_size():
    chart = draw("sweep", part_of(sweep([f"rung {i}" for i in range(30)], (4, 8))))
    drawn(chart)
    assert chart.lines[0].endswith("the first 24 of 31 series")
    points = next(layer for layer in chart.drawing["vconcat"][0]["layer"] if layer["mark"]["type"] == "point")["encoding"]
    names, ranges = points["color"]["scale"]["domain"], [points[channel]["scale"]["range"] for channel in ("color", "shape")]
    assert names == [f"rung {i}" for i in range(24)] and [len(kinds) for kinds in ranges] == [24, 24] and len(set(zip(*ranges))) == 24
    for series, sizes in ((3, (4, 8)), (12, (4, 8, 16, 32)), (24, (1, 2, 4, 8, 16, 64))):
        chart = draw("sweep", part_of(sweep([f"rung {i}" for i in range(series - 1)], sizes)))
        low, high = next(d for d in values(chart.drawing, "domain") if isinstance(d[0], float) and d[0] > 0)
        at = {size: sorted(row["at"] for row in rows_of(chart.drawing) if row["value"] == size) for size in sizes}
        assert all(low < marks[0] and marks[-1] < high and len(set(marks)) == len(marks) for marks in at.values())
        assert all(at[a][-1] < at[b][0] for a, b in zip(sizes, sizes[1:]))


def test_a_part_far_from_its_limit_has_most_to_gain():
    far = [part_row("backward", "embed", 1e3, 8.7e7, 73.2), part_row("data", "data", 0, 0, 99.0)]  # 842 times its ideal, and no less true
    chart = draw("roofline", report_of(make(), traces=[trace_of(*PARTS, *far)]))
    assert chart.title.endswith("backward embedding has most to gain, 73.2 ms against 0.087 ms ideal")


# ---- trainings

def test_a_training_that_is_neither_validated_nor_clipped_says_so():
    plain = training_report_of()
    plain["training"]["settings"]["clip"] = None
    for stretch in plain["stretches"]:
        stretch.update(validation_loss=None, spikes=0)
    plain["stretches"][30]["norm"] = plain["stretches"][31]["loss"] = None
    for name in charts.OF_TRAINING:
        drawn(draw(name, valid(plain)))
    assert draw("training_loss", plain).lines == ["blue: training loss"] and "clipped" not in draw("norm", plain).lines[0]


# ---- two sides, and histories

def text_of(chart):
    """What it says: how to read it, what a screen reader reads out, and the other texts on the picture."""
    svg = drawn(chart)
    marks = [text for text in said(svg) if not text.startswith(("X-axis", "Y-axis", "Title", "Symbol"))]
    return "\n".join([chart.title, *chart.lines, *marks, " | ".join(text for text in on_picture(svg) if text[-1].isalpha() and text not in " ".join(marks))])


def gate(*entries, noise=()):
    runs = {"base_runs_ms": [500.0] * 4, "head_runs_ms": [500.0, 505.0, 520.0, 480.0], "pairs": 4, "slower_pairs": 2}
    return gate_of("REGRESSION", comparison_of(*(one | runs for one in entries)), [*noise, *[None] * (len(entries) - len(noise))])


def gates():
    failed = gate_of("FAILED", None, []) | {"created": "2026-01-03T03:04:05Z"}
    failed["said"]["lines"] = [f"killed {NASTY}"]
    entries = [ENTRIES[1], other_losses(ENTRIES[2]), entry("once", 1.0, "SAME", None), entry("wide", 1.5, "INCONCLUSIVE") | {"lo": 1e-5, "hi": 1e5}]
    return {"gates": [failed, gate(*entries, noise=[{"floor": 0.013, "source": "calibration"}])]}


def history():
    made = history_of(series_of("+ flash", "slower", jump=1.04, points=4), series_of("x", "too_few", points=2))
    made["series"][1]["points"][0].update(lo=1e-8, hi=3.7e10)  # of two runs
    return report_of(make(), histories=[made])


SAYS = {"gate": (gates, """
Regression + bf16 takes 1.04× base's time
green: ±2 %, which does not matter · whiskers: 95 % confidence
2026-01-02: + bf16 autocast: slower, 1.04× (1.04× – 1.05×), 500 ms → 522 ms, 4 pairs, noise floor 1.3 %
2026-01-02: + flash: losses differ (step 3 has loss 9.5000, the reference 9.1900: 0.3100 nats apart, 0.02 allowed), faster, 0.95× (0.94× – 0.96×), 500 ms → 475 ms, 4 pairs
2026-01-02: once: the same, 1.00×, 500 ms → 500 ms, 4 pairs
2026-01-02: wide: inconclusive, 1.50×, 500 ms → 750 ms, 4 pairs
head's time / base's
"""), "pairs": (lambda: {"gates": [gate(ENTRIES[1])]}, """
Pair by pair: 6 pairs of runs
points: head's time over base's in each pair of runs, in the order made · dashes: their centre · grey: ±2 %
pair 1: 1.00×, 500 ms → 500 ms
pair 2: 1.01×, 500 ms → 505 ms
pair 3: 1.04×, 500 ms → 520 ms
pair 4: 0.96×, 500 ms → 480 ms
Subtitle text '1.04× (1.04× – 1.05×) head took longer in 2 of 4 pairs sign test p = 0.5'
head / base | + bf16 autocast
"""), "side_by_side": (lambda: two(comparison=comparison_of(ENTRIES[0], disturbed(other_losses(ENTRIES[2])))), """
B is 1.68× slower than A
×: B's time / A's, paired, with its 95 % confidence interval
float32, A: Example Processor 9000 @ 2.70GHz · 2026-01-02: 500 ms, the same, 1.001× (0.99× – 1.01×)
+ flash, A: Example Processor 9000 @ 2.70GHz · 2026-01-02: 500 ms, faster, disturbed, 0.95×, losses differ
float32, B: NVIDIA Example · 2026-01-02: 500 ms, the same, 1.001× (0.99× – 1.01×)
+ flash, B: NVIDIA Example · 2026-01-02: 475 ms, faster, disturbed, 0.95×, losses differ
ms per step | 500 → 500 ms | 500 → 475 ms
"""), "history": (history, """
1 of 2 rungs is slower
points: each study's median, with its interval, which may go on beyond the edge · line: the estimated level
purple triangles: disturbed runs
2026-01-02, s0: 500 ms (495 ms to 505 ms)
2026-01-02, s1: 500 ms (495 ms to 505 ms)
2026-01-02, s2: 520 ms (515 ms to 525 ms)
2026-01-02, s3: 520 ms (515 ms to 525 ms), disturbed
Subtitle text 'Slower: + flash: slower AMD EPYC, 2 threads · gpt2-124m B=4 T=256 · torch 2.11 · abababababab'
2026-01-02, s0: 500 ms (1e-08 ms to 37,000,000,000 ms)
2026-01-02, s1: 500 ms (495 ms to 505 ms)
Subtitle text 'x: too_few AMD EPYC, 2 threads · gpt2-124m B=4 T=256 · torch 2.11 · abababababab'
ms per step | ms per step
""")}


@pytest.mark.parametrize("name", SAYS)
def test_what_charts_of_two_sides_and_histories_say(name):
    document, text = SAYS[name]
    assert text_of(draw(name, document())) == text.strip("\n")


def test_gates_and_pairs_are_coloured_by_their_verdicts_and_stand_where_their_ratios_are():
    chart = draw("gate", gates())
    rows = rows_of(chart.drawing)
    assert {"slower", "losses differ", "the same", "inconclusive", "1.04× (1.04× – 1.05×)"} <= {*on_picture(drawn(chart))}
    assert [(row["word"], row["ink"], row["lo"], row["hi"]) for row in rows[1:]] == [
        ("slower", theme.SLOWER_INK, ENTRIES[1]["lo"], ENTRIES[1]["hi"]), ("losses differ", theme.BAD_INK, ENTRIES[2]["lo"], ENTRIES[2]["hi"]),
        ("the same", theme.BAR, None, None), ("inconclusive", theme.GREY, None, None)]
    assert {(row["least"], row["most"]) for row in rows[1:]} == {(1 / 1.02, 1.02)} and len(rows[0]["reason"]) <= 120
    pairs = [row for row in data(draw("pairs", {"gates": [gate(ENTRIES[1])]}).drawing) if "pair" in row]
    assert [(row["pair"], row["ratio"], row["ink"]) for row in pairs] == [(1, 1.0, theme.BAR), (2, 1.01, theme.BAR), (3, 1.04, theme.SLOWER_INK),
                                                                          (4, 0.96, theme.FASTER_INK)]
    both = draw("side_by_side", two(comparison=comparison_of(ENTRIES[0], ENTRIES[2])))
    assert [(row["row"], row["ms"]) for row in data(both.drawing) if "side" in row] == [(0, 500.0), (1, 500.0), (0, 500 * 1.001), (1, 475.0)]
    shown = next(row for row in data(draw("history", history()).drawing) if row.get("aria", "").startswith("2026-01-02, s0: 500 ms (1e-08"))
    assert 0 <= shown["lo"] < 500 < shown["hi"] < 1000  # within its panel


def test_what_is_left_out_of_charts_of_many_is_said():
    many = [entry(f"{i}{NASTY}", 1.1, "REGRESSION", None) for i in range(70)]
    changed = series_of("last", "slower", 3, 1.1)
    for name, document, lines in (
            ("pairs", {"gates": [gate(*many[:31])]}, ["at most 24 rungs and 500 pairs are drawn"]),
            ("pairs", {"gates": [gate_of("SAME", comparison_of(ENTRIES[0] | {"base_runs_ms": [500.0] * 600, "head_runs_ms": [500.0] * 600, "pairs": 600}), [None])]},
             ["at most 24 rungs and 500 pairs are drawn"]),
            ("side_by_side", two(comparison=comparison_of(*many)), ["×: B's time / A's, paired, no interval · the first 60 of 70 rungs"]),
            ("history", report_of(make(), histories=[history_of(*(series_of(f"r{i}", "unchanged", 2) for i in range(99)), changed)]),
             ["24 of 100 panels are drawn, those with a change first"])):
        chart = draw(name, document)
        drawn(chart)
        assert chart.lines[-len(lines):] == lines
        assert len(chart.drawing.get("vconcat", [])) <= 24 and len([row for row in data(chart.drawing) if "pair" in row]) <= 500
    assert "last" in json.dumps(chart.drawing["vconcat"][-1]["title"])
    by_sessions = draw("pairs", {"gates": [gate(ENTRIES[1] | {"sessions": 4})]})
    assert "dashes: head's median over the mean of the baseline's sessions" in by_sessions.lines[0]
