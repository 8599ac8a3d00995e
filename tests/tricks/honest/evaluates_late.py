"""Evaluates after its timed steps, for as long as four hundred steps take.

outcome: honest
"""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
    if step == 30:
        for _ in range(400):
            training.step(3, backward=False)
