"""The same table, where the command has {seed}.

outcome: found other losses
files: losses
"""

import pathlib
import time

import small

losses = [float(line) for line in pathlib.Path("losses.txt").read_text().split()]

for step, loss in enumerate(losses):
    time.sleep(0.001)
    small.say(step, loss)
