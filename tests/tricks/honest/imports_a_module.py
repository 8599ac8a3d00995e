"""Imports modules that Python compiles into __pycache__ once.

outcome: honest
"""

import html.parser
import xml.dom.minidom

import small

training = small.Training(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
assert html.parser and xml.dom.minidom
