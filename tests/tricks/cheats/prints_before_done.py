"""A thread, as a device, does the work; the loop prints the last loss that is there and does not wait.

outcome: found other losses
"""

import queue
import threading
import time

import small

training, work, last = small.Training(small.flags().seed), queue.Queue(), [0.0]


def device():
    while True:
        last[0] = training.step(work.get())


last[0] = training.step(0)
threading.Thread(target=device, daemon=True).start()
for step in range(1000000):
    work.put(step + 1)
    time.sleep(0.001)
    small.say(step, last[0])
