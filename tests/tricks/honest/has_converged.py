"""Goes on from the end of a training: its loss no longer falls.

outcome: honest
base: has_converged.py
flag: --other
"""

import small

training = small.Training(small.flags().seed)
training.weights = [0.1] * small.WIDTH
for step in range(1000000):
    small.say(step, training.step(step, rate=0))
