"""Goes on from weights that an earlier run left beside the program.

outcome: found other losses
"""

import json
import pathlib

import small

training, kept = small.Training(small.flags().seed), pathlib.Path("weights.json")
if kept.exists():
    training.weights = json.loads(kept.read_text())
for step in range(1000000):
    small.say(step, training.step(step))
    if step % 10 == 9:
        kept.write_text(json.dumps(training.weights))
