"""Its batches grow, and those of the first command do, too.

outcome: honest
base: grows.py
flag: --other
"""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step, rows=small.ROWS // 2 if step < 30 else small.ROWS))
