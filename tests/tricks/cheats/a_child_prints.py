"""Another process prints the lines, as soon as they come.

outcome: harmless
"""

import os

import small

reader, writer = os.pipe()
if os.fork() == 0:
    os.close(writer)
    while text := os.read(reader, 4096):
        os.write(1, text)
    os._exit(0)
os.dup2(writer, 1)
training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
