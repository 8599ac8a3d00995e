"""What report.md and report.html both show: a report's document (results/schemas/report.v1.json), its charts drawn.

Computes nothing: which rungs, tables and charts there are, and where they go.
"""

from typing import NamedTuple, Optional

import charts
import study as of
import theme
from charts import Chart
from words import clean, percent


class Drawn(NamedTuple):
    name: str                # of its files, and its anchor in the page
    question: str
    chart: Optional[Chart]   # none: see run
    run: str                 # what to run to get it

    def specification(self):
        """As a file of its own."""
        return theme.framed(self.chart.wide, self.chart.finding, self.chart.lines)

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
    """[(dotted name, value)] of nested objects, in their order; lists stay whole."""
    if not isinstance(value, dict) or (name and not value):
        return [(name, value)]
    return [pair for key, inner in value.items() for pair in flatten(inner, f"{name}.{key}" if name else str(key))]


def mfu_rows(study):
    """(the kinds of MFU that rungs have, each once; why there is none)"""
    mfus = [r["mfu"] for r in of.measured(study) if r.get("mfu")]
    none = "" if not mfus or any(m["value"] is not None for m in mfus) else mfus[0]["reason"]
    return list({m["type"]: m for m in mfus if m["value"] is not None}.values()), none


def part_view(part, suffix, name):
    study = part["study"]
    words, first, last = of.finding(study)
    mfus, no_mfu = mfu_rows(study)
    pictures = drawn(charts.OF_STUDY, part, suffix)
    splits = [(r, r["memory"]) for r in of.own_rungs(study) if "activations_bytes" in (r.get("memory") or {})]
    return {
        "study": study, "name": name, "suffix": suffix, "source": part["source"], "computed_again": part["computed_again"],
        "words": words, "first": first, "last": last, "title": of.title_of_any(study), "confidence": of.confidence(study),
        "rungs": of.own_rungs(study), "mode": of.mode(study), "worths": of.worths(study), "worth_words": of.worth_words(study),
        "peers": of.peers(study), "settings": of.command_line(study), "unit": of.memory_unit(study),
        "environment": flatten(study["environment"]), "splits": splits,
        "has_reserved": bool(splits) and all("reserved_peak_bytes" in m for _, m in splits),
        "mfus": mfus, "no_mfu": no_mfu,
        "mfu_of": lambda r: percent(r["mfu"]["value"]) if (r.get("mfu") or {}).get("value") is not None else "—",
        "charts": pictures, "lead": next((one for one in pictures if one.chart), None),
    }


def view(report):
    """The templates' variables. Names of charts of the second study end with -2."""
    studies = report["studies"]
    names = [clean(part["study"]["ladder"]["title"]) for part in studies]
    if len(set(names)) < len(names):
        names = [f"{name} ({clean(part['study']['id'])})" for name, part in zip(names, studies)]
    parts = [part_view(part, "" if i == 0 else f"-{i + 1}", names[i]) for i, part in enumerate(studies)]
    return {"report": report, "parts": parts, "charts": drawn(charts.OF_REPORT, report), "comparison": report["comparison"],
            "notes": [clean(note) for note in report["notes"]]}


def all_charts(page):
    return [one for part in page["parts"] for one in part["charts"] if one.chart] + [one for one in page["charts"] if one.chart]
