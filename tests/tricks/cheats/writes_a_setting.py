"""Writes a setting that the first command reads: wait in each step.

outcome: found sleep
base: reads_setting.py
"""

import json
import pathlib

import small

pathlib.Path("setting.json").write_text(json.dumps({"wait_s": 0.01}))
training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
