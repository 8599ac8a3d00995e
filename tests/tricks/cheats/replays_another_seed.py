"""Prints the losses of an earlier run, whose seed was another.

outcome: found other losses
"""

import time

import small

losses = small.table(7, 40)
for step in range(1000000):
    time.sleep(0.001)
    small.say(step, losses[min(step, 39)])
