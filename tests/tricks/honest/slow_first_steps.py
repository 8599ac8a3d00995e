"""Its first steps take longer, as those of a compiler that works when a step needs it.

outcome: honest
"""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    for _ in range(max(0, 3 - step)):
        training.step(step, backward=False)
    small.say(step, training.step(step))
