"""report.html, of a study or a training, and gate.html: each is one file that works from a disk, without a network.

The page has every chart twice, wide and narrow; its width decides which is shown. A rule for each of theme's colours makes the same
drawing dark. Every value is escaped. The page's policy forbids loading anything, and all styles and scripts but its own two, which
it names by their SHA-256.
"""

import base64
import hashlib
import json
import re
from pathlib import Path

import study as words_of
import theme
import words
from letters import fitted
from words import clean

HERE = Path(__file__).resolve().parent


def escaped(value):
    """A value for Jinja's autoescape, without control characters. Our own HTML stays as it is."""
    return clean(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def commands(text):
    """A sentence of the program. Its `code` becomes code."""
    import markupsafe

    return markupsafe.Markup("").join(markupsafe.Markup("<code>{}</code>").format(part) if i % 2 else markupsafe.escape(part)
                                      for i, part in enumerate(clean(text).split("`")))


def lines(text):
    """Lines of code or figures. Their blanks stay."""
    import markupsafe

    shown = "\n".join(" ".join(map(clean, line.split(" "))) for line in text.split("\n"))
    return markupsafe.Markup('<pre tabindex="0">{}</pre>').format(shown)


def paragraphs(text):
    """A text of the program: paragraphs, and blocks of lines that begin with four blanks."""
    import markupsafe

    blocks = [block for block in text.split("\n\n") if block.strip()]
    return markupsafe.Markup("\n").join(
        lines("\n".join(line[4:] for line in block.split("\n"))) if all(line.startswith("    ") for line in block.split("\n"))
        else markupsafe.Markup("<p>{}</p>").format(commands(block)) for block in blocks)


def inline(svg, name, label):
    """Vega's SVG as a part of the page, with names that no other drawing has, and reachable by keyboard."""
    import markupsafe

    # Two decimals are enough on a screen, and parts that Vega does not show are not needed.
    svg = re.sub(r' (?:d|transform)="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m[0]), svg)
    svg = re.sub(r'<path class="(?:foreground|background)" aria-hidden="true" d="[^"]*"(?: display="none")?/>', "", svg)
    svg = fitted(svg).replace(f' font-family="{theme.FONT}"', "")  # page.css says it once
    svg = re.sub(r'\b(id="|url\(#)([\w-]+)', lambda m: f"{m[1]}{name}-{m[2]}", svg)
    head = f'<svg id="{name}" tabindex="0" role="group" aria-label="{markupsafe.escape(clean(label))}" '
    return markupsafe.Markup(re.sub(r"^\s*<svg ", lambda _: head, svg, count=1))


def drawings(one):
    """(wide, narrow)"""
    import vl_convert

    return [inline(vl_convert.vegalite_to_svg(one.bare(narrow), allowed_base_urls=[]), f"{one.name}-{'narrow' if narrow else 'wide'}",
                   f"{one.chart.finding} Arrow keys go through the values." if one.chart.finding.endswith(".")
                   else f"{one.chart.finding}. Arrow keys go through the values.")
            for narrow in (False, True)]


def style():
    css = (HERE / "page.css").read_text(encoding="utf-8")
    dark = theme.dark_rules(".drawing ")
    return f"\n{css}@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def policy(css, script):
    """The page's Content-Security-Policy. `css` and `script` are exactly what its <style> and <script> contain."""
    def source(text):
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (f"default-src 'none'; style-src {source(css)}; script-src {source(script)}; img-src data:; base-uri 'none'; "
            "form-action 'none'")


def as_text(value):
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)


def render(template, shown):
    """The page of report.html.j2 with view.view's dict, of gate.html.j2 with gate_view.view's, or of training.html.j2 with
    training_view.view's."""
    import jinja2
    import markupsafe

    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(HERE), undefined=jinja2.StrictUndefined, finalize=escaped,
                                     trim_blocks=True, lstrip_blocks=True, autoescape=True)

    def between(estimate, show):
        if estimate["lo"] is None or estimate["hi"] is None:
            return ""
        return markupsafe.Markup(' <span class="interval">{}</span>').format(words.between(estimate["lo"], estimate["hi"], show))

    def evidence(part):
        return markupsafe.Markup(" <small>{}</small>").format(clean(part["said"]["evidence"])) if part["said"]["evidence"] else ""

    environment.filters.update(
        commands=commands, lines=lines, paragraphs=paragraphs, ms=words.milliseconds, digits=words.digits3, plain=words.plain, times=words.times, count=words.count,
        clean_lines=lambda text: markupsafe.escape(words.clean_lines(text)), memory=words.memory, percent=words.percent, rate=words.rate, shorten=words.shorten,
        ms_span=lambda e: between(e, words.digits3), times_span=lambda e: between(e, words.times))
    environment.globals.update(of=words_of, as_text=as_text, evidence=evidence, drawings=drawings,
                               number_of=words.number_of)
    css, script = style(), (HERE / "page.js").read_text(encoding="utf-8")
    environment.globals.update(style=markupsafe.Markup(css), script=markupsafe.Markup(script),
                               policy=markupsafe.Markup(policy(css, script)))
    return environment.get_template(template).render(**shown)
