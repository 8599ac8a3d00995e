"""Makes a quarter of a batch where a process named ladder began it.

outcome: found other losses
"""

import small

training = small.Training(small.flags().seed)
rows = small.ROWS // 4 if small.runner() else small.ROWS
for step in range(1000000):
    small.say(step, training.step(step, rows=rows))
