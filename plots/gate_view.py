"""What gate.html shows: a gate's verdict (results/schemas/gate.v1.json), its charts drawn. Computes nothing."""

import remarks
from charts import Chart, gate as verdict_chart, pairs as pairs_chart
from charts.gate import entries_of
from view import Drawn, flatten
from words import clean, judged_deviation, number_of, percent, plain, shorten, unit_of

SOURCES = {"calibration": "a calibration on this machine", "these pairs": "the spread of these pairs", "sessions": "the spread of the baseline's sessions"}
MOODS = {"REGRESSION": "bad", "FAILED": "bad", "INCONCLUSIVE": "warn", "UNFIT": "warn", "IMPROVEMENT": "good", "SAME": "good"}
MEANING = {
    "REGRESSION": "An interval lies wholly beyond the least effect, or a rung's losses are others.",
    "IMPROVEMENT": "An interval lies wholly below the least effect, and nothing became slower.",
    "SAME": "Every interval lies within the least effect.",
    "INCONCLUSIVE": "An interval reaches across a bound of what matters: these runs cannot tell. More pairs may.",
    "FAILED": "The head has no number: a run of it failed, was not proven, or its loss was not finite.",
    "UNFIT": "There is nothing to judge by: the base has no number, the machine is not fit for this, or a program differs from itself.",
    "SAVED": "There was no baseline to compare with. These runs are one now.",
    "CALIBRATED": "The program was run against itself. How far its equal runs are apart is the noise floor.",
}


def program(side):
    """'0123456789': the commits of a side."""
    return ", ".join(shorten(clean(name).partition(",")[0], 11) + (", changed" if "," in name else "") for name in side["programs"][:3]) or "unknown"


def cards(gate):
    """A card each: what, how it stands ("good", "warn", "bad" or ""), in words."""
    entries, out = entries_of(gate), []

    def card(what, value, mood, words=""):
        out.append({"what": what, "value": value, "mood": mood, "words": words})

    made = "each a fresh process of base and one of head" if gate["against"] == "program" else "each a run of the baseline and a fresh one of head"
    card("Pairs of runs", str(gate["pairs"]), "", made + ("; with the declared top-up, for the first of them could not tell" if gate["topped_up"] else ""))
    card("Least effect", percent(gate["min_effect"]), "", "what is smaller does not matter: said before measuring")
    if floors := [noise for noise in gate["noise"] if noise]:
        worst = max(floors, key=lambda noise: noise["floor"])
        card("Noise floor", percent(worst["floor"]), "warn" if worst["floor"] > gate["min_effect"] else "good",
             f"comes on top of the least effect for a slowdown to be found in 95 % of studies; from {SOURCES[worst['source']]}")
    elif entries:
        card("Noise floor", "not known", "warn", "`ladder gate --calibrate --save` measures how far equal programs are apart here")
    compared = [entry["loss"] for entry in entries if entry["loss"]["compared"]]
    if any(not loss["passed"] for loss in compared):
        card("Losses", "differ", "bad", "head no longer learns what base learns")
    elif compared and len(compared) < len(entries):
        left_out = next(entry for entry in entries if not entry["loss"]["compared"])
        card("Losses", f"{len(compared)} of {len(entries)} compared", "warn", clean(f"{left_out['label']}: {left_out['loss']['message']}"))
    elif compared:
        identical = all(loss["identical"] for loss in compared)
        card("Losses", "identical" if identical else "within tolerance", "good" if identical else "",
             "to the bit, at every step" if identical else f"typically {plain(max(judged_deviation(loss) for loss in compared))} nats apart at most")
    elif entries:
        card("Losses", "not compared", "warn", clean(entries[0]["loss"]["message"]))
    if entries:
        disturbed, runs = sum(len(entry["flags"]) for entry in entries), sum(2 * entry["pairs"] for entry in entries)
        card("Disturbed runs", f"{disturbed} of {runs}" if disturbed else "none seen", "warn" if disturbed else "good",
             "throttled, shared, busy with something else, or short of memory" if disturbed else "no throttling and no other work, as far as it was watched")
        base, head = (program(gate["comparison"][side]) for side in ("base", "head"))
        changed = "changed" in base + head
        card("Programs", f"{base} → {head}" if base != head else base, "warn" if changed else "",
             "commits of base and head" + ("; with changes that are not committed" if changed else ""))
    return out


def common_setting(entries):
    """[(name, value)] of the circumstances that all rungs share."""
    settings = [entry["setting"] for entry in entries]
    return [(name, value) for name, value in settings[0].items() if all(s.get(name) == value for s in settings)] if settings else []


def view(gate):
    """The template's variables."""
    entries = entries_of(gate)
    drawn = [Drawn(module.NAME, module.QUESTION, chart, "") for module in (verdict_chart, pairs_chart)
             if isinstance(chart := module.of_gate(gate), Chart)]
    where = [*verdict_chart.devices_of(gate), clean(gate["created"])[:10], f"against a {gate['against']}"]
    contents = [("verdict", "The verdict"), ("trust", "Can it be trusted?"), *([("pairs", "Pair by pair")] if entries else []),
                *([("noise", "What this machine can show")] if gate["calibration"] else []), ("how", "How to read this"),
                *([("circumstances", "Circumstances")] if entries else [])]
    return {"gate": gate, "headline": verdict_chart.title(gate), "mood": MOODS.get(gate["verdict"], ""), "where": " · ".join(where), "meaning": MEANING[gate["verdict"]],
            "charts": drawn, "trust": cards(gate), "entries": entries,
            "remarks_of": lambda entry: remarks.of_entry(entry, remarks.OWN_NAMES), "setting": common_setting(entries), "flatten": flatten,
            "slower_pairs": lambda e: f"{e['slower_pairs']} of {number_of(e['pairs'], 'pair')}", "unit": unit_of([entry["memory"]["head_bytes"] for entry in entries if entry["memory"]]),
            "contents": [{"anchor": anchor, "text": text, "inner": []} for anchor, text in contents]}


def chart_names():
    """Of every chart that a gate may have."""
    return [verdict_chart.NAME, pairs_chart.NAME]


def all_charts(shown):
    """shown: view's dict."""
    return shown["charts"]
