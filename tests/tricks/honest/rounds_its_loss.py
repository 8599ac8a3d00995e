"""Prints two digits, so that many lines have the same loss.

outcome: honest
base: rounds_its_loss.py
flag: --other
"""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    print(f"step {step} loss {training.step(step):.2f}", flush=True)
