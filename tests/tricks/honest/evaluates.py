"""Evaluates every seven steps.

outcome: honest
"""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
    if step % 7 == 6:
        print(f"validation loss {training.step(3, backward=False):.6f}", flush=True)
