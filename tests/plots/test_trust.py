"""plots/trust.py on made-up studies: what the cards say of noise, of runs that were disturbed or not watched, of versions."""

import charts
import trust
import view
from builders import LADDER, make, noise_of, report_of, valid, with_peers


def test_the_noise_floor_is_the_one_of_so_many_repeats():
    def card(document):
        return next(c for c in view.view(document)["parts"][0]["trust"] if c["what"] == "Noise floor")

    document = report_of(make(), noise=[noise_of((3, 0.05), (5, 0.031), (8, 0.02)), noise_of((2, 0.09))])
    assert card(document)["value"] == "not measured"  # of other circumstances
    document["studies"][0]["noise"] = [0, 1]
    assert card(document)["value"] == "3.1 %" and "5 pairs of runs" in card(document)["words"]
    document["studies"][0]["noise"] = [1]
    assert card(document)["value"] == "9 %" and "2 pairs" in card(document)["words"]
    published = ((6, 0.05), (8, 0.04), (12, 0.03), (48, 0.01))  # as baseline.cpp's floor_at() takes them
    for repeats, value, pairs in ((5, "5 %", 6), (6, "5 %", 6), (10, "4 %", 8), (12, "3 %", 12), (60, "1 %", 48)):
        document = report_of(make(LADDER[:2], runs=repeats), noise=[noise_of(*published)])
        document["studies"][0]["noise"] = [0]
        assert card(document)["value"] == value and f"{pairs} pairs of runs" in card(document)["words"]
        assert "in 95 % of studies; smaller ones are found less often" in card(document)["words"]
        assert (f"(this study has {repeats})" in card(document)["words"]) == (pairs != repeats)


def test_disturbed_runs_are_counted_each_once_in_every_rung():
    def card(document):
        cards = view.view(document)["parts"][0]["trust"]
        return next((c["value"], c["mood"]) for c in cards if c["what"] == "Disturbed runs")

    assert card(report_of(make())) == ("none seen", "good")
    study = with_peers(("PyTorch eager", 2.0))
    peer = len(study["rungs"]) - 1
    study["runs"] += [{**run, "id": f"r{peer}-{run['repeat']}", "rung": peer} for run in study["runs"][-5:]]
    study["plan"].update(runs_planned=40, runs_ok=40)
    study["rungs"][3].update(status="void", reason="losses leave the reference")
    study["rungs"][1]["flags"] = ["r1-0 throttled: a", "r1-0 shared: b", "r1-2 shared: b"]
    study["rungs"][3]["flags"], study["rungs"][peer]["flags"] = ["r3-1 shared: b"], [f"r{peer}-4 shared: b"]
    assert card(valid(report_of(study))) == ("4 of 40", "warn")


def test_runs_made_again_or_not_watched_are_not_simply_undisturbed():
    document = report_of(make(LADDER[:2]))
    part = document["studies"][0]
    runs = part["runs"]

    def said():
        return trust.disturbance(part)[:2], charts.module("steps").draw(part).finding.partition("; ")[2]

    assert trust.disturbance(part) == ("none seen", "good", "something else had the processor for at most 1 % of a run")
    assert said()[1] == "no run was disturbed"
    runs[3]["first_flags"] = ["shared: something else had the processor"]
    assert trust.disturbance(valid(document)["studies"][0]) == (
        "1 run made again", "", f"disturbed the first time: {runs[3]['id']}: shared: something else had the processor")
    assert said()[1] == "no run counted is disturbed (1 made again)"
    runs[4]["processor_lost"] = runs[5]["processor_lost"] = None
    value, mood, words = trust.disturbance(part)
    assert said() == (("not known", "warn"), "") and words.startswith("2 runs where the system") and "; 1 run made again (r" in words
    runs[4]["flags"] = ["throttled: heat"]
    assert said()[0] == ("1 of 10", "warn") and "1 run made again" in trust.disturbance(part)[2]
    runs[3]["flags"] = ["shared: again"]  # made again, and disturbed again
    assert said()[0] == ("2 of 10", "warn") and trust.disturbance(part)[2].endswith("; 1 run made again and disturbed once more")


def test_a_gpu_that_nobody_watched_is_not_called_undisturbed():
    study = make(device="cuda")
    for r in study["rungs"]:
        r["recipe"]["device"] = "cuda"
    document = report_of(study)
    watched = {"throttle": [{"reason": "SwPowerCap", "share": 0.97}], "other_processes": 0}
    for run in document["studies"][0]["runs"]:
        run["conditions"] = dict(watched)

    def card():
        (one,) = (card for card in trust.cards(document, document["studies"][0]) if card["what"] == "Disturbed runs")
        return one["value"], one["mood"], one["words"]

    assert card() == ("none seen", "good", "no throttling, no other work on the device; at its power cap for up to 97 % of a run")
    last = document["studies"][0]["runs"][-1]
    for conditions in (None, {"unavailable": "no NVML"}, watched | {"other_processes": None}, watched | {"throttle": None}):
        last["conditions"] = conditions
        assert card() == ("not known", "warn", "1 run on a GPU that nobody watched")
    last["flags"] = ["throttled: heat"]
    assert card()[:2] == (f"1 of {study['plan']['runs_ok']}", "warn")


def environment_card(**environment):
    study = make(device="cuda")
    study["environment"] |= environment
    return next(card for card in view.view(report_of(study))["parts"][0]["trust"] if card["what"] == "Environment")


def test_the_environment_names_the_driver_of_a_gpu():
    assert environment_card()["words"] == "driver 580.159.04, CUDA 13.0, commit unknown"
    assert environment_card(driver=None)["words"].startswith("driver unknown, CUDA 13.0, ")
    of_a_cpu = trust.cards(report_of(make()), report_of(make())["studies"][0])
    assert not any("driver" in card["words"] for card in of_a_cpu)
