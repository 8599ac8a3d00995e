"""Binds itself to one processor.

outcome: honest
"""

import os

import small

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
