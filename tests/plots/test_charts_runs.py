"""The charts of runs, losses, worths, sizes and limits: their data and texts, not their pixels."""

import json
import statistics

import pytest
from builders import LADDER, NASTY, PARTS, make, mixed, part_of, part_row, report_of, study_of, sweep, trace_of, without_number, worth
from drawings import data, drawn, rows_of, spoken, texts, values

import theme
from charts import draw, losses


# ---- steps

def step_points(chart):
    return [row for row in data(chart.drawing) if "kind" in row and ", step " in row["aria"]]


def test_steps_stand_on_one_axis_each_run_on_a_line_of_its_own():
    part = part_of(make())
    slow, doubtful = part["runs"][3], part["runs"][4]
    slow["step_ms"][10] *= 100
    doubtful["flags"] = ["throttled: the clock fell"]
    chart = draw("steps", part)
    svg = drawn(chart)
    points = step_points(chart)
    timed = [ms / part["study"]["rungs"][run["rung"]]["ms_per_step"]["median"] for run in part["runs"] for ms in run["step_ms"][run["warmup_steps"]:]]
    assert sorted(p["x"] for p in points if not p["beyond"]) == pytest.approx(sorted(x for x in timed if x < 50)) and len(points) == len(timed) == 700
    assert len({round(p["y"], 3) for p in points}) == len(part["runs"])  # no two runs on one line
    axes = {json.dumps(layer["encoding"]["x"]["scale"]["domain"]) for layer in chart.drawing["layer"] if "scale" in layer["encoding"].get("x", {})}
    assert len(axes) == 1 and json.loads(axes.pop())[1] < 2
    beyond, = (p for p in points if p["beyond"])
    assert beyond["beyond"] == "right" and f"run {slow['id']}, step 11: " in beyond["aria"] and "beyond the edge" in spoken(svg)
    assert chart.lines[-1] == "at the edge: 1 step beyond it · purple triangles: disturbed runs"
    assert f"run {slow['id']}, number 4 of the study: median" in spoken(svg)
    assert {p["kind"] for p in points if doubtful["id"] in p["aria"]} == {"disturbed"}
    color, shape = (next(v for v in values(chart.drawing, channel) if isinstance(v, dict) and "scale" in v)["scale"]["range"] for channel in ("color", "shape"))
    assert color[1] == theme.DOUBT_INK and len(set(color)) == len(set(shape)) == 3
    assert [row["text"] for row in rows_of(chart.drawing)][:2] == ["1,512 ms", "1,013 ms"] and chart.title == "Every step: 700 timed steps of 35 runs"


def test_steps_of_a_rung_without_a_number_or_without_runs_are_a_row_with_the_reason():
    part = part_of(mixed())
    part["runs"] = [run for run in part["runs"] if run["rung"] != 2]
    chart = draw("steps", part)
    drawn(chart)
    rows = rows_of(chart.drawing)
    assert rows[3]["reason"].startswith("failed: 5 of 5 runs: killed by signal 9") and rows[1]["reason"] == "its runs' records are not there"
    assert {p["row"] for p in step_points(chart)} == {0, 2, 6} and not any("TF32" in row["rung"] for row in rows)
    for part in (part_of(make([])), {**part_of(make()), "runs": []}):
        assert "`ladder report STUDY`" in draw("steps", part).run
    drawn(draw("steps", part_of(make(LADDER[:1], runs=1))))


def test_steps_stay_small_and_the_slowest_is_drawn():
    part = part_of(make([(f"{NASTY}{i}", 1000.0 - i) for i in range(60)]))
    chart = draw("steps", part)
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
    entry = part["losses"][position]
    entry["deviation"] = [0.004 * 1.3 ** i for i in range(len(entry["loss"]))]
    entry["loss"] = [a + b for a, b in zip(entry["reference"], entry["deviation"])]
    rung = part["study"]["rungs"][entry["rung"]]
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


def test_losses_are_running_medians_against_the_limit_with_single_steps_behind():
    part = part_of(make())
    part["study"]["rungs"][4]["guard"]["deviation"] = -0.0119
    part["study"]["rungs"][5]["guard"]["tolerance"] = 0.005
    chart = draw("losses", part)
    svg = drawn(chart)
    points = [row for row in data(chart.drawing) if "deviation" in row]
    faint = [row for row in points if row["faint"]]
    assert points[:len(faint)] == faint, "drawn first"
    assert [row["deviation"] for row in faint] == [x for entry in part["losses"] for x in entry["deviation"]]
    judged = [row for row in points if not row["faint"] and row["step"] == losses.JUDGED_STEPS]
    assert [row["deviation"] for row in judged] == [statistics.median(entry["deviation"][:16]) for entry in part["losses"]]
    assert max(row["step"] for row in points if not row["faint"]) == losses.JUDGED_STEPS < max(row["step"] for row in faint)
    assert {"lo": -0.02, "hi": 0.02} in data(chart.drawing) and {"lo": -0.005, "hi": 0.005} in data(chart.drawing)
    assert "grey: the limit, ±0.005 or ±0.02 nats" in chart.lines[0]
    names = names_of(chart.drawing)
    assert len(names) == 6 and all(b["to"] - a["to"] >= losses.LINE - 0.01 for a, b in zip(names, names[1:]))
    assert [row["last"] for row in names] == sorted((row["last"] for row in names), reverse=True)  # in the order of their lines
    assert {row["ink"] for row in names} == {row["ink"] for row in points}
    assert "+ fused AdamW: median signed difference 0.0119 nats, limit 0.02" in spoken(svg)
    assert chart.title == "Losses: 6 rungs follow the reference, median signed difference 0.0119 nats at most"


def test_labels_are_spread_as_little_as_needed():
    assert losses.spread([100, 10, 50], 200) == [100, 10, 50]
    assert losses.spread([50, 50, 50], 200) == pytest.approx([31, 50, 69])
    assert losses.spread([0, 0, 200, 200], 200) == pytest.approx([0, 19, 181, 200])
    assert losses.spread([], 200) == []


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


def test_losses_that_are_not_finite_break_their_line():
    part = with_void(part_of(make()))
    part["losses"][2].update(loss=[11.0] + [None] * 24, deviation=[0.0] + [None] * 24)
    part["study"]["rungs"][3]["guard"].update(deviation=None, max_deviation=None)
    chart = draw("losses", part)
    drawn(chart)
    assert [steps for line in names_of(chart.drawing) if "vocab" in line["name"] for steps in lines_of(chart, line["name"])] == [[1]]
    part["losses"][2].update(loss=[None] * 25, deviation=[None] * 25)
    drawn(draw("losses", part))
    part = part_of(make())
    for field in ("loss", "deviation"):
        part["losses"][2][field] = [None if 6 <= step <= 15 or step == 17 else x for step, x in enumerate(part["losses"][2][field], 1)]
    chart = draw("losses", part)
    drawn(chart)
    assert lines_of(chart, "+ vocab 50304") == [[*range(1, 6)], [16], [*range(18, 26)]]
    assert lines_of(chart, "+ bf16 autocast") == [[*range(1, 26)]]


def test_losses_of_nothing_are_missing():
    for part in (part_of(make([])), part_of(make(LADDER[:1])), {**part_of(make()), "losses": []}):
        assert "`ladder report STUDY`" in draw("losses", part).run
    two = part_of(make(LADDER[:2], runs=1))
    for entry in two["losses"]:
        for name in ("loss", "reference", "lo", "hi", "deviation"):
            entry[name] = entry[name][:1]
    drawn(draw("losses", two))


# ---- attribution

ALL = [worth(name, ratio + add, method=method) for method, add in
       (("shapley", 0), ("cumulative", 0.1), ("leave_one_out", -0.2), ("one_at_a_time", 0.3))
       for name, ratio in (("flash", 1.27), ("bf16", 1.82))]


def attribution(mode, *worths):
    return draw("attribution", part_of(study_of(mode, *worths)))


def test_attribution_of_one_method_has_bars_from_one_the_largest_first():
    chart = attribution("leave-one-out", *(worth(*of, method="leave_one_out") for of in (("flash", 0.99), ("bf16", 1.82), ("graph", None, 0, f"no subset {NASTY}"))))
    svg = drawn(chart)
    lines = [row for row in data(chart.drawing) if "ratio" in row]
    assert [(row["text"], row["slower"], row["unclear"]) for row in lines] == [("1.82×", False, False), ("0.99×", False, True), ("", False, False)]
    assert lines[0]["interval"] == "1.78× – 1.86×" and lines[2]["reason"].startswith("no number: no subset <script>") and len(lines[2]["reason"]) <= 120
    bars = chart.drawing["layer"][0]["encoding"]
    assert bars["x2"] == {"datum": 1} and bars["x"]["scale"]["type"] == "log"
    assert "the bf16, on top of all others (leave-one-out): 1.82×, 1.78× – 1.86×" in spoken(svg) and "legend" not in json.dumps(chart.drawing)
    assert chart.lines == ["5 repeats · whiskers: 95 % confidence · pale: no clear difference"]
    alone = attribution("one-at-a-time", worth("bf16", 0.5, None, method="one_at_a_time", repeats=1))
    drawn(alone)
    assert alone.lines == ["1 repeat · no interval"]
    nothing = drawn(attribution("factorial", worth("a", None)))
    assert not any(text == "speedup" for text, *_ in texts(nothing))  # without a number no axis
    drawn(attribution("factorial", *[worth(f"{i}{NASTY}", 1.1) for i in range(40)]))
    assert "`ladder ablate --mode leave-one-out`" in draw("attribution", part_of(make())).run


def test_attribution_of_all_methods_keeps_them_apart_by_shape():
    chart = attribution("factorial", *ALL)
    drawn(chart)
    lines = [row for row in data(chart.drawing) if "ratio" in row]
    assert [(row["group"], row["ratio"]) for row in lines[:4]] == [(0, 1.82 + add) for add in (0.1, 0, -0.2, 0.3)]
    assert [len(set(shape["scale"]["range"])) for shape in values(chart.drawing, "shape") if "scale" in shape] == [4]
    tops = [row["y"] for row in lines]
    assert tops == sorted(tops) and len(set(tops)) == 8


def test_attribution_marks_where_an_interval_is_cut_and_draws_none_that_tells_nothing():
    chart = attribution("factorial", worth("a", 0.31, 0.1), worth("b", 0.81) | {"lo": 0.6, "hi": 5.5}, worth("c", 0.9) | {"lo": 0.2, "hi": 2.1},
                        worth("d", 0.5) | {"lo": 0.06, "hi": 0.55})
    svg = drawn(chart)
    assert svg.count('d="M2.905,0L-2.905,') == svg.count('d="M-2.905,0L2.905,') == 1 and "unknown" not in svg  # to the right, to the left
    assert [row["lo"] for row in data(chart.drawing) if "ratio" in row] == [None, 0.6, 0.06, pytest.approx(0.279)]
    assert chart.lines == ["5 repeats · whiskers: 95 % confidence · pale: no clear difference · orange: it costs time"]


# ---- sizes

def test_sweep_has_lines_of_speed_and_memory_and_marks_what_has_no_number():
    chart = draw("sweep", part_of(sweep()))
    svg = drawn(chart)
    points = [row for row in data(chart.drawing) if "rate" in row]
    assert [(p["series"], p["value"]) for p in points] == [("fused AdamW", 16), ("fused AdamW", 32), ("flash", 16), ("flash", 32), ("flash", 64),
                                                           ("PyTorch eager, fused AdamW", 16)]
    assert (points[1]["rate"], points[1]["lo"], points[1]["hi"]) == (5120.0, 5120 * 0.97, 5120 * 1.03)
    speed, memory = chart.drawing["vconcat"]
    assert speed["layer"][0]["encoding"]["y"]["scale"]["domain"][0] == 0 == memory["layer"][0]["encoding"]["y"]["scale"]["domain"][0]
    assert "B=16 fused AdamW: 2.56K tokens/s (2.48K to 2.64K)" in spoken(svg) and "B=64 fused AdamW: failed: CUDA out of memory" in spoken(svg)
    assert chart.lines == ["median of 5 runs · whiskers: 95 % confidence · ×: no number"]
    assert len({row["at"] for row in points if row["value"] == 16}) == 3  # beside each other, as are their whiskers
    once = sweep(runs=1)
    assert draw("sweep", part_of(once)).lines == ["a single run · no interval · ×: no number"]
    once["rungs"][1]["tokens_per_s"].update(lo=4.0, hi=1e5)
    once["rungs"][3]["tokens_per_s"].update(lo=4000, hi=3.9e4)
    chart = draw("sweep", part_of(once))
    drawn(chart)
    assert chart.lines[0].startswith("a single run · whiskers: 95 % confidence, arrow: it goes on")
    assert [p["lo"] for p in data(chart.drawing) if "rate" in p] == [None, None, 4000, None, None, None]
    assert "`ladder ablate --sweep" in draw("sweep", part_of(make())).run
    for r in once["rungs"]:
        without_number(once, r["index"], "failed", "killed")
    assert "no rung of this study has a number" in draw("sweep", part_of(once)).run


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


# ---- roofline

def roofline(*traces):
    return draw("roofline", report_of(make(), traces=list(traces)))


def test_roofline_puts_products_under_the_roofs_and_all_parts_beside_their_limits():
    chart = roofline(trace_of(*PARTS))
    svg = drawn(chart)
    points = [row for row in data(chart.drawing) if "x" in row and "phase" in row]
    assert [(row["x"], row["y"], row["label"]) for row in points[:2]] == [
        (PARTS[0]["flops_per_byte"], PARTS[0]["flops_per_s"], "head"), (PARTS[2]["flops_per_byte"], PARTS[2]["flops_per_s"], "MLP up")]
    bars = [row for row in data(chart.drawing) if "text" in row and row["text"].endswith("×")]
    assert [(row["part"], row["ms"], row["limit"]) for row in bars] == [("backward head", 12.0, 5.0), ("forward gelu", 4.0, 3.0), ("forward MLP up", 3.0, 2.0)]
    assert chart.title.endswith("backward head has most to gain, 12.0 ms against 5.00 ms ideal")
    assert chart.about.source == "+ flash attention · NVIDIA Example · 2026-01-02" and "500 FLOP per byte, 41.7 TFLOP/s" in spoken(svg)
    assert "bound by memory" in spoken(svg)
    far = roofline(trace_of(*PARTS, part_row("backward", "embed", 1e3, 8.7e7, 73.2), part_row("data", "data", 0, 0, 99.0)))  # 842 times its ideal, and no less true
    assert far.title.endswith("backward embedding has most to gain, 73.2 ms against 0.087 ms ideal")


def test_roofline_of_much_little_and_nothing():
    chart = roofline(trace_of(*[part_row(f"forward{i % 7}", f"{i}{NASTY}", 2e11 * (i + 1), 1e9, 900.0 + i) for i in range(200)]))
    drawn(chart)
    assert chart.lines[0].endswith("186 smaller parts are left out")
    drawn(roofline(trace_of(PARTS[1], device="cpu")))
    old = trace_of(*PARTS)
    del old["roofline"]["limits"]["flops_per_byte"]
    without = trace_of()
    del without["roofline"]
    for traces in ([], [without], [trace_of()], [trace_of(PARTS[4])], [old]):
        assert "--roofline" in roofline(*traces).run
