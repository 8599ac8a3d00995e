"""python plots/export_to.py DOCUMENT.json PLACE --project=NAME --charts=FOLDER: puts a report of one study, or a gate's verdict, into
wandb, trackio, mlflow or tensorboard, by that place's own library. `ladder export` calls it.

Each rung is a run, with figures that are called as in rungs.csv. A rung that does not count has its status and reason instead, and its
steps stand under the status, so that no chart there mixes them with others. One more run is of the whole: the table of all rungs, what
is said, the charts. Prints one line. Exit status 1: the library failed; 2: it cannot go there; 3: the library is missing.
"""

import argparse
import base64
import csv
import importlib
import io
import json
import math
import os
import re
import struct
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import study as of
from words import clean, number_of, shorten

HERE = Path(__file__).resolve().parent
sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != HERE]  # a library that imports `markdown` means another

FIGURES = ("ms_per_step", "numbers", "tokens_per_s", "speedup_first", "speedup_previous", "peak_memory_bytes", "joules_per_token", "mfu")
LONGEST = 5000  # characters of a text: less than mlflow's limits


class Failure(Exception):
    """An error for the user, in one line. .status is the exit status."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


class Run(NamedTuple):
    name: str
    config: dict[str, Any]         # what was run, and where
    words: dict[str, str]          # status, reason, verdict and so on
    figures: dict[str, float]      # empty: none counts
    steps: dict[str, list[float]]  # the first is step 1

    def counts(self):
        return self.words["status"] == "measured"


class Whole(NamedTuple):
    name: str
    said: str  # Markdown
    runs: list[Run]
    charts: list[Path]

    def table(self):
        """(columns, rows): each run with its words and figures."""
        columns = dict.fromkeys(name for part in ("words", "figures") for run in self.runs for name in getattr(run, part))
        return ["run", *columns], [[run.name, *((run.words | run.figures).get(name) for name in columns)] for run in self.runs]


def flat(value, between=".", name=""):
    """{dotted name: value} of nested objects, without what is not known. Lists are texts."""
    if isinstance(value, dict):
        parts = (flat(part, between, f"{name}{between}{inner}" if name else inner) for inner, part in value.items())
        return {key: leaf for part in parts for key, leaf in part.items()}
    if isinstance(value, (list, str)):
        value = (value if isinstance(value, str) else ", ".join(map(str, value)))[:LONGEST]
    return {} if value in (None, "") else {re.sub(r"[^\w. /-]", "_", name)[:200]: value}


def run_of(name, config, words, figures, steps):
    words = flat(words)
    if words["status"] != "measured":
        words.pop("verdict", None)
        figures, steps = {}, {f"{words['status']}/{what}": values for what, values in steps.items()}
    numbers = {name: value for name, value in flat(figures, "_").items() if isinstance(value, (int, float))}
    return Run(clean(name), flat(config), words, numbers, steps)


def verdict(ratio):
    if ratio is None or ratio["ratio"] == 1:
        return None
    return "faster" if of.faster(ratio) else "slower" if of.slower(ratio) else "no clear difference"


def run_of_rung(part, rung):
    study, said, command = part["study"], part["said"], rung.get("command", {})
    config = {"title": rung["title"], "optimization": rung["optimization"], "peer": rung.get("peer"), "recipe": rung["recipe"],
              "command": command.get("text"), "versions": command.get("versions"), "stated": command.get("stated"),
              "workload": study.get("workload", {}) | rung.get("workload", {}), "compared": of.compared_unit(study),
              "plan": study["plan"], "device": study["device"], "environment": study["environment"],
              "study": {name: study[name] for name in ("id", "created", "mode")} | {"ladder": study["ladder"]["name"]}}
    unusable = rung["status"] == "measured" and not of.is_usable(said)
    words = {"status": "not usable" if unusable else rung["status"], "reason": said["headline"] if unusable else rung["said"]["reason"],
             "verdict": verdict(rung["speedup_first"]), "guard": rung["said"]["guard"], "disturbed": "; ".join(rung.get("flags", []))}
    peers = {f"speedup_over_{peer['peer']}": {name: peer[name] for name in ("ratio", "lo", "hi")} for peer in rung.get("peers", [])}
    steps = {f"{what}/repeat_{run['repeat'] + 1}": [math.nan if value is None else value for value in run[what]]
             for run in part["runs"] if run["rung"] == rung["index"] for what in ("step_ms", "loss")}
    name = f"{rung['index']:02} {of.label(study, rung).removeprefix('+ ')}"
    return run_of(name, config, words, peers | {figure: rung.get(figure) for figure in FIGURES}, steps)


def run_of_entry(gate, index, entry):
    sides = {side: gate["comparison"][side]["source"] for side in ("base", "head")}
    config = {**sides, "recipe": entry["recipe"], "setting": entry["setting"], "created": gate["created"], "min_effect": gate["min_effect"]}
    words = {"status": "not usable" if entry.get("unusable") else "measured", "reason": entry.get("unusable"),
             "verdict": entry["verdict"], "guard": entry["loss"]["message"], "disturbed": "; ".join(entry["flags"])}
    figures = {name: entry[name] for name in ("base_ms", "head_ms", "ratio", "lo", "hi", "pairs", "memory")}
    return run_of(f"{index:02} {entry['label']}", config, words, figures, {f"{side}_runs_ms": entry[f"{side}_runs_ms"] for side in sides})


def whole_of(document, charts):
    """Of `charts` files count, no links: a folder may come from a stranger."""
    found = [] if charts.is_symlink() else sorted(charts.glob("*.[sp][vn]g"))
    drawn = [file for file in found if file.is_file() and not file.is_symlink()]
    if document["kind"] == "gate":
        name, said, entries = f"gate {document['created']}", document["said"], (document["comparison"] or {"entries": []})["entries"]
        runs = [run_of_entry(document, index, entry) for index, entry in enumerate(entries)]
    else:
        part = of.told(document["studies"][0])
        name, said = part["study"]["id"], part["said"]
        runs = [run_of_rung(part, rung) for rung in part["study"]["rungs"] if not of.left_out(rung)]
    lines = [f"**{said['headline']}**", said["title"], *said["lines"], *(f"{remark['text']} {remark['fix']}" for remark in said["remarks"])]
    return Whole(name, "\n\n".join([*lines, f"`{said['command']}`"] if said["command"] else lines), runs, drawn)


def to_wandb(wandb, whole, options):
    """Also trackio, which has the same interface, but no state, tags and summary of a run."""
    is_wandb = options.place == "wandb"
    # Nothing is asked of this process, which is not what was measured.
    more = {"settings": wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True,
                                       x_disable_meta=True, x_disable_machine_info=True, x_save_requirements=False,
                                       **({"mode": "offline"} if options.offline else {}))} if is_wandb else {
                                           "embed": False, "auto_log_gpu": False, "auto_log_cpu": False}

    def begin(name, config, tag):
        tags = {"tags": [tag]} if is_wandb else {}
        run = wandb.init(project=options.project, name=name, group=whole.name, config=config, **tags, **more)
        if is_wandb:
            run.define_metric("*", summary="none")
        if is_wandb and run.disabled:
            raise Failure("WANDB_MODE=disabled keeps nothing; unset it, or name --offline", 2)
        return run

    for one in whole.runs:
        run = begin(one.name, one.config | one.words, one.words["status"])
        for step in range(max(map(len, one.steps.values()), default=0)):
            run.log({name: values[step] for name, values in one.steps.items() if step < len(values)}, step=step + 1)
        if is_wandb:
            run.summary.update(one.words | one.figures)
            run.finish(0 if one.counts() else 1)
        else:
            run.log(one.figures)  # also if there are none: it keeps no run that has logged nothing
            run.finish()
    run = begin(whole.name, {"said": whole.said}, "whole")
    columns, rows = whole.table()
    images = {file.stem: base64.b64encode(file.read_bytes()).decode() for file in whole.charts if file.suffix == ".svg"}
    # As an image it runs no script.
    shown = {f"charts/{name}": wandb.Html(f'<img src="data:image/svg+xml;base64,{image}">') for name, image in images.items()}
    run.log({"rungs": wandb.Table(columns=columns, data=rows), **shown})
    if not is_wandb:
        look = f"trackio show --project {options.project}"
    else:
        look = f"wandb sync {Path(run.sync_dir).parent}/offline-run-*" if run.offline else run.project_url
    run.finish()
    return look


def to_mlflow(mlflow, whole, options):
    """The runs of the rungs stand below the run of the whole."""
    client, entities, now = mlflow.MlflowClient(), importlib.import_module("mlflow.entities"), int(1000 * time.time())
    found = client.get_experiment_by_name(options.project)
    experiment = found.experiment_id if found else client.create_experiment(options.project)
    parent = client.create_run(experiment, run_name=whole.name, tags={"mlflow.note.content": whole.said}).info.run_id
    for one in whole.runs:
        run = client.create_run(experiment, run_name=one.name, tags={"mlflow.parentRunId": parent, **one.words}).info.run_id
        metrics = [entities.Metric(name, value, now, 0) for name, value in one.figures.items()]
        metrics += [entities.Metric(name, value, now, step) for name, values in one.steps.items() for step, value in enumerate(values, 1)]
        client.log_batch(run, metrics, [entities.Param(name, str(value)) for name, value in one.config.items()])
        client.set_terminated(run, "FINISHED" if one.counts() else "FAILED")
    text, (columns, rows) = io.StringIO(), whole.table()
    cells = [[f" {cell}" if isinstance(cell, str) and cell[0] in "=+-@" else cell for cell in row] for row in rows]  # no formulas
    csv.writer(text).writerows([columns, *cells])
    client.log_text(parent, text.getvalue(), "rungs.csv")
    for file in whole.charts:
        client.log_artifact(parent, str(file), "charts")
    client.set_terminated(parent)
    at = mlflow.get_tracking_uri()
    return at if at.startswith("http") else f"mlflow ui --backend-store-uri {at}"


def to_tensorboard(tensorboardx, whole, options):
    """A folder of events for each run. tensorboardX is half a megabyte, and needs neither PyTorch nor TensorFlow."""
    hparams, protos = importlib.import_module("tensorboardX.summary").hparams, importlib.import_module("tensorboardX.proto.summary_pb2")
    folder, settings, figures, (columns, rows) = options.out or Path("runs") / options.project, {}, {}, whole.table()
    if folder.exists() and any(folder.iterdir()):
        raise Failure(f"{folder}: must be empty, because TensorBoard mixes what lies in one folder; name another with --out", 2)
    for one in whole.runs:
        settings |= one.config | one.words
        figures |= one.figures
        with tensorboardx.SummaryWriter(str(folder / re.sub(r"[^\w.=-]+", "-", one.name))) as writer:
            for event in hparams(one.config | one.words, {})[1:]:
                writer.file_writer.add_summary(event)
            for name, values in [*((name, [value]) for name, value in one.figures.items()), *one.steps.items()]:
                for step, value in enumerate(values, 1):
                    writer.add_scalar(name, value, step)
    with tensorboardx.SummaryWriter(str(folder)) as writer:
        lines = [columns, ["---"] * len(columns), *rows]
        cells = [["" if cell is None else clean(cell).replace("|", "\\|") for cell in line] for line in lines]
        writer.add_text("rungs", "\n".join(f"|{'|'.join(line)}|" for line in cells))
        writer.add_text("said", whole.said)
        writer.file_writer.add_summary(hparams(settings, figures)[0])  # the names: it takes the first such list that it finds
        for file in whole.charts:
            if file.suffix == ".png":
                content = file.read_bytes()
                width, height = struct.unpack_from(">II", content, 16)  # of every PNG
                image = protos.Summary.Image(width=width, height=height, colorspace=4, encoded_image_string=content)
                writer.file_writer.add_summary(protos.Summary(value=[protos.Summary.Value(tag=f"charts/{file.stem}", image=image)]))
    return f"tensorboard --logdir {folder}"


# (the module, which pip calls so, too; what exports)
PLACES = {"wandb": ("wandb", to_wandb), "trackio": ("trackio", to_wandb), "mlflow": ("mlflow", to_mlflow),
          "tensorboard": ("tensorboardX", to_tensorboard)}


def export(options):
    module, put = PLACES[options.place]
    try:
        library = importlib.import_module(module)
    except ImportError as error:
        why = "" if error.name == module else f" as it should be ({clean(error)})"
        raise Failure(f"{module} is not installed in {sys.executable}{why}; type: {sys.executable} -m pip install {module}; "
                      "LADDER_PYTHON names another Python", 3) from error
    whole = whole_of(json.loads(options.document.read_bytes()), options.charts)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        look = put(library, whole, options)
    if options.place == "trackio" and (lost := [one for one in warned if one.category is UserWarning and "trackio" in one.filename]):
        raise Failure(f"trackio: {shorten(lost[0].message, 500)}", 1)  # it only warns that it could not store something
    return f"{number_of(len(whole.runs) + 1, 'run')} exported to {options.place}, project {options.project}: {look}"


def main():
    parser = argparse.ArgumentParser(description="Put a report or a gate's verdict where people keep results.")
    parser.add_argument("document", metavar="DOCUMENT.json", type=Path)
    parser.add_argument("place", choices=PLACES)
    parser.add_argument("--project", required=True)
    parser.add_argument("--charts", type=Path, required=True, help="the folder of the charts that were drawn; may be missing")
    parser.add_argument("--out", type=Path, help="tensorboard: the folder to write into")
    parser.add_argument("--offline", action="store_true", help="wandb: into files")
    options = parser.parse_args()
    said, nowhere = os.fdopen(os.dup(1), "w", errors="surrogateescape"), os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # what libraries print, and processes of theirs
        os.dup2(nowhere, stream)
    try:
        print(export(options), file=said)
    except Failure as failure:
        print(failure, file=said)
        return failure.status
    except Exception as error:  # noqa: BLE001 -- a library may throw anything
        print(f"{options.place}: {type(error).__name__}: {shorten(error, 500)}", file=said)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
