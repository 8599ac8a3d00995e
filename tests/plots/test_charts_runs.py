"""The charts of runs, losses, worths and limits: their data and texts, not their pixels."""

import json
import statistics

import pytest
from builders import LADDER, NASTY, PARTS, make, mixed, part_row, report_of, trace_of
from drawings import data, draw, drawn, spoken, texts, values

import theme
from charts import losses


def part_of(study):
    return report_of(study)["studies"][0]


# ---- steps

def step_points(chart):
    return [row for row in data(chart.wide) if "kind" in row and ", step " in row["aria"]]


def test_steps_stand_on_one_axis_each_run_on_a_line_of_its_own():
    part = part_of(make())
    slow = part["runs"][3]
    slow["step_ms"][10] *= 100
    chart = draw("steps", part)
    wide, narrow = drawn(chart)
    points = step_points(chart)
    timed = [(run["rung"], run["repeat"], ms / part["study"]["rungs"][run["rung"]]["ms_per_step"]["median"])
             for run in part["runs"] for ms in run["step_ms"][run["warmup_steps"]:]]
    inside = sorted(p["x"] for p in points if not p["beyond"])
    assert inside == pytest.approx(sorted(x for *_, x in timed if x < 50)) and len(points) == len(timed) == 700
    assert len({round(p["y"], 3) for p in points}) == len(part["runs"])  # no two runs on one line
    axes = {json.dumps(layer["encoding"]["x"]["scale"]["domain"]) for layer in chart.wide["layer"] if "scale" in layer["encoding"].get("x", {})}
    assert len(axes) == 1 and json.loads(axes.pop())[1] < 2
    beyond, = (p for p in points if p["beyond"])
    assert beyond["beyond"] == "right" and beyond["aria"].startswith(f"+ bf16 autocast, run {slow['id']}, step 11: ") or slow["rung"] != 1
    assert "beyond the edge" in spoken(wide) and "triangles at the edge: 1 step beyond it" in chart.lines
    assert f"run {slow['id']}, number 4 of the study: median" in spoken(narrow)
    assert [row["text"] for row in chart.wide["data"]["values"]][:2] == ["1,512 ms", "1,013 ms"]


def test_steps_show_disturbed_runs_by_colour_and_shape():
    part = part_of(make())
    part["runs"][3]["flags"] = ["throttled: the clock fell"]
    chart = draw("steps", part)
    drawn(chart)
    assert "A note on steps." in chart.notes
    assert chart.lines[-1] == "purple triangles: disturbed runs"
    assert {p["kind"] for p in step_points(chart) if part["runs"][3]["id"] in p["aria"]} == {"disturbed"}
    color, shape = (next(v for v in values(chart.wide, channel) if isinstance(v, dict) and "scale" in v)["scale"]["range"] for channel in ("color", "shape"))
    assert color[1] == theme.DOUBT_INK and len(set(color)) == len(set(shape)) == 3


def test_steps_of_a_rung_without_a_number_or_without_runs_are_a_row_with_the_reason():
    part = part_of(mixed())
    part["runs"] = [run for run in part["runs"] if run["rung"] != 2]
    chart = draw("steps", part)
    drawn(chart)
    rows = chart.wide["data"]["values"]
    assert rows[4]["reason"].startswith("failed: 5 of 5 runs: killed by signal 9") and rows[2]["reason"] == "its runs' records are not there"
    assert {p["row"] for p in step_points(chart)} == {0, 3, 7}


def test_steps_stay_small_and_the_slowest_is_drawn():
    part = part_of(make([(f"{NASTY}{i}", 1000.0 - i) for i in range(200)]))
    for run in part["runs"]:
        run["step_ms"] = (run["step_ms"] * 2)[:40]
    chart = draw("steps", part)
    assert max(len(svg) for svg in drawn(chart)) < 1_000_000 and "the first 24 of 200 rungs are drawn" in chart.notes
    long = part_of(make(LADDER[:2], runs=2))
    for run in long["runs"]:
        run["step_ms"] = run["step_ms"] * 4000
    long["runs"][0]["step_ms"][77777] = 1e9
    chart = draw("steps", long)
    drawn(chart)
    points = step_points(chart)
    assert len(points) <= 1200 and any("1,000,000,000 ms, beyond the edge" in p["aria"] for p in points)


def test_steps_of_nothing_are_missing():
    for part in (part_of(make([])), {**part_of(make()), "runs": []}):
        assert "`ladder report STUDY`" in draw("steps", part).run
    drawn(draw("steps", part_of(make(LADDER[:1], runs=1))))


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
    layers = next(layer for layer in values(chart.wide, "layer") if any(one["mark"]["type"] == "line" for one in layer))
    joining = next(layer for layer in layers if layer["mark"]["type"] == "line")["encoding"]["detail"]["field"]
    rows = [row for row in data(chart.wide) if row.get("name") == name and row.get("faint")]
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
    wide, _ = drawn(chart)
    points = [row for row in data(chart.wide) if "deviation" in row]
    faint = [row for row in points if row["faint"]]
    assert points[:len(faint)] == faint, "drawn first"
    assert [row["deviation"] for row in faint] == [x for entry in part["losses"] for x in entry["deviation"]]
    judged = [row for row in points if not row["faint"] and row["step"] == losses.JUDGED_STEPS]
    assert [row["deviation"] for row in judged] == [statistics.median(entry["deviation"][:16]) for entry in part["losses"]]
    assert max(row["step"] for row in points if not row["faint"]) == losses.JUDGED_STEPS < max(row["step"] for row in faint)
    assert {"lo": -0.02, "hi": 0.02} in data(chart.wide) and {"lo": -0.005, "hi": 0.005} in data(chart.wide)
    assert {"limit ±0.02 nats", "limit ±0.005 nats for some rungs"} <= {row["text"] for row in data(chart.wide) if "at" in row and "text" in row}
    assert not list(values(chart.wide, "strokeDash")) and '"legend"' not in json.dumps(chart.wide)
    for drawing in (chart.wide, chart.narrow):
        names = names_of(drawing)
        assert len(names) == 6 and all(b["to"] - a["to"] >= losses.LINE - 0.01 for a, b in zip(names, names[1:]))
        assert [row["last"] for row in names] == sorted((row["last"] for row in names), reverse=True)  # in the order of their lines
        assert {row["ink"] for row in names} == {row["ink"] for row in points}
    assert names_of(chart.wide)[0]["text"] == "+ zero copy data"
    assert "+ fused AdamW: median difference 0.0119 nats, limit 0.02" in spoken(wide)


def test_labels_are_spread_as_little_as_needed():
    assert losses.spread([100, 10, 50], 200) == [100, 10, 50]
    assert losses.spread([50, 50, 50], 200) == pytest.approx([34, 50, 66])
    assert losses.spread([0, 0, 200, 200], 200) == pytest.approx([0, 16, 184, 200])
    assert losses.spread([], 200) == []


def test_losses_name_void_rungs():
    chart = draw("losses", with_void(part_of(make())))
    drawn(chart)
    assert chart.notes == ["A note on losses."]
    most = max(abs(row["deviation"]) for row in data(chart.wide) if "deviation" in row)
    assert any(domain == [-most, most] for domain in values(chart.wide, "domain"))
    void, = (row for row in names_of(chart.narrow) if row["name"] == "void: + vocab 50304")
    assert void["ink"] == theme.BAD_INK and void["text"].startswith("void: ")


def test_losses_that_are_not_finite():
    part = with_void(part_of(make()))
    part["losses"][2].update(loss=[11.0] + [None] * 24, deviation=[0.0] + [None] * 24)
    part["study"]["rungs"][3]["guard"].update(deviation=None, max_deviation=None)
    chart = draw("losses", part)
    drawn(chart)
    assert [steps for line in names_of(chart.wide) if "vocab" in line["name"] for steps in lines_of(chart, line["name"])] == [[1]]
    part["losses"][2].update(loss=[None] * 25, deviation=[None] * 25)
    drawn(draw("losses", part))


def test_a_line_breaks_where_losses_are_not_finite():
    part = part_of(make())
    entry = part["losses"][2]
    for field in ("loss", "deviation"):
        entry[field] = [None if 6 <= step <= 15 or step == 17 else x for step, x in enumerate(entry[field], 1)]
    chart = draw("losses", part)
    drawn(chart)
    assert lines_of(chart, "+ vocab 50304") == [[*range(1, 6)], [16], [*range(18, 26)]]
    assert lines_of(chart, "+ bf16 autocast") == [[*range(1, 26)]]


def test_losses_of_many_rungs_draw_the_void_ones():
    part = with_void(part_of(make([(f"{i}{NASTY}", 1000.0 - i) for i in range(200)])), 150)
    chart = draw("losses", part)
    assert max(len(svg) for svg in drawn(chart)) < 400_000
    names = [row["name"] for row in names_of(chart.wide)]
    assert any(name.startswith("void: + 151") for name in names) and names.count("the other rungs") == 1 and len(names) == 9
    assert "21 of 199 rungs are drawn, void ones first" in chart.notes


def test_losses_of_nothing_are_missing():
    for part in (part_of(make([])), part_of(make(LADDER[:1])), {**part_of(make()), "losses": []}):
        assert "`ladder report STUDY`" in draw("losses", part).run
    two = part_of(make(LADDER[:2], runs=1))
    for entry in two["losses"]:
        for name in ("loss", "reference", "lo", "hi", "deviation"):
            entry[name] = entry[name][:1]
    drawn(draw("losses", two))


# ---- attribution

def worth(name, ratio, method, half=0.03, reason="", repeats=5):
    has = ratio is not None and half is not None
    return {"optimization": name, "title": name, "method": method, "ratio": ratio, "lo": ratio * (1 - half) if has else None,
            "hi": ratio * (1 + half) if has else None, "repeats": repeats, "reason": reason}


def study_of(mode, *worths, **more):
    study = make(**more)
    study.update(mode=mode, attribution=list(worths))
    return study


ALL = [worth(name, ratio + add, method) for method, add in
       (("shapley", 0), ("cumulative", 0.1), ("leave_one_out", -0.2), ("one_at_a_time", 0.3))
       for name, ratio in (("flash", 1.27), ("bf16", 1.82))]


def test_attribution_of_one_method_has_bars_the_largest_first():
    part = {"study": study_of("leave-one-out", worth("flash", 0.99, "leave_one_out"), worth("bf16", 1.82, "leave_one_out"),
                              worth("graph", None, "leave_one_out", reason=f"no subset {NASTY}"))}
    chart = draw("attribution", part)
    wide, _ = drawn(chart)
    lines = [row for row in data(chart.wide) if "ratio" in row]
    assert [row["text"] for row in lines] == ["1.82×", "0.99×", ""] and lines[0]["interval"] == "1.77× – 1.87×"
    assert lines[2]["reason"].startswith("no number: no subset <script>") and len(lines[2]["reason"]) <= 120
    assert "bf16, on top of all others (leave-one-out): 1.82×, 1.77× – 1.87×" in spoken(wide) and "legend" not in json.dumps(chart.wide)


def test_attribution_of_all_methods_keeps_them_apart_by_shape():
    chart = draw("attribution", {"study": study_of("factorial", *ALL)})
    drawn(chart)
    lines = [row for row in data(chart.wide) if "ratio" in row]
    assert [(row["group"], row["ratio"]) for row in lines[:4]] == [(0, 1.82 + add) for add in (0.1, 0, -0.2, 0.3)]
    assert [len(set(shape["scale"]["range"])) for shape in values(chart.wide, "shape") if "scale" in shape] == [4]
    tops = [row["y"] for row in lines]
    assert tops == sorted(tops) and len(set(tops)) == 8


def test_attribution_marks_where_an_interval_is_cut():
    study = study_of("factorial", worth("a", 0.31, "shapley", half=0.1), worth("b", 0.81, "shapley") | {"lo": 0.0015, "hi": 441.0})
    chart = draw("attribution", {"study": study})
    assert "whiskers: 95 % confidence interval, arrow: it goes on; where it includes 1 (pale), no clear difference" in " · ".join(chart.lines)
    for svg in drawn(chart):
        assert svg.count('d="M2.905,0L-2.905,') == svg.count('d="M-2.905,0L2.905,') == 1  # to the right, to the left
    assert "arrow" not in " ".join(draw("attribution", {"study": study_of("factorial", *ALL)}).lines)


def test_attribution_without_intervals_says_so_and_a_ladder_has_none():
    chart = draw("attribution", {"study": study_of("one-at-a-time", worth("bf16", 1.5, "one_at_a_time", half=None, repeats=1))})
    drawn(chart)
    assert "bars: a single run, no interval" in chart.lines
    assert "`ladder ablate --mode leave-one-out`" in draw("attribution", part_of(make())).run
    drawn(draw("attribution", {"study": study_of("factorial", *[worth(f"{i}{NASTY}", 1.1, "shapley") for i in range(40)])}))
    nothing = drawn(draw("attribution", {"study": study_of("factorial", worth("a", None, "shapley"))}))
    assert not any(text == "speedup" for svg in nothing for text, *_ in texts(svg))  # without a number no axis


def test_orders_put_two_studies_of_one_setting_together():
    ladder, other = make(), study_of("leave-one-out", *(worth(name.split()[0].lower(), 1.4, "leave_one_out") for name, _ in LADDER[1:]))
    chart = draw("orders", report_of(other, ladder))
    drawn(chart)
    lines = [row for row in data(chart.wide) if "ratio" in row]
    assert [row["method"] for row in lines[:2]] == ["in the ladder's order", "on top of all others (leave-one-out)"] and len(lines) == 12
    assert chart.finding == "What attribution shows"
    other["device"]["name"] = "another"
    assert "these two differ" in draw("orders", report_of(ladder, other)).run
    for report in (report_of(ladder), report_of(ladder, make())):
        assert "`--mode factorial`" in draw("orders", report).run


# ---- roofline

def labels(drawing):
    return {row["text"]: row for row in data(drawing) if "to_x" in row}


def test_roofline_puts_products_under_the_roofs_and_all_parts_beside_their_limits():
    chart = draw("roofline", report_of(make(), traces=[trace_of(*PARTS)]))
    wide, _ = drawn(chart)
    points = [row for row in data(chart.wide) if "x" in row and "phase" in row]
    assert [(row["x"], row["y"], row["label"]) for row in points] == [
        (PARTS[0]["flops_per_byte"], PARTS[0]["flops_per_s"], "head"), (PARTS[2]["flops_per_byte"], PARTS[2]["flops_per_s"], "c_fc")]
    assert labels(chart.wide).keys() == labels(chart.narrow).keys() == {"head", "c_fc"}
    bars = [row for row in data(chart.wide) if "text" in row and "part" in row]
    assert [(row["part"], row["ms"], row["limit"]) for row in bars] == [
        ("backward head", 12.0, 5.0), ("forward gelu", 4.0, 3.0), ("forward c_fc", 3.0, 2.0), ("data copy", 0.5, None)]
    assert chart.finding == "What roofline shows"
    assert chart.about.source == "+ flash attention · NVIDIA Example" and chart.notes == ["A note on roofline."] and "500 FLOP per byte, 41.7 TFLOP/s" in spoken(wide)
    assert "bound by memory" in spoken(wide)


def test_roofline_names_what_lies_together_without_overlap():
    """drawn() finds texts that overlap. A label that is far from its point has a line to it."""
    parts = [part_row("forward" if i % 2 else "backward", f"part_{i}", 2e11 * (1 + 0.01 * i), 2e9, 3.0 + 0.02 * i) for i in range(10)]
    chart = draw("roofline", report_of(make(), traces=[trace_of(*parts)]))
    drawn(chart)
    named = labels(chart.wide)
    assert len(named) == 10 and sum(row["away"] for row in named.values()) >= 5
    assert all((row["from_x"], row["from_y"]) in {(p["flops_per_byte"], p["flops_per_s"]) for p in parts} for row in named.values())


def test_roofline_of_much_little_and_nothing():
    many = [part_row(f"forward{i % 7}", f"{i}{NASTY}", 2e11 * (i + 1), 1e9, 9.0 + i) for i in range(200)]
    chart = draw("roofline", report_of(make(), traces=[trace_of(*many)]))
    drawn(chart)
    assert "186 smaller parts are left out of the second" in chart.notes[-1]
    drawn(draw("roofline", report_of(make(), traces=[trace_of(PARTS[1], device="cpu")])))
    old = trace_of(*PARTS)
    del old["roofline"]["limits"]["flops_per_byte"]
    without = trace_of()
    del without["roofline"]
    for traces in ([], [without], [trace_of()], [trace_of(PARTS[4])], [old]):
        assert "--roofline" in draw("roofline", report_of(make(), traces=traces)).run


def test_roofline_has_the_operations_by_themselves_of_the_same_kind():
    def one(name, **more):
        return {"name": name, "real_time": 1.0, "time_unit": "ms", "flops_per_byte": 80.0, "flops_per_second": 5e13} | more

    micro = {"context": {}, "benchmarks": [one("linear/forward/bf16/cuda/manual_time"), one("linear/forward/bf16/cpu/manual_time"),
                                           one("linear/forward/float32/cuda/manual_time"), one(NASTY),
                                           {"name": "gelu/forward/bf16/cuda/manual_time", "real_time": 1.0, "time_unit": "ms"}]}
    trace = trace_of(*PARTS) | {"recipe": {"autocast": "bf16"}}
    chart = draw("roofline", report_of(make(), traces=[trace], micro=[micro]))
    wide, _ = drawn(chart)
    assert [row["aria"] for row in data(chart.wide) if "by itself" in row.get("aria", "")] == [
        "linear forward bf16, by itself: 50.0 TFLOP/s, 80.0 FLOP per byte"]
    assert "hollow diamonds" in chart.lines[0]
    none = draw("roofline", report_of(make(), traces=[trace | {"recipe": {"autocast": "fp16"}}], micro=[micro]))
    assert not any("hollow" in line for line in none.lines)
