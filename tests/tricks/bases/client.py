"""An honest training that tells of its steps in LADDER_LOG, and of 1024 tokens in each."""

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
