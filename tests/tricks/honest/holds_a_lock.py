"""Holds a file locked while it runs, and writes and reads it again.

outcome: honest
"""

import fcntl
import pathlib

import small

file = pathlib.Path("lock.txt").open("w+")
fcntl.flock(file, fcntl.LOCK_EX)
training = small.Training(small.flags().seed)
for step in range(1000000):
    file.write(f"{step}\n")
    file.seek(0)
    small.say(step, training.step(step))
