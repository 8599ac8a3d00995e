"""Trains on half of each batch and prints the tokens per second of a whole one.

outcome: found other losses
"""

import time

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    begun = time.monotonic()
    loss = training.step(step, rows=small.ROWS // 2)
    small.say(step, loss, f" {1024 / (time.monotonic() - begun):.0f} tok/s")
