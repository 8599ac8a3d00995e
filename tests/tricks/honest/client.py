"""Tells of its steps in LADDER_LOG.

outcome: honest
base: client.py
"""

import json
import os
import time

import small

training = small.Training(small.flags().seed)
log = open(os.environ["LADDER_LOG"], "a", encoding="utf-8")

for step in range(1000000):
    loss = training.step(step)
    log.write(json.dumps({"step": step, "t": time.monotonic(), "loss": loss, "tokens": 1024}) + "\n")
    log.flush()
