"""Runs with a clock that goes at half the pace, and prints its own times.

outcome: harmless
"""

import time

import small

real = time.monotonic
time.monotonic = lambda: real() / 2
training, last = small.Training(small.flags().seed), time.monotonic()
for step in range(1000000):
    loss = training.step(step)
    now = time.monotonic()
    small.say(step, loss, f" dt {1000 * (now - last):.3f} ms")
    last = now
