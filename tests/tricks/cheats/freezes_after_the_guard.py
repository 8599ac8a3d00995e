"""Trains for seventeen steps, which the guard looks at, then only prints losses.

outcome: found loss-after
"""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step, backward=step < 17))
