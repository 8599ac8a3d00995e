"""The charts of runs, losses, worths and limits: what they hold and say, not their pixels."""

import json

from builders import LADDER, NASTY, PARTS, make, mixed, part_row, report_of, trace_of
from drawings import data, draw, drawn, spoken, texts, values

from charts import attribution


def part_of(study):
    return report_of(study)["studies"][0]


# ---- steps

def test_steps_draw_every_step_and_mark_what_lies_beyond_the_edge():
    part = part_of(make())
    part["runs"][3]["step_ms"][10] *= 100
    chart = draw("steps", part)
    wide, narrow = drawn(chart)
    steps = [row for row in data(chart.wide) if "step" in row and "kind" in row]
    assert sorted(row["ms"] for row in steps) == sorted(ms for run in part["runs"] for ms in run["step_ms"])
    assert chart.finding == "1 of 700 timed steps is an outlier; no run was disturbed"
    assert "beyond the edge" in spoken(wide) and "step 11: " in spoken(narrow)
    ends = [domain for domain in values(chart.wide, "domain") if isinstance(domain, list) and all(isinstance(x, float) for x in domain)]
    assert max(end for _, end in ends if end > 2) < 3 * 1512


def test_steps_show_disturbed_and_failed_runs_by_dash_and_shape():
    part = part_of(make())
    part["runs"][3]["flags"] = ["throttled: the clock fell"]
    part["runs"][5]["status"] = "failed"
    chart = draw("steps", part)
    drawn(chart)
    assert chart.finding == "1 of 35 runs was disturbed" and "throttled: the clock fell" in " ".join(chart.lines)
    kinds = {row["kind"] for row in data(chart.wide) if "kind" in row}
    assert kinds == {"as planned", "disturbed", "failed"} and list(values(chart.wide, "strokeDash")) and list(values(chart.wide, "shape"))


def test_steps_of_a_rung_without_runs_are_a_panel_with_the_reason():
    part = part_of(mixed())
    part["runs"] = [run for run in part["runs"] if run["rung"] != 4]
    chart = draw("steps", part)
    drawn(chart)
    assert "failed: 5 of 5 runs: killed by signal 9" in " ".join(row["text"] for row in data(chart.wide) if "text" in row)


def test_steps_say_which_axes_begin_at_0():
    part, said = part_of(make(LADDER[:2])), []
    for rung in (None, 0, 1):
        for run in part["runs"]:
            if run["rung"] == rung:
                run["step_ms"] = [ms * 99 ** (i % 2) for i, ms in enumerate(run["step_ms"])]
        said.append([line.partition(" · ")[0] for line in draw("steps", part).lines if "begin at 0" in line])
    assert said == [["the ms axes do not begin at 0"], ["some ms axes do not begin at 0"], []]


def test_steps_have_no_step_between_two():
    part = part_of(make(LADDER[:1]))
    for run in part["runs"]:
        run.update(step_ms=run["step_ms"][-2:], warmup_steps=0)
    for svg in drawn(draw("steps", part)):
        assert [text for text, *_ in texts(svg)].count("2") == 1


def test_steps_stay_small():
    part = part_of(make([(f"{NASTY}{i}", 1000.0 - i) for i in range(200)]))
    for run in part["runs"]:
        run["step_ms"] = (run["step_ms"] * 2)[:40]
    chart = draw("steps", part)
    svgs = drawn(chart)
    assert max(len(svg) for svg in svgs) < 400_000 and "the first 24 of 200 rungs are drawn" in chart.lines
    long = part_of(make(LADDER[:2], runs=2))
    for run in long["runs"]:
        run["step_ms"] = run["step_ms"] * 4000
    long["runs"][0]["step_ms"][77777] = 1e9
    chart = draw("steps", long)
    assert max(len(svg) for svg in drawn(chart)) < 400_000
    assert any(row.get("ms") == 1e9 for row in data(chart.wide))  # the slowest is never thinned out


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
    rung["guard"].update(passed=False, max_deviation=2.17, message="losses leave the reference by 0.31 at step 12")
    rung.update(status="void", reason=rung["guard"]["message"])
    return part


def test_losses_say_the_largest_deviation_and_what_is_allowed():
    part = part_of(make())
    part["study"]["rungs"][4]["guard"]["max_deviation"] = 0.0119
    chart = draw("losses", part)
    wide, _ = drawn(chart)
    assert chart.finding == "All 6 rungs learn what the reference learns: at most 0.0119 nats off, 0.02 allowed"
    losses = [row for row in data(chart.wide) if row.get("loss") is not None and row["name"] != "the reference"]
    assert [row["loss"] for row in losses] == [x for entry in part["losses"] for x in entry["loss"]]
    assert {"lo": -0.02, "hi": 0.02} in data(chart.wide)
    dashes = next(values(chart.wide, "strokeDash"))["scale"]["range"]
    assert len(dashes) == 7 and len({json.dumps(dash) for dash in dashes}) == 7  # apart in black and white
    assert "+ fused AdamW: largest deviation 0.0119 nats, 0.02 allowed" in spoken(wide)


def test_losses_name_void_rungs():
    chart = draw("losses", with_void(part_of(make())))
    drawn(chart)
    assert chart.finding == "1 of 6 rungs is void: “vocab 50304”, off the reference by 2.17 nats, 0.02 allowed"
    assert any("losses leave the reference by 0.31 at step 12" in line and "beyond the edge" in line for line in chart.lines)
    assert "void: + vocab 50304" in {row["name"] for row in data(chart.narrow) if "name" in row}


def test_losses_that_are_not_finite():
    part = with_void(part_of(make()))
    part["losses"][2].update(loss=[11.0] + [None] * 24, deviation=[0.0] + [None] * 24)
    part["study"]["rungs"][3]["guard"]["max_deviation"] = None
    chart = draw("losses", part)
    drawn(chart)
    assert chart.finding == "1 of 6 rungs is void: “vocab 50304”, its loss is not finite"
    assert "a line breaks where the loss is not finite: + vocab 50304, 24 of 25 steps" in chart.lines
    assert not any("finite" in line for line in draw("losses", part_of(make())).lines)


def lines_of(chart, name, field):
    """[the steps that are joined], of each line of that name in the panel of `field`; of one step alone there is a point."""
    layers = next(layer for layer in values(chart.wide, "layer") if layer[-1]["encoding"]["y"]["field"] == field)
    joining = next(layer for layer in layers if layer["mark"]["type"] == "line")["encoding"]["detail"]["field"]
    rows = [row for row in data(chart.wide) if row.get("name") == name and row[field] is not None]
    of = {key: [row["step"] for row in rows if row[joining] == key] for key in dict.fromkeys(row[joining] for row in rows)}
    alone = {row["step"] for row in rows if row["alone"]}
    assert alone == {steps[0] for steps in of.values() if len(steps) == 1}
    assert not alone or layers[-1]["mark"]["type"] == "point"
    return list(of.values())


def test_a_line_breaks_where_losses_are_not_finite():
    part = part_of(make())
    entry = part["losses"][2]
    for field in ("loss", "deviation"):
        entry[field] = [None if 6 <= step <= 15 or step == 17 else x for step, x in enumerate(entry[field], 1)]
    chart = draw("losses", part)
    drawn(chart)
    for field in ("loss", "deviation"):
        assert lines_of(chart, "+ vocab 50304", field) == [[*range(1, 6)], [16], [*range(18, 26)]]
        assert lines_of(chart, "+ bf16 autocast", field) == [[*range(1, 26)]]
    assert "a line breaks where the loss is not finite: + vocab 50304, 11 of 25 steps" in chart.lines
    for one in part["losses"]:
        one["reference"] = [None if step == 4 else x for step, x in enumerate(one["reference"], 1)]
    chart = draw("losses", part)
    assert lines_of(chart, "the reference", "loss") == [[1, 2, 3], [*range(5, 26)]]
    assert any(line.endswith("11 of 25 steps; the reference") for line in chart.lines)


def test_losses_of_many_rungs_draw_the_void_ones():
    part = with_void(part_of(make([(f"{i}{NASTY}", 1000.0 - i) for i in range(200)])), 150)
    chart = draw("losses", part)
    assert max(len(svg) for svg in drawn(chart)) < 400_000
    names = {row["name"] for row in data(chart.wide) if "name" in row}
    assert any(name.startswith("void: + 151") for name in names) and "rungs that pass" in names
    assert "21 of 199 rungs are drawn, void ones first" in chart.lines


def test_losses_of_nothing_are_missing():
    for part in (part_of(make([])), part_of(make(LADDER[:1])), {**part_of(make()), "losses": []}):
        assert "`ladder report STUDY`" in draw("losses", part).run
    two = part_of(make(LADDER[:2], runs=1))
    for entry in two["losses"]:
        for name in ("loss", "reference", "lo", "hi", "deviation"):
            entry[name] = entry[name][:1]
    chart = draw("losses", two)
    drawn(chart)
    assert chart.finding.startswith("“bf16 autocast” learns what the reference learns: ")


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
    assert chart.finding == "“bf16” is worth most, 1.82×; “flash” least, 0.99×, no clear difference"
    assert "bf16, on top of all others (leave-one-out): 1.82×, 1.77× – 1.87×" in spoken(wide) and "legend" not in json.dumps(chart.wide)


def test_attribution_of_all_methods_keeps_them_apart_by_shape():
    chart = draw("attribution", {"study": study_of("factorial", *ALL)})
    drawn(chart)
    lines = [row for row in data(chart.wide) if "ratio" in row]
    assert [(row["group"], row["ratio"]) for row in lines[:4]] == [(0, 1.82 + add) for add in (0.1, 0, -0.2, 0.3)]
    assert [len(set(shape["scale"]["range"])) for shape in values(chart.wide, "shape") if "scale" in shape] == [4]
    tops = [row["y"] for row in lines]
    assert tops == sorted(tops) and len(set(tops)) == 8
    unclear = draw("attribution", {"study": study_of("factorial", worth("a", 1.001, "shapley"))})
    assert unclear.finding == "No optimization makes a clear difference"
    # What may be nothing is neither worth most nor hides what is clear.
    clear = draw("attribution", {"study": study_of("factorial", worth("a", 1.40, "shapley", half=0.5), worth("b", 1.30, "shapley"))})
    assert clear.finding == "“b” is worth 1.30×"
    costs = draw("attribution", {"study": study_of("factorial", worth("a", 1.01, "shapley"), worth("b", 0.60, "shapley"))})
    assert costs.finding == "No optimization clearly helps; “b” clearly costs time, 0.60×"


def test_attribution_marks_where_an_interval_is_cut():
    study = study_of("factorial", worth("a", 0.31, "shapley", half=0.1), worth("b", 0.81, "shapley") | {"lo": 0.0015, "hi": 441.0})
    chart = draw("attribution", {"study": study})
    assert "whiskers: 95 % confidence interval, arrow: it goes on; where it includes 1, no clear difference" in " · ".join(chart.lines)
    for svg in drawn(chart):
        assert svg.count('d="M2.905,0L-2.905,') == svg.count('d="M-2.905,0L2.905,') == 1  # to the right, to the left
    assert "arrow" not in " ".join(draw("attribution", {"study": study_of("factorial", *ALL)}).lines)


def test_attribution_without_intervals_says_so_and_a_ladder_has_none():
    chart = draw("attribution", {"study": study_of("one-at-a-time", worth("bf16", 1.5, "one_at_a_time", half=None, repeats=1))})
    drawn(chart)
    assert "bars: a single run, no interval" in chart.lines and chart.finding == "“bf16” 1.50×, one run each, no interval"
    assert "`ladder ablate --mode leave-one-out`" in draw("attribution", part_of(make())).run
    drawn(draw("attribution", {"study": study_of("factorial", *[worth(f"{i}{NASTY}", 1.1, "shapley") for i in range(40)])}))
    nothing = drawn(draw("attribution", {"study": study_of("factorial", worth("a", None, "shapley"))}))
    assert not any(text == "speedup" for svg in nothing for text, *_ in texts(svg))  # no axis of nothing


def test_attribution_ranks_only_what_its_intervals_tell_apart():
    def title(*worths):
        return attribution.finding([worth(name, ratio, "shapley", **more) for name, ratio, more in worths], "shapley")

    once, wide = {"half": None, "repeats": 1}, {"half": 0.5}
    assert title(("a", 1.3, {}), ("b", 1.2, {"half": 0.01}), ("c", 1.1, {})) == "“a” is worth most, 1.30×; “c” least, 1.10×"
    assert title(("a", 1.20, {}), ("b", 1.18, {}), ("c", 1.01, {})) == "“a” 1.20× or “b” 1.18× is worth most; “c” least, 1.01×, no clear difference"
    assert title(("a", 1.20, {}), ("b", 1.19, {}), ("c", 1.18, {})) == "“a” 1.20× or one of 2 others is worth most"
    assert title(("a", 1.50, {}), ("b", 1.01, {}), ("c", 1.00, {})) == "“a” is worth most, 1.50×"
    # Of what may be nothing, or has no interval, the title does not speak; nor is the other one worth most beside it.
    assert title(("a", 1.40, {}), ("b", 1.20, wide)) == "“a” is worth 1.40×"
    assert title(("a", 1.40, once), ("b", 1.20, {}), ("c", 1.01, {})) == "“b” is worth 1.20×"
    assert title(("a", 0.81, wide), ("b", 0.31, {"half": 3})) == title(("a", 1.40, once), ("b", 1.00, {})) == "No optimization makes a clear difference"
    assert title(("a", 0.80, {}), ("b", 0.30, {})) == "No optimization clearly helps; “b” clearly costs time, 0.30×"
    assert title(("a", 1.40, once), ("b", 1.20, once)) == "From “a” 1.40× to “b” 1.20×, one run each, no interval"
    assert title(("a", 1.40, {"half": None, "repeats": 2}), ("b", 1.20, once)) == "From “a” 1.40× to “b” 1.20×, no interval"


def test_orders_put_two_studies_of_one_setting_together():
    ladder, other = make(), study_of("leave-one-out", *(worth(name.split()[0].lower(), 1.4, "leave_one_out") for name, _ in LADDER[1:]))
    chart = draw("orders", report_of(other, ladder))
    drawn(chart)
    lines = [row for row in data(chart.wide) if "ratio" in row]
    assert [row["method"] for row in lines[:2]] == ["in the ladder's order", "on top of all others (leave-one-out)"] and len(lines) == 12
    other["device"]["name"] = "another"
    assert "these two differ" in draw("orders", report_of(ladder, other)).run
    for report in (report_of(ladder), report_of(ladder, make())):
        assert "`--mode factorial`" in draw("orders", report).run


# ---- roofline

def test_roofline_puts_products_under_the_roofs_and_all_parts_beside_their_limits():
    chart = draw("roofline", report_of(make(), traces=[trace_of(*PARTS)]))
    wide, _ = drawn(chart)
    assert [(row["x"], row["y"], row["number"]) for row in data(chart.wide) if "number" in row] == [
        (PARTS[0]["flops_per_byte"], PARTS[0]["flops_per_s"], "1"), (PARTS[2]["flops_per_byte"], PARTS[2]["flops_per_s"], "2")]
    bars = [row for row in data(chart.wide) if "text" in row and "row" in row]
    assert [(row["part"], row["ms"], row["limit"]) for row in bars] == [
        ("1 backward head", 12.0, 5.0), ("forward gelu", 4.0, 3.0), ("2 forward c_fc", 3.0, 2.0), ("data copy", 0.5, None)]
    assert chart.finding == "Most to gain: backward head, 12.0 ms per step, 5.00 ms ideal"
    assert "NVIDIA Example · 2026-01-02" in chart.lines and "500 FLOP per byte, 41.7 TFLOP/s" in spoken(wide)
    assert "bound by memory" in spoken(wide)


def test_roofline_numbers_what_stands_apart_and_says_where_the_roof_is_too_low():
    parts = [part_row("forward", "c_fc", 2e11, 2e9, 3.0), part_row("backward", "c_fc", 2.01e11, 2e9, 3.1),
             part_row("backward", "attention", 1e10, 1e9, 4.0), part_row("clip", "clip", 0, 2e9, 1.0)]
    chart = draw("roofline", report_of(make(), traces=[trace_of(*parts)]))
    drawn(chart)
    assert [row["number"] for row in data(chart.wide) if "number" in row] == ["1", "", ""]
    assert [row["part"] for row in data(chart.wide) if "text" in row and "row" in row] == [
        "1 backward attention", "backward c_fc", "forward c_fc", "clip"]
    assert "faster than ideal, so the measured roof is too low for it: clip" in chart.lines


def test_roofline_of_much_little_and_nothing():
    many = [part_row(f"forward{i % 7}", f"{i}{NASTY}", 2e11 * (i + 1), 1e9, 9.0 + i) for i in range(200)]
    chart = draw("roofline", report_of(make(), traces=[trace_of(*many)]))
    drawn(chart)
    assert "186 smaller parts are left out of the second" in chart.lines[-1]
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
    assert any(line.startswith("hollow diamonds") for line in chart.lines)
    none = draw("roofline", report_of(make(), traces=[trace | {"recipe": {"autocast": "fp16"}}], micro=[micro]))
    assert not any("hollow" in line for line in none.lines)
