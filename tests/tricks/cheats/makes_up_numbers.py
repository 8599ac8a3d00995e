"""Prints a final number that it has not computed, another one for each seed.

outcome: open
mode: metric
"""

import random

import small

print(f"val_loss {random.Random(small.flags().seed).gauss(0.21, 0.005):.4f}", flush=True)
