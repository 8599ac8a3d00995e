"""An honest training that reads a file of data first."""

import small

with open("data.bin", "rb") as file:
    data = file.read()
training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
