"""Ends by itself after a hundred steps.

outcome: honest
"""

import small

training = small.Training(small.flags().seed)
for step in range(100):
    small.say(step, training.step(step))
