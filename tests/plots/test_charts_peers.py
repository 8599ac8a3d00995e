"""PyTorch's runs beside ours: what the chart holds and says, not its pixels."""

import copy

import pytest
from builders import NASTY, make, valid, with_peers, without_number
from drawings import draw, drawn, said

import study as words_of
from charts import peers


def test_peers_stand_below_our_rung_and_the_fastest_is_the_finding():
    chart = draw("peers", {"study": with_peers(("PyTorch eager", 2.0), ("PyTorch compile", 1.25))})
    wide, narrow = drawn(chart)
    assert chart.finding == "1.25× as fast as PyTorch compile, 579 ms against 724 ms per step"
    data = chart.wide["data"]["values"]
    assert data[0] == {"group": "+ zero copy data"}
    assert [(d["rung"], d["ours"], d["ratio"]) for d in data[1:]] == [
        ("ladder", True, ""), ("PyTorch eager", False, "2.00×"), ("PyTorch compile", False, "1.25×")]
    assert any("PyTorch compile: 724 ms (717 ms to 731 ms), ours is 1.25× (1.23× to 1.27×) as fast" in text for text in said(wide))


def test_peers_that_are_as_fast_failed_or_ran_once():
    chart = draw("peers", {"study": with_peers(("PyTorch eager", 1.01))})
    assert chart.finding.startswith("No clear difference from PyTorch eager, 1.01× as fast") and "grey ×: no clear difference" in chart.lines[-1]
    chart = draw("peers", {"study": with_peers((NASTY, 0.9))})
    drawn(chart)
    assert chart.finding.startswith("0.90× as fast as <script>")
    once = with_peers(("PyTorch eager", 2.0), runs=1)
    chart = draw("peers", {"study": once})
    drawn(chart)
    assert any("no interval" in line for line in chart.lines)
    assert chart.finding == "2.00× as fast as PyTorch eager, one run each, no interval"
    without_number(once, len(once["rungs"]) - 1, "failed", "exit status 1")
    once["rungs"][-2]["peers"][0].update(ratio=None, lo=None, hi=None)
    chart = draw("peers", {"study": once})
    drawn(chart)
    assert chart.finding == "No rung could be compared with PyTorch"
    assert "failed: exit status 1" in [d["reason"] for d in chart.wide["data"]["values"][1:]]
    unknown = with_peers(("PyTorch eager", 2.0), runs=2)
    unknown["rungs"][-2]["peers"][0].update(lo=None, hi=None)
    chart = draw("peers", {"study": unknown})
    assert chart.finding == "2.00× as fast as PyTorch eager, no interval, 579 ms against 1,158 ms per step"
    assert "--with-peer pytorch" in draw("peers", {"study": make()}).run


@pytest.mark.parametrize("ratio, runs, finding", [
    (1.25, 5, "1.25× as fast as PyTorch eager at “fused AdamW”, 622 ms against 778 ms per step"),
    (1.01, 5, "No clear difference from PyTorch eager at “fused AdamW”, 1.01× as fast"),
    (1.25, 1, "1.25× as fast as PyTorch eager at “fused AdamW”, one run each, no interval"),
])
def test_a_rung_that_is_not_the_ladders_end_is_named(ratio, runs, finding):
    study = with_peers(("PyTorch eager", 2.0), runs=runs)
    earlier = copy.deepcopy(study["rungs"][-1])
    earlier.update(index=8, against=4, ms_per_step={**earlier["ms_per_step"], "median": 622.0 * ratio})
    study["rungs"][4]["peers"] = [{**study["rungs"][6]["peers"][0], "rung": 8, "ratio": ratio,
                                   **({"lo": ratio - 0.02, "hi": ratio + 0.02} if runs > 1 else {})}]
    study["rungs"].append(earlier)
    without_number(study, 6, "failed", "exit status 1")
    study["rungs"][6]["peers"][0].update(ratio=None, lo=None, hi=None)
    assert peers.finding(valid(study)) == finding and len(finding) <= words_of.TITLE_LENGTH


def test_in_the_other_modes_the_rung_is_named():
    study = with_peers(("PyTorch eager", 2.0))
    study["mode"] = "one-at-a-time"
    assert peers.finding(valid(study)).startswith("2.00× as fast as PyTorch eager at “zero copy data”")


def test_names_give_way_to_what_makes_the_ratio_doubtful():
    study = with_peers((NASTY, 2.0), runs=1)
    study["rungs"][6]["title"], study["mode"] = NASTY, "one-at-a-time"
    finding = peers.finding(valid(study))
    assert finding.endswith("…, one run each, no interval") and len(finding) <= words_of.TITLE_LENGTH
