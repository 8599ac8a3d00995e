"""An honest training of sixty steps, each of which looks at its batch twice."""

import small

training = small.Training(small.flags().seed)
for step in range(60):
    training.step(step, backward=False)
    small.say(step, training.step(step))
