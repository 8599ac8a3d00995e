#!/usr/bin/env python3
"""setup/tidy_sources.py BUILD [COMMIT]: the sources that clang-tidy is to read, one on a line.

Those of this checkout that BUILD/compile_commands.json has a command for; with a COMMIT only those that changed since, in a
commit or not, and those that include a header which did. Headers are followed through other headers until a source is
found. A source that has no command is named on standard error and left out.
"""
import json
import re
import subprocess
import sys
from pathlib import Path


def git(*arguments):
    done = subprocess.run(["git", *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(2)  # git has said why
    return done.stdout.split("\0")[:-1]


def including(header, includes):
    """The sources that show clang-tidy this header."""
    seen, waiting, sources = set(), {header}, set()
    while waiting and not sources:
        seen |= waiting
        found = {file for file, names in includes.items()
                 if any(f"/{one}".endswith(f"/{name}") for one in waiting for name in names)}
        sources = {file for file in found if file.endswith(".cpp")}
        waiting = found - seen
    return sources


def main(build, commit=None):
    listed = ["ls-files", "-z", "--exclude-standard", "--others"]
    kinds = ["--", "*.cpp", "*.h"]
    files = {file for file in git(*listed, "--cached", *kinds) if Path(file).is_file()}
    compiled = {entry["file"] for entry in json.loads((Path(build) / "compile_commands.json").read_text())}
    chosen = files
    if commit:
        chosen = files & {*git("diff", "--name-only", "-z", "--end-of-options", commit, *kinds), *git(*listed, *kinds)}
        includes = {file: re.findall(r'^#include "(.+)"', Path(file).read_text(), re.M) for file in files}
        chosen = chosen.union(*(including(file, includes) for file in chosen if file.endswith(".h")))
    sources = sorted(file for file in chosen if file.endswith(".cpp"))
    for file in sources:
        if str(Path(file).resolve()) in compiled:
            print(file)
        else:
            print(f"[tidy] {file} is not compiled here and is left out", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
