"""The chart of sweeps: its data and texts, not its pixels."""

from builders import NASTY, make, report_of, without_number
from builders import rung as one_rung
from drawings import data, draw, drawn, spoken, values


def swept(runs=5):
    study = make([], runs)
    study.update(mode="sweep", swept="batch", headline=None)
    for name, share in (("plain fp32", 1.0), (f"flash {NASTY}", 0.6)):
        for batch in (1, 2, 4, 8):
            rung = one_rung(len(study["rungs"]), name, 100.0 * share * batch, None, None, runs)
            rung["label"] = name
            rung["workload"] = {"batch": batch, "context": 256, "accumulation": 1, "tokens_per_step": 256 * batch}
            rate = 2560.0 / share
            rung["tokens_per_s"] = {"median": rate, "lo": rate * 0.97 if runs > 1 else None, "hi": rate * 1.03 if runs > 1 else None}
            study["rungs"].append(rung)
    without_number(study, 3, "failed", "CUDA out of memory")
    study["rungs"][3]["out_of_memory"] = True
    return study


def test_sweep_has_intervals_and_marks_what_has_no_number():
    chart = draw("sweep", {"study": swept()})
    wide, _ = drawn(chart)
    points = [row for row in data(chart.wide) if "rate" in row]
    assert len(points) == 7 and (points[0]["rate"], points[0]["lo"], points[0]["hi"]) == (2560.0, 2560.0 * 0.97, 2560.0 * 1.03)
    assert "B=1 plain fp32: 2.56K tokens/s (2.48K to 2.64K)" in spoken(wide)
    assert "B=8 plain fp32: failed: CUDA out of memory" in spoken(wide)
    assert "×: no number" in chart.lines and chart.notes == ["A note on sweep."]
    assert len({row["at"] for row in points if row["value"] == 2}) == 2  # beside each other, as are their whiskers
    assert "points: a single run · no interval" in draw("sweep", {"study": swept(runs=1)}).lines
    assert "`ladder ablate --sweep" in draw("sweep", report_of(make())["studies"][0]).run


def sweep_of(series, sizes=(4, 8, 16, 32)):
    study = make([])
    study.update(mode="sweep", swept="batch", headline=None)
    for name in (f"rung {i}" for i in range(series)):
        for batch in sizes:
            rung = one_rung(len(study["rungs"]), name, 100.0 * batch, None, None)
            rung["workload"] = {"batch": batch, "context": 256, "accumulation": 1, "tokens_per_step": 256 * batch}
            study["rungs"].append(rung)
    return study


def test_no_two_series_of_a_sweep_look_alike():
    chart = draw("sweep", {"study": sweep_of(30)})
    drawn(chart)
    assert "the first 24 of 30 series are drawn" in chart.notes
    points = next(layer for layer in chart.wide["hconcat"][0]["layer"] if layer["mark"]["type"] == "point")["encoding"]
    names, ranges = points["color"]["scale"]["domain"], [points[channel]["scale"]["range"] for channel in ("color", "shape")]
    assert names == [f"rung {i}" for i in range(24)] and {row["series"] for row in data(chart.wide)} == set(names)
    assert [len(kinds) for kinds in ranges] == [24, 24] and len(set(zip(*ranges))) == 24
    assert points["color"]["legend"] and points["color"]["legend"] == points["shape"]["legend"]  # one legend, of both
    assert not any("are drawn" in line for line in draw("sweep", {"study": sweep_of(24)}).notes)


def test_many_series_of_a_sweep_stay_in_the_panel_and_apart_from_the_next_size():
    for series, sizes in ((2, (4, 8)), (9, (4,)), (12, (4, 8, 16, 32)), (24, (1, 2, 4, 8, 16, 64))):
        chart = draw("sweep", {"study": sweep_of(series, sizes)})
        for drawing in (chart.wide, chart.narrow):
            low, high = next(d for d in values(drawing, "domain") if isinstance(d[0], float) and d[0] > 0)
            at = {size: sorted(row["at"] for row in drawing["data"]["values"] if row["value"] == size) for size in sizes}
            assert all(low < marks[0] and marks[-1] < high and len(set(marks)) == series for marks in at.values())
            assert all(at[a][-1] < at[b][0] for a, b in zip(sizes, sizes[1:]))
