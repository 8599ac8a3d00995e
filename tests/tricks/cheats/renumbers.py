"""Counts ten steps in each line from the fifth on.

outcome: found other losses or loss-after
"""

import small

training, told = small.Training(small.flags().seed), 0
for step in range(1000000):
    small.say(told, training.step(step))
    told += 1 if step < 4 else 10
