"""An honest training that waits as a file says, if there is one."""

import json
import pathlib
import time

import small

setting = pathlib.Path("setting.json")
wait_s = json.loads(setting.read_text())["wait_s"] if setting.exists() else 0
training = small.Training(small.flags().seed)
for step in range(1000000):
    loss = training.step(step)
    time.sleep(wait_s)
    small.say(step, loss)
