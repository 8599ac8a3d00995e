"""What gate.html shows: a gate's verdict (results/schemas/gate.v1.json) with its charts. Computes nothing."""

from charts import Chart, finding_of, gate as verdict_chart, pairs as pairs_chart
from charts.gate import entries_of, is_told
from documents import Refused
from view import Drawn, flatten
from words import clean, number_of, unit_of

PAGE, TEMPLATE, HAS_MARKDOWN = "gate", "gate", False


def common_setting(entries):
    """[(name, value)] of the circumstances that all rungs share."""
    settings = [entry["setting"] for entry in entries]
    return [(name, value) for name, value in settings[0].items() if all(s.get(name) == value for s in settings)] if settings else []


def view(gate):
    """The template's variables."""
    if not is_told(gate):
        raise Refused("the verdict is an older program's, without its sentences; `ladder report GATE.json` draws it")
    entries, said = entries_of(gate), gate["words"]
    drawn = [Drawn(module.NAME, module.QUESTION, chart, "") for module in (verdict_chart, pairs_chart)
             if isinstance(chart := module.of_gate(gate), Chart)]
    contents = [("verdict", "The verdict"), ("trust", "Can it be trusted?"), *([("pairs", "Pair by pair")] if entries else []),
                *([("noise", "What this machine can show")] if gate["calibration"] else []), ("how", "How to read this"),
                *([("circumstances", "Circumstances")] if entries else [])]
    return {"gate": gate, "headline": finding_of(said, verdict_chart.NAME), "said": said, "where": clean(said["origin"]["source"]), "charts": drawn, "entries": entries,
            "noises": list(zip(gate["calibration"], said["noise"], strict=True)), "setting": common_setting(entries), "flatten": flatten,
            "slower_pairs": lambda e: f"{e['slower_pairs']} of {number_of(e['pairs'], 'pair')}", "unit": unit_of([entry["memory"]["head_bytes"] for entry in entries if entry["memory"]]),
            "contents": [{"anchor": anchor, "text": text, "inner": []} for anchor, text in contents]}


def chart_names():
    """The names of all charts that a gate may have."""
    return [verdict_chart.NAME, pairs_chart.NAME]


def all_charts(shown):
    """shown: view's dict."""
    return shown["charts"]
