"""The charts with a row for each rung: their data and texts, not their pixels."""

import copy

import pytest
from builders import GIB, LADDER, NASTY, command, complete, make, mixed, part_of, report_of, unusable, valid, with_peers, without_number
from drawings import drawn, on_picture, rows_of, said

import charts
import study as of
import theme
from charts import draw, ladder, phases

ALL = ["ladder", "memory", "phases_of_all", "energy"]
ARROW = 'd="M2.905,0L-2.905,'  # to the right


def of_study(name, study, **more):
    return draw(name, part_of(valid(study), **more))


def lose(study, index, status, reason):
    without_number(study, index, status, reason)
    r = study["rungs"][index]
    r["mfu"] = None
    for name in ("profile", "memory", "joules_per_token"):
        r.pop(name, None)


def parts_of(drawing):
    return [layer for layer in drawing["layer"] if layer.get("encoding", {}).get("x", {}).get("stack")][0]["data"]["values"]


# ---- all of them

@pytest.mark.parametrize("name", ALL)
def test_a_row_for_each_rung_that_was_to_be_measured_and_a_reason_where_there_is_no_bar(name):
    study = complete()
    lose(study, 1, "not_applicable", "needs another device")
    lose(study, 2, "not_measured", "before the reference")
    lose(study, 3, "failed", "exit status 3")
    lose(study, 4, "void", "losses differ")
    chart = of_study(name, study)
    svg, rows = drawn(chart), rows_of(chart.drawing)
    assert "another device" not in str(chart.drawing) and "before the reference" not in str(chart.drawing)
    if name == "phases_of_all":  # of traced rungs only
        assert [r["rung"] for r in rows] == ["plain fp32", "+ graph capture", "+ zero copy data"]
    else:
        assert [r["rung"] for r in rows] == ["plain fp32", *("+ " + study["rungs"][i]["title"] for i in (3, 4, 5, 6))]
        reasons = ["", "failed: exit status 3", "void: losses differ", "", ""]
        assert [r["reason"] for r in rows] == reasons
        assert all(text in on_picture(svg) for text in [*(r["rung"] for r in rows), *filter(None, reasons)])
        assert not any(text.startswith("+ vocab 50304:") for text in said(svg)) and any(text.startswith("+ zero copy data: ") for text in said(svg))
    assert chart.about.source.endswith("gpt2-124m · NVIDIA Example · 2026-01-02")


@pytest.mark.parametrize("name", ALL)
def test_rungs_of_every_number_name_and_size(name):
    chart = of_study(name, complete([(f"{i} {NASTY if i % 20 == 0 else ''}", 1000.0 - 4 * i) for i in range(100)]))
    assert all(len(r["rung"]) <= 80 for r in rows_of(chart.drawing))
    drawn(chart)
    if name != "phases_of_all":  # one rung alone is the one that leads
        drawn(of_study(name, complete([("plain fp32", 1512.0)])))
    for factor in (0, 1e-6, 1e6):
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
        drawn(of_study(name, study))


@pytest.mark.parametrize("name", ALL[1:])
@pytest.mark.parametrize("study", [make([]), make()], ids=["no rungs", "no numbers"])
def test_without_data_a_chart_says_what_makes_it(name, study):
    study = copy.deepcopy(study)
    for r in study["rungs"]:
        without_number(study, r["index"], "missing", "")
    study["headline"] = None
    missing = of_study(name, study)
    assert isinstance(missing, charts.Missing) and "`ladder ablate" in missing.run
    drawn(of_study("ladder", study))


def test_disturbed_rungs_say_so():
    study = complete()
    study["rungs"][2]["flags"] = ["throttled"]
    for name in ("ladder", "phases_of_all", "energy"):
        assert any(text.startswith("+ SDPA attention: ") and "disturbed" in text for text in said(drawn(of_study(name, study)))), name


# ---- the ladder

def test_the_ladders_bars_are_tokens_per_second_and_its_figures_those_of_the_study():
    study = complete()
    study["rungs"][2]["speedup_previous"].update(ratio=7.77, lo=7.0, hi=8.0)
    study["rungs"][2]["speedup_first"].update(ratio=8.88, lo=8.5, hi=9.0)
    study["rungs"][4]["speedup_previous"].update(ratio=0.998, lo=0.9, hi=1.1)
    study["rungs"][5]["mfu"].update(value=None, peak_flops=None, reason="no peak")
    chart = of_study("ladder", study)
    rows = rows_of(chart.drawing)
    assert [rows[2][k] for k in ("rate", "lo", "hi", "text", "step", "total", "ms", "memory", "mfu")] == [
        13000.0, 12900.0, 13150.0, "13.0K", "7.77×", "8.88×", "760", "27.0", "17.1 %"]
    assert (rows[0]["step"], rows[0]["total"], rows[5]["mfu"]) == ("—", "—", "—")
    svg = drawn(chart)
    assert ("+ SDPA attention: 13.0K tokens/s (12.9K to 13.2K), 760 ms, against the rung before 7.77× (7.00× to 8.00×), so far 8.88× (8.50× to 9.00×)"
            in said(svg))
    assert {"× step", "× total", "ms", "GiB", "MFU", "13.0K", "7.77×", "27.0"} <= set(on_picture(svg))
    axis = chart.drawing["layer"][1]["encoding"]["x"]
    assert axis["field"] == "kept" and axis["scale"]["domain"][0] == 0
    assert chart.title == "2.61× faster than “plain fp32”"
    assert chart.lines == ["median of 5 runs · whiskers: 95 % confidence · × paired within repeats · green: gained over the rung before · pale: no clear change"]
    assert "MFU" not in str(of_study("ladder", make()).drawing)
    assert isinstance(of_study("ladder", make() | {"mode": "sweep", "swept": "batch"}), charts.Missing)


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
    assert [(r["change"], r["kept"], r["before"]) for r in rows_of(chart.drawing)] == [
        ("", rate[0], None), ("gained", rate[0], rate[0]), ("lost", rate[2], rate[1]), ("unclear", rate[3], None), ("", rate[4], None),
        ("", rate[5], None), ("unclear", rate[6], None)]
    assert [r["step_ink"] for r in rows_of(chart.drawing)] == [theme.INK, theme.INK, theme.SLOWER_INK, theme.GREY, theme.SLOWER_INK, theme.GREY, theme.GREY]
    assert "green: gained over the rung before · orange: lost · pale: no clear change" in chart.lines[0]
    bar, between = [layer for layer in chart.drawing["layer"] if layer["mark"]["type"] == "bar"][1:3]
    assert bar["encoding"]["x"]["field"] == "kept" and (between["encoding"]["x"]["field"], between["encoding"]["x2"]["field"]) == ("rate", "before")
    svg = drawn(chart)
    assert [svg.count(f'fill="{colour}"') for colour in (theme.SAVED, theme.SLOWER_BAR, theme.PALE_BAR)] == [1, 1, 2]


def test_commands_that_add_nothing_to_one_another_stand_beside_the_first():
    study = complete(LADDER[:3])
    for r, rate, ratio in zip(study["rungs"], (100.0, 300.0, 200.0), (1.0, 3.0, 2.0)):
        r["command"] = command()
        r["tokens_per_s"] = {"median": rate, "lo": rate - 1, "hi": rate + 1}
        compared = {**study["rungs"][1]["speedup_first"], "ratio": ratio, "lo": ratio - 0.01, "hi": ratio + 0.01}
        r["speedup_first"], r["speedup_previous"] = compared, compared if rate > 100 else None
    chart = of_study("ladder", study)
    assert [(r["before"], r["kept"], r["change"]) for r in rows_of(chart.drawing)] == [(None, 100.0, ""), (100.0, 100.0, "gained"), (100.0, 100.0, "gained")]
    assert "green: gained over the first" in chart.lines[0] and "against the first" in rows_of(chart.drawing)[2]["aria"]
    texts = on_picture(drawn(chart))
    assert "× first" in texts and not {"× step", "× total"} & {*texts}


def test_a_name_in_the_ladder_leads_to_its_rung():
    chart = of_study("ladder", mixed())
    assert [r["link"] for r in rows_of(chart.drawing)] == [f"#rung-{i}" for i in (0, 2, 3, 4, 5, 6, 7, 8)]


def test_a_speed_without_an_interval_and_one_whose_interval_tells_nothing_have_no_whiskers():
    once = of_study("ladder", make(runs=1))
    drawn(once)
    assert once.lines == ["a single run · no interval · × paired within repeats"] and all(r["lo"] is None for r in rows_of(once.drawing))
    study = complete()
    for lo in (900, 0, -5.0):
        study["rungs"][3]["tokens_per_s"].update(lo=lo, hi=1e7)
        chart = of_study("ladder", study)
        assert (rows_of(chart.drawing)[3]["lo"], rows_of(chart.drawing)[3]["to"]) == (None, None)
        assert all("unknown" not in text for text in said(drawn(chart)))


def test_an_interval_that_would_dwarf_the_bars_ends_in_an_arrow():
    study = complete()
    plain = of_study("ladder", study)
    study["rungs"][3]["tokens_per_s"].update(lo=4e3, hi=3.9e4)
    chart = of_study("ladder", study)
    rows = rows_of(chart.drawing)
    assert (rows[3]["from"], rows[3]["to"], rows[3]["hi"]) == (4e3, 1.5 * max(row["rate"] for row in rows), 3.9e4)
    assert any("arrow: it goes on" in line for line in chart.lines) and not any("arrow" in line for line in plain.lines)
    svg, usual = drawn(chart), drawn(plain)
    assert any("(4.00K to 39.0K)" in text for text in said(svg)) and (svg.count(ARROW), usual.count(ARROW)) == (1, 0)


def test_a_study_that_is_not_usable_claims_nothing():
    part = of.told(unusable(report_of(with_peers(("PyTorch eager", 2.0))))["studies"][0])
    chart = draw("ladder", part)
    drawn(chart)
    assert {(r["step"], r["total"], r["change"]) for r in rows_of(chart.drawing)} == {("—", "—", "unclear")} and chart.title.startswith("Not usable") and "pale: nothing is claimed" in chart.lines[0]
    assert draw("memory", part).title == "Peak memory" and draw("peers", part).title == "Next to PyTorch"
    assert chart.about.warnings == "Other work ran during 32 of 32 runs."


def test_the_fastest_compiled_peer_is_a_line_across_the_ladder():
    study = with_peers(("PyTorch eager", 2.0), ("PyTorch compile", 1.25), ("PyTorch compile", 1.5))
    without = of_study("ladder", study)
    for rung, rate in zip(study["rungs"][-2:], (1414.0, 1180.0)):
        rung["peer"] = "pytorch-compile"
        rung["tokens_per_s"]["median"] = rate
    chart = of_study("ladder", study)
    lines = [layer for layer in chart.drawing["layer"] if "peer" in layer.get("data", {}).get("values", [{}])[0]]
    assert [layer["mark"]["type"] for layer in lines] == ["rule", "text"] and len(chart.drawing["layer"]) == len(without.drawing["layer"]) + 2
    assert lines[0]["data"]["values"] == [{"peer": 1414.0, "said": "PyTorch compiled, 1.41K"}]
    assert "PyTorch compiled, 1.41K" in "".join(said(drawn(chart)))
    assert len(rows_of(chart.drawing)) == 7 and "PyTorch eager" not in str(chart.drawing)  # a peer is no rung
    without_number(study, len(study["rungs"]) - 2, "failed", "exit status 1")
    assert ladder.compiled(study)[0]["peer"] == 1180.0
    without_number(study, len(study["rungs"]) - 1, "failed", "exit status 1")
    assert ladder.compiled(study) == []


# ---- memory

def test_memory_is_a_stack_inside_the_peaks_outline():
    study = complete()
    for r in study["rungs"][1:]:
        r["memory"]["weight_copies_bytes"] = 3 * GIB
    chart = of_study("memory", study)
    parts = parts_of(chart.drawing)
    assert [(p["part"], p["size"]) for p in parts[:5]] == [("weights", 1.0), ("gradients", 1.0), ("optimizer state", 2.0), ("activations", 20.0),
                                                          ("other", 7.0)]
    assert [(p["part"], p["size"]) for p in parts if p["row"] == 1][3] == ("16-bit weights", 3.0)
    assert [(r["peak"], r["reserved"], r["text"], r["reserved_text"]) for r in rows_of(chart.drawing)[:2]] == [
        (31.0, 33.0, "31.0", "33.0"), (29.0, 31.0, "29.0", "31.0")]
    assert chart.lines == ["outline: peak of all runs; grey tick: peak reserved by the allocator"] and chart.title == "Peak memory 31.0 → 19.0 GiB"
    outline, = (layer for layer in chart.drawing["layer"] if layer["mark"].get("stroke") == "#111827")
    assert outline["mark"]["fill"] is None
    assert {"plain fp32: optimizer state 2.0 GiB", "plain fp32: peak 31.0 GiB, reserved 33.0 GiB"} <= set(said(drawn(chart)))
    study["rungs"][0]["memory"].update(activations_bytes=90 * GIB)  # beyond the peak, and below nothing
    study["rungs"][1]["memory"].update(activations_bytes=-5 * GIB)
    odd = of_study("memory", study)
    drawn(odd)
    assert [p["part"] for p in parts_of(odd.drawing) if p["row"] == 1] == ["weights", "gradients", "optimizer state", "16-bit weights", "other"]
    same = make()
    for r in same["rungs"]:
        r["peak_memory_bytes"] = 44 * 2**20 + r["index"]
    assert of_study("memory", same).run == ""  # the column says it
    alone = of_study("memory", make())
    drawn(alone)
    assert alone.lines == ["bars: peak of all runs; no interval"]


# ---- phases

def test_phases_stand_in_the_order_of_a_step_with_idle_time_last():
    study = complete()
    chart = of_study("phases_of_all", study, ideal=("+ SDPA attention", {"backward": 30.0, "forward": 15.0, "head": 2.0, "data": 0}))
    first = [p for p in parts_of(chart.drawing) if p["row"] == 0]
    assert [(p["part"], p["size"]) for p in first] == [("data", 5.0), ("forward", 300.0), ("backward", 400.0), ("clip", 20.0),
                                                       ("update", 70.0), ("other", 4.0), ("idle", 100.0)]
    assert rows_of(chart.drawing)[-1]["rung"] == "ideal for SDPA attention"
    assert [(p["part"], p["size"]) for p in parts_of(chart.drawing) if p["row"] == 7] == [("forward", 15.0), ("backward", 30.0), ("other", 2.0)]
    assert [r["busy"] for r in rows_of(chart.drawing)[:2]] == ["90 %", "89 %"]
    svg = drawn(chart)
    assert {"plain fp32: idle 100 ms", "plain fp32: no phase 4.00 ms"} <= set(said(svg)) and "busy" in on_picture(svg)
    assert "ideal" not in str(of_study("phases", study, ideal=("another rung", {"forward": 1.0})).drawing)
    lead = of_study("phases", study, ideal=("+ zero copy data", {"forward": 1.0}))  # what counts
    assert [row["rung"] for row in rows_of(lead.drawing)] == ["+ zero copy data", "its ideal"] and lead.title == "Where the time goes: backward 394 of 579 ms"


def test_phases_of_traces_that_know_less():
    study = complete()
    for r in study["rungs"]:
        r["profile"].update(busy_percent=None, idle_ms=None)  # the traced step was slower than the others
        r["profile"]["step"]["idle_ms"] = None
    del study["rungs"][1]["profile"]
    unknown = [{"phase": NASTY, "ms": 3.0}, {"phase": "idle", "ms": 2.0}]
    study["rungs"][-1]["profile"]["step"].update(idle_ms=5000.0, by_phase=unknown)
    chart = of_study("phases_of_all", study)
    drawn(chart)
    assert chart.lines[0].endswith(" · not traced: " + "+ bf16 autocast")
    assert {d["busy"] for d in rows_of(chart.drawing)} == {"—"} and len(rows_of(chart.drawing)) == len(study["rungs"]) - 1
    assert [p[0] for p in phases.parts_of(study["rungs"][-1])] == ["other", "other", "idle"]


# ---- energy

def test_energy_has_one_unit_for_all_rows():
    study = complete()
    del study["rungs"][1]["joules_per_token"]
    chart = of_study("energy", study, runs=[])
    drawn(chart)
    assert [r["text"] for r in rows_of(chart.drawing)[:3]] == ["52.0 mJ", "", "42.0 mJ"] and chart.title == "Energy: 52.0 → 22.0 mJ per token"
    assert rows_of(chart.drawing)[1]["reason"] == "not recorded" and "no interval" in chart.lines[0]
    short = "the timed steps took 0.90 s, too short for the energy counter"
    runs = [{"rung": 1, "flags": [], "conditions": {"notes": {"joules_per_token": short}}}]
    assert rows_of(of_study("energy", study, runs=runs).drawing)[1]["reason"] == short
    study["rungs"][0]["joules_per_token"] = 2.5
    assert [r["text"] for r in rows_of(of_study("energy", study).drawing)[::2][:2]] == ["2.50 J", "0.042 J"]
    assert "NVIDIA GPU" in of_study("energy", make()).run and "no run of this study has it" in of_study("energy", make(device="cuda")).run


# ---- PyTorch beside our rungs

def test_peers_stand_below_our_rung():
    chart = of_study("peers", with_peers(("PyTorch eager", 2.0), ("PyTorch compile", 1.25)))
    svg = drawn(chart)
    rows = rows_of(chart.drawing)
    assert rows[0] == {"group": "+ zero copy data"} and chart.title == "Next to PyTorch: 1.25× as fast as PyTorch compile"
    assert [(d["rung"], d["ours"], d["ratio"]) for d in rows[1:]] == [("ladder", True, ""), ("PyTorch eager", False, "2.00×"), ("PyTorch compile", False, "1.25×")]
    assert any("PyTorch compile: 724 ms (717 ms to 731 ms), ours is 1.25× (1.23× to 1.27×) as fast" in text for text in said(svg))


def test_peers_that_are_as_fast_failed_or_ran_once():
    chart = of_study("peers", with_peers(("PyTorch eager", 1.01)))
    assert "grey ×: no clear difference" in chart.lines[-1] and chart.title.endswith("PyTorch eager, no clear difference")
    drawn(of_study("peers", with_peers((NASTY, 0.9))))
    once = with_peers(("PyTorch eager", 2.0), runs=1)
    chart = of_study("peers", once)
    drawn(chart)
    assert any("no interval" in line for line in chart.lines) and chart.title.endswith(", one run each")
    without_number(once, len(once["rungs"]) - 1, "failed", "exit status 1")
    once["rungs"][-2]["peers"][0].update(ratio=None, lo=None, hi=None)
    chart = of_study("peers", once)
    drawn(chart)
    assert "failed: exit status 1" in [d["reason"] for d in rows_of(chart.drawing)[1:]] and chart.title == "Next to PyTorch"
    assert "--with-peer pytorch" in of_study("peers", make()).run
