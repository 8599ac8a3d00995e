"""Includes go the way that docs/developing.md's layout says: arrows point one way. A header's name is the only one of its kind."""

import collections
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HARNESS = {"harness/stats", "harness/machine", "harness/process", "harness/lines", "harness/clock", "harness/observe", "harness/gpu"}
GROUND = {"files", "text"}
SEEN = {"harness", "results", *GROUND}
STUDIES = {*SEEN, "ablations/plan", "ablations/run", "study"}  # of any program's runs
STEPS = {*SEEN, "model", "ablations/techniques"}
GPT2 = {*STEPS, "ablations/plan", "ablations/run", "ablations/gpt2"}
# What each room may use besides itself, up to the folder's name. Of GPT-2 know only the rooms with "model".
BELOW = {
    "files": set(),
    "text": {"files"},
    "model": {"files"},
    "harness/stats": {"files"},
    "harness/machine": {"files", "harness/stats"},
    "harness/process": {"files", "harness/machine"},
    "harness/lines": {"files", "harness/stats"},
    "harness/clock": {"harness/machine"},
    "harness/observe": {"files"},
    "harness/gpu": {"files", "harness/machine", "harness/process", "harness/observe"},
    "results": {"harness", *GROUND},
    "ablations/plan": SEEN,
    "ablations/run": {*SEEN, "ablations/plan"},
    "ablations/techniques": {*SEEN, "model"},
    "ablations/gpt2": {*STEPS, "ablations/plan", "ablations/run"},
    "ablations/profile": {*GPT2, "study/trace"},
    "ablations/training": {*GPT2, "ablations/profile", "study/trace", "study/training"},
    "ablations/micro": {*STEPS, "ablations/profile"},
    "study/trace": SEEN,
    "study/training": {*SEEN, "ablations/plan", "ablations/run"},
    "study": {*SEEN, "ablations/plan", "ablations/run", "study/trace"},
    "study/archive": STUDIES,
    "study/gate": {*STUDIES, "study/archive"},
    "plots": STUDIES,
    "cli": {*STUDIES, "plots"},
    "cli/gpt2": {*STUDIES, "model", "ablations", "plots", "cli"},
}


def room_of(folder: str) -> str:
    """The longest room that the folder is in."""
    return max((room for room in BELOW if folder == room or folder.startswith(room + "/")), key=len, default=folder)


def allowed(room: str, included: str) -> bool:
    """A room stands for its folders, too, unless it is the room above: study/gate uses study/archive, not the other way."""
    return included == room or any(included == name or (included.startswith(name + "/") and not room.startswith(name + "/"))
                                   for name in BELOW[room])


def wrong_arrows(root: pathlib.Path) -> list[str]:
    wrong = []
    for room in BELOW:
        for file in (root / room).rglob("*"):
            if file.suffix not in (".h", ".cpp", ".cu") or file.name.endswith("_test.cpp"):
                continue
            if room_of(str(file.parent.relative_to(root))) != room:
                continue
            for included in re.findall(r'^#include "(.+)/[^/]+"', file.read_text(), re.M):
                other = room_of(included)
                if not allowed(room, other):
                    wrong.append(f"{file.relative_to(root)} includes {included}")
    return wrong


def test_every_folder_is_in_the_layout() -> None:
    layout = (ROOT / "docs/developing.md").read_text().split("## Layout")[1].split("\n## ")[0]
    rooms, above = set(), ""
    for spaces, name in re.findall(r"^    ( *)(\w+)/ ", layout, re.M):
        if not spaces:
            above = name
        rooms.add(name if not spaces else f"{above}/{name}")
    assert set(BELOW) <= rooms
    assert all((ROOT / room).is_dir() or (ROOT / "ablations/techniques" / room.split("/")[1]).is_dir() for room in rooms)


def test_arrows_point_one_way() -> None:
    assert wrong_arrows(ROOT) == []


def shared_names(root: pathlib.Path) -> dict[str, list[str]]:
    """Headers that are called the same, except the parts that every technique's folder has."""
    places = collections.defaultdict(list)
    for room in sorted({room.split("/")[0] for room in BELOW}):
        for header in (root / room).rglob("*.h"):
            if header.name not in ("cpu.inc.h", "loops.h") and not header.is_relative_to(root / "model/gloo"):
                places[header.name].append(str(header.relative_to(root)))
    return {name: headers for name, headers in places.items() if len(headers) > 1}


def test_no_two_headers_share_a_name(tmp_path) -> None:
    assert shared_names(ROOT) == {}
    for folder in ("plots", "results", "ablations/techniques/mlp", "ablations/techniques/norm", "model/gloo"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "loops.h").touch()
        (tmp_path / folder / ("gate.h" if folder in ("plots", "results", "model/gloo") else "cpu.inc.h")).touch()
    assert shared_names(tmp_path) == {"gate.h": ["plots/gate.h", "results/gate.h"]}


def wrong_namespaces(root: pathlib.Path) -> list[str]:
    """Sources that open no namespace of their room's. A technique's operations are the model's, and its kernels nobody's."""
    wrong = []
    for room in sorted({room.split("/")[0] for room in BELOW}):
        for file in (root / room).rglob("*"):
            if file.suffix not in (".h", ".cpp", ".cu") or file.name.endswith("_test.cpp") or file.is_relative_to(root / "model/gloo"):
                continue
            also = ["model", "kernels"] if file.is_relative_to(root / "ablations/techniques") else []
            opened = re.findall(r"^namespace (\w+)", file.read_text(), re.M)
            if opened and not {*opened} & {room, *also}:
                wrong.append(str(file.relative_to(root)))
    return wrong


def test_namespaces_are_called_as_rooms(tmp_path) -> None:
    assert wrong_namespaces(ROOT) == []
    for folder, namespace in (("study/gate", "plots"), ("ablations/techniques", "model"), ("ablations/run", "model")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.cpp").write_text(f"namespace {namespace} {{\n")
    assert wrong_namespaces(tmp_path) == ["ablations/run/a.cpp", "study/gate/a.cpp"]


@pytest.mark.parametrize(("room", "header"), [
    ("model", "harness/clock/clock.h"),
    ("harness/stats", "harness/clock/clock.h"),
    ("results", "ablations/plan/make_plan.h"),
    ("results", "model/recipe.h"),
    ("study", "ablations/techniques/techniques.h"),
    ("ablations/run", "ablations/gpt2/options.h"),
    ("plots", "ablations/profile/rates.h"),
    ("cli", "cli/gpt2/request.h"),
    ("ablations/plan", "ablations/run/runner.h"),
    ("ablations/micro", "ablations/plan/make_plan.h"),
    ("study/archive", "study/gate/side.h"),
    ("study", "plots/report_document.h"),
])
def test_a_wrong_arrow_is_found(tmp_path, room, header) -> None:
    (tmp_path / room).mkdir(parents=True)
    (tmp_path / room / "a.cpp").write_text('#include "files/files.h"\n#include <vector>\n' if "files" in BELOW[room] else "")
    assert wrong_arrows(tmp_path) == []
    (tmp_path / room / "a.cpp").write_text(f'#include "{header}"\n')
    assert wrong_arrows(tmp_path) == [f"{room}/a.cpp includes {header.rpartition('/')[0]}"]
