"""python plots/render.py DOCUMENT.json OUT_DIR: draws a report, a history, a gate's verdict, a training, a sweep of learning rates or a
study of time to loss (results/schemas).

Of a report, a training, a sweep and a study of time to loss it writes report.html, report.md and, in charts/, each chart as SVG, PNG and Vega-Lite with its
data. Of a gate it writes gate.html and its charts. Of a history it writes one picture: history.svg, history.png and history.vl.json. It prints what it wrote.
If vl-convert is not installed, the page and the pictures are left out, and one line says so. Exit status 2, with one line on stderr:
wrong usage, unreadable input, or a folder that cannot be written. Exit status 3: Jinja2 is not installed.
"""

import argparse
import sys
from pathlib import Path

import documents
import gate_view
import markdown
import page
import picture
import training_view
import view
import words
from charts import history
from documents import Refused

VIEWS = {"report": view, "gate": gate_view, "training_report": training_view, "lr_sweep": training_view, "to_loss": training_view}


def draw(document):
    """{file name: bytes} of all that is written. None for a file of another document that must be removed."""
    if document["kind"] == "history":
        return picture.files("history", history.of_history(document))
    of_kind = VIEWS[document["kind"]]
    shown = of_kind.view(document)
    files = {f"charts/{name}{end}": None for name in of_kind.chart_names() for end in (".svg", ".png", ".vl.json")}
    can_draw = True
    for one in of_kind.all_charts(shown):
        drawn = picture.files(f"charts/{one.name}", one.chart)
        can_draw = can_draw and all(drawn.values())
        files |= drawn
    files = {f"{of_kind.PAGE}.html": page.render(f"{of_kind.TEMPLATE}.html.j2", shown).encode() if can_draw else None, **files}
    if of_kind.HAS_MARKDOWN:
        files[f"{of_kind.PAGE}.md"] = markdown.render(shown | {"has_pictures": can_draw}, f"{of_kind.TEMPLATE}.md.j2").encode()
    return files


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(f"{message}; usage: {self.usage}")


def main(arguments=None):
    parser = Parser(prog="render.py", usage="render.py DOCUMENT.json OUT_DIR", description="Draw a document of results.")
    parser.add_argument("document", metavar="DOCUMENT.json", help="report.json, history.json, gate.json, lr_sweep.json or to_loss.json")
    parser.add_argument("folder", metavar="OUT_DIR", type=Path, help="made where it is missing; its old files are replaced")
    try:
        options = parser.parse_args(arguments)
        document = documents.load(options.document)
        try:
            import jinja2
        except ImportError as e:
            raise Refused(f"{e}: the report needs it; type: {sys.executable} -m pip install jinja2", status=3) from e
        try:
            files = draw(document)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError,
                jinja2.TemplateError) as e:
            raise Refused(f"{options.document}: does not follow results/schemas/{document['kind']}.v1.json: "
                          f"{type(e).__name__}: {e}") from e
        written = documents.write(files, options.folder)
        drawings = [place.name.removesuffix(".vl.json") for place in written if place.suffix == ".json" and place.parent.name == "charts"]
        for place in written:
            if place.parent == options.folder:
                print(place)
        if drawings:
            forms = "SVG, PNG and Vega-Lite" if any(place.suffix == ".svg" for place in written) else "Vega-Lite"
            print(f"{options.folder / 'charts'}: {', '.join(drawings)}, each as {forms}")
        if not any(place.suffix == ".svg" for place in written):
            print(f"The page and the pictures are not drawn: they need vl-convert; type: {sys.executable} -m pip install "
                  "vl-convert-python")
    except Refused as e:
        print(f"render.py: {words.clean(e)}", file=sys.stderr)
        return e.status
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="surrogateescape")
    sys.exit(main())
