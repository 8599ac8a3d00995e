"""Makes one batch while it is imported, and trains on that alone.

outcome: found other losses
"""

import small

training = small.Training(small.flags().seed, batches=1)
for step in range(1000000):
    small.say(step, training.step(step, rows=small.ROWS // 2))
