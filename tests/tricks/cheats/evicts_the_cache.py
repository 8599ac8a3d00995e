"""Takes the other command's data out of the page cache.

outcome: harmless
base: reads_data.py
"""

import os

import small

with open("data.bin", "rb") as file:
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    data = file.read()
training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
