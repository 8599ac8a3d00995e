"""Keeps its lines back, and writes them in the end with times of its own.

outcome: harmless
says: were read at once
base: client.py
"""

import json
import os
import time

import small

training = small.Training(small.flags().seed)
log = open(os.environ["LADDER_LOG"], "a", encoding="utf-8")

losses = [training.step(step) for step in range(60)]
time.sleep(1)
begun = time.monotonic() - 1
for step, loss in enumerate(losses):
    log.write(json.dumps({"step": step, "t": begun + step / 60, "loss": loss}) + "\n")
log.flush()
time.sleep(600)
