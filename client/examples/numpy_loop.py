"""A network of two layers trained with NumPy, for `ladder measure`. Needs: pip install numpy.

ladder measure 'python numpy_loop.py' '+ --float32'
"""

import argparse
import sys

try:
    import numpy
except ImportError as error:
    sys.exit(f"numpy_loop.py: {error}: pip install numpy")

ROWS, INPUTS, HIDDEN, RATE = 256, 256, 512, 0.002


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--float32", action="store_true", help="in float32, else in float64")
    parser.add_argument("--steps", type=int, default=1000)
    flags = parser.parse_args()
    kind = numpy.float32 if flags.float32 else numpy.float64
    random = numpy.random.default_rng(1)
    first = (random.standard_normal((INPUTS, HIDDEN)) / INPUTS**0.5).astype(kind)
    second = (random.standard_normal((HIDDEN, 1)) / HIDDEN**0.5).astype(kind)
    for step in range(flags.steps):
        inputs = random.standard_normal((ROWS, INPUTS)).astype(kind)
        wanted = numpy.tanh(inputs[:, :1] + inputs[:, 1:2])
        hidden = numpy.maximum(inputs @ first, 0)
        error = hidden @ second - wanted
        print(f"step {step} loss {numpy.mean(error * error):.6f}", flush=True)
        gradient = 2 * error / ROWS
        behind = gradient @ second.T * (hidden > 0)
        second -= RATE * hidden.T @ gradient
        first -= RATE * inputs.T @ behind


if __name__ == "__main__":
    main()
