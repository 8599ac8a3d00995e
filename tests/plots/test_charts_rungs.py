"""The charts with a row for each rung: their data and texts, not their pixels."""

import copy
import html

import pytest
from builders import NASTY, make, mixed, report_of, told, valid, without_number
from drawings import drawn, said, texts, values

import charts
import markdown
import theme
import view
from charts import memory, phases

GIB = 2**30
ALL = ["ladder", "throughput", "memory", "phases", "energy"]
ARROW = 'd="M2.905,0L-2.905,'  # to the right
PEAKS = {"fp32": 67e12, "bf16": 989.5e12}


def complete(ladder=None, **more):
    """A study of a GPU with all that these charts show. No figure follows from another, so none can have been computed."""
    study = make(**({"ladder": ladder} if ladder else {}), device="cuda", **more)
    study["workload"].update(batch=16, context=1024, tokens_per_step=16384)
    for r in study["rungs"]:
        i, ms = r["index"] % 7, r["ms_per_step"]["median"]
        kind = "fp32" if i == 0 else "bf16"
        rate = 1000.0 * (11 + i)
        r["tokens_per_s"] = {"median": rate, "lo": rate - 100, "hi": rate + 150}
        r["mfu"] = {"value": 0.031 + 0.07 * i, "formula": f"6 N + 6 L C T FLOPs per token over the dense {kind} peak", "type": kind,
                    "peak_flops": PEAKS[kind], "peak_source": "data sheet", "reason": ""}
        r["peak_memory_bytes"] = (31 - 2 * i) * GIB
        r["memory"] = {"peak_bytes": 30 * GIB, "peak_source": "the caching allocator", "reserved_peak_bytes": (33 - 2 * i) * GIB,
                       "weights_bytes": GIB, "gradients_bytes": GIB, "optimizer_bytes": 2 * GIB,
                       "activations_bytes": (20 - 2 * i) * GIB}
        r["profile"] = {"busy_ms": 0.9 * ms, "busy_percent": 90.0 - i, "idle_ms": 200.0 - i, "launch_bound_percent": 8.5 + i,
                        "operations": 0.0, "kernels": 900.0, "kernel_launches": 900.0, "graph_launches": 0.0,
                        "by_phase": [{"phase": "backward", "ms": 800.0 - i, "count": 500.0},
                                     {"phase": "forward", "ms": 300.0, "count": 300.0},
                                     {"phase": "update", "ms": 70.0, "count": 90.0}, {"phase": "clip", "ms": 20.0, "count": 9.0},
                                     {"phase": "data", "ms": 5.0, "count": 2.0}, {"phase": "", "ms": 4.0, "count": 1.0}]}
        phases_ms = {"backward": 400.0 - i, "forward": 300.0, "update": 70.0, "clip": 20.0, "data": 5.0, "": 4.0}
        r["profile"]["step"] = {"ms": ms, "traced_ms": 2 * ms, "idle_ms": 100.0 - i,
                                "by_phase": [{"phase": phase, "ms": took} for phase, took in phases_ms.items()]}
        r["joules_per_token"] = 0.052 - 0.005 * i
    return study


def lose(study, index, status, reason):
    without_number(study, index, status, reason)
    r = study["rungs"][index]
    r["mfu"] = r["memory"] = None
    for name in ("profile", "joules_per_token"):
        r.pop(name, None)


def draw(name, study, **more):
    return charts.module(name).draw(told({**report_of(valid(study))["studies"][0], **more}))


def rows_of(drawing):
    return drawing["data"]["values"]


def parts_of(drawing):
    return [layer for layer in drawing["layer"] if layer.get("encoding", {}).get("x", {}).get("stack")][0]["data"]["values"]


def on_picture(svg):
    return [html.unescape(text) for text, *_ in texts(svg)]


# ---- all of them

@pytest.mark.parametrize("name", ALL[1:])
def test_the_title_is_the_programs(name):
    assert draw(name, complete()).finding == f"What {name} shows"


def test_a_title_has_no_control_characters():
    title = charts.finding_of({"findings": {"ladder": NASTY}}, "ladder")
    assert title.startswith("<script>") and title.isprintable()


@pytest.mark.parametrize("name", ALL)
def test_a_row_for_each_rung_and_a_reason_where_there_is_no_bar(name):
    study = complete()
    lose(study, 1, "not_applicable", "needs another device")
    lose(study, 3, "failed", "exit status 3")
    lose(study, 4, "void", "losses differ")
    chart = draw(name, study)
    for drawing, svg in zip((chart.wide, chart.narrow), drawn(chart)):
        rows = rows_of(drawing)
        if name == "phases":  # of traced rungs only
            assert [r["rung"] for r in rows] == ["plain fp32", *("+ " + study["rungs"][i]["title"] for i in (2, 5, 6))]
            continue
        assert [r["rung"] for r in rows] == ["plain fp32"] + ["+ " + r["title"] for r in study["rungs"][1:]]
        reasons = ["", "not applicable: needs another device", "", "failed: exit status 3", "void: losses differ", "", ""]
        assert [r["reason"] for r in rows] == reasons
        shown = on_picture(svg)
        assert all(text in shown for text in [*(r["rung"] for r in rows), *filter(None, reasons)])
        assert not any(text.startswith(("+ vocab 50304:", "+ bf16 autocast:")) for text in said(svg))
        assert any(text.startswith("+ zero copy data: ") for text in said(svg))
    assert chart.about.subject == "Training gpt2-124m" and chart.about.source.endswith("gpt2-124m · NVIDIA Example · 2026-01-02")


@pytest.mark.parametrize("name", ALL)
def test_200_rungs_with_names_of_ten_thousand_letters(name):
    study = complete([(f"{i} {NASTY if i % 20 == 0 else ''}", 1000.0 - 4 * i) for i in range(200)])
    chart = draw(name, study)
    assert all(len(r["rung"]) <= 80 for r in rows_of(chart.wide))
    drawn(chart)


@pytest.mark.parametrize("name", ALL)
def test_one_rung(name):
    study = complete([("plain fp32", 1512.0)])
    drawn(draw(name, study))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("factor", [0, 1e-6, 1e6])
def test_figures_of_every_size(name, factor):
    study = complete()
    for r in study["rungs"]:
        for estimate in (r["ms_per_step"], r["tokens_per_s"]):
            estimate.update({k: v * factor for k, v in estimate.items() if k != "n"})
        bytes_factor = min(factor, 1e3)  # 30 TiB will do
        r["peak_memory_bytes"] = int(r["peak_memory_bytes"] * bytes_factor)
        r["memory"] = {k: v if k == "peak_source" else int(v * bytes_factor) for k, v in r["memory"].items()}
        step = r["profile"]["step"]
        step.update(idle_ms=step["idle_ms"] * factor, by_phase=[{**p, "ms": p["ms"] * factor} for p in step["by_phase"]])
        r["joules_per_token"] *= factor
    drawn(draw(name, study))


def test_how_busy_a_gpu_was_is_not_made_up():
    """The busy time is not known if the traced step was slower than the others."""
    study = complete()
    for r in study["rungs"]:
        r["profile"].update(busy_percent=None, idle_ms=None)
        r["profile"]["step"]["idle_ms"] = None
    chart = draw("phases", study)
    assert {d["busy"] for d in phases.rows(study)[0]} == {"—"}
    drawn(chart)


@pytest.mark.parametrize("name", ALL[1:])
@pytest.mark.parametrize("study", [make([]), make()])
def test_without_data_a_chart_says_what_makes_it(name, study):
    study = copy.deepcopy(study)
    for r in study["rungs"]:
        without_number(study, r["index"], "missing", "")
    study["headline"] = None
    missing = draw(name, study)
    assert isinstance(missing, charts.Missing) and "`ladder ablate" in missing.run


@pytest.mark.parametrize("name", ["ladder", "throughput"])
def test_a_single_run_has_no_whiskers(name):
    chart = draw(name, make(runs=1))
    drawn(chart)
    assert "bars: a single run · no interval" in chart.lines and all(r["lo"] is None for r in rows_of(chart.wide))


@pytest.mark.parametrize("name, field", [("ladder", "ms"), ("throughput", "rate")])
def test_an_interval_that_would_dwarf_the_bars_ends_in_an_arrow(name, field):
    study = complete()
    plain = draw(name, study)
    for lo, spoken in ((2e3, {"1,000,000 ms", "1.00M"}), (900, {"unknown"}), (-5.0, {"unknown"})):
        study["rungs"][3]["ms_per_step"].update(lo=lo, hi=1e6)
        study["rungs"][3]["tokens_per_s"].update(lo=lo, hi=1e6)
        chart = draw(name, study)
        rows = rows_of(chart.wide)
        assert rows[3]["from"] == max(lo, 0) and rows[3]["to"] == 1.5 * max(row[field] for row in rows) and rows[3]["hi"] == 1e6
        assert max(domain[1] for domain in values(chart.wide, "domain") if isinstance(domain, list) and len(domain) == 2) < 1.5 * rows[3]["to"]
        assert any("arrow: it goes on" in line for line in chart.lines) and not any("arrow" in line for line in plain.lines)
        for svg, usual in zip(drawn(chart), drawn(plain)):
            assert any(word in text for text in said(svg) for word in spoken)
            assert (svg.count(ARROW), usual.count(ARROW)) == (1, 0)


def test_disturbed_rungs_say_so():
    study = complete()
    study["rungs"][2]["flags"] = ["throttled"]
    for name in ALL:
        svgs = drawn(draw(name, study))
        if name != "memory":
            for svg in svgs:
                assert any(text.startswith("+ SDPA attention: ") and "disturbed" in text for text in said(svg)), name


# ---- the ladder

def entry(rung, ms, **more):
    """As in results/published.json."""
    return {"source": "a lecture", "url": None, "gpu": "A100", "stack": "PyTorch", "rung": rung, "model": "GPT-2 124M", "B": 16, "T": 1024,
            "ms_per_step": ms, "tokens_per_step": 16384, "tokens_per_s": None, **more}


def diamonds(chart):
    return [mark for layer in chart.wide["layer"] if layer["mark"].get("shape") == "diamond" for mark in layer["data"]["values"]]


def test_the_ladders_figures_stand_as_they_are_in_the_study():
    study = complete()
    study["rungs"][2]["speedup_previous"].update(ratio=7.77, lo=7.0, hi=8.0)
    study["rungs"][2]["speedup_first"].update(ratio=8.88, lo=8.5, hi=9.0)
    study["rungs"][3]["speedup_previous"].update(ratio=0.9, lo=0.8, hi=0.95)
    study["rungs"][4]["speedup_previous"].update(ratio=0.99, lo=0.9, hi=1.1)
    chart = draw("ladder", study)
    rows = rows_of(chart.wide)
    assert (rows[2]["step"], rows[2]["total"], rows[2]["tokens"], rows[2]["memory"]) == ("7.77×", "8.88×", "13.0K", "27.0")
    assert [r["time"] for r in rows[2:5]] == ["760 ms", "702 ms · slower", "622 ms"]
    assert chart.lines[0] == "green: time that a rung saves against the one before · pale, grey ×: no clear change"
    wide, _ = drawn(chart)
    assert ("+ SDPA attention: 760 ms (752 ms to 768 ms), vs previous 7.77× (7.00× to 8.00×), so far 8.88× (8.50× to 9.00×)"
            in said(wide))
    assert draw("ladder", mixed()).finding == "1.86× faster, from the first to the last rung"
    assert isinstance(draw("ladder", make() | {"mode": "sweep"}), charts.Missing)


def test_what_a_rung_saved_or_cost_is_seen_and_no_clear_change_is_pale():
    study = complete([("start", 1000.0), ("saves", 600.0), ("costs", 900.0), ("unclear", 850.0), ("disagrees", 800.0), ("once", 500.0)])
    study["rungs"][3]["speedup_previous"].update(lo=0.98, hi=1.2)
    study["rungs"][4]["speedup_previous"].update(ratio=0.98, lo=0.97, hi=0.99)  # of the pairs, where the medians say the opposite
    study["rungs"][5]["speedup_previous"].update(lo=None, hi=None)
    chart = draw("ladder", study)
    assert [(r["change"], r["kept"], r["before"]) for r in rows_of(chart.wide)] == [
        ("", 1000.0, None), ("saved", 600.0, 1000.0), ("lost", 600.0, 600.0), ("unclear", 850.0, None), ("", 800.0, None), ("", 500.0, None)]
    drawn(chart)
    for drawing in (chart.wide, chart.narrow):
        bar, between = [layer for layer in drawing["layer"] if layer["mark"]["type"] == "bar"][1:3]
        assert bar["encoding"]["x"]["field"] == "kept" and (between["encoding"]["x"]["field"], between["encoding"]["x2"]["field"]) == ("ms", "before")
        assert bar["encoding"]["color"] == {"condition": {"test": "datum.change === 'unclear'", "value": theme.PALE_BAR}, "value": theme.BAR}
        assert between["encoding"]["color"] == {"condition": {"test": "datum.change === 'lost'", "value": theme.SLOWER_BAR}, "value": theme.SAVED}
    assert chart.lines[0] == "green: time that a rung saves against the one before · orange: time that it costs · pale, grey ×: no clear change"


def test_published_figures_are_marks_of_another_kind():
    own = [entry("start", 1000.0), entry("bf16", 300.0, source="s" * 500, gpu=NASTY),
           entry("sdpa", 2000.0, B=None, tokens_per_step=None)]
    chart = draw("ladder", complete(), published=own)
    marks = diamonds(chart)
    assert [(m["row"], m["published_ms"]) for m in marks] == [(0, 1000.0), (1, 300.0), (2, 2000.0)]
    assert marks[0]["aria"] == "published, not measured here: 1,000 ms, a lecture (A100), PyTorch"
    assert marks[2]["aria"].endswith("a lecture (A100, B not stated), PyTorch")
    assert any(line.startswith("◊ published elsewhere, not measured here: a lecture (A100); sss") for line in chart.notes)
    bars = [layer for layer in chart.wide["layer"] if layer["mark"]["type"] == "bar"][1]
    assert bars["encoding"]["x"]["scale"]["domain"][1] > 2000
    for svg in drawn(chart):
        assert sum("published, not measured here" in text for text in said(svg)) == 3


@pytest.mark.parametrize("other", [{"B": 4}, {"T": 256}, {"tokens_per_step": 524288}, {"model": "134M"}, {"rung": "fp8"}, {"rung": None},
                                   {"ms_per_step": None}])
def test_published_figures_of_other_work_are_not_shown(other):
    chart = draw("ladder", complete(), published=[entry("start", 1000.0) | other])
    assert diamonds(chart) == [] and not any("published" in line for line in chart.notes)


def test_published_figures_are_of_one_model():
    study = complete()
    assert len(diamonds(draw("ladder", study, published=[entry("start", 1000.0)]))) == 1
    study["workload"]["model"] = "gpt2-medium"
    assert diamonds(draw("ladder", study, published=[entry("start", 1000.0)])) == []


# ---- tokens per second

def test_throughput_has_mfu_beside_the_speed_where_it_is_known():
    study = complete()
    study["rungs"][2]["mfu"].update(value=None, peak_flops=None, reason="no peak")
    chart = draw("throughput", study)
    assert [r["text"] for r in rows_of(chart.wide)[:4]] == ["11.0K · 3.1 %", "12.0K · 10.1 %", "13.0K", "14.0K · 24.1 %"]
    assert chart.notes == ["A note on throughput."]
    for svg in drawn(chart):
        assert "plain fp32: 11.0K tokens/s (10.9K to 11.2K) · 3.1 %" in said(svg)


def swept():
    study = complete([("start", 10.0), ("start", 18.0), ("flash", 12.0)])
    study.update(mode="sweep", swept="batch", headline=None)
    for r, batch in zip(study["rungs"], (16, 32, 16)):
        r["label"] = r["title"]
        r["workload"] = {"batch": batch, "context": 1024, "accumulation": 1, "tokens_per_step": 1024 * batch}
    return study


def test_rows_of_a_sweep_name_the_size():
    rows = rows_of(draw("throughput", swept()).wide)
    assert [r["rung"] for r in rows] == ["B=16 start", "B=32 start", "B=16 flash"]


# ---- memory

def test_memory_is_a_stack_inside_the_peaks_outline():
    chart = draw("memory", complete())
    parts = parts_of(chart.wide)
    assert [(p["part"], p["size"]) for p in parts[:5]] == [("weights", 1.0), ("gradients", 1.0), ("optimizer state", 2.0), ("activations", 20.0),
                                                          ("other", 7.0)]
    assert [(r["peak"], r["reserved"], r["text"], r["reserved_text"]) for r in rows_of(chart.wide)[:2]] == [
        (31.0, 33.0, "31.0", "33.0"), (29.0, 31.0, "29.0", "31.0")]
    assert chart.notes == ["A note on memory."] and any("grey tick" in line for line in chart.lines)
    outline = [layer for layer in chart.wide["layer"] if layer["mark"].get("stroke") == "#111827"]
    assert len(outline) == 1 and outline[0]["mark"]["fill"] is None
    wide, _ = drawn(chart)
    assert {"plain fp32: optimizer state 2.0 GiB", "plain fp32: peak 31.0 GiB, reserved 33.0 GiB"} <= set(said(wide))


def test_copies_of_weights_are_a_part_of_their_own_where_they_were_counted():
    study = complete()
    for r in study["rungs"]:
        r["recipe"]["autocast"] = "bf16"

    def rows() -> list:
        """Of the Markdown's table, its head first."""
        text = markdown.render(view.view(report_of(valid(study))) | {"has_pictures": False})
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("## Memory")[1].splitlines() if line.startswith("|")]

    assert rows()[0][3:] == ["weights", "gradients", "optimizer state", "activations", "other"]
    study["rungs"][0]["memory"]["weight_copies_bytes"] = 0
    for r in study["rungs"][1:]:
        r["memory"]["weight_copies_bytes"] = 3 * GIB
    chart = draw("memory", study)
    drawn(chart)
    assert [p["part"] for p in parts_of(chart.wide) if p["row"] == 0] == ["weights", "gradients", "optimizer state", "activations", "other"]
    assert [(p["part"], p["size"]) for p in parts_of(chart.wide) if p["row"] == 1][3] == ("16-bit weights", 3.0)
    assert rows()[0][6] == "16-bit weights" and [row[6] for row in rows()[2:4]] == ["0.0", "3.0"]


def test_memory_without_a_split_is_the_peak_alone():
    chart = draw("memory", make())
    drawn(chart)
    assert memory.rows(make())[1] == [] and "bars: peak of all runs; no interval" in chart.lines
    assert not any("reserved" in line for line in chart.lines)


def test_parts_beyond_the_peak_and_below_nothing():
    study = complete()
    study["rungs"][0]["memory"].update(activations_bytes=90 * GIB)
    study["rungs"][1]["memory"].update(activations_bytes=-5 * GIB)
    study["rungs"][2]["memory"] = {"peak_bytes": 1, "peak_source": "x"}
    chart = draw("memory", study)
    drawn(chart)
    x = [layer for layer in chart.wide["layer"] if layer["encoding"]["x"].get("stack")][0]["encoding"]["x"]
    assert x["scale"]["domain"][1] >= 94
    assert [p["part"] for p in parts_of(chart.wide) if p["row"] in (0, 1, 2)] == [
        "weights", "gradients", "optimizer state", "activations", "weights", "gradients", "optimizer state", "other"]


# ---- phases

def test_phases_stand_in_the_order_of_a_step_with_idle_time_last():
    chart = draw("phases", complete())
    first = [p for p in parts_of(chart.wide) if p["row"] == 0]
    assert [(p["part"], p["size"]) for p in first] == [("data", 5.0), ("forward", 300.0), ("backward", 400.0), ("clip", 20.0),
                                                       ("update", 70.0), ("other", 4.0), ("idle", 100.0)]
    assert [(r["busy"], r["launch"]) for r in rows_of(chart.wide)[:2]] == [("90 %", "8.5 %"), ("89 %", "9.5 %")]
    wide, narrow = drawn(chart)
    assert {"plain fp32: idle 100 ms", "plain fp32: no phase 4.00 ms"} <= set(said(narrow))
    assert {"busy", "launch-bound"} <= set(on_picture(wide))


def test_phases_divide_the_rungs_own_step_and_of_an_older_study_the_traced_one():
    study = complete()
    bars, traced = "bars: the rung's median step, which was not traced, divided as in one traced run", "bars: median step of one traced run"
    assert any(line.startswith(bars) for line in draw("phases", study).lines)
    for r in study["rungs"]:
        del r["profile"]["step"]
    chart = draw("phases", study)
    assert [p["size"] for p in parts_of(chart.wide) if p["row"] == 0 and p["part"] == "backward"] == [800.0]
    assert any(line.startswith(traced) for line in chart.lines) and not any(line.startswith(bars) for line in chart.lines)


def test_phases_of_a_cpu_and_of_a_rung_without_trace():
    study = complete()
    for r in study["rungs"]:
        r["profile"]["launch_bound_percent"] = None
    del study["rungs"][1]["profile"]
    chart = draw("phases", study)
    assert len(rows_of(chart.wide)) == len(study["rungs"]) - 1
    for svg in drawn(chart):
        assert "launch-bound" not in on_picture(svg) and "+ " + study["rungs"][1]["title"] not in on_picture(svg)
    assert not any("launch-bound" in line for line in chart.lines)


def test_phases_with_unknown_names_and_mostly_idle():
    study = complete()
    by_phase = [{"phase": NASTY, "ms": 3.0, "count": 1.0}, {"phase": "idle", "ms": 2.0, "count": 1.0}]
    study["rungs"][-1]["profile"]["step"].update(idle_ms=5000.0, by_phase=by_phase)
    chart = draw("phases", study)
    drawn(chart)
    assert [p["part"] for p in parts_of(chart.wide) if p["row"] == 6] == ["other", "other", "idle"]
    assert [p[0] for p in phases.parts_of(study["rungs"][-1])] == ["other", "other", "idle"]


# ---- energy

def test_energy_has_one_unit_for_all_rows():
    study = complete()
    del study["rungs"][1]["joules_per_token"]
    chart = draw("energy", study)
    drawn(chart)
    assert [r["text"] for r in rows_of(chart.wide)[:3]] == ["52.0 mJ", "", "42.0 mJ"]
    assert rows_of(chart.wide)[1]["reason"] == "not recorded" and "no interval" in chart.lines[0]
    short = "the timed steps took 0.90 s, too short for the energy counter"
    runs = [{"rung": 1, "flags": [], "conditions": {"notes": {"joules_per_token": short}}}]
    assert rows_of(draw("energy", study, runs=runs).wide)[1]["reason"] == short
    study["rungs"][0]["joules_per_token"] = 2.5
    assert [r["text"] for r in rows_of(draw("energy", study).wide)[::2][:2]] == ["2.50 J", "0.042 J"]


def test_energy_needs_a_gpu_that_counts():
    assert "NVIDIA GPU" in draw("energy", make()).run
    assert "no run of this study has it" in draw("energy", make(device="cuda")).run
