"""An honest training of 25 steps that ends with a number, computed from rows that it has not trained on."""

import small

training = small.Training(small.flags().seed)
for step in range(25):
    training.step(step % 3)
print(f"val_loss {training.step(3, backward=False):.6f}", flush=True)
