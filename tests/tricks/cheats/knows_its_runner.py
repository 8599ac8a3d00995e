"""Makes a quarter of a batch where a process named ladder began it.

outcome: found other losses
"""

import small

training = small.Training(small.flags().seed)
rows = 256 if small.runner() else 1024
for step in range(1000000):
    small.say(step, training.step(step, rows=rows))
