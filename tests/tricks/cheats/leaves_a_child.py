"""Leaves processes behind that shall slow the next run of the other command.

outcome: harmless
"""

import os
import pathlib
import time

import small

me = os.getpid()
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.closerange(0, 64)
        while pathlib.Path(f"/proc/{me}").exists():  # it begins when its own run is over
            time.sleep(0.01)
        while True:
            pass
training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
