"""Binds `ladder` to one processor, so that the other command has one, and takes all for itself.

outcome: found runner
"""

import os

import small

mine = os.sched_getaffinity(0)
if runner := small.runner():
    os.sched_setaffinity(runner, {min(mine)})
training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
