"""client/read_events.py FILE: the scalars of an event file of TensorBoard's as JSON lines, a line for each step.

`ladder read` calls it. The reader is tensorboard's own.
"""
import json
import sys

MISSING = 3  # the exit status where tensorboard is not installed


def scalars(file):
    """Yields (step, wall time, tag, value) in the file's order of tags."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray
    events = EventAccumulator(file, size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    for tag in events.Tags()["scalars"]:
        for event in events.Scalars(tag):
            yield event.step, event.wall_time, tag, event.value
    for tag in events.Tags()["tensors"]:  # TensorFlow 2's and Keras' scalars
        for event in events.Tensors(tag):
            value = make_ndarray(event.tensor_proto)
            if value.size == 1 and value.dtype.kind in "fiu":
                yield event.step, event.wall_time, tag, float(value.reshape(()))


def main():
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        print(f"TensorBoard's event files need its reader: {sys.executable} -m pip install tensorboard", file=sys.stderr)
        return MISSING
    rows = {}  # a tag's values of one step stand in one row; its time is the last of them
    for step, wall_time, tag, value in scalars(sys.argv[1]):
        row = rows.setdefault(step, {"step": step, "timestamp": 0.0})
        row["timestamp"] = max(row["timestamp"], wall_time)
        row[tag] = value
    for step in sorted(rows):
        print(json.dumps(rows[step]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
