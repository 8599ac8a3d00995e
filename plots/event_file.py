"""python plots/event_file.py REPORT.json FOLDER: writes a training's curves as an event file of TensorBoard's.

REPORT.json is a training's (results/schemas/training_report.v1.json). The file is FOLDER/events.out.tfevents.ladder, and replaces the
one of an earlier call. At the last step of each point it has loss, validation loss, learning rate, norm of the gradients and tokens per
second. It prints what it wrote. Exit status 2, with one line on stderr: wrong usage, unreadable input, or a folder that cannot be
written. Exit status 3: tensorboardX is not installed.
"""

import sys
import tempfile
from pathlib import Path

import documents
import words
from documents import Refused

NAME = "events.out.tfevents.ladder"


def scalars(report):
    """(tag, value, step) of each figure that there is."""
    for point in report["stretches"]:
        figures = {name: point[name] for name in ("loss", "validation_loss", "learning_rate", "norm", "tokens_per_s")}
        for tag, figure in figures.items():
            if figure is not None:
                yield tag, figure["mean"] if isinstance(figure, dict) else figure, point["last"]


def event_file(report):
    """The bytes of the event file."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError as e:
        raise Refused(f"{e}: event files need it; type: {sys.executable} -m pip install tensorboardX", status=3) from e
    with tempfile.TemporaryDirectory() as folder:
        with SummaryWriter(folder) as writer:
            for scalar in scalars(report):
                writer.add_scalar(*scalar)
        [file] = Path(folder).iterdir()
        return file.read_bytes()


def main(arguments):
    try:
        if len(arguments) != 2:
            raise Refused("usage: event_file.py REPORT.json FOLDER")
        source, folder = arguments[0], Path(arguments[1])
        report = documents.load(source)
        if report["kind"] != "training_report":
            raise Refused(f"{source}: must be a training's report, got a {report['kind']}")
        [place] = documents.write({NAME: event_file(report)}, folder)
        print(place)
    except Refused as e:
        print(f"event_file.py: {words.clean(e)}", file=sys.stderr)
        return e.status
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="surrogateescape")
    sys.exit(main(sys.argv[1:]))
