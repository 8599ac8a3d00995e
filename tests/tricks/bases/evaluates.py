"""An honest training that evaluates every five steps."""

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
    if step % 5 == 4:
        print(f"validation loss {training.step(3, backward=False):.6f}", flush=True)
