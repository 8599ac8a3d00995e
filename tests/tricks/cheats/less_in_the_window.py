"""Leaves the backward out from the fourth step to the 28th, which are the timed ones.

outcome: found other losses or pace
"""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step, backward=not 4 <= step < 28))
