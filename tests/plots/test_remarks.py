"""plots/remarks.py: the remarks of page and Markdown on a comparison of two studies: losses that differ, disturbed runs, runs left out."""

import re

import markdown
import page
import view
from builders import ENTRIES, comparison_of, disturbed, entry, make, other_losses, report_of, valid


def compared(comparison):
    """(the comparison's rows in Markdown, the Markdown, the page)"""
    shown = view.view(valid(report_of(make(), make(device="cuda"), comparison=valid(comparison))))
    report = markdown.render(shown | {"has_pictures": False})
    lines = report.split("| verdict | remarks |\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    return [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines], report, page.render("report.html.j2", shown)


def test_a_comparison_with_other_losses_or_of_disturbed_runs_says_so():
    same = {"compared": True, "identical": True, "passed": True, "max_deviation": 0.0, "tolerance": 0.02,
            "message": "losses identical to the bit"}
    entries = [entry("float32", 1.0, "SAME") | {"loss": same}, entry("+ bf16", 0.9, "IMPROVEMENT") | {"loss": same | {
        "identical": False, "deviation": -0.00123, "max_deviation": 0.5, "message": "losses typically 0.0012 nats apart, 0.02 allowed"}}, entry("+ graph", 0.9, "IMPROVEMENT") | {"loss": {
            "compared": False, "message": "losses are not compared: another seed"}}, disturbed(other_losses(ENTRIES[2]))]
    comparison = comparison_of(*entries)
    comparison["head"]["left_out"] = ["r2-01-tf32: killed | by signal 9"]
    comparison["warnings"] = ["the first is *not* a release build"]
    rows, report, html = compared(comparison)
    differ = "LOSSES DIFFER: step 3 has loss 9.5000, the reference 9.1900: 0.3100 nats apart, 0.02 allowed"
    flags = "2 of the runs were disturbed: first r1-02-flash throttled: HwSlowdown in 2 of 9 samples; shared: 1 other process"
    said = ["losses identical to the bit", "losses typically 0.0012 nats apart, 0.02 allowed",
            "losses are not compared: another seed"]
    assert [row[5] for row in rows] == [*said, f"**{differ}**; {flags}"]
    for words in said:
        assert f'<td class="whole"><span class="">{words}</span></td></tr>' in html
    assert f'<td>faster</td><td class="whole"><span class="bad">{differ}</span>; <span class="warn">{flags}</span></td></tr>' in html
    for line in ("Warning: the first is *not* a release build",
                 "1 run of the second left out, not a number: r2-01-tf32: killed | by signal 9"):
        assert f'<p class="remark">{line}</p>' in html
        assert html.index(line) < html.index(">remarks</th>")
        assert report.index("\n- " + markdown.escape(line)) < report.index("| verdict | remarks |")


def test_a_comparison_without_remarks_has_none():
    rows, report, html = compared(comparison_of(*ENTRIES[:3]))
    assert [row[5] for row in rows] == [""] * 3
    beside = html.split('id="side-by-side"', 1)[1].split("</section>", 1)[0]
    assert 'class="remark"' not in beside and "losses" not in beside
