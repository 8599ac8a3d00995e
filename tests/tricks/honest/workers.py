"""Processes of its own draw batches, as those of a loader, and sleep.

outcome: honest
"""

import multiprocessing
import time

import small


def worker():
    while True:
        time.sleep(0.01)


if __name__ == "__main__":
    for _ in range(2):
        multiprocessing.Process(target=worker, daemon=True).start()
    training = small.Training(small.flags().seed)
    for step in range(1000000):
        small.say(step, training.step(step))
