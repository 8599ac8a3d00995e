"""A page as HTML: one file that works from a disk, without a network.

A rule for each of theme's colours makes its drawings dark. Every value is escaped. The page's policy forbids loading anything, and all
styles and scripts but its own two, which it names by their SHA-256.
"""

import base64
import hashlib
import json
import re
from pathlib import Path

import picture
import theme
from sections import trust
from study import is_usable
from words import clean

HERE = Path(__file__).resolve().parent


def escaped(value):
    """A value for Jinja's autoescape, in one line. Our own HTML stays as it is."""
    return clean(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def commands(text):
    """A sentence of the program. Its `code` becomes code, its **words** strong."""
    import markupsafe

    forms = {"`": "<code>{}</code>", "*": "<strong>{}</strong>"}
    return markupsafe.Markup("").join(
        markupsafe.Markup(forms[part[0]]).format(part.strip("`*")) if re.fullmatch(r"`[^`]+`|\*\*[^*]+\*\*", part) else markupsafe.escape(part)
        for part in re.split(r"(`[^`]+`|\*\*[^*]+\*\*)", clean(text)))


def paragraphs(text):
    """A text of the program: paragraphs, and blocks of lines that begin with four blanks."""
    import markupsafe

    def shown(block):
        lines = block.split("\n")
        if all(line.startswith("    ") for line in lines):
            return markupsafe.Markup('<pre tabindex="0">{}</pre>').format("\n".join(line[4:] for line in lines))
        return markupsafe.Markup("<p>{}</p>").format(commands(block))

    return markupsafe.Markup("\n").join(shown(block) for block in text.split("\n\n") if block.strip())


def inline(one):
    """A figure's drawing as a part of the page, with names that no other drawing has."""
    import markupsafe

    svg = picture.rendered(theme.bare(one.chart.drawing, clean(one.chart.title)))
    return markupsafe.Markup(re.sub(r'\b(id="|url\(#)([\w-]+)', lambda m: f"{m[1]}{one.name}-{m[2]}", svg))


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


def mood_of(said):
    """How the corner of the page looks: good with a tick, else as the worst remark."""
    severities = {remark["severity"]: remark["code"] for remark in said["remarks"]}
    return "bad" if "bad" in severities else "good" if severities.get("good") == "trust" else "warn" if "warn" in severities else "grey"


def render(page):
    """The HTML of sections.Page."""
    import jinja2
    import markupsafe

    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(HERE), undefined=jinja2.StrictUndefined, finalize=escaped,
                                     trim_blocks=True, lstrip_blocks=True, autoescape=True)
    environment.filters.update(commands=commands, paragraphs=paragraphs, lines=markupsafe.escape)
    css, script = style(), (HERE / "page.js").read_text(encoding="utf-8")
    environment.globals.update(as_text=as_text, inline=inline, style=markupsafe.Markup(css), script=markupsafe.Markup(script),
                               policy=markupsafe.Markup(policy(css, script)))
    return environment.get_template("page.html.j2").render(page=page, trust=trust(page.said), mood=mood_of(page.said), unusable=not is_usable(page.said))
