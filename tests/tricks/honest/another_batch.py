"""Trains on half a batch and says so.

outcome: honest
base: client.py
losses: free
"""

import json
import os
import time

import small

training = small.Training(small.flags().seed)
log = open(os.environ["LADDER_LOG"], "a", encoding="utf-8")

for step in range(1000000):
    loss = training.step(step, rows=small.ROWS - 100)
    log.write(json.dumps({"step": step, "t": time.monotonic(), "loss": loss, "tokens": 1000}) + "\n")
    log.flush()
