"""What every script here is compared with: an honest training, as long as it is let."""

import small

given = small.flags()
training = small.Training(given.seed)
for step in range(1000000):
    small.say(step, training.step(step))
