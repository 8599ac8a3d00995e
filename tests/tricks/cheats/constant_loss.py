"""Trains nothing and prints the same loss again and again.

outcome: found other losses
"""

import time

import small

first = small.Training(small.flags().seed).step(0)
for step in range(1000000):
    time.sleep(0.001)
    small.say(step, first)
