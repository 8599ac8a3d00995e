"""Trains for seventeen steps, and prints the last loss from then on.

outcome: found loss-after
"""

import time

import small

training, loss = small.Training(small.flags().seed), 0.0
for step in range(1000000):
    if step < 17:
        loss = training.step(step)
    else:
        time.sleep(0.001)
    small.say(step, loss)
