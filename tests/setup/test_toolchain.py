"""setup/toolchain.py: what is made once, what is made again, and what the user is told.

Nothing is installed here: pip, apt-get and dpkg-query are small stand-ins.
"""
import fcntl
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parents[2] / "setup"
sys.path.insert(0, str(SETUP))
import toolchain  # noqa: E402  (found through the line above)

INSTALLED = "printf 'installed\\n%.0s' " + " ".join(toolchain.DEBIAN_PACKAGES)


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """programs(name=script, ...): these shell scripts are all that PATH has, next to env. `log` holds what they write."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.delenv("DEBIAN_FRONTEND", raising=False)

    def add(**scripts):
        for name, script in scripts.items():
            file = folder / name.replace("_", "-")
            file.write_text(f"#!/bin/bash\n{script}\n")
            file.chmod(0o755)
        return tmp_path / "log"
    return add


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache/toolchain"


def fill(folder, _lock):
    folder.mkdir()
    (folder / "made").touch()


# --- Made once, made again ---------------------------------------------------------------------------

def test_interrupted_set_up_is_removed_and_made_again(folder, capfd):
    folder.mkdir(parents=True)
    (folder / "half").touch()
    toolchain.ensure_folder(folder, "a folder", fill)
    assert sorted(file.name for file in folder.iterdir()) == [".complete", "made"]
    assert re.fullmatch(r"\[setup\] a folder \.\.\. \d+ s\n", capfd.readouterr().err)
    toolchain.ensure_folder(folder, "a folder", lambda *_: pytest.fail("made again"))
    assert capfd.readouterr() == ("", "")


def test_failed_step_shows_its_words_and_leaves_no_stamp(folder, capfd):
    def fails(folder, lock):
        folder.mkdir()
        toolchain.run_step(lock, "sh", "-c", "echo why >&2; exit 7")
    with pytest.raises(toolchain.SetupError, match="`sh -c .*` failed.*when the network .* is back.*XDG_CACHE_HOME"):
        toolchain.ensure_folder(folder, "a folder", fails)
    assert capfd.readouterr() == ("", "[setup] a folder ... why\n") and not toolchain.is_complete(folder)


def test_environment_without_its_python_is_not_complete(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / ".complete").touch()
    assert toolchain.is_complete(tmp_path)
    (tmp_path / "bin/python").symlink_to(tmp_path / "gone")
    assert not toolchain.is_complete(tmp_path)


def test_killed_set_up_stays_locked_while_its_pip_runs(folder, tmp_path):
    """And who comes second waits."""
    script = f"""
import sys; sys.path.insert(0, {str(SETUP)!r})
import toolchain
from pathlib import Path
def make(folder, lock):
    folder.mkdir()
    toolchain.run_step(lock, "sh", "-c", "touch started; while ! test -e go; do sleep 0.02; done")
toolchain.ensure_folder(Path({str(folder)!r}), "a folder", make)
"""
    setup = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while not (tmp_path / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        setup.kill()
        setup.wait()
        with open(folder.parent / "setup.lock") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        (tmp_path / "go").touch()
    toolchain.ensure_folder(folder, "a folder", fill)
    assert toolchain.is_complete(folder)


def test_a_folder_is_for_its_requirements_and_its_python(tmp_path, monkeypatch):
    monkeypatch.setattr(toolchain, "ROOT", tmp_path)
    (tmp_path / "requirements.txt").write_text("torch==1\n")
    first = toolchain.environment()
    assert toolchain.environment() == first and re.fullmatch("toolchain-[0-9a-f]{12}", first.name)
    (tmp_path / "requirements.txt").write_text("torch==2\n")
    second = toolchain.environment()
    monkeypatch.setattr(toolchain.sys, "version_info", (3, 99, 0, "final", 0))
    assert len({first, second, toolchain.environment()}) == 3


def test_pip_environment_and_links_are_made_in_order(monkeypatch):
    """With a recorder for pip: hashes required, downloads inside the folder, links last. A pip.conf may send packages elsewhere."""
    folder, commands = toolchain.environment(), []
    site_packages = folder / "lib/python{}.{}/site-packages".format(*sys.version_info)
    libraries = site_packages / "nvidia/cu13/lib"

    def run_step(_lock, *command, **variables):
        commands.append(list(map(str, command)))
        if "venv" in command:
            libraries.mkdir(parents=True)
            for name in ("libcudart.so.13", "libnvrtc-builtins.so.13.0", "libcupti.so", "libcupti.so.13", "libcudart_static.a"):
                (libraries / name).write_text(name)
        else:
            assert variables == {"TMPDIR": str(folder)}
    monkeypatch.setattr(toolchain, "run_step", run_step)
    with pytest.raises(toolchain.SetupError, match="pip has installed nothing in .*pip config list"):
        toolchain.make_environment(folder, None)
    toolchain.shutil.rmtree(folder)
    monkeypatch.setattr(toolchain, "run_step", lambda *command, **variables: (run_step(*command, **variables),
                                                                              (site_packages / "torch").mkdir(exist_ok=True)))
    toolchain.make_environment(folder, None)
    assert ["venv" in command for command in commands] == [True, False] * 2 and "--require-hashes" in commands[3]
    assert commands[3][-2:] == ["-r", str(toolchain.ROOT / "requirements.txt")]
    assert {file.name: os.readlink(file) for file in (folder / "site-packages/nvidia/cu13/lib").iterdir() if file.is_symlink()} == {
        "libcudart.so": "libcudart.so.13", "libnvrtc-builtins.so": "libnvrtc-builtins.so.13.0"}
    assert (libraries / "libcupti.so").read_text() == "libcupti.so" and os.readlink(libraries.parent / "lib64") == "lib"


def test_the_wheels_tools_are_an_environment_of_their_own(monkeypatch):
    folder, commands = toolchain.wheel_tools(), []
    zig = folder / "lib/python{}.{}/site-packages/ziglang/zig".format(*sys.version_info)

    def run_step(_lock, *command, **_variables):
        commands.append(command)
        zig.parent.mkdir(parents=True, exist_ok=True)
        (folder / "bin").mkdir(exist_ok=True)
        zig.touch()
    monkeypatch.setattr(toolchain, "run_step", run_step)
    toolchain.make_wheel_tools(folder, None)
    assert commands[-1][-1] == toolchain.ROOT / "packaging" / "requirements.txt" and (folder / "bin/zig").samefile(zig)
    assert not os.path.isabs(os.readlink(folder / "bin/zig"))  # the cache folder may move
    assert not re.search("^torch", commands[-1][-1].read_text(), re.M)


# --- Debian packages ---------------------------------------------------------------------------------

@pytest.mark.parametrize("user, sudo", [(0, "exit 1"), (1000, 'test "$1" = -n && shift && exec "$@"')])
def test_missing_packages_are_installed_as_root_or_by_sudo(programs, monkeypatch, capfd, user, sudo):
    log = programs(dpkg_query="echo not-installed", apt_get='echo "$DEBIAN_FRONTEND $*" >> "$LOG"; test "${!#}" != update', sudo=sudo)
    monkeypatch.setattr(toolchain.os, "geteuid", lambda: user)
    toolchain.ensure_debian_packages()
    assert re.fullmatch(r"\[setup\] Debian packages \.\.\. \d+ s\n", capfd.readouterr().err)
    assert log.read_text().splitlines()[1].startswith("noninteractive -qq -o DPkg::Lock::Timeout=120 install -y")
    assert log.read_text().endswith(" ".join(toolchain.DEBIAN_PACKAGES) + "\n")


def test_the_line_to_type_is_said_where_packages_cannot_be_installed(programs, monkeypatch, capfd):
    programs(dpkg_query="exit 1", apt_get="exit 0", sudo="echo a password is required >&2; exit 1")
    monkeypatch.setattr(toolchain.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(toolchain, "ensure_folder", lambda *_: pytest.fail("went on"))
    assert toolchain.main([]) == 2
    said = capfd.readouterr().err
    assert "a password is required" in said and " ".join(toolchain.DEBIAN_PACKAGES) in said.splitlines()[-1]


def test_nothing_is_said_or_run_when_all_packages_are_there(programs, capfd):
    log = programs(dpkg_query=INSTALLED, apt_get='echo >> "$LOG"', chromium="exit 0")
    toolchain.ensure_debian_packages()
    toolchain.ensure_browser()
    assert capfd.readouterr() == ("", "") and not log.exists()


def test_system_without_apt_goes_on(programs, capfd):
    programs()
    toolchain.ensure_debian_packages()
    toolchain.ensure_browser()
    said = capfd.readouterr().err
    assert "no apt-get" in said and "will be skipped" in said


# --- Python and the command line ---------------------------------------------------------------------

def test_a_python_that_cannot_make_the_environment_is_refused(monkeypatch):
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else name)
    with pytest.raises(toolchain.SetupError, match="no module ensurepip.*apt-get install python3-venv"):
        toolchain.check_python()
    monkeypatch.setattr(toolchain.sys, "version_info", (3, 10, 9, "final", 0))
    with pytest.raises(toolchain.SetupError, match="python3 is 3.10 and the locked packages need 3.11"):
        toolchain.check_python()


def test_print_env_does_nothing_else(tmp_path, capfd, monkeypatch):
    assert toolchain.main(["--print-env"]) == 0
    said = capfd.readouterr()
    assert said == (f"{toolchain.environment()}\n", "") and said.out.startswith(f"{tmp_path}/cache/gpt2-ladder/toolchain-")
    assert not (tmp_path / "cache").exists() and toolchain.main(["--print"]) == 2
    monkeypatch.setenv("XDG_CACHE_HOME", "here")  # a relative path is to be ignored
    assert toolchain.cache_folder() == Path.home() / ".cache/gpt2-ladder"
