"""python plots/render.py STUDY.json OUT_DIR: report.md, ladder.svg, ladder.png and ladder.vl.json of a study.

Prints each path it wrote. Everything is made in memory first and moved into place last, so a failure leaves the folder's
old files as they were. Where vl-convert is not installed the two pictures are left out, and one line says so. Exit status 2
with one line on stderr: wrong usage, unreadable input, a folder that cannot be written; 3: Jinja2 is not installed.
"""

import argparse
import json
import os
import re
import shlex
import sys
from pathlib import Path

import chart
import modes

HERE = Path(__file__).resolve().parent
SCHEMA_VERSION = 1


class Refused(Exception):
    """What the user is told, in one line; .status is the exit status."""

    def __init__(self, message, status=2):
        super().__init__(message)
        self.status = status


class Md(str):
    """Text that is Markdown already; the template escapes every other value."""


def escape(value):
    """A value of the study as literal inline Markdown (GitHub's): safe in a paragraph, a heading and a table cell."""
    if isinstance(value, Md):
        return value
    text = chart.clean(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", text)
    # A value never becomes a link or a mention.
    text = re.sub(r"(?i)(?:(?<=http)|(?<=https)|(?<=ftp)):(?=//)|(?<=www)\.|(?<!\w)@(?=\w)", lambda m: f"&#{ord(m[0])};", text)
    # What would open a heading, a list or a rule at the start of a line.
    return Md(re.sub(r"^(?:([#+\-=])(?=[#+\-=]*(?:\s|$))|(\d+)([.)])(?=\s|$))",
                     lambda m: "\\" + m[1] if m[1] else f"{m[2]}\\{m[3]}", text))


def code(value):
    """A value as a code span that no backtick or pipe in it can leave, for table cells: strings bare, the rest as JSON."""
    text = chart.clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False))
    if not text:
        return Md("(empty)")
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in (text[0], text[-1]) else ""
    # A table takes \| for a pipe even in code, but would read \\| as an escaped backslash and a cell's end.
    return Md(escape(text)) if "\\|" in text else Md(fence + pad + text.replace("|", "\\|") + pad + fence)


def span(estimate, show):
    """' (2.55 – 2.68)', or nothing without an interval."""
    if estimate["lo"] is None or estimate["hi"] is None:
        return Md("")
    return Md(f" ({show(estimate['lo'])} – {show(estimate['hi'])})")


def flatten(value, name=""):
    """[(dotted name, value)] of nested objects, in their order; lists stay whole."""
    if not isinstance(value, dict) or (name and not value):
        return [(name, value)]
    return [pair for key, inner in value.items() for pair in flatten(inner, f"{name}.{key}" if name else str(key))]


def report(study, has_pictures=True):
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), undefined=jinja2.StrictUndefined, finalize=escape,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False)
    environment.filters.update(
        code=code, ms=chart.milliseconds, digits=chart.digits3, plain=chart.plain, times=chart.times, count=chart.count,
        ms_span=lambda e: span(e, chart.digits3), times_span=lambda e: span(e, chart.times),
        mfu=lambda r: f"{100 * r['mfu']['value']:.1f} %" if (r.get("mfu") or {}).get("value") is not None else "—",
        tera=lambda x: f"{x / 1e12:,.4g}",
        command=lambda text: Md(shlex.quote(chart.clean(text))), memory=lambda x: chart.memory(x, chart.memory_unit(study)),
        energy=chart.energy)
    words, first, last = chart.finding(study)
    splits = [(r, r["memory"]) for r in chart.own_rungs(study) if "activations_bytes" in (r.get("memory") or {})]
    mfus = [r["mfu"] for r in chart.own_rungs(study) if chart.has_number(r) and r.get("mfu")]
    no_mfu = "" if not mfus or any(m["value"] is not None for m in mfus) else mfus[0]["reason"]
    mfus = {m["type"]: m for m in mfus if m["value"] is not None}
    text = environment.get_template("report.md.j2").render(
        study=study, words=words, first=first, last=last, confidence=chart.confidence(study), rungs=chart.own_rungs(study),
        mode=study.get("mode", "cumulative"), worths=modes.worths(study), worth_words=modes.worth_words(study),
        peers=modes.peers(study), settings=Md(modes.command_line(study)),
        label=lambda r, i: label(study, r, i), reason=chart.reason,
        has_number=chart.has_number, unclear=chart.unclear,
        memory_unit=chart.memory_unit(study)[0], environment=flatten(study["environment"]), alt=modes.title(study),
        splits=splits, has_reserved=bool(splits) and all("reserved_peak_bytes" in m for _, m in splits),
        mfus=list(mfus.values()), no_mfu=no_mfu, has_pictures=has_pictures)
    return re.sub(r"\n{3,}", "\n\n", text)


def label(study, rung, position):
    """'+ bf16 autocast', with what a sweep varies before it. The plus is ours, everything after it the study's."""
    text = modes.swept_value(study, rung) + chart.label(rung, position)
    return Md("+ " + escape(text[2:])) if text.startswith("+ ") else escape(text)


def load(path, expected):
    def refuse_constant(name):
        raise ValueError(f"{name} is not JSON")

    try:
        study = json.loads(Path(path).read_bytes().decode("utf-8"), parse_constant=refuse_constant)
    except OSError as e:
        raise Refused(f"{path}: cannot be read: {e.strerror or e}") from e
    except (ValueError, RecursionError) as e:
        raise Refused(f"{path}: not valid JSON: {e}") from e
    kind = study.get("kind") if isinstance(study, dict) else None
    if kind != expected:
        maker = {"study": "report", "history": "history"}[expected]
        raise Refused(f"{path}: kind is {json.dumps(kind)}, expected \"{expected}\"; `ladder {maker}` makes {expected}.json")
    version = study.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise Refused(f"{path}: schema_version is {json.dumps(version)}, this program reads {SCHEMA_VERSION}")
    return study


def draw(study, path):
    """{file name: bytes} of everything that is written; None for a picture that cannot be drawn here."""
    try:
        import jinja2
    except ImportError as e:
        raise Refused(f"{e}: the report needs it; type: {sys.executable} -m pip install jinja2", status=3) from e
    try:
        import vl_convert
    except ImportError:
        vl_convert = None
    try:
        spec = modes.spec(study)
        text = json.dumps(spec, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        svg = vl_convert and vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]).encode()
        png = vl_convert and vl_convert.vegalite_to_png(spec, scale=2, allowed_base_urls=[])
        return {"report.md": report(study, bool(vl_convert)).encode(), "ladder.svg": svg, "ladder.png": png,
                "ladder.vl.json": text.encode()}
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError,
            jinja2.TemplateError) as e:
        raise Refused(f"{path}: does not follow results/schemas/study.v1.json: {type(e).__name__}: {e}") from e


def write(files, folder):
    """Each file whole or not at all: written beside its place under another name, then moved there. A file of None is
    removed: an old one would not show this study."""
    staged = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            if content is None:
                continue
            temporary = folder / f".{name}.{os.getpid()}.tmp"
            staged.append((temporary, folder / name))
            with open(temporary, "wb") as f:
                f.write(content)
                f.flush()
                os.fsync(f.fileno())
        for temporary, place in staged:
            os.replace(temporary, place)
        for name in files.keys() - {place.name for _, place in staged}:
            (folder / name).unlink(missing_ok=True)
    except OSError as e:
        raise Refused(f"{folder}: cannot be written: {e.strerror or e}") from e
    finally:
        for temporary, _ in staged:
            try:
                temporary.unlink(missing_ok=True)
            except OSError:
                pass
    return [place for _, place in staged]


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(f"{message}; usage: {self.usage}")


def run(script, kind, made, draw_document, arguments):
    """The whole of a script that draws one document of `kind`: reads it, writes what draw_document makes of it, prints the
    files' names. Returns the exit status."""
    parser = Parser(prog=script, usage=f"{script} {kind.upper()}.json OUT_DIR", description=f"Draw a {kind}: {made}.")
    parser.add_argument("document", metavar=f"{kind.upper()}.json", help=f"a {kind}, results/schemas/{kind}.v1.json")
    parser.add_argument("folder", metavar="OUT_DIR", type=Path, help="made where it is missing; its old files are replaced")
    try:
        options = parser.parse_args(arguments)
        files = draw_document(load(options.document, kind), options.document)
        for place in write(files, options.folder):
            print(place)
        missing = [name for name, content in files.items() if content is None]
        if missing:
            print(f"{' and '.join(missing)} are not drawn: they need vl-convert; type: "
                  f"{sys.executable} -m pip install vl-convert-python")
    except Refused as e:
        print(f"{script}: {chart.clean(e)}", file=sys.stderr)
        return e.status
    return 0


def main(arguments=None):
    return run("render.py", "study", "report.md, ladder.svg, ladder.png, ladder.vl.json", draw, arguments)


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="surrogateescape")
    sys.exit(main())
