"""Prints its own time and rate in each line.

outcome: honest
"""

import time

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    begun = time.perf_counter()
    loss = training.step(step)
    passed = time.perf_counter() - begun
    small.say(step, loss, f" dt {1000 * passed:.2f} ms, {1024 / passed:.0f} tok/s")
