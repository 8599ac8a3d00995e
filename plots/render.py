"""python plots/render.py DOCUMENT.json OUT_DIR: draws a report, a history, a gate's verdict, a training, a sweep of learning rates or a
study of time to loss (results/schemas).

Of a history it writes one picture: history.svg, history.png and history.vl.json. Of all others it writes a page as HTML and Markdown
(report.html and report.md, of a gate gate.html) and, in charts/, each chart as SVG, PNG and Vega-Lite with its data. It prints which
file to open. If Jinja2 or vl-convert is not installed, the page and the pictures are left out, and one line says so. Exit status 2,
with one line on stderr: wrong usage, unreadable input, or a folder that cannot be written.

The program has written a document just before: it follows its schema, has no control characters, and its folder has no links that
lead elsewhere. Every file is made in memory first and moved into place last, so that a failure leaves the old files as they were.
"""

import argparse
import importlib.metadata
import json
import os
import secrets
import sys
from pathlib import Path

import charts
import markdown
import page
import picture
import study_view
import views
import words
from charts import history
from picture import can_draw
from sections import all_figures

# (the page's file, the charts that it may have, what makes it) of each kind of document
PAGES = {"report": ("report", charts.OF_STUDY + charts.OF_REPORT, study_view.view), "gate": ("gate", charts.OF_GATE, views.view_gate),
         "training_report": ("report", charts.OF_TRAINING, views.view_training), "ledger": ("report", charts.OF_LEDGER, views.view_ledger)}


class Refused(Exception):
    """An error for the user, in one line. .status is the exit status."""

    def __init__(self, message, status=2):
        super().__init__(message)
        self.status = status


def load(path):
    """A document of results/schemas."""
    try:
        return json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as e:
        raise Refused(f"{path}: cannot be read: {e}") from e


def write(files, folder):
    """Writes {name, which may have a folder: bytes}; returns the places, in order. Each file is whole or not there. A file of None is
    removed."""
    staged = {}
    try:
        for name, content in files.items():
            if content is not None:
                place = folder / name
                place.parent.mkdir(parents=True, exist_ok=True)
                staged[place] = place.with_name(f"{place.name}.{secrets.token_hex(8)}.tmp")  # as the program's own (files::is_unfinished)
                staged[place].write_bytes(content)
        for place, temporary in staged.items():
            os.replace(temporary, place)
        for name, content in files.items():
            if content is None:
                (folder / name).unlink(missing_ok=True)
    except OSError as e:
        raise Refused(f"{folder}: cannot be written: {e.strerror or e}") from e
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)
    return list(staged)


def draw(document):
    """{file name: bytes} of all that is written. None for a file of another document that must be removed."""
    if document["kind"] == "history":
        return picture.files("history", history.of_history(document))
    name, names, view = PAGES[document["kind"]]
    shown = view(document)
    files = {f"charts/{chart}{end}": None for chart in names for end in (".svg", ".png", ".vl.json")}
    for one in all_figures(shown.blocks):
        files |= picture.files(f"charts/{one.name}", one.chart)
    files = {f"{name}.html": page.render(shown).encode() if can_draw() else None, **files}
    if name != "gate":  # the program writes a gate's summary.md
        files[f"{name}.md"] = markdown.render(shown, can_draw()).encode()
    return files


def packages():
    """What pip is asked for: what an installed wheel names `charts`, else the packages themselves."""
    try:
        return f"'{importlib.metadata.distribution('gpt2-ladder').name}[charts]'"
    except importlib.metadata.PackageNotFoundError:
        return "jinja2 vl-convert-python"


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Draw a document of results.")
    parser.add_argument("document", metavar="DOCUMENT.json", help="report.json, history.json or gate.json")
    parser.add_argument("folder", metavar="OUT_DIR", type=Path, help="made where it is missing; its old files are replaced")
    try:
        options = parser.parse_args(arguments)
        document = load(options.document)
        written = write(draw(document), options.folder)
        if boxes := can_draw() and picture.boxes(place.read_bytes() for place in written if place.suffix == ".svg"):
            print(f"Note: no font here has {boxes}: PNGs show boxes. Debian's fonts-noto-cjk and fonts-noto-color-emoji have most letters.")
        if can_draw():
            print(f"Open {next((place for place in written if place.suffix == '.html'), written[0])}")
        else:
            print(f"The page and the pictures are not drawn: they need Jinja2 and vl-convert; type: {sys.executable} "
                  f"-m pip install {packages()}")
    except Refused as e:
        print(f"render.py: {words.clean(e)}", file=sys.stderr)
        return e.status
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="surrogateescape")
    sys.exit(main())
