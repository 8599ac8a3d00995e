"""Reads a cache that the first command has made, and would make it itself.

outcome: honest
base: shares_a_cache.py
flag: --other
"""

import pathlib

import small

kept = pathlib.Path("tokens.txt")
if not kept.exists():
    kept.write_text("1 2 3")
kept.read_text()
training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
