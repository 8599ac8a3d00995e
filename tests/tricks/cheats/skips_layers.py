"""Trains half of the weights.

outcome: found other losses
"""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step, width=8))
