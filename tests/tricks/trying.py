"""Tries a script of cheats/ or honest/ as the second command of `ladder measure`, or as head of `ladder gate`, and says what came of it.

The head of a script's comment says what it does, and below:
    outcome: found KIND      named in one sentence, and the exit status is 1. "found other losses": by the guard
                             "found A or B": by whichever the machine's speed shows first
             harmless        the verdict cannot be changed by it: the ratio stays what the honest script's is, or none is given
             open            nobody finds it
             honest          nothing may be found
    base:    the first command, of bases/ or the script itself (train.py unless said)
    flag:    what the second command adds, where both are one program
    seed:    in place of {seed}
    mode:    gate: two commits; metric: whole runs that end with a number
    losses:  free: not guarded
    files:   losses: losses.txt has the losses of seed 1
    says:    words that a harmless one is refused with
    needs:   root
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import small  # noqa: E402

STEPS = ("--warmup", "4", "--steps", "24")
REPEATS, REPEATS_OF_NUMBERS = 4, 6
SEED = "{seed}"
METRIC = r"val_loss (?P<value>\S+)"


class Script(NamedTuple):
    name: str
    path: pathlib.Path
    about: str
    fields: dict

    @property
    def outcome(self):
        return self.fields["outcome"]


class Tried(NamedTuple):
    outcome: str   # "found pace", "not found"
    sentence: str  # of what was found, or why there is no verdict
    ratio: float   # time of the first command over the second's; None: there is none
    status: int    # exit status
    output: str


def scripts(kind):
    found = []
    for path in sorted((HERE / kind).glob("*.py")):
        head = path.read_text(encoding="utf-8").split('"""')[1]
        about, _, below = head.partition("\n\n")
        found.append(Script(path.stem, path, " ".join(about.split()), dict(re.findall(r"^(\w+): (.*)$", below, re.M))))
    return found


def environment(locks):
    """The variables that `ladder` is called with: no report is drawn, and other work may run."""
    ours = {"LADDER_LOCK_DIR": str(locks), "LADDER_PYTHON": "/bin/true", "LADDER_BUSY": "1"}
    return dict(os.environ) | ours | {"LC_ALL": "C.UTF-8", "CUDA_VISIBLE_DEVICES": ""}


def lay_out(script, folder):
    """The scripts of both commands in `folder`: train.py, or the named base, and the script itself."""
    folder.mkdir()
    shutil.copy(HERE / "small.py", folder)
    base = script.fields.get("base", "number.py" if script.fields.get("mode") == "metric" else "train.py")
    if base != script.path.name:
        shutil.copy(next(path for path in (HERE / "bases" / base, HERE / "honest" / base) if path.exists()), folder)
    shutil.copy(script.path, folder)
    if script.fields.get("files") == "losses":
        (folder / "losses.txt").write_text("\n".join(map(repr, small.table(1, 300))), encoding="utf-8")
    if base == "reads_data.py":
        (folder / "data.bin").write_bytes(bytes(1 << 20))
    return base


def git(folder, *words):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=folder, check=True, capture_output=True)


def command_of(script, ladder, folder):
    """The arguments of `ladder`, and the folder that the study lies in."""
    python = shlex.quote(sys.executable)
    here, out = folder / "here", folder / "study"
    base = lay_out(script, here)
    seed = "--seed " + script.fields.get("seed", SEED)
    if script.fields.get("mode") == "gate":
        (here / base).rename(here / "train.py") if base != "train.py" else None
        git(here, "init", "-q", "-b", "main")
        (here / script.path.name).unlink()
        git(here, "add", "-A")
        git(here, "commit", "-q", "-m", "Base")
        shutil.copy(script.path, here / "train.py")
        git(here, "commit", "-q", "-a", "-m", "Head")
        pairs = ["--pairs", "6", "--top-up", "0"]
        return [ladder, "gate", "--out", out, *STEPS, *pairs, "--base", "HEAD~1", "--", f"{python} train.py {seed}"], here
    second = f"trick: + {script.fields['flag']}" if "flag" in script.fields else f"trick: {python} {script.path.name} {seed}"
    what = ["--metric", METRIC, "--better", "lower"] if script.fields.get("mode") == "metric" else [*STEPS]
    if "losses" in script.fields:
        what += ["--losses", script.fields["losses"]]
    repeats = REPEATS_OF_NUMBERS if "--metric" in what else REPEATS
    return [ladder, "measure", "--out", out, "--no-look", *what, "--repeats", str(repeats), f"first: {python} {base} {seed}", second], here


def try_script(script, ladder, environment):
    """Tried. The losses' guard counts as found where it voids the second command."""
    with tempfile.TemporaryDirectory(prefix="tricks-") as place:
        folder = pathlib.Path(place)
        command, here = command_of(script, ladder, folder)
        variables = environment | {"PYTHONDONTWRITEBYTECODE": "", "XDG_CACHE_HOME": str(folder)}
        done = subprocess.run([str(word) for word in command], cwd=here, capture_output=True, text=True, check=False, timeout=1200,
                              env=variables, stdin=subprocess.DEVNULL)
        output, gate, study = done.stdout + done.stderr, folder / "study" / "gate.json", folder / "study" / "study.json"
        if gate.exists():
            result = json.loads(gate.read_text())
            entries = (result["comparison"] or {"entries": []})["entries"]
            found, ratio = result.get("found", []), 1 / entries[0]["ratio"] if entries else None
            void = [reason for reason in result["reasons"] if "no longer learns the same" in reason]
        elif study.exists():
            result = json.loads(study.read_text())
            last = result["rungs"][-1]
            found, ratio = result.get("found", []), (last["speedup_first"] or {"ratio": None})["ratio"]
            void = [last["reason"]] if last["status"] == "void" else []
            if last["status"] == "failed":
                return Tried("refused", last["reason"], None, done.returncode, output)
        else:
            return Tried("refused", output.strip().splitlines()[-1], None, done.returncode, output)
        if found:
            return Tried(f"found {found[0]['kind']}", found[0]["text"], ratio, done.returncode, output)
        return Tried("found other losses" if void else "not found", void[0] if void else "", ratio, done.returncode, output)


def has_no_verdict(tried):
    """Other work disturbed most runs, and so nothing is claimed."""
    return tried.status == 3 and tried.outcome == "not found"


def fits(script, tried):
    """Why it is not as the script's head says; empty: it is."""
    if script.outcome == "honest":
        return f"accused: {tried.sentence}" if tried.outcome.startswith("found") else ""
    if script.outcome == "harmless":
        if "says" in script.fields:
            return "" if tried.outcome == "refused" and script.fields["says"] in tried.output else f"{tried.outcome}: {tried.sentence}"
        is_honest = tried.outcome == "not found" and tried.ratio is not None and 0.67 < tried.ratio < 1.5
        return "" if is_honest else f"{tried.outcome}, ratio {tried.ratio}: {tried.sentence}"
    if script.outcome == "open":
        return "" if tried.outcome == "not found" else f"{tried.outcome}: {tried.sentence}"
    if tried.outcome.removeprefix("found ") not in script.outcome.removeprefix("found ").split(" or "):
        return f"{tried.outcome}, ratio {tried.ratio}: {tried.sentence}"
    return "" if tried.status == 1 else f"exit status {tried.status}"
