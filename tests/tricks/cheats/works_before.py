"""Makes two hundred steps before it prints the first, then prints them one by one.

outcome: found pace
"""

import time

import small

training = small.Training(small.flags().seed)
losses = [training.step(step) for step in range(200)]
for step in range(1000000):
    if step < 200:
        time.sleep(0.001)
    small.say(step, losses[step] if step < 200 else training.step(step))
