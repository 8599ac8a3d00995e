"""Tries every script of this folder and prints docs/tricks.md. LADDER names the program.

    LADDER=build/release/ladder python3 tests/tricks/make_table.py > docs/tricks.md

With a file as argument, it keeps there what came of each script, and tries only those that it does not have.
"""

import json
import os
import pathlib
import re
import sys
import tempfile

import trying

HEAD = """# Tricks

What a program can do to look faster than it is, and what `ladder measure` and `ladder gate` make of it. Each line is a script of
[tests/tricks](../tests/tricks), tried as the second command beside an honest one, by
`LADDER=build/release/ladder python3 tests/tricks/make_table.py > docs/tricks.md`.

**{caught} of {all} are found or harmless. Of {honest} honest scripts that look alike, {accused} accused.**
What is found stands first, and the exit status is 1. *Harmless*: it cannot change the verdict. Figures are of one run, on two cores.
Give the seed as `{{seed}}`: nobody can know it before the study, so no table has its losses.

| what it does | outcome | what was said |
|:--|:--|:--|
"""
TAIL = """

The limits are wide, so that chance accuses nobody. Not seen are a pace that is under 15 % slower after the timed steps, a sleep of under
5 % of them, and losses that leave the first command's by under 5 % in the last third of the steps. A sleep is looked for between two
commands of `ladder measure` that use no GPU. None of these scripts has run on a GPU.
"""


def main():
    ladder, kept = os.environ["LADDER"], pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
    known = json.loads(kept.read_text(encoding="utf-8")) if kept and kept.exists() else {}
    with tempfile.TemporaryDirectory() as locks:
        environment = trying.environment(locks)
        for script in [*trying.scripts("cheats"), *trying.scripts("honest")]:
            if script.name in known:
                continue
            known[script.name] = trying.try_script(script, ladder, environment)._asdict()
            why = trying.fits(script, trying.Tried(**known[script.name]))
            print(script.name, known[script.name]["outcome"], why or "as expected", file=sys.stderr, flush=True)
            if kept:
                kept.write_text(json.dumps(known), encoding="utf-8")
    tried = {name: trying.Tried(**one) for name, one in known.items()}
    honest, cheats = trying.scripts("honest"), trying.scripts("cheats")
    accused = sum(bool(trying.fits(script, tried[script.name])) for script in honest)
    caught = {script.name for script in cheats if script.outcome != "open" and not trying.fits(script, tried[script.name])}
    rows = [row(script, tried[script.name], script.name in caught) for script in cheats]
    words = f"{accused} {'is' if accused == 1 else 'are'}" if accused else "none is"
    head = HEAD.format(caught=len(caught), all=len(cheats), honest=len(honest), accused=words)
    print(head + "\n".join(sorted(rows, key=lambda line: ("| open" in line, "| harmless" in line))) + TAIL.rstrip("\n"))


def row(script, tried, is_caught):
    outcome = script.outcome.split()[0] if is_caught else "open"
    said = re.sub(r"^.*/study: |^“trick”: |^ladder: |; the two are different trainings.*", "", tried.sentence).strip(" .")
    if tried.ratio and (not said or outcome == "open"):
        said = f"nothing; it is {tried.ratio:.2f}x as fast{', not usable' if trying.has_no_verdict(tried) else ''}"
    return f"| {script.about} | {outcome} | {said.replace('|', ' ')} |"


if __name__ == "__main__":
    main()
