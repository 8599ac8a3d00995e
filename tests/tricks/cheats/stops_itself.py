"""Stops itself, as if the clock stood still then; a child lets it go on.

outcome: harmless
"""

import os
import signal
import time

import small

me = os.getpid()
if os.fork() == 0:
    while os.getppid() == me:
        time.sleep(0.01)
        os.kill(me, signal.SIGCONT)
    os._exit(0)
training = small.Training(small.flags().seed)
for step in range(1000000):
    loss = training.step(step)
    if step % 4 == 0:
        os.kill(me, signal.SIGSTOP)
    small.say(step, loss)
