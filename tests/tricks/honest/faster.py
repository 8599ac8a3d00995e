"""The same arithmetic with less of Python: truly faster, and its losses are the same but for rounding.

outcome: honest
"""

import operator

import small


class Faster(small.Training):
    def step(self, number, rows=small.ROWS, **_):
        batch, weights = self.batches[number % len(self.batches)], self.weights
        errors = [sum(map(operator.mul, weights, inputs)) - wanted for inputs, wanted in batch]
        columns = zip(*(inputs for inputs, _ in batch))
        self.weights = [w - 0.1 * sum(map(operator.mul, errors, column)) / rows for w, column in zip(weights, columns)]
        return sum(error * error for error in errors) / rows


training = Faster(small.flags().seed)
for step in range(1000000):
    small.say(step, training.step(step))
