"""Makes all its steps before it prints the first: its start takes as long as the other's whole run, which is shown and not judged.

outcome: open
base: ends.py
"""

import time

import small

training, losses = small.Training(small.flags().seed), []
for step in range(60):
    training.step(step, backward=False)
    losses.append(training.step(step))
for step, loss in enumerate(losses):
    time.sleep(0.001)
    small.say(step, loss)
