"""A child makes the training after the losses were printed.

outcome: found other losses
"""

import os
import time

import small

training = small.Training(small.flags().seed)
guess = training.step(0)
if os.fork() == 0:
    for step in range(1000000):
        training.step(step)
for step in range(1000000):
    time.sleep(0.001)
    small.say(step, guess * 0.85**step)
