"""Remarks on a comparison (results/schemas/comparison.v1.json), in the words of the terminal's table.

In a report's comparison, base and head are called the first and the second study. A gate keeps the names base and head.
"""

from words import clean, number_of

SIDES = {"base": "first", "head": "second"}
OWN_NAMES = {"base": "base", "head": "head"}


def losses_differ(entry):
    return entry["loss"]["compared"] and not entry["loss"]["passed"]


def loss_words(loss):
    return ("LOSSES DIFFER: " if loss["compared"] and not loss["passed"] else "") + clean(loss["message"])


def of_sides(flag, names=SIDES):
    """'base r1-02-bf16 throttled: ...', with the side's name for the reader."""
    side, _, rest = clean(flag).partition(" ")
    return f"{names.get(side, side)} {rest}".strip()


def disturbed_words(entry, names=SIDES):
    """'2 of the runs were disturbed: ...'; may be empty."""
    runs = len(entry["flags"])  # one line for each such run
    return f"{runs} of the runs {'was' if runs == 1 else 'were'} disturbed: {of_sides(entry['flags'][0], names)}" if runs else ""


def of_entry(entry, names=SIDES):
    """[(how bad: "bad", "warn" or "", in words)]"""
    said = [("bad" if losses_differ(entry) else "", loss_words(entry["loss"])), ("warn", disturbed_words(entry, names))]
    return [(mood, words) for mood, words in said if words]


def left_out(comparison):
    """A line for each side that has runs without a number."""
    return [f"{number_of(len(runs), 'run')} of the {name} left out, not a number: {clean(runs[0])}"
            for side, name in SIDES.items() if (runs := comparison[side].get("left_out"))]
