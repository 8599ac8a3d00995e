"""plots/render.py on made-up studies: the structure and the texts of its files, not their pixels."""

import colorsys
import json
import re
import struct
import xml.etree.ElementTree as ET

from builders import (LADDER, about_batches, evidence, files_in, make, markdown_of, mixed, predicted, report_of, run, table, told, told_study, valid,
                      without_number)

import markdown
import page
import theme
import view
from charts import ladder


# ---- helpers

WHISKER = f'stroke="{theme.INK}" '  # nothing else is drawn with an ink outline

def rendered(study, tmp_path):
    """(report.md, SVG's texts, SVG's source, PNG's (width, height), spec) of the first chart of a study that must render."""
    source, folder = tmp_path / "report.json", tmp_path / "out"
    source.write_text(json.dumps(valid(report_of(study))))
    done = run(source, folder)
    assert (done.returncode, done.stderr) == (0, "")
    *paths, drawings = done.stdout.splitlines()
    assert paths == [str(folder / "report.html"), str(folder / "report.md")]
    names = re.fullmatch(re.escape(str(folder / "charts")) + r": (.+), each as SVG, PNG and Vega-Lite", drawings)[1].split(", ")
    assert files_in(folder) == sorted([f"charts/{one}.{end}" for one in names for end in ("svg", "png", "vl.json")]
                                      + ["report.html", "report.md"])
    name = names[0]
    png = (folder / f"charts/{name}.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    svg = (folder / f"charts/{name}.svg").read_text()
    texts = []  # a text of several lines is one element with a <tspan> each
    for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        texts += [part.text or "" for part in (list(element) or [element])]
    return ((folder / "report.md").read_text(), texts, svg, struct.unpack(">II", png[16:24]),
            json.loads((folder / f"charts/{name}.vl.json").read_text()))


# ---- what is drawn

def test_full_study(tmp_path):
    report, texts, svg, (width, height), spec = rendered(make(), tmp_path)
    assert spec["title"]["text"] == ["Training gpt2-124m: 2.61× faster, from the first to the last rung"]
    assert spec["title"]["subtitle"] == [
        "green: time that a rung saves against the one before", "bars: median of 5 runs · whiskers: 95 % confidence interval"]
    source = "EXAMPLE DATA, not a measurement · gpt2-124m · Example Processor 9000 @ 2.70GHz · 2026-01-02"
    assert source in spec["description"] and any(t.startswith("EXAMPLE DATA, not a measurement · gpt2-124m") for t in texts)
    for text in [*spec["title"]["text"], *spec["title"]["subtitle"], "plain fp32", "1,512 ms", "ms per step", "peak GiB",
                 *("+ " + name for name, _ in LADDER[1:])]:
        assert text in texts
    data = spec["data"]["values"]
    assert [r["rung"] for r in data] == ["plain fp32"] + ["+ " + name for name, _ in LADDER[1:]]
    assert [r["ms"] for r in data] == [ms for _, ms in LADDER]
    assert (data[0]["step"], data[0]["total"]) == ("—", "—")
    last = data[-1]
    assert [last[k] for k in ("time", "step", "total", "tokens", "memory")] == ["579 ms", "1.02×", "2.61×", "1.77K", "1.9"]
    assert (last["lo"], last["hi"]) == (579.0 * 0.99, 579.0 * 1.01)
    # No bar's end, whisker or text leaves the plotting area, and the axis starts at 0.
    axis = spec["layer"][1]["encoding"]["x"]["scale"]["domain"]
    assert axis[0] == 0 and axis[1] > 1.1 * data[0]["hi"]
    assert width > 1500 and height > 2 * 34 * len(LADDER) and svg.count(WHISKER) == len(LADDER)
    rows = table(report)
    assert len(rows) == len(LADDER)
    assert rows[1] == ["+ bf16 autocast", "1,013 (1,003 – 1,023)", "1.49× (1.48× – 1.51×)", "**1.49×** (1.48× – 1.51×)", "1.01K",
                       "2.9"]
    assert rows[6][2:4] == ["1.02× (1.01× – 1.03×)", "**2.61×** (2.59× – 2.64×)"]
    ratio = make()["headline"]["speedup"]
    assert f"**2.61× faster** ({evidence(ratio)}).\nFrom plain fp32 to zero copy data.\n\nMeasured on Example Processor 9000 @ 2.70GHz (cpu), " in report
    assert "\nRanges are intervals.\n" in report
    assert "\n> These are `CPU` figures.\n" in report and "![" in report and "](charts/ladder.svg)" in report
    assert "\n- **Proofs: 7 of 7 passed** (what the runs were `seen` to do)\n" in report
    for section in ["## How to read this\n\n- **A run** is one fresh process.\n", "### 6. + zero copy data", "35 runs planned.\n\n```sh\nladder ablate --ladder gpt2\n```", "5 runs of zero copy data.",
                    "`cpu.model` | `Example`",
                    "What SDPA attention does. And why it helps.", "| `field_3` | `false` | `true` |",
                    "| `attention` | passed | the fused kernel | 1 launch per step |", "\nGuard: close enough, 20 steps.\n"]:
        assert section in report, section


def test_every_number_stands_in_the_study():
    """Figures that do not follow from the other fields are shown as they are."""
    study = make()
    study["rungs"][2]["speedup_previous"]["ratio"] = 7.77
    study["rungs"][2]["speedup_first"]["ratio"] = 8.88
    study["rungs"][2]["tokens_per_s"]["median"] = 9990.0
    data = ladder.rows(valid(study))
    assert (data[2]["step"], data[2]["total"], data[2]["tokens"]) == ("7.77×", "8.88×", "9.99K")


def test_every_status_without_a_number(tmp_path):
    report, texts, svg, _, spec = rendered(mixed(), tmp_path)
    data = spec["data"]["values"]
    reasons = {1: "not applicable: needs a CUDA device, this machine has none",
               4: "failed: 5 of 5 runs: killed by signal 9 (out of memory?)",
               5: "void: losses leave the reference by 0.31 at step 12, tolerance 0.02",
               6: "unproven: the fused kernel was not seen",
               8: "missing"}
    for i, row in enumerate(data):
        assert row["reason"] == reasons.get(i, "")
        if i in reasons:
            assert row["ms"] is None and row["time"] == ""
            assert [row[k] for k in ("step", "total", "tokens", "memory")] == ["—"] * 4
            assert any(t.rstrip("…") and reasons[i].startswith(t.rstrip("…")) for t in texts), reasons[i]
    rows = table(report)
    assert [r[1] for r in rows][1] == "*" + reasons[1] + "*"
    assert all(rows[i][2:] == ["—"] * 4 for i in reasons)
    assert data[7]["slower"] and data[7]["time"] == "811 ms · slower" and data[7]["step_ink"] == theme.SLOWER_INK
    assert not data[3]["slower"]
    subtitle = " ".join(spec["title"]["subtitle"])
    assert "orange: time that it costs" in subtitle
    assert rows[7][2].endswith("slower")
    assert "2026-01-02 · unfinished" in spec["description"]
    assert "| `vocabulary` | **failed** | 50304 rows | 50257 |" in report
    assert "| r4-0 | 4 | 1 | failed | killed by signal 9 |" in report


def mfu(value, type="bf16", reason=""):
    return {"value": value, "formula": f"6 N over the dense {type} peak", "type": type, "reason": reason,
            "peak_flops": None if value is None else 989.5e12, "peak_source": None if value is None else "datasheet, 2023"}


def test_mfu_has_a_column_where_there_is_one():
    study = make(device="cuda")
    for r in study["rungs"]:
        r["mfu"] = mfu(0.1 * r["index"], "fp32" if r["index"] < 2 else "bf16")
    study["rungs"][3]["mfu"] = mfu(None, "fp16", "no peak")
    without_number(study, 4, "failed", "exit status 3")
    study["rungs"][4]["mfu"] = None
    report = markdown_of(valid(study))
    assert [row[6] for row in table(report)] == ["0.0 %", "10.0 %", "20.0 %", "—", "—", "50.0 %", "60.0 %"]
    assert "\nThe MFU in bf16.\n\nThe MFU in fp32.\n" in report


def test_the_clock_has_a_column_where_rungs_work_at_the_power_limit():
    study = make(device="cuda")
    assert "SM clock" not in markdown_of(valid(study))
    study["rungs"][2]["clock"] = {"sm_mhz": 1785, "highest_mhz": 1980, "at_power_limit": 1}
    without_number(study, 3, "failed", "exit status 3")
    assert [row[-1] for row in table(markdown_of(valid(study)))[1:4]] == ["—", "1,785 of 1,980 MHz", "—"]


def test_without_mfu_there_is_no_column():
    study = make()
    for r in study["rungs"]:
        r["mfu"] = mfu(None, reason="there is no table of peaks for CPUs")
    assert len(table(markdown_of(valid(study)))[0]) == 6
    assert len(table(markdown_of(valid(make())))[0]) == 6  # older studies


def test_predictions_stand_beside_what_was_measured():
    study = make()
    without_number(study, 3, "failed", "exit status 3")
    shown = markdown.render(view.view(valid(predicted(report_of(study)))) | {"has_pictures": True})
    assert table(shown, "\nIt counts `bytes` and FLOPs only.")[:4] == [
        ["plain fp32", "30.0 GB", "—", "800 GFLOP", "—", "—", "—"],
        ["+ bf16 autocast", "29.5 GB", "500 MB", "800 GFLOP", "—", "1.25×", "**1.49×** (1.48× – 1.51×)"],
        ["+ SDPA attention", "29.0 GB", "500 MB", "810 GFLOP", "-10.0 GFLOP", "—", "**1.33×** (1.32× – 1.35×)"],
        ["+ vocab 50304", "28.5 GB", "500 MB", "800 GFLOP", "10.0 GFLOP", "—", "—"]]
    assert "Predicted and measured" not in markdown_of(make())  # older records


def test_what_batches_cost_has_a_table_where_a_study_is_about_them():
    study = about_batches(make())
    rows = table(markdown_of(valid(study)), "\nms: the host's `time`.")
    assert rows[0] == ["plain fp32", "2.40 (2.30 – 2.50)", "1.23 %", "66.0 KB", "32.0 KB", "0.5", "3.13 MB", "0 % → 25 %"]
    assert rows[-1][3:] == ["—", "—", "0.5", "—", "—"] and len(rows) == len(study["rungs"])
    assert "What a batch costs" not in markdown_of(make())


def test_a_void_rung_never_shows_its_number():
    study = make()
    study["rungs"][3].update(status="void", reason="losses differ")
    row = ladder.rows(told_study(valid(study)))[3]
    assert row["ms"] is None and row["total"] == "—"
    assert table(markdown_of(study))[3] == ["+ vocab 50304", "*void: losses differ*", "—", "—", "—", "—"]


def test_not_measured_before_the_reference():
    study = make()
    without_number(study, 0, "not_measured", "before the reference")
    study["headline"]["first"] = 1
    assert ladder.rows(told_study(valid(study)))[0]["reason"] == "not measured: before the reference"


def test_single_run_has_no_whiskers(tmp_path):
    report, texts, svg, _, spec = rendered(make(runs=1), tmp_path)
    assert all(r["lo"] is None and r["hi"] is None for r in spec["data"]["values"])
    assert "bars: a single run · no interval" in spec["title"]["subtitle"]
    assert WHISKER not in svg
    assert table(report)[1][1] == "1,013"


def test_an_earlier_rung_that_is_the_fastest_leads(tmp_path):
    study = make()
    study["headline"]["fastest"] = 2
    study["rungs"][2]["speedup_first"] = {"ratio": 2.81, "lo": 2.7, "hi": 2.9, "pairs": 5}
    note = 'What costs time here: "padded" (0.91x). `ladder ablate --mode leave-one-out` says what each is worth.'
    study["notes"] = [note]
    report, _, _, _, spec = rendered(valid(study), tmp_path)
    assert "".join(spec["title"]["text"]).endswith("2.81× faster, from the first to the last rung")
    html = (tmp_path / "out" / "report.html").read_text()
    said = "interval 2.7 to 2.9, 5 pairs of runs"
    assert f'<p class="headline">2.81× faster <small>{said}</small></p>' in html and "<p>From plain fp32 to SDPA attention.</p>" in html
    assert f"**2.81× faster** ({said}).\nFrom plain fp32 to SDPA attention.\n" in report
    told = note.partition("`")[0]
    assert told in html.replace("&#34;", '"') and told in report


def test_a_column_of_speedups_is_headed_as_the_program_says():
    report = report_of(make())
    report["studies"][0]["words"]["vs_first"] = "so far, against “a | b”"
    shown = view.view(valid(report))
    assert "| so far, against “a \\| b” |" in markdown.render(shown | {"has_pictures": False})
    assert "<th>so far, against “a | b”</th>" in page.render("report.html.j2", shown)


def test_a_step_is_called_slower_where_its_whole_interval_is_below_1():
    study = make()
    study["rungs"][3]["speedup_previous"].update(ratio=0.998, lo=0.99, hi=1.01)
    study["rungs"][4]["speedup_previous"].update(ratio=0.9, lo=0.8, hi=0.95)
    study["rungs"][5]["speedup_previous"].update(ratio=0.9, lo=None, hi=None)
    rows = ladder.rows(valid(study))[3:6]
    assert [(row["time"], row["step_ink"], row["slower"]) for row in rows] == [
        ("702 ms", theme.GREY, False), ("622 ms · slower", theme.SLOWER_INK, True), ("590 ms", theme.INK, False)]
    assert rows[0]["aria"].endswith("vs previous 0.998× (0.99× to 1.01×), no clear change, so far 2.15× (2.13× to 2.18×)")
    assert "grey ×: no clear change" in " ".join(ladder.draw(told({"study": study})).lines)
    assert [row[2].endswith("slower") for row in table(markdown_of(study))[3:6]] == [False, True, False]


def test_very_long_texts(tmp_path):
    study = make()
    study["rungs"][2]["label"] = "+ " + "long name " * 40
    without_number(study, 3, "failed", "very long reason " * 100)
    study["device"]["name"] = "processor " * 50
    study["warnings"] = ["throttled " * 90, "second"]
    report, texts, _, (width, _), spec = rendered(study, tmp_path)
    assert width < 2 * 1150
    assert any(t.startswith("+ long name long name") and t.endswith("…") for t in texts)
    assert any(t.startswith("failed: very long reason") and t.endswith("…") for t in texts)
    assert ("long name " * 40).strip() in table(report)[2][0]
    assert any(t.startswith("Warnings: throttled throttled") for t in texts)
    assert "\n- second\n" in report and "- " + ("throttled " * 90).strip() in report


def test_disturbed_rungs(tmp_path):
    study = make(device="cuda")
    study["rungs"][2]["flags"] = ["r2-1 throttled: HwSlowdown in 2 of 9 samples", "r2-3 shared: 1 other process"]
    report, texts, _, _, _ = rendered(study, tmp_path)
    assert "\n- **Disturbed runs: 1 of 35**\n" in report
    assert table(report)[2][0] == "+ SDPA attention (disturbed)" and report.count("(disturbed)") == 1
    assert "\n- Disturbed: run r2-1 throttled: HwSlowdown in 2 of 9 samples\n- Disturbed: run r2-3 shared" in report
    assert "760 ms · disturbed" in texts and sum("disturbed" in text for text in texts) == 1
    plain = markdown_of(make())
    assert "(disturbed)" not in plain and "Disturbed: run" not in plain


EVIL = "<script>alert(1)</script> a|b `c` \x1b[31mred\x07 \n# heading [x](javascript:y) **b** <!-- \ud800 \u202e @you"


def test_markup_and_control_characters_stay_text(tmp_path):
    study = make()
    for r in study["rungs"]:
        r["title"] = r["label"] = r["summary"] = r["reason"] = EVIL
        r["recipe_diff"] = {EVIL: [EVIL, "\\|"]}
        r["flags"] = [EVIL]
        r["guard"]["message"] = EVIL
        r["proofs"] = [{"field": EVIL, "passed": True, "expected": EVIL, "observed": "- " + EVIL}]
    without_number(study, 3, "failed", EVIL)
    study["ladder"] = {"name": "'; rm -rf / `x` #\n", "title": EVIL}
    study["warnings"], study["environment"] = [EVIL, "1. one"], {EVIL: EVIL}
    study["device"]["name"] = study["created"] = study["workload"]["model"] = EVIL
    study["runs"][0].update(status="failed", reason=EVIL)
    report, texts, svg, _, spec = rendered(study, tmp_path)
    assert any(t.startswith("<script>alert(1)</script>") for t in texts)  # as text; ET would not find it as an element's text
    assert "<script" not in svg
    for text in (svg, report, json.dumps(spec, ensure_ascii=False)):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", text)
    outside_code = re.sub(r"(`+)[^`].*?(?<!`)\1(?!`)", "", re.sub(r"(?s)```.*?```", "", report))
    assert "<script" not in outside_code and "<!--" not in outside_code and "@you" not in outside_code
    assert not re.search(r"(?<!\\)`c", outside_code) and not re.search(r"(?<!\\)\[x", outside_code)
    assert not re.search(r"(?m)^# heading", report)
    assert report.count("```") == 2
    assert r"""ladder ablate --ladder ''"'"'; rm -rf / `x` #'""" in report
    # Every table keeps its number of columns.
    for block in re.findall(r"(?m)(?:^\|.*\n)+", report):
        columns = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in block.splitlines()}
        assert len(columns) == 1, block


def test_no_headline(tmp_path):
    study = make([("plain fp32", 1512.0)])
    report, texts, *_ = rendered(study, tmp_path)
    assert "no valid speedup: there is one rung" in " ".join(texts)
    assert "**No valid speedup: there is one rung.**" in report


def test_no_number_at_all(tmp_path):
    study = make(LADDER[:3])
    for i in range(3):
        without_number(study, i, "failed", "exit status 3")
    without_number(study, 0, "not_measured", "comes before the reference")  # which is no fault
    study["headline"] = None
    report, texts, *_, spec = rendered(study, tmp_path)
    assert "".join(spec["title"]["text"]).endswith("no valid speedup: there is one rung")  # each row says why
    assert "ms per step" not in texts and all(r["ms"] is None for r in spec["data"]["values"])


def test_no_rungs(tmp_path):
    study = make([])
    assert "no valid speedup: there is one rung" in " ".join(rendered(study, tmp_path)[1])


def test_what_is_not_clear_is_neither_large_nor_bold():
    study = make()
    ratio = {"ratio": 2.05, "lo": 0.23, "hi": 18.4, "pairs": 4}
    study["rungs"][-1]["speedup_first"] = study["headline"]["speedup"] = ratio
    study["rungs"][0]["speedup_first"] = {"ratio": 1.0, "lo": 1.0, "hi": 1.0, "pairs": 5}
    shown = view.view(valid(report_of(study)))
    html, report = page.render("report.html.j2", shown), markdown.render(shown | {"has_pictures": False})
    assert html.count('<strong class="unclear">2.05×</strong>') == 1 and html.count("<strong>1.00×</strong>") == 1
    assert table(report)[-1][3] == "2.05× (0.23× – 18.4×)" and table(report)[0][3].startswith("**1.00×**")
    rows = ladder.rows(study)
    assert [rows[i]["total_ink"] == theme.GREY for i in (0, 1, -1)] == [False, False, True]
    assert rows[-1]["aria"].endswith("so far 2.05× (0.23× to 18.4×), no clear change")


def test_slower_colour_is_told_apart_without_colour():
    def luminance(colour):
        r, g, b = (int(colour[i:i + 2], 16) for i in (1, 3, 5))
        return 0.299 * r + 0.587 * g + 0.114 * b

    for other in (theme.SLOWER_BAR, theme.SAVED, theme.PALE_BAR):
        assert luminance(other) - luminance(theme.BAR) > 60


def test_orange_is_time_that_is_lost_and_nothing_else():
    """The hue of a colour: orange lies between red and yellow."""
    def orange(colour):
        r, g, b = (int(colour[i:i + 2], 16) for i in (1, 3, 5))
        hue, _, saturation = colorsys.rgb_to_hls(r / 255, g / 255, b / 255)
        return 12 / 360 < hue < 46 / 360 and saturation > 0.5

    named = [colour for colour in theme.DARK if len(colour) == 7]
    assert {colour for colour in named if orange(colour)} == {theme.SLOWER_BAR, theme.SLOWER_INK}
    css = (page.HERE / "page.css").read_text()
    assert {name for name, colour in re.findall(r"--(\w+): (#\w{6})", css) if orange(colour)} == {"slower"}
    for colour in theme.SLOWER_BAR, theme.SLOWER_INK:  # and so it is in the dark
        assert orange(theme.DARK[colour])
