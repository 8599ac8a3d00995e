"""One program that waits in each step; the second command trains on the same rows with less Python between them.

outcome: honest
base: sleeps_as_the_first.py
flag: --fast
"""

import sys
import time

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    if "--fast" not in sys.argv:
        sum(number * number for number in range(30000))
    loss = training.step(step)
    time.sleep(0.002)
    small.say(step, loss)
