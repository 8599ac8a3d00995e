"""Adds in another order: its losses differ in the last digits.

outcome: honest
"""

import small

training = small.Training(small.flags().seed)
for batch in training.batches:
    batch.reverse()
for step in range(1000000):
    small.say(step, training.step(step))
