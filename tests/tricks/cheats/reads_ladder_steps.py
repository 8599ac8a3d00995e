"""Makes a quarter of a batch in the steps that LADDER_STEPS names as timed.

outcome: harmless
"""

import os

import small

training = small.Training(small.flags().seed)
warmup, _, timed = os.environ.get("LADDER_STEPS", "0+0").partition("+")
for step in range(1000000):
    is_timed = int(warmup) <= step < int(warmup) + int(timed)
    small.say(step, training.step(step, rows=small.ROWS // 4 if is_timed else small.ROWS))
