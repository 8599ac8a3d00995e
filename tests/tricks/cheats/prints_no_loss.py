"""The same, and prints no loss: nobody needs to wait for the device.

outcome: found no-loss
"""

import queue
import threading
import time

import small

training, work = small.Training(small.flags().seed), queue.Queue()


def device():
    while True:
        training.step(work.get())


threading.Thread(target=device, daemon=True).start()
for step in range(1000000):
    work.put(step)
    time.sleep(0.001)
    print(f"step {step} of 1000000", flush=True)
