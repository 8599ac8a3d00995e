"""Trains with a seed of its own, whose losses it has looked up.

outcome: found other losses
"""

import small

training = small.Training(7)
for step in range(1000000):
    small.say(step, training.step(step))
