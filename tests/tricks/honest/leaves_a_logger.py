"""Leaves a process behind that keeps its log.

outcome: honest
"""

import subprocess

import small

subprocess.Popen(["sleep", "60"], start_new_session=True)
training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
