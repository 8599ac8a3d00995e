"""Begins late, as a program that is compiled first.

outcome: honest
"""

import small

training = small.Training(small.flags().seed)
for _ in range(100):
    training.step(0, backward=False)
for step in range(1000000):
    small.say(step, training.step(step))
