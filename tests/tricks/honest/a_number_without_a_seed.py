"""A final number of one seed, the same in each run.

outcome: honest
mode: metric
seed: 1
"""

import small

training = small.Training(small.flags().seed)
for step in range(25):
    training.step(step % 3)
print(f"val_loss {training.step(3, backward=False):.6f}", flush=True)
