"""What the tests of `ladder gate` share: small gates, and ladder programs whose records are changed."""

import json
import pathlib
import shlex
import stat
import sys

SMALL = ("--ladder", "tiny", "--batch", 1, "--context", 32, "--warmup", 3, "--steps", 9, "--threads", 1)
LARGE_EFFECT = ("--min-effect", 10)  # percent


def script(path: pathlib.Path, text: str) -> pathlib.Path:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def remembering(folder: pathlib.Path, program: str) -> pathlib.Path:
    """A ladder program that makes each run once. The next time it returns the same record, as if it had made the run now and
    undisturbed."""
    return script(folder / "ladder", f"""[ "$1" = run ] || exec {shlex.quote(program)} "$@"
asked= before= record=
for word; do
  if [ "$before" = --record ]; then record=$word; else asked="$asked $word"; fi
  before=$word
done
kept={shlex.quote(str(folder))}/$(printf %s "$asked" | cksum | tr ' ' -).json
if [ ! -e "$kept" ]; then
  {shlex.quote(program)} "$@" || exit $?
  {shlex.quote(sys.executable)} - "$record" "$kept" <<END || exit $?
import json, sys
record = json.load(open(sys.argv[1]))
json.dump(record | ({{"flags": []}} if "flags" in record else {{}}), open(sys.argv[2], "w"))
END
fi
exec sed "s/\\"started\\": \\"[^\\"]*\\"/\\"started\\": \\"$(date -u +%Y-%m-%dT%H:%M:%SZ)\\"/" "$kept" > "$record"
""")


def editing(path: pathlib.Path, program: str, edit: str) -> pathlib.Path:
    """A ladder program whose records are edited by these lines of Python."""
    return script(path, f"""{shlex.quote(program)} "$@" || exit $?
while [ "$1" != --record ]; do shift; done
exec {shlex.quote(sys.executable)} - "$2" <<END
import json, sys
record = json.load(open(sys.argv[1]))
{edit}
json.dump(record, open(sys.argv[1], "w"))
END
""")


def taking(path: pathlib.Path, program: str, ms: str, commit: str = "", started: str = "", flags: tuple = ()) -> pathlib.Path:
    """A ladder program whose steps take `ms` each, a Python expression. `commit` and `started` replace its own, and `flags` are all that
    disturbed it."""
    return editing(path, program, f"""
ms = {ms}
record["timing"]["step_ms"] = [ms for _ in record["timing"]["step_ms"]]
for name in ("median_ms", "q1_ms", "q3_ms", "min_ms", "max_ms"):
    record["summary"][name] = ms
record["environment"]["git_commit"] = "{commit}" or record["environment"]["git_commit"]
record["started"] = "{started}" or record["started"]
record.pop("flags", None)
record.update({{"flags": list({flags!r})}} if {flags!r} else {{}})
""")


def verdict_of(folder: pathlib.Path) -> dict:
    return json.loads((folder / "gate.json").read_text())
