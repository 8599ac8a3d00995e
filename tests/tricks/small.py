"""A small training that the scripts of this folder make, or pretend to make: a linear model by gradient descent, in plain Python.

Its losses are those of its seed, to the last digit, and fall for some fifty steps.
"""

import os
import random
import sys
import types

WIDTH, ROWS = 16, 4096


class Training:
    """weights: (WIDTH); four batches of ROWS rows, each WIDTH numbers and what they should give."""

    def __init__(self, seed, batches=4):
        draw = random.Random(seed)
        target = [draw.gauss(0, 1) for _ in range(WIDTH)]
        self.weights = [0.0] * WIDTH
        self.batches = [[self.row(draw, target) for _ in range(ROWS)] for _ in range(batches)]

    @staticmethod
    def row(draw, target):
        inputs = [3.46 * draw.random() - 1.73 for _ in range(WIDTH)]  # of variance 1
        return inputs, sum(w * x for w, x in zip(target, inputs)) + draw.gauss(0, 0.5)

    def step(self, number, rows=ROWS, width=WIDTH, backward=True, update=True, rate=0.05):
        """The mean squared error of the batch before the update."""
        loss, gradient, weights = 0.0, [0.0] * WIDTH, self.weights
        for inputs, wanted in self.batches[number % len(self.batches)][:rows]:
            error = sum(w * x for w, x in zip(weights[:width], inputs)) - wanted
            loss += error * error
            if backward:
                for i in range(width):
                    gradient[i] += error * inputs[i]
        if backward and update:
            self.weights = [w - 2 * rate * g / rows for w, g in zip(weights, gradient)]
        return loss / rows


def say(step, loss, more=""):
    print(f"step {step} loss {loss:.6f}{more}", flush=True)


def flags():
    """--seed, which is a whole number; other flags are passed over."""
    given = dict(zip(sys.argv[1:], sys.argv[2:]))
    return types.SimpleNamespace(seed=int(given.get("--seed", 1)))


def table(seed, steps):
    """The losses that an honest run prints, for a program that knows them before."""
    training = Training(seed)
    return [training.step(number) for number in range(steps)]


def runner():
    """The process `ladder` that began this one; None: another did."""
    process = os.getppid()
    while process > 1:
        with open(f"/proc/{process}/comm", encoding="utf-8") as file:
            if file.read().startswith("ladder"):
                return process
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            process = int(file.read().rsplit(")", 1)[1].split()[1])
    return None
