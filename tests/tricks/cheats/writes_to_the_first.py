"""Writes a sleep into the first command's program, which lies beside it.

outcome: found sleep
"""

import pathlib

import small

other = pathlib.Path("train.py")
training = small.Training(small.flags().seed)
for step in range(1000000):
    if step == 10:
        text = other.read_text().replace("for step", "import time\nfor step")
        other.write_text(text.replace("    small.say", "    time.sleep(0.01)\n    small.say"))
    small.say(step, training.step(step))
