"""Neither of the two is seeded, so that all losses differ.

outcome: honest
base: without_a_seed.py
flag: --other
"""

import os

import small

training = small.Training(int.from_bytes(os.urandom(4), "big"))
for step in range(1000000):
    small.say(step, training.step(step))
