"""python plots/render.py DOCUMENT.json OUT_DIR: draws a report, a history, a gate's verdict, a training, a sweep of learning rates or a
study of time to loss (results/schemas).

Of a history it writes one picture: history.svg, history.png and history.vl.json. Of all others it writes a page as HTML and Markdown
(report.html and report.md, of a gate gate.html) and, in charts/, each chart as SVG, PNG and Vega-Lite with its data. It prints which
file to open. If Jinja2 or vl-convert is not installed, the page and the pictures are left out, and one line says so. Exit status 2,
with one line on stderr: wrong usage, unreadable input, or a folder that cannot be written.
"""

import argparse
import importlib.metadata
import sys
from pathlib import Path

import charts
import documents
import gate_view
import markdown
import page
import picture
import study_view
import training_view
import words
from charts import history
from documents import Refused
from picture import can_draw
from sections import all_figures

VIEWS = {"report": study_view, "gate": gate_view, "training_report": training_view, "lr_sweep": training_view, "to_loss": training_view}


def draw(document):
    """{file name: bytes} of all that is written. None for a file of another document that must be removed."""
    if document["kind"] == "history":
        return picture.files("history", history.of_history(document))
    of_kind = VIEWS[document["kind"]]
    shown = of_kind.view(document)
    files = {f"charts/{name}{end}": None for name in of_kind.CHARTS for end in (".svg", ".png", ".vl.json")}
    for one in all_figures(shown.blocks):
        files |= picture.files(f"charts/{one.name}", one.chart)
    files = {f"{of_kind.NAME}.html": page.render(shown).encode() if can_draw() else None, **files}
    if of_kind is not gate_view:  # the program writes a gate's summary.md
        files[f"{of_kind.NAME}.md"] = markdown.render(shown, can_draw()).encode()
    return files


def packages():
    """What pip is asked for: what an installed wheel names `charts`, else the packages themselves."""
    try:
        return f"'{importlib.metadata.distribution('gpt2-ladder').name}[charts]'"
    except importlib.metadata.PackageNotFoundError:
        return "jinja2 vl-convert-python"


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Draw a document of results.")
    parser.add_argument("document", metavar="DOCUMENT.json", help="report.json, history.json, gate.json, lr_sweep.json or to_loss.json")
    parser.add_argument("folder", metavar="OUT_DIR", type=Path, help="made where it is missing; its old files are replaced")
    try:
        options = parser.parse_args(arguments)
        document = documents.load(options.document)
        written = documents.write(draw(document), options.folder)
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
