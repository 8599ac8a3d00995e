"""What a terminal shows: the ladder's bars and colours, and the help of every command.

The program decides by the stream that it writes to, so all tests use a pseudo-terminal or a pipe.
"""

import re

import pytest
from conftest import MEASURED, ROOT, ladder_document, write_json

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
BLOCKS = " ▏▎▍▌▋▊▉█"
FAILED = {"LADDER_PYTHON": "/bin/false"}  # no report is drawn: the tests look at the table


@pytest.fixture(scope="module")
def helps(ladder) -> dict[str, str]:
    """All help of every command that the program's help names."""
    sections = re.findall(r"^(?:Measure|Report|Compare|Train|Help)\n((?:  .*\n)+)", ladder("--help").stdout, re.M)
    assert len(sections) == 5
    names = [name for section in sections for name in re.findall(r"^  (\w+) ", section, re.M)]
    return {name: ladder(name, "--help-all").stdout for name in names}


@pytest.fixture(scope="module")
def study(ladder, tmp_path_factory):
    """A small study of three rungs. One of them is not possible here."""
    folder = tmp_path_factory.mktemp("terminal")
    ladder_file = write_json(folder / "small.json", ladder_document())
    done = ladder("ablate", "--no-look", "--ladder", ladder_file, "--threads", "1", "--out", folder / "study", variables=FAILED)
    assert done.returncode in MEASURED, done.stderr
    return folder / "study"


def show(study) -> list[str]:
    """The command that prints the study's table again, without a run."""
    return ["ablate", "--resume", "--out", str(study)]


def table(text: str) -> str:
    """The table: without what standard error says of the drawing, and without the files."""
    return text.replace("\r\n", "\n").split("Open ")[0].split("the study is saved")[0].split("another Python)\n")[-1]


def bars(text: str, letters: str) -> list[str]:
    """The bars of rows with a number."""
    return re.findall(rf"^.{{25}}[ !] *[\d.,]+ ([{letters}]{{8}}) ", ESCAPE.sub("", table(text)), re.M)


@pytest.mark.parametrize("variables, blocks", [({"LC_ALL": "", "LC_CTYPE": "POSIX", "LANG": "C.UTF-8"}, False),
                                               ({"LC_ALL": "", "LC_CTYPE": "", "LANG": "en_US.utf8"}, True)])
def test_plain_bars_where_the_locale_is_not_utf8(study, on_a_terminal, variables, blocks) -> None:
    _, text = on_a_terminal(*show(study), variables=FAILED | variables)
    assert table(text).isascii() != blocks and ("█" if blocks else "#") * 8 in bars(text, BLOCKS if blocks else "# ")


def test_colour_only_on_a_terminal(study, ladder, on_a_terminal) -> None:
    """study_table_test.cpp has the bars and colours."""
    _, coloured = on_a_terminal(*show(study), variables=FAILED)
    piped = ladder(*show(study), variables=FAILED)
    assert set(ESCAPE.findall(table(coloured))) >= {"\x1b[1m", "\x1b[2m", "\x1b[0m"} and "█" * 8 in bars(coloured, BLOCKS)
    assert "\x1b" not in piped.stdout + piped.stderr and "█" not in piped.stdout
    assert len(bars(piped.stdout, "# ")) == 3


def test_when_there_is_no_colour(study, on_a_terminal) -> None:
    for variables, has_colour in ({"NO_COLOR": "0"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False):
        assert bool(ESCAPE.search(on_a_terminal("--help", variables=variables)[1])) == has_colour, variables
    _, text = on_a_terminal(*show(study), variables=FAILED | {"NO_COLOR": "1"})
    assert not ESCAPE.search(text) and "█" in text, "a bar is no colour"


def test_comparisons_and_histories_are_painted_last(study, ladder, on_a_terminal) -> None:
    for command in (["compare", str(study), str(study)], ["history", str(ROOT / "results" / "evidence")], ["doctor"]):
        _, text = on_a_terminal(*command)
        piped = ladder(*command).stdout
        assert ESCAPE.search(text) and "\x1b" not in piped
        if command != ["doctor"]:  # its output changes with the machine's load
            assert ESCAPE.sub("", text).replace("\r\n", "\n") == piped


def test_help_is_the_same_by_every_way(ladder, helps) -> None:
    for command in helps:
        done = ladder(command, "--help")
        assert (done.returncode, done.stderr) == (0, "") and done.stdout == ladder("help", command).stdout
        assert done.stdout == helps[command] or done.stdout.endswith(f"\nEvery flag: ladder {command} --help-all\n")
        assert max(map(len, done.stdout.splitlines())) <= 80 and len(done.stdout.splitlines()) <= 40, command
        assert done.stdout.count("\n  ladder ") <= 5
    alone = ladder()
    assert (alone.returncode, alone.stderr) == (2, "") and ladder("help").stdout == ladder("-h").stdout == alone.stdout


def test_help_on_an_optimization(ladder) -> None:
    done = ladder("help", "flash")
    assert done.returncode == 0 and done.stdout.startswith("flash: ") and "\nTry it alone\n    ladder ablate " in done.stdout
    lines = done.stdout.splitlines()
    assert len(lines) <= 60 and "`" not in done.stdout and max(len(line) for line in lines if not line.startswith("    ")) <= 80
    assert ladder("help", "Flash Attention").stdout == done.stdout
    done = ladder("help", "flsh")
    assert (done.returncode, done.stderr) == (2, 'ladder: there is no command and no optimization "flsh"; did you mean flash?\n')


def test_the_time_left_is_told_from_the_first_run_on(ladder, on_a_terminal, tmp_path) -> None:
    ladder_file = write_json(tmp_path / "small.json", ladder_document(rungs=[], start_title="a\x1b[31mred"))
    status, text = on_a_terminal("ablate", "--no-look", "--ladder", ladder_file, "--repeats", "1", "--threads", "1", "--out", tmp_path / "study",
                                 variables=FAILED)
    assert status in MEASURED, text
    assert re.search(r"\] 1/1 a\\x1b\[31mred, repeat 1, step 0/4, \d+:\d\d left", text)
    assert re.search(r"1 runs? of 4 steps into .*: at least \d+ seconds, \d+\.\d GiB if nothing else runs", text)


def test_help_of_the_program(ladder, helps) -> None:
    text = ladder("--help").stdout
    assert max(map(len, text.splitlines())) <= 80 and len(text.splitlines()) <= 40
    assert re.search(r"^Begin with\n  ladder doctor +\S.*\n  ladder ablate --ladder tiny ", text, re.M)
    assert "Exit status: 0 fine; 1 " in text
    assert not re.search(r"\[OPTIONS\]|SUBCOMMAND|Positionals|Subcommands", text)
    assert set(helps) == {"doctor", "ablate", "run", "profile", "measure", "read", "merge", "report", "export", "history", "verify",
                          "compare", "gate", "bisect", "train", "sample", "tokenize", "help"}


def test_help_of_every_command(helps) -> None:
    for command, text in helps.items():
        assert max(map(len, text.splitlines())) <= 80, command
        assert text.startswith(f"ladder {command}: ") and f"\nUsage: ladder {command}" in text
        assert not re.search(r"\[OPTIONS\]|SUBCOMMAND|Positionals|Options:", text)
        examples = re.findall(r"^  (\S.*)\n((?:      .*\n)+)", text.split("\nExamples\n")[1].split("\n\n")[0] + "\n", re.M)
        assert examples, command
        for line, shows in examples:  # command_line_test.cpp tests that they parse
            assert f"ladder {command}" in line and shows.strip(), line
            own = re.sub(r"'[^']*'", "", line) if command == "measure" else line  # without those of the measured commands
            for flag in re.findall(r"(?<= )(--?[a-zA-Z][\w-]*)", own):
                assert re.search(rf"^  (-\w, )?{flag}\b", text, re.M), f"{line}: {flag}"
