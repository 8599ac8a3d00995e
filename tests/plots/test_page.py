"""report.html in headless Chromium: it needs nothing else, and every drawing can be read at every width, in light and in dark.

The tests look at structure, not at pixels: which texts overlap or leave their drawing, and which colours stand on which ground. They are
skipped if there is no browser.
"""

import json
import shutil
from unittest import mock

import pytest
from builders import (ENTRIES, EVIDENCE, LADDER, PARTS, about_batches, calibrated, comparison_of, disturbed, entry, gate_of, history_of, lr_sweep_of, make, mixed,
                      noise_of, other_losses, predicted, recorded, remarked, report_of, run, series_of, to_loss_of, trace_of, training_report_of, valid,
                      with_peers, without_number)
from test_modes import factorial, sweep, worth

from charts.attribution import COLORS

playwright = pytest.importorskip("playwright.sync_api")
vl_convert = pytest.importorskip("vl_convert")
BROWSER = next(filter(None, map(shutil.which, ["chromium", "google-chrome", "chromium-browser"])), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium")

WIDTHS = [1440, 900, 390]
EVIL = "<img src=https://example.com/x onerror=alert(1)> </script><script>alert(2)</script> \" ' & {{ 7*7 }} \x1b[31m \u202e"


def page_of(document, folder):
    source = folder / "document.json"
    source.write_text(json.dumps(valid(document)))
    with mock.patch.object(vl_convert, "svg_to_png", return_value=b"not looked at here"):  # it takes as long as all the rest
        done = run(source, folder / "out")
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "out" / ("gate.html" if document["kind"] == "gate" else "report.html")


def long_names():
    study = make([("a name of some length " * 500, 900.0), ("W" * 300, 700.0), *LADDER[2:]])
    without_number(study, 1, "failed", "no space in this reason: " + "x" * 5000)
    study["warnings"] = ["warned " * 400]
    study["device"]["name"] = "Processor" * 60
    return study


def beside():
    gate = gate_of("REGRESSION", comparison_of(*ENTRIES), [{"floor": 0.013, "source": "calibration"}] * 3 + [None])
    history = history_of(series_of("+ flash", "slower", jump=1.04), series_of("+ bf16", "unchanged"))
    return report_of(make(device="cuda"), gates=[gate], histories=[history], traces=[trace_of(*PARTS)])


def doubtful():
    comparison = comparison_of(ENTRIES[0], disturbed(ENTRIES[1]), disturbed(other_losses(ENTRIES[2])), other_losses(ENTRIES[3]))
    comparison["words"]["remarks"] = comparison["words"]["notes"] = ["Warning: r2-01-tf32: killed by signal 9 " + "x" * 500]
    gate = gate_of("REGRESSION", comparison, [None] * 4)
    return report_of(make(), make(device="cuda"), comparison=comparison, gates=[gate])


def gate():
    comparison = comparison_of(ENTRIES[0], disturbed(ENTRIES[1]), other_losses(ENTRIES[2]), entry("noisy", 1.3, "INCONCLUSIVE", 0.5))
    comparison["words"]["differences"] = ["FORCED: torch: 2.10 against 2.11"]
    made = gate_of("REGRESSION", comparison, [{"floor": 0.013, "source": "calibration"}] * 3 + [None], ["+ bf16 autocast: 1.045 of base's time"])
    return calibrated(made | {"warnings": ["+ flash: the losses are no longer the same to the bit"]}, noise_of((6, 0.013), (12, 0.009)))


def long_gate():
    entries = [entry(f"{name} {i}", 1.0 + 0.01 * i, "SAME") for i in range(20) for name in ("a name of some length " * 50, "W" * 300)]
    outlier = entries[0] | {"head_runs_ms": [*entries[0]["base_runs_ms"][:5], 50000.0], "loss": other_losses(entries[0])["loss"]}
    made = gate_of("REGRESSION", comparison_of(outlier, *entries[1:]), [None] * len(entries), ["reason " * 200])
    return made | {"against": "baseline", "warnings": ["warned " * 400] * 3}


def nothing():
    study = make(LADDER[:3])
    for i in range(3):
        without_number(study, i, "failed", "exit status 3")
    study["headline"] = None
    return study


def worths():
    study = factorial()
    study["attribution"] = [worth(name, 0.23, method=method) | {"lo": 0.0364, "hi": 1.49} for method in COLORS for name in ("bf16", "flash")]
    return study


DOCUMENTS = {
    "ladder": lambda: report_of(make()),
    "every status": lambda: predicted(report_of(mixed())),
    "a GPU": lambda: report_of(about_batches(make(device="cuda"))),
    "single runs": lambda: report_of(make(runs=1)),
    "no number": lambda: report_of(nothing()),
    "long names": lambda: report_of(long_names()),
    "two hundred rungs": lambda: report_of(make([(f"optimization number {i}", 2000.0 - 5 * i) for i in range(200)])),
    "PyTorch": lambda: report_of(with_peers(("PyTorch eager", 2.0), ("PyTorch compile", 0.9), ("PyTorch, CUDA graphs", 1.01))),
    "factorial": lambda: report_of(factorial()),
    "worths by every method": lambda: report_of(worths()),
    "sweep": lambda: report_of(sweep()),
    "two studies": lambda: report_of(make(), make(device="cuda"), comparison=comparison_of(*ENTRIES[:3])),
    "two doubtful studies": doubtful,
    "nothing in common": lambda: report_of(make(LADDER[:3]), make(LADDER[4:], device="cuda")),
    "everything beside": beside,
    "gate": gate,
    "a gate's long names": long_gate,
    "a training": lambda: training_report_of(200, 20),
    "learning rates": lr_sweep_of,
    "time to a loss": to_loss_of,
}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    made = {}

    def page(name):
        if name not in made:
            made[name] = page_of(DOCUMENTS[name](), tmp_path_factory.mktemp("page"))
        return made[name]

    return page


@pytest.fixture
def opened(browser):
    """opened(file, width, scheme): the page, in `page` if that is given. No page may have logged an error or made a request."""
    contexts, trouble, ours = [], [], set()

    def open_page(file, width=1440, scheme="light", page=None, **options):
        ours.add(file.as_uri())
        if page is not None:
            page.goto(file.as_uri())
            return page
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (trouble.append("a dialog"), dialog.dismiss()))
        page.on("request", lambda r: trouble.append(f"request: {r.url}") if r.url not in ours and not r.url.startswith("data:")
                else None)
        page.goto(file.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []


# The faults of all texts shown in drawings: texts that leave the drawing or the window, are too small, or overlap.
READABLE = """() => {
  const faults = [];
  let drawings = 0;
  for (const svg of document.querySelectorAll('.drawing svg')) {
    if (!svg.getClientRects().length) continue;
    drawings += 1;
    const texts = [...svg.querySelectorAll('text')].filter((t) => t.textContent.trim() && getComputedStyle(t).opacity !== '0')
      .map((t) => ({ text: t.textContent, box: t.getBoundingClientRect(), size: parseFloat(getComputedStyle(t).fontSize)
                     * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width }));
    for (const t of texts) {
      if (t.box.left < 0 || t.box.right > document.documentElement.clientWidth) faults.push(`${svg.id}: cut: ${t.text}`);
      if (t.size < 8.5) faults.push(`${svg.id}: ${t.size} px: ${t.text}`);
    }
    for (let i = 0; i < texts.length && faults.length < 20; i++) for (let k = i + 1; k < texts.length; k++) {
      const a = texts[i].box, b = texts[k].box;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && high > 0.35 * Math.min(a.height, b.height)) faults.push(`${svg.id}: overlap: ${texts[i].text} | ${texts[k].text}`);
    }
  }
  return { faults: faults.slice(0, 10), drawings };
}"""


# The colours of drawings that the dark scheme has not replaced.
LEFT_LIGHT = """() => { const out = new Set();
        for (const e of document.querySelectorAll('.drawing.wide svg *')) for (const a of ['fill', 'stroke']) {
          const named = e.getAttribute(a);
          if (!named || named === 'none' || named === 'transparent' || named.startsWith('url')) continue;
          const probe = document.createElement('i'); probe.style.color = named; document.body.append(probe);
          if (getComputedStyle(probe).color === getComputedStyle(e)[a]) out.add(named);
          probe.remove(); }
        return [...out]; }"""


@pytest.mark.parametrize("width", [pytest.param(width, marks=pytest.mark.thorough if width == 900 else ()) for width in WIDTHS])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_drawings_can_be_read(pages, opened, name, width):
    page = opened(pages(name), width)
    seen = page.evaluate(READABLE)
    assert seen["faults"] == []
    assert seen["drawings"] == page.locator("figure").count() > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # no sideways scrolling
    if width == WIDTHS[0]:
        assert page.evaluate(LEFT_LIGHT) != []
        page.emulate_media(color_scheme="dark")
        assert page.evaluate(LEFT_LIGHT) == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_pictures_have_room_for_the_font_that_is_there(pages, opened, name):
    """A picture cuts what leaves it. A browser without the charts' fonts takes a wider one."""
    page = None
    for picture in (pages(name).parent / "charts").glob("*.svg"):
        page = opened(picture, page=page)
        cut = page.evaluate("""() => { const width = document.documentElement.viewBox.baseVal.width;
            return [...document.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect()])
              .filter(([, box]) => box.left < 0 || box.right > width).map(([text]) => text); }""")
        assert cut == [], picture.name


def test_overlapping_and_cut_labels_are_found(pages, opened):
    """The check above finds such faults."""
    page = opened(pages("ladder"))
    page.evaluate("""() => { const t = document.querySelectorAll('.drawing.wide svg text');
        const a = [...t].find((x) => x.textContent === '+ bf16 autocast'), b = [...t].find((x) => x.textContent === 'plain fp32');
        a.setAttribute('transform', b.getAttribute('transform'));
        const c = [...t].find((x) => x.textContent === '+ fused AdamW');
        c.setAttribute('transform', 'translate(-900,0)'); }""")
    faults = page.evaluate(READABLE)["faults"]
    assert any("overlap: plain fp32 | + bf16 autocast" in f for f in faults) and any("cut: + fused AdamW" in f for f in faults)


# The contrast (WCAG 2) of each text in the page with its background, the least first.
CONTRAST = """() => {
  const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const luminance = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
                             return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
                            if (c.length === 3 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
  const out = [];
  for (const e of document.querySelectorAll('main *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || ['STYLE', 'SCRIPT'].includes(e.tagName)) continue;
    const ink = parse(e instanceof SVGElement ? getComputedStyle(e).fill : getComputedStyle(e).color).slice(0, 3);
    const [a, b] = [luminance(ink), luminance(ground(e))];
    out.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.textContent.trim().slice(0, 60)]);
  }
  return out.sort((x, y) => x[0] - y[0]);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["every status", "two doubtful studies", "gate"])
def test_every_text_stands_out_in_light_and_in_dark(pages, opened, name, scheme):
    page = opened(pages(name), scheme=scheme)
    contrast = page.evaluate(CONTRAST)
    assert len(contrast) > 100 and contrast[0][0] >= 4.5, contrast[:5]
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


def test_sections_and_contents(pages, opened):
    page = opened(pages("every status"))
    links = page.locator("nav a")
    assert links.count() >= 15
    for i in range(links.count()):
        target = links.nth(i).get_attribute("href")
        assert page.locator(target).count() == 1, target
    for i in range(9):
        assert page.locator(f"#rung-{i}").count() == 1
    text = page.inner_text("main")
    for words in ("Can it be trusted?", "not applicable: needs a CUDA device", "void: losses leave the reference", "Run it alone",
                  "ladder run --ladder gpt2 --rung", "How to read this", "What is not here", "Guard: close enough", "field_2", "Predicted and measured", "29.5 GB"):
        assert words in text, words
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


def test_a_gate_says_what_it_found_and_how_far_to_trust_it(pages, opened):
    page = opened(pages("gate"))
    links = page.locator("nav a")
    assert [links.nth(i).get_attribute("href") for i in range(links.count())] == ["#verdict", "#trust", "#pairs", "#noise", "#how", "#circumstances"]
    assert all(page.locator(links.nth(i).get_attribute("href")).count() == 1 for i in range(links.count()))
    message = "step 3 has loss 9.5000, the reference 9.1900: 0.3100 nats apart, 0.02 allowed"
    assert page.inner_text(".headline") == "What gate shows"
    assert page.inner_text("#trust + dl").split() == ["Losses", "differ", "seen", "here"] and page.inner_text("#trust + dl code") == "here"
    text = page.inner_text("main")
    for words in ("REGRESSION, exit status 1. What the verdict means.", "1 warning", f"LOSSES DIFFER: {message}", "2 of the runs were disturbed: base r1-02-flash throttled",
                  "Warning: + flash: the losses", "What pairs shows", "How to read the pairs.", "What the floor of + flash means.", "The ratio is head's time by base's.",
                  "AMD EPYC", "FORCED: torch: 2.10"):
        assert words in text, words
    assert page.locator("#noise ~ div td").all_inner_texts()[:4] == ["6", "1.3 %", "12", "0.9 %"]
    page.locator("#pairs-wide").focus()
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#tooltip") == "pair 1: 0.999×, 503 ms → 503 ms"


@pytest.mark.parametrize("verdict", ["FAILED", "SAVED"])
def test_a_gate_without_a_comparison_has_a_page(tmp_path, opened, verdict):
    reasons = ["head run r1-01: killed"] if verdict == "FAILED" else []
    page = opened(page_of(gate_of(verdict, None, [], reasons), tmp_path))
    assert page.inner_text(".headline") == "What gate shows" and page.locator("table, figure").count() == 0
    assert page.locator("main li").first.inner_text() == (reasons[0] if reasons else page.locator("#how ~ ul li").first.inner_text())


def test_markup_in_a_gate_stays_text(tmp_path, opened):
    hostile = entry(EVIL, 1.05, "REGRESSION") | {"flags": [f"base {EVIL}"], "recipe": {EVIL: EVIL}, "setting": {"device": EVIL, EVIL: EVIL}}
    comparison = comparison_of(remarked(hostile, EVIL, "warn", EVIL)) | {"words": {"how": EVIL, "differences": [EVIL], "remarks": [EVIL], "notes": [EVIL]}}
    comparison["base"] = comparison["head"] = {"source": EVIL, "runs": 6, "programs": [EVIL], "left_out": []}
    document = calibrated(gate_of("REGRESSION", comparison, [None], [EVIL]) | {"warnings": [EVIL]}, noise_of((6, 0.01)) | {"label": EVIL})
    document["words"] |= {"pairs": EVIL, "pairs_note": EVIL, "how_to_read": [{"term": EVIL, "words": EVIL}]}
    page = opened(page_of(document, tmp_path))
    assert page.locator("img").count() == 0 and page.locator("script").count() == 1
    assert page.inner_text("main").count("alert(2)") >= 8


def test_keyboard_and_tooltips(pages, opened):
    page = opened(pages("ladder"))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("#ladder-wide").focus()
    assert page.locator("#tooltip").is_hidden()
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#tooltip").startswith("plain fp32: 1,512 ms (1,497 ms to 1,527 ms)")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#tooltip").startswith("+ bf16 autocast: 1,013 ms")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#tooltip").startswith("+ zero copy data: 579 ms")  # around the end
    page.keyboard.press("Escape")
    assert page.locator("#tooltip").is_hidden()
    page.locator('#ladder-wide [aria-label^="+ fused AdamW"]').first.hover()
    assert page.inner_text("#tooltip").startswith("+ fused AdamW: 622 ms")
    box = page.locator("#tooltip").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 1440


def test_it_prints(pages, opened):
    page = opened(pages("ladder"), width=390, scheme="dark")
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden() and page.locator("#ladder-wide").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('#ladder-wide text')).fill") != "rgb(230, 232, 236)"
    assert page.pdf()[:5] == b"%PDF-"


def test_markup_stays_text(tmp_path, opened):
    study = make()
    for r in study["rungs"]:
        r["title"] = r["label"] = r["summary"] = EVIL
        r["recipe_diff"] = {EVIL: [EVIL, "\\|"]}
        r["flags"] = [EVIL]
        r["guard"]["message"] = EVIL
        r["proofs"] = [{"field": EVIL, "passed": False, "expected": EVIL, "observed": EVIL}]
    without_number(study, 3, "failed", EVIL)
    study["ladder"] = {"name": EVIL, "title": EVIL}
    study["warnings"], study["environment"] = [EVIL], {EVIL: EVIL, "torch": EVIL, "git_commit": EVIL}
    study["device"]["name"] = study["created"] = study["workload"]["model"] = study["id"] = EVIL
    study["statistics"]["center"] = study["statistics"]["interval"] = EVIL
    page = opened(page_of(report_of(study, notes=[EVIL]), tmp_path))
    assert page.locator("img").count() == 0 and page.locator("script").count() == 1
    assert "alert(2)" in page.inner_text("main")
    assert "{{ 7*7 }}" in page.inner_text("h1")


def test_no_script_or_style_but_its_own_is_obeyed(pages, browser, tmp_path):
    """If markup gets into a page in spite of the escaping, the policy in its head stops it."""
    text = pages("ladder").read_text()
    assert "unsafe-inline" not in text
    planted = ("<base href='https://example.com/'><script>document.title = 'owned'</script><style>main { display: none }</style>"
               "<i id='handler' onclick=\"document.title = 'owned'\">x</i><p id='dressed' style='opacity: 0'>x</p>"
               "<form action='https://example.com/'><button id='send'>x</button></form>")
    page = tmp_path / "planted.html"
    page.write_text(text.replace('<main id="content">', f'<main id="content">{planted}', 1))
    context = browser.new_context()
    opened, asked = context.new_page(), []
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(page.as_uri())
    opened.evaluate("document.querySelector('#handler').click()")
    assert opened.title() == text.split("<title>", 1)[1].split("</title>", 1)[0]
    assert opened.locator("main").is_visible() and opened.evaluate("getComputedStyle(document.querySelector('#dressed')).opacity") == "1"
    assert opened.evaluate("document.baseURI") == page.as_uri()
    opened.locator("#ladder-wide").focus()
    opened.keyboard.press("ArrowRight")
    assert opened.locator("#tooltip").is_visible()  # its own script works
    with opened.expect_console_message(lambda message: "form-action 'none'" in message.text):
        opened.evaluate("document.querySelector('#send').click()")
    assert asked == [page.as_uri()]
    context.close()


def test_size(pages):
    for name in DOCUMENTS:
        assert pages(name).stat().st_size < 3_000_000, name


@pytest.mark.parametrize("folder", [pytest.param(folder, id=folder.name, marks=() if i % 4 == 0 else pytest.mark.thorough)
                                    for i, folder in enumerate(EVIDENCE)])
def test_recorded_evidence_has_a_page(tmp_path, opened, folder):
    page = opened(page_of(recorded(folder, tmp_path), tmp_path), 390)
    assert page.evaluate(READABLE)["faults"] == []
