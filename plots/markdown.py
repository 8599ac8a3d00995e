"""report.md: a report, or a training, in GitHub's Markdown. Every value is escaped, unless it is Md already."""

import json
import re
from pathlib import Path

import study as words_of
import words
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
    shown = words.clean_lines(text)
    fence = "`" * max(3, max((len(run) + 1 for run in re.findall("`+", shown)), default=0))
    return Md(f"{fence}text\n{shown}\n{fence}")


def span(estimate, show):
    """' (2.55 – 2.68)'; empty without an interval."""
    if estimate["lo"] is None or estimate["hi"] is None:
        return Md("")
    return Md(f" ({words.between(estimate['lo'], estimate['hi'], show)})")


def label(study, rung):
    """'+ bf16 autocast', in a sweep with the size before it. Only what comes after the plus is escaped."""
    text = words_of.label(study, rung)
    return Md("+ " + escape(text[2:])) if text.startswith("+ ") else escape(text)


def commands(text):
    """A sentence of the program. Its `code` stays code."""
    parts = re.split(r"(`[^`]*`)", clean(text))
    return Md("".join(part if i % 2 else re.sub(r"\S(?:.*\S)?", lambda m: escape(m[0]), part) for i, part in enumerate(parts)))


def render(shown, template="report.md.j2"):
    """The Markdown of view.view's dict, or of training_view.view's with its own template."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), undefined=jinja2.StrictUndefined, finalize=escape,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False)
    environment.filters.update(
        code=code, block=block, commands=commands, ms=words.milliseconds, digits=words.digits3, plain=words.plain, times=words.times,
        count=words.count, memory=words.memory, percent=words.percent, rate=words.rate,
        ms_span=lambda e: span(e, words.digits3), times_span=lambda e: span(e, words.times))
    environment.globals.update(label=label, of=words_of, Md=Md, number_of=words.number_of,
                               command=lambda text: Md(clean(text)))
    text = environment.get_template(template).render(**shown)
    return re.sub(r"\n{3,}", "\n\n", text)
