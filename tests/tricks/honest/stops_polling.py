"""Makes its steps itself, where the first command waits for a thread by looking again and again.

outcome: honest
base: polls.py
"""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
