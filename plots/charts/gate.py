"""What gates found: for each entry, head's time over base's with its interval, against 1 and what matters.

The surprising thing: the axis is logarithmic, above 1 is slower, and the faint band about a mark is no interval of it: it is
the noise floor, the least change beyond the least effect that so many pairs find.
"""

from charts import Chart, Missing
from theme import BAR, FASTER_INK, GREY, GRID, INK, NARROW, SLOWER_INK, axis
from words import clean, milliseconds, number_of, percent, shorten, times

NAME, QUESTION = "gate", "Has the change made training slower?"
WIDTH, ROW, LABEL_LIMIT, TEXT_ROOM, MOST = 400, 34, 230, 268, 40  # px; MOST: rows of all gates
WORDS = {"REGRESSION": "slower", "IMPROVEMENT": "faster", "SAME": "the same", "INCONCLUSIVE": "inconclusive"}
COLORS = {"REGRESSION": SLOWER_INK, "IMPROVEMENT": FASTER_INK, "SAME": BAR, "INCONCLUSIVE": GREY}
SHAPES = {"REGRESSION": "triangle-right", "IMPROVEMENT": "triangle-left", "SAME": "circle", "INCONCLUSIVE": "cross"}
