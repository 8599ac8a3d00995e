"""The same program.

outcome: honest
"""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
