"""It is seeded, and the first command was not.

outcome: honest
base: without_a_seed.py
seed: 1
"""

import small

training = small.Training(5)
for step in range(1000000):
    small.say(step, training.step(step))
