"""Computes each step's loss twice.

outcome: honest
"""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    training.step(step, backward=False)
    small.say(step, training.step(step))
