"""PyTorch's runs beside ours: the chart's data and texts, not its pixels."""

from builders import NASTY, make, report_of, table, with_peers, without_number
from drawings import draw, drawn, said

import markdown
import page
import view


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


def test_the_fastest_compiled_peer_is_a_line_across_the_ladder():
    study = with_peers(("PyTorch eager", 2.0), ("PyTorch compile", 1.25), ("PyTorch compile", 1.5))
    without = draw("ladder", {"study": study})
    for rung in study["rungs"][-2:]:
        rung["peer"] = "pytorch-compile"
    chart = draw("ladder", {"study": study})
    assert len(chart.wide["layer"]) == len(without.wide["layer"]) + 2
    lines = [layer for layer in chart.wide["layer"] if "peer_ms" in layer.get("data", {}).get("values", [{}])[0]]
    assert [layer["mark"]["type"] for layer in lines] == ["rule", "text"]
    assert lines[0]["data"]["values"] == [{"peer_ms": study["rungs"][-2]["ms_per_step"]["median"], "said": "PyTorch compiled, 724 ms"}]
    for svg in drawn(chart):
        assert "PyTorch compiled, 724 ms" in "".join(said(svg))
    without_number(study, len(study["rungs"]) - 2, "failed", "exit status 1")
    assert "PyTorch compiled, 868 ms" in str(draw("ladder", {"study": study}).wide)
    without_number(study, len(study["rungs"]) - 1, "failed", "exit status 1")
    assert "peer_ms" not in str(draw("ladder", {"study": study}).wide)


def test_seconds_of_compiling_stand_beside_the_peers_that_compile():
    report = report_of(with_peers(("PyTorch eager", 2.0), ("PyTorch compile", 1.25)))
    shown = view.view(report)
    assert "compiling" not in page.render("report.html.j2", shown)
    report["studies"][0]["words"]["rungs"][-1]["compiling"] = "31.5 s, then 11.2 s"
    shown = view.view(report)
    rows = table(markdown.render(shown | {"has_pictures": False}), "Each row is a recipe.")
    assert [row[-1] for row in rows] == ["—", "31.5 s, then 11.2 s"]
    assert "<td>31.5 s, then 11.2 s</td></tr>" in page.render("report.html.j2", shown)
