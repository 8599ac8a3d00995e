"""The program's remarks on a comparison of two studies, which page and Markdown place: beside an entry, and above all of them."""

import re

import markdown
import page
import view
from builders import ENTRIES, comparison_of, disturbed, entry, make, other_losses, remarked, report_of, valid


def compared(comparison):
    """(the comparison's rows in Markdown, the Markdown, the page)"""
    shown = view.view(valid(report_of(make(), make(device="cuda"), comparison=valid(comparison))))
    report = markdown.render(shown | {"has_pictures": False})
    lines = report.split("| verdict | remarks |\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    return [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines], report, page.render("report.html.j2", shown)


def test_remarks_stand_beside_their_entry_and_above_all_entries():
    same = remarked(entry("float32", 1.0, "SAME"), "losses", "", "losses identical to the bit")
    comparison = comparison_of(same, disturbed(other_losses(ENTRIES[2])))
    comparison["words"]["differences"] = ["Differs: torch: 2.10 against 2.11"]
    comparison["words"]["remarks"] = ["1 run of the second left out: killed | by signal 9", "Warning: the first is *not* a release build"]
    rows, report, html = compared(comparison)
    differ, disturbance = (remark["words"] for remark in comparison["entries"][1]["words"]["remarks"])
    assert differ.startswith("LOSSES DIFFER: ") and disturbance.startswith("2 of the runs were disturbed")
    assert [row[5] for row in rows] == ["losses identical to the bit", f"**{differ}**; {disturbance}"]
    assert '<td class="whole"><span class="">losses identical to the bit</span></td></tr>' in html
    assert f'<td>faster</td><td class="whole"><span class="bad">{differ}</span>; <span class="warn">{disturbance}</span></td></tr>' in html
    for line in comparison["words"]["differences"] + comparison["words"]["remarks"]:
        assert f'<p class="remark">{line}</p>' in html
        assert html.index(line) < html.index(">remarks</th>")
        assert report.index("\n- " + markdown.escape(line)) < report.index("| verdict | remarks |")


def test_a_comparison_without_remarks_has_none():
    rows, _, html = compared(comparison_of(*ENTRIES[:3]))
    assert [row[5] for row in rows] == [""] * 3
    beside = html.split('id="side-by-side"', 1)[1].split("</section>", 1)[0]
    assert 'class="remark"' not in beside
