"""Leaves out the evaluations that the other one makes every five steps.

outcome: harmless
base: evaluates.py
"""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
