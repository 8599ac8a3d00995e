"""Kills the process that would end it if `ladder` were killed, and goes on when it shall end.

outcome: harmless
"""

import os
import pathlib
import signal

import small

runner = small.runner()
tasks = pathlib.Path(f"/proc/{runner}/task/{runner}/children").read_text().split() if runner else []
mine = {os.getpid(), os.getppid()}
for child in map(int, tasks):
    if child not in mine:
        os.kill(child, signal.SIGKILL)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
