"""Raises its own priority.

outcome: found priority
needs: root
"""

import os

import small

os.nice(-10)
training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
