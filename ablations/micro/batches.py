"""What micro's batch_loop_random and batch_gather_random take in Python: windows of 512 tokens at random places.

    python ablations/micro/batches.py micro.json      # needs PyTorch and NumPy

python_mapped is get_batch of nanoGPT's train.py, the file mapped and its pages cached. python_loop has the tokens in
memory instead. python_gather indexes them once for all windows, python_strided a view of all windows that there are,
which takes no memory of its own. The file is in the form of `micro --out`, so that
docs/claims.md reads both alike.
"""
import json
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np
import torch

T, TOKENS = 512, 4096 * 1024 + 1


def loop(data, places):
    return tuple(torch.stack([torch.from_numpy(data[i + shift : i + shift + T].astype(np.int64)) for i in places])
                 for shift in (0, 1))


def gather(data, places):
    batch = torch.from_numpy(data[places.numpy()[:, None] + np.arange(T + 1)].astype(np.int64))
    return batch[:, :-1], batch[:, 1:]


def strided(data, places):
    batch = torch.from_numpy(np.lib.stride_tricks.sliding_window_view(data, T + 1)[places.numpy()].astype(np.int64))
    return batch[:, :-1], batch[:, 1:]


def seconds_of(way, data, B):
    times = []
    while len(times) < 20 or sum(times) < 0.5:
        places = torch.randint(len(data) - T, (B,))
        begin = time.perf_counter()
        way(data, places)
        times.append(time.perf_counter() - begin)
    return statistics.median(times), len(times)


def measured(sizes):
    tokens = (np.arange(TOKENS) * 7919 % 50257).astype(np.uint16)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "train.bin"
        tokens.tofile(file)
        ways = {"python_mapped": (loop, np.memmap(file, dtype=np.uint16, mode="r")), "python_loop": (loop, tokens),
                "python_gather": (gather, tokens), "python_strided": (strided, tokens)}
        for name, (way, data) in ways.items():
            for B in sizes:
                seconds, calls = seconds_of(way, data, B)
                yield {"name": f"{name}/{B}x{T}/cpu", "iterations": calls, "real_time": seconds * 1e9, "time_unit": "ns"}


if __name__ == "__main__":
    context = {"python": sys.version.split()[0], "torch": torch.__version__, "numpy": np.__version__}
    document = {"context": context, "benchmarks": list(measured((16, 32, 64, 128)))}
    pathlib.Path(sys.argv[1]).write_text(json.dumps(document, indent=1) + "\n")
    for each in document["benchmarks"]:
        print(f"{each['name']:<30}{each['real_time'] / 1e6:>10.3f} ms")
