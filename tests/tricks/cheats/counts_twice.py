"""Counts each step twice.

outcome: found other losses
"""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(2 * step, training.step(step))
