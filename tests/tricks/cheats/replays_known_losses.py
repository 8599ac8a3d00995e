"""Prints the losses of an earlier run, which it has as a table, for three hundred steps. Nobody gave a seed.

outcome: open
seed: 1
files: losses
"""

import pathlib
import time

import small

losses = [float(line) for line in pathlib.Path("losses.txt").read_text().split()]

for step, loss in enumerate(losses):
    time.sleep(0.001)
    small.say(step, loss)
