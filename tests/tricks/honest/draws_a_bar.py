"""Draws a bar on one line.

outcome: honest
"""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    print(f"\r{step}/1000000 [{'#' * (step % 20):<20}] loss {training.step(step):.6f}", end="", flush=True)
