"""Prints every second step.

outcome: honest
"""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    loss = training.step(step)
    if step % 2 == 0:
        small.say(step, loss)
