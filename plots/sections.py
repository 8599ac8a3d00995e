"""What a page consists of. page.html.j2 writes it as HTML, and markdown.py as Markdown, in the same order."""

from typing import Any, NamedTuple

import charts
from charts import Chart
from words import clean


class Line(NamedTuple):
    """A paragraph, with `code`."""
    text: str
    mood: str = ""  # "good", "warn", "bad", "grey"
    kind: str = "line"


class Cell(NamedTuple):
    """A cell of a table whose number has something grey behind it, as its interval."""
    text: str
    more: str = ""
    mood: str = ""


class Table(NamedTuple):
    label: str                    # what it shows, for a screen reader
    heads: list[tuple[str, bool]]  # the text, and whether figures stand below it
    rows: list[list[Any]]         # texts and cells
    kind: str = "table"


class Figure(NamedTuple):
    name: str    # of its files, and of its place in the page
    chart: Chart
    kind: str = "figure"


class Beside(NamedTuple):
    """Figures beside each other, each half as wide as the page."""
    figures: list[Figure]
    kind: str = "beside"


class Code(NamedTuple):
    """Lines of code, or of a text, as they are."""
    text: str
    kind: str = "code"


class Told(NamedTuple):
    """A text of the program: paragraphs, and blocks of lines that begin with four blanks."""
    text: str
    kind: str = "told"


class Fold(NamedTuple):
    anchor: str
    summary: list[str]  # the first stands out
    blocks: list[Any]
    kind: str = "fold"


class Page(NamedTuple):
    said: dict[str, Any]  # title, headline, lines, remarks, command (results/schemas/report.v1.json)
    blocks: list[Any]
    source: str           # the document's file


def figures(names, argument):
    """({chart's name: its figure}, what to run for those that cannot be drawn)"""
    drawn, missing = {}, []
    for name in names:
        made = charts.draw(name, argument)
        if isinstance(made, Chart):
            drawn[name] = Figure(name, made)
        elif made.run and made.run not in missing:
            missing.append(made.run)
    return drawn, missing


def folded(figure):
    """A chart behind its title."""
    return Fold(f"chart-{figure.name}", [figure.chart.title], [figure])


def all_figures(blocks):
    """Those on the page, in their order."""
    for block in blocks:
        if block.kind == "figure":
            yield block
        elif block.kind == "beside":
            yield from block.figures
        elif block.kind == "fold":
            yield from all_figures(block.blocks)


def flatten(value, name=""):
    """[(dotted name, value)] of nested objects, in their order. Lists stay whole."""
    if not isinstance(value, dict) or (name and not value):
        return [(name, value)]
    return [pair for key, inner in value.items() for pair in flatten(inner, f"{name}.{key}" if name else str(key))]


def values(label, pairs):
    """A table of names and values; values that are no text as JSON. What is not known is left out."""
    shown = [(name, float(f"{value:.10g}") if isinstance(value, float) else value) for name, value in pairs if value not in (None, {}, [], "")]
    return Table(label, [("what", False), ("value", False)], [[Code_(name), Code_(value)] for name, value in shown])


class Code_(NamedTuple):
    """A cell with a value as it stands in a document."""
    value: Any


def remarks(said):
    """The remarks that are not shown above the first figure."""
    return [Line(remark["text"], remark["severity"]) for remark in said["remarks"] if remark["severity"] in ("info", "good") and not remark["fix"]]


def trust(said):
    """'✓ 48 of 48 runs, every proof passed', for the page's corner; empty: nothing is said of it."""
    return next((("✓ " if remark["severity"] == "good" else "") + clean(remark["text"]).split(". ")[0].removesuffix(".") for remark in said["remarks"]
                 if remark["code"] == "trust"), "")
