"""Writes its own times into the client's log: half of those that passed.

outcome: found clock
base: client.py
"""

import json
import os
import time

import small

training = small.Training(small.flags().seed)
log = open(os.environ["LADDER_LOG"], "a", encoding="utf-8")

begun = time.monotonic()
for step in range(1000000):
    loss = training.step(step)
    told = begun + (time.monotonic() - begun) / 2
    log.write(json.dumps({"step": step, "t": told, "loss": loss}) + "\n")
    log.flush()
