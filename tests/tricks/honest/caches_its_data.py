"""Keeps its batches in a file, and reads them from there from the second run on.

outcome: honest
seed: 1
"""

import pathlib
import pickle

import small

given = small.flags()
kept = pathlib.Path(f"batches-{given.seed}.pickle")
training = small.Training(given.seed)
if kept.exists():
    training.batches = pickle.loads(kept.read_bytes())
else:
    kept.write_bytes(pickle.dumps(training.batches))
for step in range(1000000):
    small.say(step, training.step(step))
