"""speedruns.py CLONE LADDER: which of a speedrun's records are shown by its own logs, as speedruns.json and README.md beside this file.

CLONE is a clone of https://github.com/KellerJordan/modded-nanogpt, LADDER this project's program. Logs are grouped by folder, number of steps
and the program that they begin with. `ladder read --metric seconds` reads their times. No text of a log is kept.
"""
import collections
import hashlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRACK = "records/track_1_short"
ADDRESS = "https://github.com/KellerJordan/modded-nanogpt/tree/f411b3d346aa52d3504324ca93c230fd84c6c07f/"
LAST = re.compile(r"^s(?:tep)?:(\d+)/(\d+) val_loss:[\d.]+ train_time:[\d.]+ms", re.M)
IS_BASELINE = re.compile(r"baseline|master", re.I)
TARGET = 3.28  # the track's: a run counts whose mean validation loss is not above it
READ_TO = 0.0005  # s: logs tell milliseconds
SIDES = 40  # of one call


def groups_of(clone):
    """{(folder, steps, program): logs that tell their last step}; the program is what stands before the first line of "="."""
    groups = collections.defaultdict(list)
    for log in sorted(path for path in (clone / TRACK).rglob("*") if path.suffix in (".txt", ".log")):
        text = log.read_text(errors="replace")
        last = LAST.findall(text)
        if last and last[-1][0] == last[-1][1]:
            program = hashlib.sha256(text.split("=" * 100)[0].encode()).hexdigest()[:8]
            groups[str(log.parent.relative_to(clone)), int(last[-1][1]), program].append(log)
    return dict(groups)


def read(ladder, sides):
    """The study of these sides, each a list of logs. One that does not count ends with another status than 0."""
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for number, logs in enumerate(sides):
            side = Path(folder) / f"{number:03}"
            side.mkdir()
            for log in logs:
                (side / log.name).symlink_to(log.resolve())
            names.append(str(side))
        done = subprocess.run([ladder, "read", "--metric", "seconds", "--losses", "free", "--json", *names], capture_output=True, text=True)
    if done.returncode not in (0, 1, 3):
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def seconds_of(ladder, groups):
    """{group: seconds of each of its logs}"""
    found, keys = {}, list(groups)
    for first in range(0, len(keys), SIDES):
        chunk = keys[first:first + SIDES]
        study = read(ladder, [groups[key] for key in chunk])
        for number, key in enumerate(chunk):
            found[key] = [run["median_ms"] / 1000 for run in study["runs"] if run["rung"] == number and run["median_ms"] is not None]
    return found


def equal_number(text, mean):
    """The number in a text that is this mean in s, ms or minutes, as it is rounded there: with four digits at least."""
    for number in re.findall(r"(?<![\w.])\d[\d,]*\.?\d*", text):
        plain = number.replace(",", "").rstrip(".")
        decimals = len(plain.partition(".")[2])
        for scale in (1, 1000, 1 / 60):
            if len(plain.replace(".", "").lstrip("0")) >= 4 and abs(float(plain) - mean * scale) <= max(0.5000001 * 10**-decimals, READ_TO * scale):
                return number
    return None


def near_mean(text, mean):
    """A number that the text calls a mean, an average or std_mean's, and that is within 3 % of this one; or None."""
    for line in text.splitlines():
        if re.search(r"mean|average|avg", line, re.I) and not re.search(r"loss", line, re.I):
            for number in re.findall(r"(?<![\w.])\d+\.?\d*", line):
                if any(abs(float(number) - mean * scale) < 0.03 * mean * scale for scale in (1, 1000, 1 / 60)) and len(number) > 3:
                    return number
    return None


def records_of(clone):
    """The rows of README's table: number, minutes, title, the log's place; None where it links none."""
    for line in (clone / "README.md").read_text().splitlines():
        if row := re.match(r"(\d+) \| ([\d.]+) minutes? ?\| (.*?) ?\| \d\d/\d\d/\d\d \| (.*?) ?\|", line):
            log = re.search(rf"\(({TRACK}/[^)]*)\)", row[4])
            yield int(row[1]), float(row[2]), re.sub(r"\]\([^)]*\)|\[", "", row[3]), log[1].rstrip("/") if log else None
        if line.startswith("## Speedrun track 2"):
            return


def group_of_log(groups, clone, place):
    """The group that README's log is in; of a folder its largest."""
    within = [key for key, logs in groups.items() if clone / place in logs] if place else []
    of_folder = [key for key in groups if place and key[0] == place]
    return within[0] if within else max(of_folder, key=lambda key: len(groups[key]), default=None)


def write_table(rows, means):
    """README.md from the line "## Records" on."""
    counts = collections.Counter(row["verdict"] for row in rows)
    published = [one for one in means if one["published"]]
    lines = ["## Records", "", "| record | seconds (logs) | its baseline (logs) | gain [95 %] | |", "|:--|--:|--:|--:|:--|"]
    for row in rows:
        for one in row.get("baselines", []):
            why = "on another machine" if one["another_machine"] else f"misses the loss: {one['val_loss']}" if one["val_loss"] > TARGET else row["verdict"]
            gain = f"{one['ratio']:.4f}x" + (f" [{one['lo']:.4f}-{one['hi']:.4f}]" if one["lo"] else "") if one["ratio"] else "-"
            lines.append(f"| {row['record']}: [{row['title']}]({ADDRESS}{row['place']}) | {row['mean_s']:.2f} ({row['logs']}) | "
                         f"[{one['mean_s']:.2f}]({ADDRESS}{one['place']}) ({one['logs']}) | {gain} | {why} |")
    lines += ["", *(f"- {verdict}: {count}" for verdict, count in counts.most_common()), "",
              f"Of {len(means)} groups with {sum(one['logs'] for one in means)} logs, {len(published)} have a published mean. "
              f"{sum(one['equal'] for one in published)} are equal.", "",
              f"**Of {len({row['record'] for row in rows})} records {counts['shown']} are shown by their own logs.**"]
    readme = HERE / "README.md"
    head = readme.read_text().partition("## Records")[0] if readme.exists() else ""
    readme.write_text(head + "\n".join(lines) + "\n")


def main():
    clone, ladder = Path(sys.argv[1]).resolve(), sys.argv[2]
    groups = groups_of(clone)
    seconds = seconds_of(ladder, groups)
    rows, means = [], []
    for key, values in sorted(seconds.items()):
        if not values:
            continue
        mean = statistics.mean(values)
        top = clone / "/".join(key[0].split("/")[:3])
        texts = "\n".join(path.read_text(errors="replace") for path in sorted(top.rglob("*.md")))
        found = equal_number(texts, mean) if len(values) > 1 else None
        means.append({"group": key[0], "steps": key[1], "program": key[2], "logs": len(values), "mean_s": round(mean, 3),
                      "sd_s": round(statistics.stdev(values), 4) if len(values) > 1 else None,
                      "published": found or (near_mean(texts, mean) if len(values) > 1 else None), "equal": found is not None})
    for number, minutes, title, place in records_of(clone):
        key = group_of_log(groups, clone, place)
        row = {"record": number, "published_minutes": minutes, "title": title, "place": place, "logs": len(seconds.get(key, [])),
               "mean_s": round(statistics.mean(seconds[key]), 3) if seconds.get(key) else None, "verdict": "no log of its last step"}
        rows.append(row)
        if not seconds.get(key):
            continue
        top = "/".join(key[0].split("/")[:3])
        own = [other for other in groups if other[0].startswith(top) and other != key and IS_BASELINE.search(other[0][len(top):])]
        row["verdict"] = "no baseline among its logs"
        for other in own:
            study = read(ladder, [groups[other], groups[key]])
            ratio, apart = study["rungs"][1].get("speedup_first"), [line for line in study["warnings"] if "is of a machine" in line]
            row.setdefault("baselines", []).append({
                "place": other[0], "steps": other[1], "logs": len(groups[other]), "mean_s": round(statistics.mean(seconds[other]), 3),
                "ratio": ratio and round(ratio["ratio"], 5), "lo": ratio and ratio["lo"] and round(ratio["lo"], 5),
                "hi": ratio and ratio["hi"] and round(ratio["hi"], 5), "another_machine": bool(apart),
                "val_loss": round(study["rungs"][0]["numbers"]["val loss"]["median"], 4)})
        here = [one for one in row.get("baselines", []) if not one["another_machine"] and one["val_loss"] <= TARGET]
        with_interval = [one for one in here if one["lo"]]
        if own and not here:
            row["verdict"] = "no baseline on that machine that reaches the loss"
        elif own and not with_interval:
            row["verdict"] = "one log of a side: no interval"
        elif own:
            row["verdict"] = "shown" if all(one["lo"] > 1 for one in with_interval) else "not shown"
    (HERE / "speedruns.json").write_text(json.dumps({"records": rows, "groups": means}, indent=1) + "\n")
    write_table(rows, means)


if __name__ == "__main__":
    main()
