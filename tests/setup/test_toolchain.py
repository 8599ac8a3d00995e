"""setup/toolchain.py: what is made once, what is made again, and what the user is told.

Nothing is installed here: pip, apt-get and dpkg-query are small stand-ins.
"""
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


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache/toolchain"


def ensure(folder, make, gigabytes=0):
    toolchain.ensure_folder(folder, "[2/2]", "a folder", gigabytes, make)


def log():
    return (toolchain.cache_folder() / "setup.log").read_text()


@pytest.fixture
def calls():
    return []


@pytest.fixture
def filler(calls):
    def make(folder, _lock):
        calls.append(folder)
        folder.mkdir()
        (folder / "made").touch()
    return make


def wait_for(condition):
    deadline = time.monotonic() + 300
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)


# --- Made once, made again ---------------------------------------------------------------------------

def test_interrupted_set_up_is_removed_and_made_again(folder, filler, calls, capfd):
    folder.mkdir(parents=True)
    (folder / "half").touch()
    ensure(folder, filler)
    assert sorted(file.name for file in folder.iterdir()) == [".complete", "made"]
    assert re.fullmatch(r"\[2/2\] a folder \.\.\. \d+ s\n", capfd.readouterr().err)
    ensure(folder, filler)
    assert len(calls) == 1 and capfd.readouterr() == ("", "")


def test_failed_step_shows_its_output_and_leaves_no_stamp(folder, filler, calls, capfd):
    def fails(folder, lock):
        folder.mkdir()
        toolchain.run_step(lock, "sh", "-c", "echo why; exit 7")
    with pytest.raises(toolchain.SetupError, match="`sh -c .*` failed.*when the network .* is back"):
        ensure(folder, fails)
    assert capfd.readouterr() == ("", "[2/2] a folder ... failed\nwhy\n")
    assert not toolchain.is_complete(folder)
    ensure(folder, filler)
    assert calls


def test_environment_without_its_python_is_not_complete(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / ".complete").touch()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    assert toolchain.is_complete(tmp_path)
    (tmp_path / "bin/python").unlink()
    (tmp_path / "bin/python").symlink_to(tmp_path / "gone")
    assert not toolchain.is_complete(tmp_path)


def test_second_set_up_waits_for_the_first(folder, filler, calls, monkeypatch):
    said = []
    monkeypatch.setattr(toolchain, "say", said.append)
    folder.mkdir(parents=True)
    with open(folder.parent / "setup.lock", "w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = threading.Thread(target=ensure, args=(folder, filler))
        second.start()
        wait_for(lambda: said)
        assert "waiting for it" in said[0] and second.is_alive()
        (folder / ".complete").touch()
    second.join(300)
    assert not second.is_alive() and not calls


def test_killed_set_up_stays_locked_while_its_pip_runs(folder, filler, calls, tmp_path):
    script = f"""
import sys; sys.path.insert(0, {str(SETUP)!r})
import toolchain
from pathlib import Path
def make(folder, lock):
    folder.mkdir()
    toolchain.run_step(lock, "sh", "-c", "touch started; while ! test -e go; do sleep 0.02; done")
toolchain.ensure_folder(Path({str(folder)!r}), "[2/2]", "a folder", 0, make)
"""
    setup = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        wait_for((tmp_path / "started").exists)
        setup.kill()
        setup.wait()
        with open(folder.parent / "setup.lock") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        (tmp_path / "go").touch()
    ensure(folder, filler)
    assert calls and toolchain.is_complete(folder)


def test_too_small_a_disk_is_said_and_nothing_is_made(folder, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(toolchain.shutil, "disk_usage", lambda _: usage(0, 0, 3_400_000_000))
    with pytest.raises(toolchain.SetupError, match="has 3.4 GB free and the set-up needs 11 GB.*XDG_CACHE_HOME"):
        ensure(folder, lambda *_: pytest.fail("made"), gigabytes=11)
    assert not folder.exists()


def test_a_folder_is_for_its_requirements_and_its_python(tmp_path, monkeypatch):
    monkeypatch.setattr(toolchain, "ROOT", tmp_path)
    (tmp_path / "requirements.txt").write_text("torch==1\n")
    first = toolchain.environment()
    assert toolchain.environment() == first and re.fullmatch("toolchain-[0-9a-f]{12}", first.name)
    (tmp_path / "requirements.txt").write_text("torch==2\n")
    second = toolchain.environment()
    monkeypatch.setattr(toolchain.sys, "version_info", (3, 99, 0, "final", 0))
    assert len({first, second, toolchain.environment()}) == 3


def test_cuda_libraries_get_the_names_a_linker_looks_for(tmp_path):
    library = tmp_path / "lib"
    library.mkdir()
    for name in ("libcudart.so.13", "libnvrtc-builtins.so.13.0", "libcupti.so", "libcupti.so.13", "libcudart_static.a"):
        (library / name).write_text(name)
    toolchain.link_cuda_libraries(tmp_path)
    assert {file.name: os.readlink(file) for file in library.iterdir() if file.is_symlink()} == {
        "libcudart.so": "libcudart.so.13", "libnvrtc-builtins.so": "libnvrtc-builtins.so.13.0"}
    assert (library / "libcupti.so").read_text() == "libcupti.so" and os.readlink(tmp_path / "lib64") == "lib"
    toolchain.link_cuda_libraries(tmp_path / "absent")  # no CUDA packages on this system: nothing to do


# --- Debian packages ---------------------------------------------------------------------------------

ALL_BUT_FMT = "\n".join(f"echo 'installed {name}'" for name in toolchain.DEBIAN_PACKAGES if name != "libfmt-dev")


@pytest.mark.parametrize("user, sudo", [(0, "exit 1"), (1000, 'test "$1" = -n && shift && exec "$@"')])
def test_missing_packages_are_installed_as_root_or_by_sudo(programs, monkeypatch, capfd, user, sudo):
    programs(dpkg_query=ALL_BUT_FMT, apt_get='echo "apt-get $DEBIAN_FRONTEND $*"; test "$4" != update', sudo=sudo)
    monkeypatch.setattr(toolchain.os, "geteuid", lambda: user)
    toolchain.ensure_debian_packages("[1/2]")
    said = capfd.readouterr()
    assert said.out == "" and re.fullmatch(r"\[1/2\] Debian packages \.\.\. \d+ s\n", said.err)
    assert "apt-get noninteractive -q -o DPkg::Lock::Timeout=120 update\n" in log()
    assert "install -y --no-install-recommends libfmt-dev\n" in log()


@pytest.mark.parametrize("user, apt", [(0, "exit 100"), (1000, "echo apt-get was run")])
def test_the_line_to_type_is_said_where_packages_cannot_be_installed(programs, monkeypatch, capfd, user, apt):
    programs(dpkg_query=f"{ALL_BUT_FMT}\necho 'config-files libfmt-dev'", apt_get=apt, sudo="echo a password is required; exit 1")
    monkeypatch.setattr(toolchain.os, "geteuid", lambda: user)
    monkeypatch.setattr(toolchain, "ensure_folder", lambda *_: pytest.fail("went on"))
    assert toolchain.main([]) == 2
    said = capfd.readouterr()
    assert said.out == "" and said.err.endswith("type: sudo apt-get install --no-install-recommends libfmt-dev\n")
    assert ("a password is required" in said.err) == (user == 1000) and "was run" not in said.err


def test_nothing_is_said_or_run_when_all_packages_are_there(programs, capfd):
    programs(dpkg_query=f"{ALL_BUT_FMT}\necho 'installed libfmt-dev'", apt_get="echo apt-get was run", chromium="exit 0")
    toolchain.ensure_debian_packages("[1/2]")
    toolchain.ensure_browser("[2/2]")
    assert capfd.readouterr() == ("", "")


def test_system_without_apt_goes_on(programs, capfd):
    programs()
    toolchain.ensure_debian_packages("[1/2]")
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "no apt-get" in said


@pytest.mark.parametrize("apt", ['echo "apt-get $*"', "exit 100"])
def test_a_browser_is_installed_or_its_absence_said(programs, monkeypatch, capfd, apt):
    programs(apt_get=apt)
    monkeypatch.setattr(toolchain.os, "geteuid", lambda: 0)
    toolchain.ensure_browser("[3/3]")
    assert ("install -y --no-install-recommends chromium\n" in log()) != ("will be skipped" in capfd.readouterr().err)


# --- Python and the command line ---------------------------------------------------------------------

def test_a_python_that_cannot_make_the_environment_is_refused(monkeypatch):
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else name)
    with pytest.raises(toolchain.SetupError, match="no module ensurepip.*apt-get install python3-venv"):
        toolchain.check_python()
    monkeypatch.setattr(toolchain.sys, "version_info", (3, 10, 9, "final", 0))
    with pytest.raises(toolchain.SetupError, match="python3 is 3.10 and the locked packages need 3.11"):
        toolchain.check_python()


def test_pip_environment_and_links_are_made_in_order(monkeypatch):
    """With a recorder for pip: hashes required, downloads inside the folder, links last. A pip.conf may send packages elsewhere."""
    folder, commands = toolchain.environment(), []
    site_packages = folder / "lib/python{}.{}/site-packages".format(*sys.version_info)

    def run_step(_lock, *command, **variables):
        commands.append(list(map(str, command)))
        if "venv" in command:
            (site_packages / "nvidia/cu13/lib").mkdir(parents=True)
        else:
            assert variables["TMPDIR"] == str(folder / "tmp")
            (site_packages / "nvidia/cu13/lib/libcudart.so.13").touch()
    monkeypatch.setattr(toolchain, "run_step", run_step)
    with pytest.raises(toolchain.SetupError, match="pip has installed nothing in .*pip config list"):
        toolchain.make_environment(folder, None)
    toolchain.shutil.rmtree(folder)
    monkeypatch.setattr(toolchain, "run_step", lambda *command, **variables: (run_step(*command, **variables),
                                                                              (site_packages / "torch").mkdir(exist_ok=True)))
    toolchain.make_environment(folder, None)
    assert ["venv" in command for command in commands] == [True, False] * 2 and "--require-hashes" in commands[3]
    assert commands[3][-2:] == ["-r", str(toolchain.ROOT / "requirements.txt")]
    assert (folder / "site-packages/nvidia/cu13/lib/libcudart.so").is_symlink() and not (folder / "tmp").exists()


def test_print_env_does_nothing_else(tmp_path, capfd, monkeypatch):
    assert toolchain.main(["--print-env"]) == 0
    said = capfd.readouterr()
    assert said == (f"{toolchain.environment()}\n", "") and said.out.startswith(f"{tmp_path}/cache/gpt2-ladder/toolchain-")
    assert not (tmp_path / "cache").exists()
    monkeypatch.setenv("XDG_CACHE_HOME", "here")  # a relative path is to be ignored
    assert toolchain.cache_folder() == Path.home() / ".cache/gpt2-ladder"
