"""setup/toolchain.py: what is made once, what is made again, and what the user is told.

Nothing is installed here: pip, apt-get and dpkg-query are small stand-ins.
"""
import ast
import fcntl
import os
import re
import subprocess
import sys
import threading
import time
from collections import namedtuple
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parents[2] / "setup"
sys.path.insert(0, str(SETUP))
import toolchain  # noqa: E402  (found through the line above)


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """programs(name=script, ...): these shell scripts are all that PATH has, next to env."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("DEBIAN_FRONTEND", raising=False)

    def add(**scripts):
        for name, script in scripts.items():
            file = folder / name.replace("_", "-")
            file.write_text(f"#!/bin/sh\n{script}\n")
            file.chmod(0o755)
    return add


def ensure(folder, make, gigabytes=0):
    toolchain.ensure_folder(folder, "[2/2]", "a folder", gigabytes, make)


def log():
    return (toolchain.cache_folder() / "setup.log").read_text()


def filler(folder, calls):
    def make(_lock):
        calls.append(folder)
        folder.mkdir()
        (folder / "made").touch()
    return make


# --- Made once, made again ---------------------------------------------------------------------------

def test_interrupted_set_up_is_removed_and_made_again(tmp_path, capfd):
    folder, calls = tmp_path / "cache/toolchain", []
    folder.mkdir(parents=True)
    (folder / "half").touch()
    ensure(folder, filler(folder, calls))
    assert sorted(file.name for file in folder.iterdir()) == [".complete", "made"]
    assert "interrupted set-up: removing it" in capfd.readouterr().err
    (tmp_path / "cache/toolchain.lock").unlink()
    ensure(folder, filler(folder, calls))
    assert len(calls) == 1 and not (tmp_path / "cache/toolchain.lock").exists()  # not even locked
    assert capfd.readouterr() == ("", "")


def test_failed_step_shows_its_output_and_leaves_no_stamp(tmp_path, capfd):
    folder, calls = tmp_path / "cache/toolchain", []

    def fails(lock):
        folder.mkdir()
        toolchain.run_step(["sh", "-c", "echo why; exit 7"], lock)
    with pytest.raises(toolchain.SetupError, match="`sh -c .*` failed"):
        ensure(folder, fails)
    assert capfd.readouterr() == ("", "[2/2] a folder ... failed\nwhy\n")
    assert not toolchain.is_complete(folder)
    ensure(folder, filler(folder, calls))
    assert calls


def test_environment_without_its_python_is_not_complete(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / ".complete").touch()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    assert toolchain.is_complete(tmp_path)
    (tmp_path / "bin/python").unlink()
    (tmp_path / "bin/python").symlink_to(tmp_path / "gone")
    assert not toolchain.is_complete(tmp_path)


def test_second_set_up_waits_for_the_first(tmp_path, monkeypatch):
    folder, calls, said = tmp_path / "cache/toolchain", [], []
    monkeypatch.setattr(toolchain, "say", said.append)
    folder.mkdir(parents=True)
    with open(tmp_path / "cache/toolchain.lock", "w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = threading.Thread(target=ensure, args=(folder, filler(folder, calls)))
        second.start()
        deadline = time.monotonic() + 300
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "waiting for it" in said[0] and second.is_alive()
        (folder / ".complete").touch()
    second.join(300)
    assert not second.is_alive() and not calls


def test_killed_set_up_stays_locked_while_its_pip_runs(tmp_path):
    script = f"""
import sys; sys.path.insert(0, {str(SETUP)!r})
import toolchain
from pathlib import Path
folder = Path({str(tmp_path)!r}) / "cache/toolchain"
def make(lock):
    folder.mkdir()
    toolchain.run_step(["sh", "-c", "touch started; while ! test -e go; do sleep 0.02; done"], lock)
toolchain.ensure_folder(folder, "[2/2]", "a folder", 0, make)
"""
    setup = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while not (tmp_path / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        setup.kill()
        setup.wait()
        with open(tmp_path / "cache/toolchain.lock") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        (tmp_path / "go").touch()
    folder, calls = tmp_path / "cache/toolchain", []
    ensure(folder, filler(folder, calls))
    assert calls and toolchain.is_complete(folder)


def test_too_small_a_disk_is_said_and_nothing_is_made(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(toolchain.shutil, "disk_usage", lambda _: usage(0, 0, 3_400_000_000))
    with pytest.raises(toolchain.SetupError, match="has 3.4 GB free and the set-up needs 11 GB.*XDG_CACHE_HOME"):
        ensure(tmp_path / "cache/toolchain", lambda _: pytest.fail("made"), gigabytes=11)
    assert not (tmp_path / "cache/toolchain").exists()


def test_key_changes_with_the_requirements_and_the_python(tmp_path, monkeypatch):
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("torch==1\n")
    first = toolchain.key(requirements)
    assert toolchain.key(requirements) == first and len(first) == 12
    requirements.write_text("torch==2\n")
    second = toolchain.key(requirements)
    monkeypatch.setattr(toolchain.sys, "version_info", (3, 99, 0, "final", 0))
    assert len({first, second, toolchain.key(requirements)}) == 3


def test_cuda_libraries_get_the_names_a_linker_looks_for(tmp_path):
    library = tmp_path / "lib"
    library.mkdir()
    for name in ("libcudart.so.13", "libnvrtc-builtins.so.13.0", "libcupti.so", "libcupti.so.13", "libcudart_static.a"):
        (library / name).write_text(name)
    toolchain.link_cuda_libraries(tmp_path)
    assert {file.name: os.readlink(file) for file in library.iterdir() if file.is_symlink()} == {
        "libcudart.so": "libcudart.so.13", "libnvrtc-builtins.so": "libnvrtc-builtins.so.13.0"}
    assert (library / "libcupti.so").read_text() == "libcupti.so"
    assert os.readlink(tmp_path / "lib64") == "lib"
    toolchain.link_cuda_libraries(tmp_path / "absent")  # no CUDA packages on this system: nothing to do


# --- Debian packages ---------------------------------------------------------------------------------

ALL_BUT_FMT = "\n".join(f"echo 'installed {name}'" for name in toolchain.DEBIAN_PACKAGES if name != "libfmt-dev")
REMOVED_FMT = "echo 'config-files libfmt-dev'"


def test_without_root_the_line_to_type_is_said(programs, monkeypatch, capfd):
    programs(dpkg_query=f"{ALL_BUT_FMT}\n{REMOVED_FMT}", apt_get="echo apt-get was run", sudo="exit 1")
    monkeypatch.setattr(toolchain.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(toolchain, "ensure_folder", lambda *_: pytest.fail("went on"))
    assert toolchain.main([]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.endswith("type: sudo apt-get install --no-install-recommends libfmt-dev\n")


@pytest.mark.parametrize("user, sudo", [(0, "exit 1"), (1000, 'test "$1" = -n && shift && exec "$@"')])
def test_missing_packages_are_installed_as_root_or_by_sudo(programs, monkeypatch, capfd, user, sudo):
    programs(dpkg_query=ALL_BUT_FMT, apt_get='echo "apt-get $DEBIAN_FRONTEND $*"; test "$4" != update', sudo=sudo,
             true="exit 0")
    monkeypatch.setattr(toolchain.os, "geteuid", lambda: user)
    toolchain.ensure_debian_packages("[1/2]")
    said = capfd.readouterr()
    assert said.out == "" and re.fullmatch(r"\[1/2\] Debian packages \.\.\. \d+ s\n", said.err)
    assert "apt-get noninteractive -q -o DPkg::Lock::Timeout=120 update\n" in log()
    assert "install -y --no-install-recommends libfmt-dev\n" in log()


def test_apt_get_that_fails_is_said(programs, monkeypatch):
    programs(dpkg_query=ALL_BUT_FMT, apt_get="exit 100")
    monkeypatch.setattr(toolchain.os, "geteuid", lambda: 0)
    with pytest.raises(toolchain.SetupError, match="did not install.*libfmt-dev"):
        toolchain.ensure_debian_packages("[1/2]")


def test_nothing_is_said_or_run_when_all_packages_are_there(programs, capfd):
    programs(dpkg_query=f"{ALL_BUT_FMT}\necho 'installed libfmt-dev'", apt_get="echo apt-get was run")
    toolchain.ensure_debian_packages("[1/2]")
    assert capfd.readouterr() == ("", "")


def test_system_without_apt_goes_on(programs, capfd):
    programs()
    toolchain.ensure_debian_packages("[1/2]")
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "no apt-get" in said


def test_a_browser_for_the_page_is_installed_when_there_is_none(programs, monkeypatch):
    programs(apt_get='echo "apt-get $*"')
    monkeypatch.setattr(toolchain.os, "geteuid", lambda: 0)
    toolchain.ensure_browser("[3/3]")
    assert "install -y --no-install-recommends chromium\n" in log()


def test_a_browser_that_is_there_will_do(programs, capfd):
    programs(apt_get="echo apt-get was run", chromium="exit 0")
    toolchain.ensure_browser("[3/3]")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("user, apt", [(1000, "exit 0"), (0, "exit 100")])
def test_without_a_browser_the_set_up_goes_on_and_says_so(programs, monkeypatch, capfd, user, apt):
    programs(apt_get=apt, sudo="exit 1")
    monkeypatch.setattr(toolchain.os, "geteuid", lambda: user)
    toolchain.ensure_browser("[3/3]")
    assert "will be skipped" in capfd.readouterr().err


# --- Python and the command line ---------------------------------------------------------------------

def test_python_without_ensurepip_names_the_debian_package(monkeypatch):
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else name)
    with pytest.raises(toolchain.SetupError, match="no module ensurepip.*apt-get install python3-venv"):
        toolchain.check_python()


def test_too_old_a_python_is_refused(monkeypatch):
    monkeypatch.setattr(toolchain.sys, "version_info", (3, 10, 9, "final", 0))
    with pytest.raises(toolchain.SetupError, match="python3 is 3.10 and the locked packages need 3.11"):
        toolchain.check_python()


def test_pip_environment_and_links_are_made_in_order(monkeypatch):
    """make_environment with a recorder for pip: hashes required, downloads inside the folder, links last."""
    site_packages = toolchain.environment() / "lib/python{}.{}/site-packages".format(*sys.version_info)
    commands = []

    def run_step(command, _lock, **variables):
        commands.append(list(map(str, command)))
        if "venv" in command:
            (site_packages / "nvidia/cu13/lib").mkdir(parents=True)
        else:
            assert variables["TMPDIR"] == str(toolchain.environment() / "tmp")
            (site_packages / "nvidia/cu13/lib/libcudart.so.13").touch()
            (site_packages / "torch").mkdir()
    monkeypatch.setattr(toolchain, "run_step", run_step)
    toolchain.make_environment(None)
    assert "venv" in commands[0] and "--require-hashes" in commands[1] and len(commands) == 2
    assert commands[1][-2:] == ["-r", str(toolchain.REQUIREMENTS)]
    assert (toolchain.environment() / "site-packages/nvidia/cu13/lib/libcudart.so").is_symlink()
    assert not (toolchain.environment() / "tmp").exists()


def test_what_pip_puts_elsewhere_is_not_taken_for_installed(monkeypatch):
    monkeypatch.setattr(toolchain, "run_step", lambda *_command, **_variables: toolchain.environment().mkdir(parents=True, exist_ok=True))
    with pytest.raises(toolchain.SetupError, match="pip has installed nothing in .*pip config list"):
        toolchain.make_environment(None)


def test_pip_is_not_sent_elsewhere_by_the_environment_and_keeps_its_index(monkeypatch, tmp_path):
    for name, value in {"TARGET": "/x", "PREFIX": "/x", "ROOT": "/x", "DRY_RUN": "1", "INDEX_URL": "https://mirror"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    seen = tmp_path / "seen"
    with seen.open("w") as lock:
        toolchain.run_step([sys.executable, "-c", f"import os; open({str(seen)!r}, 'w').write(repr(dict(os.environ)))"], lock)
    environment = ast.literal_eval(seen.read_text())
    assert [environment[f"PIP_{name}"] for name in ("TARGET", "PREFIX", "ROOT", "DRY_RUN", "USER")] == ["", "", "", "0", "0"]
    assert environment["PIP_INDEX_URL"] == "https://mirror"


def test_print_env_does_nothing_else(tmp_path, capfd):
    assert toolchain.main(["--print-env"]) == 0
    said = capfd.readouterr()
    assert said == (f"{tmp_path}/cache/gpt2-ladder/toolchain-{toolchain.key(toolchain.REQUIREMENTS)}\n", "")
    assert not (tmp_path / "cache").exists()


def test_relative_cache_folder_is_ignored(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert toolchain.cache_folder() == Path.home() / ".cache/gpt2-ladder"
