"""Scripts that cheat are found or change nothing, and honest ones that look alike are accused of nothing (trying.py)."""

import os

import pytest
import trying

# One of each kind that is found, and the honest ones that look most like them.
SHORT = {"false_tokens", "counts_its_runs", "works_before", "makes_up_the_number", "edits_records", "sleeps_in_the_first"}
SHORT_HONEST = {"client_late", "slow_first_steps", "shares_a_cache", "stops_polling"}


def all_scripts():
    for kind, short in (("cheats", SHORT), ("honest", SHORT_HONEST)):
        for script in trying.scripts(kind):
            yield pytest.param(script, id=f"{kind}-{script.name}", marks=[] if script.name in short else [pytest.mark.thorough])


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    locks = tmp_path_factory.mktemp("locks")
    return trying.environment(locks)


@pytest.mark.parametrize("script", list(all_scripts()))
def test_script(script, environment):
    ladder = os.environ.get("LADDER") or pytest.skip("LADDER is not set")
    if script.fields.get("needs") == "root" and os.geteuid() != 0:
        pytest.skip("only root may raise a priority")
    tried = trying.try_script(script, ladder, environment)
    why = trying.fits(script, tried)
    if why and script.outcome != "honest" and trying.has_no_verdict(tried):
        pytest.skip(f"the machine is too busy for any verdict: {why}")
    assert not why, tried.output


def test_there_are_enough():
    """Of thirty cheats 27 are found or harmless, or as large a share of more."""
    cheats, honest = trying.scripts("cheats"), trying.scripts("honest")
    is_open = [script.name for script in cheats if script.outcome == "open"]
    assert len(cheats) >= 30 and len(honest) >= 30 and 10 * len(is_open) <= len(cheats), is_open
    assert {script.outcome.split()[0] for script in cheats} == {"found", "harmless", "open"}


def test_the_page_names_all():
    page = (trying.HERE.parents[1] / "docs" / "tricks.md").read_text(encoding="utf-8")
    missing = [script.name for script in trying.scripts("cheats") if f"| {script.about} |" not in page]
    assert not missing, "tests/tricks/make_table.py makes it"
