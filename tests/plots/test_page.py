"""A page in headless Chromium: it needs nothing else, and every drawing can be read at every width, in light and in dark.

The tests look at structure, not at pixels: which texts overlap or leave their drawing, and which colours stand on which ground. They are
skipped if there is no browser.
"""

import json
import shutil
from unittest import mock

import pytest
import test_sections
from builders import ENTRIES, EVIDENCE, LADDER, comparison_of, entry, gate_of, make, noise_of, other_losses, recorded, report_of, run, study_of, valid, without_number, worth

from charts.attribution import COLORS

playwright = pytest.importorskip("playwright.sync_api")
vl_convert = pytest.importorskip("vl_convert")
BROWSER = next(filter(None, map(shutil.which, ["chromium", "google-chrome", "chromium-browser"])), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium")

WIDTHS = [1440, 900, 390]


def page_of(document, folder):
    source = folder / "document.json"
    source.write_text(json.dumps(valid(document)))
    with mock.patch.object(vl_convert, "svg_to_png", return_value=b"not looked at here"):  # it takes as long as all the rest
        done = run(source, folder / "out")
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "out" / ("gate.html" if document["kind"] == "gate" else "report.html")


def long_names():
    study = make([("a name of some length " * 500, 900.0), ("W" * 300, 700.0), *LADDER[2:]], runs=1)
    without_number(study, 1, "failed", "no space in this reason: " + "x" * 5000)
    study["warnings"], study["device"]["name"] = ["warned " * 400], "Processor" * 60
    return report_of(study)


def gate():
    entries = [entry(f"{name} {i}", 1.0 + 0.01 * i, "SAME") for i in range(20) for name in ("a name of some length " * 50, "W" * 300)]
    outlier = entries[0] | {"head_runs_ms": [*entries[0]["base_runs_ms"][:5], 50000.0]}
    noisy = entry("noisy", 1.3, "INCONCLUSIVE", 0.5)
    made = gate_of("REGRESSION", comparison_of(outlier, noisy, other_losses(ENTRIES[2]), *entries[1:]), [None] * 42, ["reason " * 200])
    return made | {"calibration": [noise_of((6, 0.013), (12, 0.009))]}


def worths():
    return report_of(study_of("factorial", *(worth(name, 0.23, method=method) | {"lo": 0.0364, "hi": 1.49} for method in COLORS for name in ("bf16", "flash"))))


DOCUMENTS = {name: test_sections.DOCUMENTS[name] for name in ("everything", "two", "mixed", "not usable", "peers", "sweep", "training")} | {
    "long names": long_names, "gate": gate, "worths": worths,
    "a hundred rungs": lambda: report_of(make([(f"optimization number {i}", 2000.0 - 5 * i) for i in range(100)], runs=1))}


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
    """opened(file, width, scheme): the page with all of it unfolded, in `page` if that is given. No page may have logged an error or made
    a request."""
    contexts, trouble, ours = [], [], set()

    def open_page(file, width=1440, scheme="light", page=None, unfold=True):
        ours.add(file.as_uri())
        if page is None:
            contexts.append(browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme))
            page = contexts[-1].new_page()
            page.on("console", lambda message: trouble.append(f"console: {message.text}"))
            page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
            page.on("dialog", lambda dialog: (trouble.append("a dialog"), dialog.dismiss()))
            page.on("request", lambda r: trouble.append(f"request: {r.url}") if r.url.split("#")[0] not in ours and not r.url.startswith("data:") else None)
        page.goto(file.as_uri())
        if unfold:
            page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
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
      if (t.box.left < 0 || t.box.right > document.documentElement.clientWidth) faults.push(`${svg.parentElement.id}: cut: ${t.text}`);
      if (t.size < 8.5) faults.push(`${svg.parentElement.id}: ${t.size} px: ${t.text}`);
    }
    for (let i = 0; i < texts.length && faults.length < 20; i++) for (let k = i + 1; k < texts.length; k++) {
      const a = texts[i].box, b = texts[k].box;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && high > 0.35 * Math.min(a.height, b.height)) faults.push(`${svg.parentElement.id}: overlap: ${texts[i].text} | ${texts[k].text}`);
    }
  }
  return { faults: faults.slice(0, 10), drawings };
}"""


# The colours of drawings that the dark scheme has not replaced.
LEFT_LIGHT = """() => { const out = new Set();
        for (const e of document.querySelectorAll('.drawing svg *')) for (const a of ['fill', 'stroke']) {
          const named = e.getAttribute(a);
          if (!named || named === 'none' || named === 'transparent' || named.startsWith('url')) continue;
          const probe = document.createElement('i'); probe.style.color = named; document.body.append(probe);
          if (getComputedStyle(probe).color === getComputedStyle(e)[a]) out.add(named);
          probe.remove(); }
        return [...out]; }"""


@pytest.mark.parametrize("width", [pytest.param(width, marks=pytest.mark.thorough if width == 900 else ()) for width in WIDTHS])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_drawings_can_be_read(pages, opened, name, width):
    assert pages(name).stat().st_size < 3_000_000
    page = opened(pages(name), width)
    seen = page.evaluate(READABLE)
    assert seen["faults"] == []
    assert seen["drawings"] == page.locator("figure").count() > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # no sideways scrolling
    if width == WIDTHS[0]:
        assert page.evaluate(LEFT_LIGHT) != []
        page.emulate_media(color_scheme="dark")
        assert page.evaluate(LEFT_LIGHT) == []
        for picture in (pages(name).parent / "charts").glob("*.svg"):  # which cuts what leaves it, and has the font that is there
            page = opened(picture, page=page, unfold=False)
            cut = page.evaluate("""() => { const width = document.documentElement.viewBox.baseVal.width;
                return [...document.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect()])
                  .filter(([, box]) => box.left < 0 || box.right > width).map(([text]) => text); }""")
            assert cut == [], picture.name


def test_overlapping_and_cut_labels_are_found(pages, opened):
    """The check above finds such faults."""
    page = opened(pages("peers"))
    page.evaluate("""() => { const t = [...document.querySelectorAll('#ladder-drawing text')];
        const [a, b, c] = ['+ bf16 autocast', 'plain fp32', '+ fused AdamW'].map((name) => t.find((x) => x.textContent === name));
        a.setAttribute('transform', b.getAttribute('transform'));
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
@pytest.mark.parametrize("name", ["mixed", "two", "not usable", "gate"])
def test_every_text_stands_out_in_light_and_in_dark(pages, opened, name, scheme):
    page = opened(pages(name), scheme=scheme)
    contrast = page.evaluate(CONTRAST)
    assert len(contrast) > 100 and contrast[0][0] >= 4.5, contrast[:5]
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


def test_a_page_is_folded_and_a_link_of_its_ladder_unfolds_a_rung(pages, opened):
    page = opened(pages("mixed"), unfold=False)
    assert page.locator("details[open]").count() == 0 and page.locator("#ladder-drawing").is_visible()
    page.locator('#ladder-drawing a[href="#rung-5"]').first.click()
    page.wait_for_selector("#rung-5[open]")
    assert page.locator("details[open]").count() == 1
    assert "void: losses leave the reference" in page.inner_text("#rung-5")
    page.locator(".where a").click()
    page.wait_for_selector("#trust[open]")


def test_keyboard_and_tooltips(pages, opened):
    page = opened(pages("peers"))
    page.locator("#ladder-drawing").focus()
    assert page.locator("#tooltip").is_hidden()
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#tooltip").startswith("plain fp32: 677 tokens/s, 1,512 ms")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#tooltip").startswith("+ bf16 autocast: 1.01K tokens/s")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#tooltip").startswith("+ zero copy data: 1.77K tokens/s")  # around the end
    page.keyboard.press("Escape")
    assert page.locator("#tooltip").is_hidden()
    page.locator('#ladder-drawing [aria-label^="+ fused AdamW"]').first.hover()
    assert page.inner_text("#tooltip").startswith("+ fused AdamW: 1.65K tokens/s")
    box = page.locator("#tooltip").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 1440


def test_it_prints(pages, opened):
    page = opened(pages("peers"), width=390, scheme="dark", unfold=False)
    assert page.pdf()[:5] == b"%PDF-" and page.locator("details:not([open])").count() == 0  # all of it
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('#ladder-drawing text')).fill") != "rgb(230, 232, 236)"


def test_markup_stays_text(tmp_path, opened):
    for i, document in enumerate(test_sections.hostile()):
        (tmp_path / str(i)).mkdir()
        page = opened(page_of(document, tmp_path / str(i)))
        assert page.locator("img").count() == 0 and page.locator("script").count() == 1 and page.inner_text("main").count("alert(1)") >= 5
        assert document["kind"] == "gate" or "<script>alert(1)</script>" in page.inner_text("h1")


def test_no_script_or_style_but_its_own_is_obeyed(pages, browser, tmp_path):
    """If markup gets into a page in spite of the escaping, the policy in its head stops it."""
    text = pages("peers").read_text()
    planted = ("<base href='https://example.com/'><script>document.title = 'owned'</script><style>main { display: none }</style>"
               "<i id='handler' onclick=\"document.title = 'owned'\">x</i><p id='dressed' style='opacity: 0'>x</p>"
               "<form action='https://example.com/'><button id='send'>x</button></form>")
    page = tmp_path / "planted.html"
    page.write_text(text.replace("<main>", f"<main>{planted}", 1))
    context = browser.new_context()
    opened, asked = context.new_page(), []
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(page.as_uri())
    opened.evaluate("document.querySelector('#handler').click()")
    assert opened.title() == text.split("<title>", 1)[1].split("</title>", 1)[0]
    assert opened.locator("main").is_visible() and opened.evaluate("getComputedStyle(document.querySelector('#dressed')).opacity") == "1"
    assert opened.evaluate("document.baseURI") == page.as_uri()
    opened.locator("#ladder-drawing").focus()
    opened.keyboard.press("ArrowRight")
    assert opened.locator("#tooltip").is_visible()  # its own script works
    with opened.expect_console_message(lambda message: "form-action 'none'" in message.text):
        opened.evaluate("document.querySelector('#send').click()")
    assert asked == [page.as_uri()]
    context.close()


@pytest.mark.parametrize("folder", [pytest.param(folder, id=folder.name, marks=() if i % 4 == 0 else pytest.mark.thorough)
                                    for i, folder in enumerate(EVIDENCE)])
def test_recorded_evidence_has_a_page(tmp_path, opened, folder):
    page = opened(page_of(recorded(folder, tmp_path), tmp_path), 390)
    assert page.evaluate(READABLE)["faults"] == []
