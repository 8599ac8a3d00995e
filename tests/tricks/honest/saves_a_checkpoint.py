"""Writes its weights beside the program, and never reads them.

outcome: honest
"""

import json
import pathlib

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
    if step % 10 == 9:
        pathlib.Path("weights.json").write_text(json.dumps(training.weights))
