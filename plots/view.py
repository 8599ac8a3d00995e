"""What report.md and report.html both show: a report's document (results/schemas/report.v1.json) with its charts.

It computes nothing. It says which rungs, tables and charts there are, and where they go.
"""

from typing import NamedTuple, Optional

import charts
import picture
import study as of
import theme
from charts import Chart
from charts.gate import is_told
from documents import Refused
from words import clean, shorten


PAGE, TEMPLATE, HAS_MARKDOWN = "report", "report", True


class Drawn(NamedTuple):
    name: str                # of its files, and of its place in the page
    question: str
    chart: Optional[Chart]
    run: str                 # what to run to get a chart that is not there

    def specification(self):
        """As a file of its own."""
        return picture.specification(self.chart)

    def bare(self, narrow):
        """As the page shows it."""
        return theme.bare(self.chart.narrow if narrow else self.chart.wide, self.chart.finding)


def drawn(names, argument, suffix=""):
    out = []
    for name in names:
        module = charts.module(name)
        made = module.draw(argument)
        is_chart = isinstance(made, Chart)
        out.append(Drawn(module.NAME + suffix, module.QUESTION, made if is_chart else None, "" if is_chart else made.run))
    return out


def flatten(value, name=""):
    """[(dotted name, value)] of nested objects, in their order. Lists stay whole."""
    if not isinstance(value, dict) or (name and not value):
        return [(name, value)]
    return [pair for key, inner in value.items() for pair in flatten(inner, f"{name}.{key}" if name else str(key))]


def environment(study):
    """[(dotted name, value)] of all that the numbers depend on."""
    data = study["workload"]["data"]
    return [*flatten(study["environment"]), ("data", f"{data['source']}, {data['tokens']:,} tokens, sha256 {data['sha256']}"),
            ("seed", study["workload"]["seed"]), ("study", f"{study['id']}, made {study['created']}")]


def technique_of(part):
    """A function that returns the text about a rung's optimization, for the first rung with that optimization."""
    first = {}
    for rung in of.own_rungs(part["study"]):
        first.setdefault(rung["optimization"], rung["index"])
    return lambda rung: part.get("techniques", {}).get(rung["optimization"]) if first[rung["optimization"]] == rung["index"] else None


def part_view(report, part, suffix, name):
    study = part["study"]
    pictures = drawn(charts.OF_STUDY, part | {"published": report["published"]}, suffix)
    lead = next((one for one in pictures[:len(charts.LEADING)] if one.chart), None)
    splits = [(r, of.memory_parts(r), r["memory"]) for r in of.own_rungs(study) if "activations_bytes" in (r.get("memory") or {})]
    known = {name for _, parts, _ in splits for name in parts}
    return {
        "said": {"remedy": ""} | study["words"], "technique_of": technique_of(part),
        "study": study, "name": name, "suffix": suffix, "about": of.about(study),
        "notes": study.get("notes", []), "rungs": of.own_rungs(study), "mode": study["mode"],
        "worths": of.worths(study), "predictions": [(study["rungs"][p["rung"]], p) for p in part.get("predictions", [])],
        "peers": of.peers(study), "compiles": any("compiling" in r["words"] for r in study["rungs"]),
        "batches": of.batches(study), "unit": of.memory_unit(study),
        "environment": environment(study), "splits": splits,
        "memory_parts": [name for name in [*of.MEMORY_PARTS.values(), "other"] if name in known],
        "has_reserved": bool(splits) and all("reserved_peak_bytes" in m for *_, m in splits),
        "mfus": of.has_mfu(study),
        "clocks": any(r["words"].get("clock") for r in study["rungs"]),
        "mfu_of": lambda r: f"{100 * r['mfu']['value']:.1f} %" if (r.get("mfu") or {}).get("value") is not None else "—",
        "charts": pictures, "lead": lead,
    }


def contents(parts, beside):
    """The page's table of contents."""
    def link(anchor, text, inner=()):
        return {"anchor": anchor, "text": text, "inner": list(inner)}

    out = [link("side-by-side", "Side by side")] if len(parts) > 1 else []
    for part in parts:
        end = part["suffix"]
        sections = [link("trust" + end, "Can it be trusted?"),
                    link("ladder-section" + end, "The ladder" if part["mode"] == "cumulative" else "The rungs")]
        pictures = [one for one in part["charts"] if one.chart and one is not part["lead"]]
        if pictures:
            sections.append(link("pictures" + end, "Charts", (link(f"chart-{one.name}", one.question) for one in pictures)))
        sections += [link("rungs" + end, "Rung by rung", (link(f"rung{end}-{i}", shorten(of.label(part["study"], r), 40))
                                                         for i, r in enumerate(part["rungs"]))),
                     link("how" + end, "How to read this"), link("again" + end, "Runs and environment")]
        out += [link("study" + end, shorten(part["name"], 60), sections)] if len(parts) > 1 else sections
    if any(one.chart and one.name != "side_by_side" for one in beside):
        out.append(link("beside", "Related results"))
    return out + [link("not-here", "What is not here")]


def names_of(studies):
    """Names for the studies of a report that differ: their titles, or their devices, or their programs, or their ids."""
    def commit(study):
        return "commit " + clean(study["environment"].get("git_commit") or "unknown")[:10]

    for name in (lambda s: clean(s["ladder"]["title"]), lambda s: clean(s["device"]["name"]), commit, lambda s: clean(s["id"])):
        names = [shorten(name(part["study"]), 80) for part in studies]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({place})" for name, place in zip(names, ("first", "second"))]


def view(report):
    """The templates' variables. Names of charts of the second study end with -2."""
    compared = report["comparison"]
    if not (all("origin" in part.get("words", {}) for part in report["studies"])
            and (compared is None or "words" in compared) and all(map(is_told, report["gates"]))):
        raise Refused("the report is an older program's, without its sentences; `ladder report REPORT.json` draws it")
    studies = [of.told(part) for part in report["studies"]]
    report = report | {"studies": studies}
    names = names_of(studies)
    parts = [part_view(report, part, "" if i == 0 else f"-{i + 1}", names[i]) for i, part in enumerate(studies)]
    beside = drawn(charts.OF_REPORT, report)
    lacking = [(one.question + (f" ({part['name']})" if len(parts) > 1 else ""), one.run)
               for part in parts for one in part["charts"] if not one.chart]
    side = next((one for one in beside if one.name == "side_by_side" and one.chart), None)
    return {"parts": parts, "side": side, "charts": [one for one in beside if one is not side],
            "comparison": report["comparison"],
            "notes": [clean(note) for note in report["notes"]], "headline": parts[0]["said"]["headline"], "contents": contents(parts, beside),
            "missing": lacking + [(one.question, one.run) for one in beside if not one.chart]}


def chart_names():
    """The names of all charts that a report may have."""
    return [name + suffix for name in charts.OF_STUDY + charts.OF_REPORT for suffix in ("", "-2")]


def all_charts(shown):
    """shown: view's dict."""
    drawings = [shown["side"]] if shown["side"] else []
    return drawings + [one for part in shown["parts"] for one in part["charts"] if one.chart] + [one for one in shown["charts"] if one.chart]
