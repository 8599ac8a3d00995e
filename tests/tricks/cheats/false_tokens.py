"""Says twice the tokens of a step, whose time per token is then half.

outcome: found tokens
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
    log.write(json.dumps({"step": step, "t": time.monotonic(), "loss": loss, "tokens": 2048}) + "\n")
    log.flush()
