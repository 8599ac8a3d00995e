"""One program: without --fast it waits in each of its timed steps.

outcome: found sleep
base: sleeps_while_timed.py
flag: --fast
"""

import sys
import time

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    loss = training.step(step)
    if "--fast" not in sys.argv and step < 30:
        time.sleep(0.005)
    small.say(step, loss)
