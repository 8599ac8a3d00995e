"""A page in GitHub's Markdown: the sections of its HTML. Every value is escaped, unless it is Md already."""

import html
import json
import re
from pathlib import Path

from sections import Code_, trust
from words import clean

HERE = Path(__file__).resolve().parent


class Md(str):
    """Text that is Markdown already. The template escapes all other values."""


def escape(value):
    """A value as literal text in Markdown, in a paragraph, a heading or a table cell."""
    if isinstance(value, Md):
        return value
    text = clean(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", text)
    # A value never becomes a link or a mention.
    text = re.sub(r"(?i)(?:(?<=http)|(?<=https)|(?<=ftp)):(?=//)|(?<=www)\.|(?<!\w)@(?=\w)", lambda m: f"&#{ord(m[0])};", text)
    # Signs that would begin a heading, a list or a rule at the start of a line.
    return Md(re.sub(r"^(?:([#+\-=])(?=[#+\-=]*(?:\s|$))|(\d+)([.)])(?=\s|$))",
                     lambda m: "\\" + m[1] if m[1] else f"{m[2]}\\{m[3]}", text))


def code(value):
    """A value as a code span for table cells: a string as it is, other values as JSON. No backtick or pipe in it ends the span."""
    text = clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False))
    if not text:
        return Md("(empty)")
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in (text[0], text[-1]) else ""
    # A table takes \| for a pipe even in code, but would read \\| as an escaped backslash and a cell's end.
    return Md(escape(text)) if "\\|" in text else Md(fence + pad + text.replace("|", "\\|") + pad + fence)


def block(text):
    """A text of several lines as it is, in a code block."""
    fence = "`" * max(3, max((len(run) + 1 for run in re.findall("`+", text)), default=0))
    return Md(f"{fence}text\n{text}\n{fence}")


def commands(text):
    """A sentence of the program. Its `code` stays code, its **words** strong."""
    parts = re.split(r"(`[^`]+`|\*\*[^*]+\*\*)", clean(text))
    return Md("".join(part if re.fullmatch(r"`[^`]+`", part) else f"**{escape(part[2:-2])}**" if re.fullmatch(r"\*\*[^*]+\*\*", part)
                      else re.sub(r"\S(?:.*\S)?", lambda m: escape(m[0]), part) for part in parts))


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
    return Md("\n".join(f"| {row} |" for row in [*rows, *(" | ".join(map(cell, row)) for row in one.rows)]))


def render(page, has_pictures):
    """The Markdown of sections.Page."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), undefined=jinja2.StrictUndefined, finalize=escape,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False)
    environment.filters.update(code=code, block=block, commands=commands, table=table,
                               html=lambda text: Md(re.sub(r"(?<!\w)@(?=\w)|[\[\]]", lambda m: f"&#{ord(m[0])};", html.escape(clean(text), quote=False))))
    environment.globals.update(Md=Md)
    text = environment.get_template("page.md.j2").render(page=page, has_pictures=has_pictures, trust=trust(page.said))
    return re.sub(r"\n{3,}", "\n\n", text)
