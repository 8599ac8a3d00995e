"""Includes go the way that the layout of docs/developing.md says: arrows point one way."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYOUT = (ROOT / "docs" / "developing.md").read_text().split("## Layout")[1].split("\n    ablations/")[1].split("\n    files/")[0]
# In the order of the layout, in which each uses those above it; two stand apart.
INNER = ["ablations/" + name for name in re.findall(r"^      (\w+)/ +(?! |on its own)", LAYOUT, re.M)]
HARNESS = ["harness/stats", "harness/measure", "harness/gpu"]
BELOW = {
    "files": set(),
    "model": {"files", "model/cpu", "model/kernels"},
    "model/cpu": set(),
    "model/cuda": {"model", "model/kernels"},
    "model/kernels": set(),
    "harness/stats": {"files"},
    "harness/measure": {"files", "harness/stats"},
    "harness/gpu": {"files", *HARNESS[:2]},
    "ablations/micro": {"files", "model", *HARNESS, "ablations/documents", "ablations/techniques", "ablations/profile"},
    **{folder: {"files", "model", *HARNESS, *INNER[:i]} for i, folder in enumerate(INNER)},
}


def wrong_arrows(root: pathlib.Path) -> list[str]:
    wrong = []
    for folder, below in BELOW.items():
        sources = [file for file in (root / folder).glob("*") if file.suffix in (".h", ".cpp", ".cu")]
        assert sources, folder
        for file in sources:
            for included in re.findall(r'^#include "(.+)/[^/]+"', file.read_text(), re.M):
                if included != folder and included not in below:
                    wrong.append(f"{file.relative_to(root)} includes {included}")
    return wrong


def test_every_folder_is_in_the_layout() -> None:
    folders = {str(file.parent.relative_to(ROOT)) for room in ("files", "model", "harness", "ablations") for file in (ROOT / room).rglob("*.cpp")}
    assert folders == set(BELOW)


def test_every_source_has_its_header() -> None:
    """Else a folder may define what another declares, and no include shows it. The commands share one header, the techniques, too."""
    for folder in set(INNER[:-2]) - {"ablations/techniques"}:
        for source in (ROOT / folder).glob("*.cpp"):
            assert source.with_suffix(".h").exists(), source


def test_arrows_point_one_way() -> None:
    assert wrong_arrows(ROOT) == []


@pytest.mark.parametrize(("folder", "header"), [
    ("model", "harness/measure/clock.h"),
    ("model/kernels", "model/recipe.h"),
    ("harness/stats", "harness/measure/clock.h"),
    ("ablations/plan", "ablations/run/runner.h"),
    ("ablations/micro", "ablations/plan/plan.h"),
])
def test_a_wrong_arrow_is_found(tmp_path, folder, header) -> None:
    for room in BELOW:
        (tmp_path / room).mkdir(parents=True)
        (tmp_path / room / "a.cpp").write_text('#include "files/files.h"\n#include <vector>\n' if "files" in BELOW[room] else "")
    assert wrong_arrows(tmp_path) == []
    (tmp_path / folder / "a.cpp").write_text(f'#include "{header}"\n')
    assert wrong_arrows(tmp_path) == [f"{folder}/a.cpp includes {header.rpartition('/')[0]}"]
