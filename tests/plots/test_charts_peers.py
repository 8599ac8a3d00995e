"""PyTorch's runs beside ours: what the chart holds and says, not its pixels."""

from builders import NASTY, make, with_peers, without_number
from drawings import drawn, said

import charts


def test_peers_stand_below_our_rung_and_the_fastest_is_the_finding():
    chart = charts.module("peers").draw({"study": with_peers(("PyTorch eager", 2.0), ("PyTorch compile", 1.25))})
    wide, narrow = drawn(chart)
    assert chart.finding == "1.25× as fast as PyTorch compile: 579 ms against 724 ms per step"
    data = chart.wide["data"]["values"]
    assert [(d["rung"], d["ours"], d["ratio"]) for d in data] == [
        ("+ zero copy data", True, ""), ("PyTorch eager", False, "2.00×"), ("PyTorch compile", False, "1.25×")]
    assert any("PyTorch compile: 724 ms (717 ms to 731 ms), ours is 1.25× (1.23× to 1.27×) as fast" in text for text in said(wide))


def test_peers_that_are_as_fast_failed_or_ran_once():
    chart = charts.module("peers").draw({"study": with_peers(("PyTorch eager", 1.01))})
    assert chart.finding.startswith("No clear difference from PyTorch eager, 1.01× as fast") and "grey" in chart.lines[-1]
    chart = charts.module("peers").draw({"study": with_peers((NASTY, 0.9))})
    drawn(chart)
    assert chart.finding.startswith("0.90× as fast as <script>")
    once = with_peers(("PyTorch eager", 2.0), runs=1)
    chart = charts.module("peers").draw({"study": once})
    drawn(chart)
    assert any("no interval" in line for line in chart.lines)
    without_number(once, len(once["rungs"]) - 1, "failed", "exit status 1")
    once["rungs"][-2]["peers"][0].update(ratio=None, lo=None, hi=None)
    chart = charts.module("peers").draw({"study": once})
    drawn(chart)
    assert chart.finding == "No rung could be compared with PyTorch"
    assert "failed: exit status 1" in [d["reason"] for d in chart.wide["data"]["values"]]
    assert "--with-peer pytorch" in charts.module("peers").draw({"study": make()}).run
