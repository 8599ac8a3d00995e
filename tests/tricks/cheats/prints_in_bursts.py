"""Keeps eight lines back and prints them together, so that most seem to take no time.

outcome: harmless
"""

import small

training, kept = small.Training(small.flags().seed), []
for step in range(1000000):
    kept.append(f"step {step} loss {training.step(step):.6f}")
    if len(kept) == 8:
        print("\n".join(kept), flush=True)
        kept = []
