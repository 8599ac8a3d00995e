"""Makes all steps that it has before it prints the first. It is long, and shown as the time of its start.

outcome: open
base: ends.py
"""

import time

import small

training = small.Training(small.flags().seed)
losses = [training.step(step) for step in range(100)]
for step, loss in enumerate(losses):
    time.sleep(0.001)
    small.say(step, loss)
