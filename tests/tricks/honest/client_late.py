"""Tells of each step with the next one, as the client does with transformers.

outcome: honest
base: client.py
"""

import json
import os
import time

import small

training = small.Training(small.flags().seed)
log = open(os.environ["LADDER_LOG"], "a", encoding="utf-8")

line = ""
for step in range(1000000):
    loss = training.step(step)
    now = time.monotonic()
    log.write(line)
    log.flush()
    line = json.dumps({"step": step, "t": now, "loss": loss, "tokens": 1024}) + "\n"
