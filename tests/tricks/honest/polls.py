"""Waits for a thread by looking again and again, as for a device.

outcome: honest
"""

import queue
import threading
import time

import small

training, work, done = small.Training(small.flags().seed), queue.Queue(), []


def device():
    while True:
        done.append(training.step(work.get()))


threading.Thread(target=device, daemon=True).start()
for step in range(1000000):
    work.put(step)
    while len(done) <= step:
        time.sleep(0.0002)
    small.say(step, done[step])
