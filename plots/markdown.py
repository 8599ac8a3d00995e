"""A page in GitHub's Markdown has the sections of its HTML, without the long texts of optimizations. Every value is escaped."""

import html
import json
import re

from sections import Code_, trust
from words import clean


def escape(value):
    """A value as literal text in Markdown, in a paragraph, a heading or a table cell."""
    text = clean(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", text)
    # A value never becomes a link or a mention.
    text = re.sub(r"(?i)(?:(?<=http)|(?<=https)|(?<=ftp)):(?=//)|(?<=www)\.|(?<!\w)@(?=\w)", lambda m: f"&#{ord(m[0])};", text)
    # Signs that would begin a heading, a list or a rule at the start of a line.
    return re.sub(r"^(?:([#+\-=])(?=[#+\-=]*(?:\s|$))|(\d+)([.)])(?=\s|$))",
                  lambda m: "\\" + m[1] if m[1] else f"{m[2]}\\{m[3]}", text)


def code(value):
    """A value as a code span for table cells: a string as it is, other values as JSON. No backtick or pipe in it ends the span."""
    text = clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False))
    if not text:
        return "(empty)"
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in (text[0], text[-1]) else ""
    # A table takes \| for a pipe even in code, but would read \\| as an escaped backslash and a cell's end.
    return escape(text) if "\\|" in text else fence + pad + text.replace("|", "\\|") + pad + fence


def block(text):
    """A text of several lines as it is, in a code block."""
    fence = "`" * max(3, max((len(run) + 1 for run in re.findall("`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


def commands(text):
    """A sentence of the program. Its `code` stays code, its **words** strong."""
    parts = re.split(r"(`[^`]+`|\*\*[^*]+\*\*)", clean(text))
    return "".join(part if re.fullmatch(r"`[^`]+`", part) else f"**{escape(part[2:-2])}**" if re.fullmatch(r"\*\*[^*]+\*\*", part)
                   else re.sub(r"\S(?:.*\S)?", lambda m: escape(m[0]), part) for part in parts)


def cell(value):
    if isinstance(value, Code_):
        return code(value.value)
    if isinstance(value, str):
        return escape(value)
    text = f"**{escape(value.text)}**" if value.mood in ("strong", "bad", "slower") and value.text else escape(value.text)
    return text + (" " + re.sub(r"(?<!\\)\|", r"\\|", commands(value.more)) if value.more else "")  # a pipe in code would end the cell, too


def table(one):
    """A sections.Table. A row is one line."""
    rows = [" | ".join(map(escape, (head for head, _ in one.heads))), "|".join("--:" if figures else ":--" for _, figures in one.heads)]
    return "\n".join(f"| {row} |" for row in [*rows, *(" | ".join(map(cell, row)) for row in one.rows)])


def figure(one, has_pictures):
    if has_pictures:
        return f"![{escape(one.chart.title)}](charts/{one.name}.svg)"
    return (f"*No picture of “{escape(one.chart.title)}” here: Jinja2 or vl-convert was not installed.\n"
            f"{code(f'charts/{one.name}.vl.json')} holds it.*")


def paragraphs(blocks, has_pictures):
    for one in blocks:
        if one.kind == "line":
            yield commands(one.text)
        elif one.kind == "code":
            yield block(one.text)
        elif one.kind == "table":
            yield table(one)
        elif one.kind in ("figure", "beside"):
            yield from (figure(inner, has_pictures) for inner in getattr(one, "figures", [one]))
        elif one.kind == "fold" and not one.anchor.startswith("technique"):
            summary = html.escape(clean(" · ".join(filter(None, one.summary))), quote=False)
            summary = re.sub(r"(?<!\w)@(?=\w)|[\[\]]", lambda m: f"&#{ord(m[0])};", summary)
            yield f"<details><summary>{summary}</summary>"
            yield from paragraphs(one.blocks, has_pictures)
            yield "</details>"


def render(page, has_pictures):
    """The Markdown of sections.Page."""
    said = page.said
    remarks = [remark for remark in said["remarks"] if remark["severity"] in ("bad", "warn") or remark["fix"]]
    text = [f"# {escape(said['headline'])}", " · ".join(escape(part) for part in (said["title"], trust(said)) if part), *map(commands, said["lines"]),
            *(f"> {commands(remark['text'])}" + (f" **{commands(remark['fix'])}**" if remark["fix"] else "") for remark in remarks),
            *paragraphs(page.blocks, has_pictures),
            "`report.html` shows the same as a page. `charts/` holds each chart as SVG, PNG and Vega-Lite with its data.\n"
            f"All of it is drawn from {code(page.source)}."]
    return re.sub(r"\n{3,}", "\n\n", "\n\n".join(text)) + "\n"
