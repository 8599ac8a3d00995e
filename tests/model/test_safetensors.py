"""Files exchanged with the Python package safetensors, in both directions.

SAFETENSORS_COPY names the helper program (safetensors_copy.cpp), which reads one file and writes another: what Python
wrote, ours read; what ours wrote, Python reads. numpy has no bfloat16, so that dtype is compared as raw bytes.
"""

import json
import os
import pathlib
import struct
import subprocess

import numpy as np
import pytest

safetensors = pytest.importorskip("safetensors")
import safetensors.numpy  # noqa: E402


@pytest.fixture
def copy(tmp_path: pathlib.Path):
    program = os.environ.get("SAFETENSORS_COPY") or pytest.skip("SAFETENSORS_COPY is not set")

    def run(source: pathlib.Path) -> pathlib.Path:
        target = tmp_path / "copy.safetensors"
        done = subprocess.run([program, source, target], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return target

    return run


def tensors() -> dict[str, np.ndarray]:
    source = np.random.default_rng(1)
    made = {str(np.dtype(kind)): source.normal(size=(3, 5)).astype(kind) for kind in ("f4", "f8", "f2")}
    for kind in ("i8", "i4", "i2", "u1"):
        info = np.iinfo(kind)
        made[str(np.dtype(kind))] = source.integers(info.min, info.max, (2, 3, 4), np.dtype(kind), endpoint=True)
    made["bool"] = source.integers(0, 2, 7).astype(bool)
    made["0-dim"] = np.array(2.5, np.float32)
    made["empty"] = np.zeros((0, 3), np.int32)
    made["caf\u00e9 \"quoted\" \\ \n"] = np.array([np.nan, np.inf, -0.0], np.float32)
    return made


def as_bytes(path: pathlib.Path) -> dict[str, tuple]:
    """The reference's view of a file: dtype, shape and bytes by name."""
    return {
        name: (view["dtype"], tuple(view["shape"]), bytes(view["data"]))
        for name, view in safetensors.deserialize(path.read_bytes())
    }


def test_numpy_tensors_survive(copy, tmp_path: pathlib.Path) -> None:
    source = tmp_path / "python.safetensors"
    safetensors.numpy.save_file(tensors(), source, metadata={"format": "np", "\u00e9": "\n"})
    target = copy(source)
    assert as_bytes(target) == as_bytes(source)
    for name, array in safetensors.numpy.load_file(target).items():
        np.testing.assert_array_equal(array, tensors()[name], strict=True)
    with safetensors.safe_open(target, "np") as opened:
        assert opened.metadata() == {"format": "pt"}


def test_bfloat16_survives(copy, tmp_path: pathlib.Path) -> None:
    header = json.dumps({"x": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}).encode()
    source = tmp_path / "bfloat16.safetensors"
    source.write_bytes(struct.pack("<Q", len(header)) + header + bytes(range(8)))
    assert as_bytes(source) == {"x": ("BF16", (2, 2), bytes(range(8)))}
    assert as_bytes(copy(source)) == as_bytes(source)


def test_a_file_without_tensors_survives(copy, tmp_path: pathlib.Path) -> None:
    source = tmp_path / "none.safetensors"
    safetensors.numpy.save_file({}, source)
    assert as_bytes(copy(source)) == {}
