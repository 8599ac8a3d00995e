"""A commit that writes a log into its own folder.

outcome: honest
mode: gate
"""

import pathlib

import small

training, log = small.Training(small.flags().seed), pathlib.Path("train.log").open("a")
for step in range(1000000):
    loss = training.step(step)
    print(loss, file=log, flush=True)
    small.say(step, loss)
