"""PyTorch's runs beside ours: the chart's data and texts, not its pixels."""

from builders import NASTY, make, with_peers, without_number
from drawings import draw, drawn, said


def test_peers_stand_below_our_rung():
    chart = draw("peers", {"study": with_peers(("PyTorch eager", 2.0), ("PyTorch compile", 1.25))})
    wide, narrow = drawn(chart)
    data = chart.wide["data"]["values"]
    assert data[0] == {"group": "+ zero copy data"}
    assert [(d["rung"], d["ours"], d["ratio"]) for d in data[1:]] == [
        ("ladder", True, ""), ("PyTorch eager", False, "2.00×"), ("PyTorch compile", False, "1.25×")]
    assert any("PyTorch compile: 724 ms (717 ms to 731 ms), ours is 1.25× (1.23× to 1.27×) as fast" in text for text in said(wide))


def test_peers_that_are_as_fast_failed_or_ran_once():
    chart = draw("peers", {"study": with_peers(("PyTorch eager", 1.01))})
    assert "grey ×: no clear difference" in chart.lines[-1]
    drawn(draw("peers", {"study": with_peers((NASTY, 0.9))}))
    once = with_peers(("PyTorch eager", 2.0), runs=1)
    chart = draw("peers", {"study": once})
    drawn(chart)
    assert any("no interval" in line for line in chart.lines)
    without_number(once, len(once["rungs"]) - 1, "failed", "exit status 1")
    once["rungs"][-2]["peers"][0].update(ratio=None, lo=None, hi=None)
    chart = draw("peers", {"study": once})
    drawn(chart)
    assert "failed: exit status 1" in [d["reason"] for d in chart.wide["data"]["values"][1:]]
    assert "--with-peer pytorch" in draw("peers", {"study": make()}).run
