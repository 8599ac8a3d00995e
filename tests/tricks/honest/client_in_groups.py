"""Tells of its steps in LADDER_LOG, eight at a time.

outcome: honest
base: client.py
"""

import json
import os
import time

import small

training = small.Training(small.flags().seed)
log = open(os.environ["LADDER_LOG"], "a", encoding="utf-8")

lines = []
for step in range(1000000):
    loss = training.step(step)
    lines.append(json.dumps({"step": step, "t": time.monotonic(), "loss": loss, "tokens": 1024}) + "\n")
    if len(lines) == 8:
        log.write("".join(lines))
        log.flush()
        lines = []
