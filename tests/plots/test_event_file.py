"""plots/event_file.py: what TensorBoard would read of a training."""

import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from builders import lr_sweep_of, training_report_of, without

SCRIPT = Path(__file__).resolve().parents[2] / "plots" / "event_file.py"
NAME = "events.out.tfevents.ladder"


def write_events(report, folder, env=None):
    source = folder.parent / "report.json"
    source.write_text(json.dumps(report))
    return subprocess.run([sys.executable, SCRIPT, source, folder], env=env, capture_output=True, text=True, check=False)


def records(file):
    """The framing of TFRecord files: a length, its checksum, so many bytes, their checksum."""
    content = file.read_bytes()
    while content:
        length = struct.unpack("<Q", content[:8])[0]
        yield content[12 : 12 + length]
        content = content[16 + length :]


def scalars_in(file):
    from tensorboardX.proto.event_pb2 import Event
    events = [Event.FromString(record) for record in records(file)]
    assert events[0].file_version == "brain.Event:2"
    return {(value.tag, event.step): value.simple_value for event in events for value in event.summary.value}


@pytest.mark.parametrize("report", [training_report_of(), training_report_of(200, 20)], ids=["steps", "stretches"])
def test_each_figure_is_a_scalar_at_its_step(report, tmp_path):
    pytest.importorskip("tensorboardX")
    report["stretches"][3].update(loss=None, norm=None)
    folder = tmp_path / "runs"
    for _ in range(2):  # an earlier file is replaced
        done = write_events(report, folder)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{folder / NAME}\n", "")
    assert [file.name for file in folder.iterdir()] == [NAME]
    expected = {}
    for point in report["stretches"]:
        for tag in ("loss", "norm"):
            if point[tag]:
                expected[tag, point["last"]] = point[tag]["mean"]
        for tag in ("validation_loss", "learning_rate", "tokens_per_s"):
            if point[tag] is not None:
                expected[tag, point["last"]] = point[tag]
    assert scalars_in(folder / NAME) == pytest.approx(expected, rel=1e-6)
    assert {tag for tag, _ in expected} == {"loss", "norm", "validation_loss", "learning_rate", "tokens_per_s"}


def test_what_is_refused(tmp_path):
    folder = tmp_path / "runs"
    done = write_events(training_report_of(), folder, env=without("tensorboardX", tmp_path))
    assert done.returncode == 3 and done.stdout == "" and not folder.exists()
    assert re.fullmatch(r"event_file.py: No module named 'tensorboardX': event files need it; type: .* -m pip install tensorboardX\n", done.stderr)
    done = write_events(lr_sweep_of(), folder)
    assert done.returncode == 2 and not folder.exists()
    assert done.stderr.endswith("report.json: must be a training's report, got a lr_sweep\n") and done.stderr.count("\n") == 1
