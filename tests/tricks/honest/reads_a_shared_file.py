"""A commit that keeps a cache in the folder for all programs of this user.

outcome: honest
mode: gate
"""

import os
import pathlib

import small

kept = pathlib.Path(os.environ["XDG_CACHE_HOME"]) / "honest.txt"
if not kept.exists():
    kept.write_text("1 2 3")
kept.read_text()
training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
