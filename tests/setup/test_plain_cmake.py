"""Plain CMake, as somebody uses it who has LibTorch and CUDA already: an unpacked LibTorch folder on CMAKE_PREFIX_PATH and a
toolkit beside it, here made of links into the private environment, in a folder whose name has a space. Configures, compiles,
links and runs a small program."""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(name="installed")
def fixture_installed(tmp_path):
    torch = next((pathlib.Path(p) / "torch" for p in sys.path if (pathlib.Path(p) / "torch" / "lib").is_dir()), None)
    if torch is None:
        pytest.skip("this Python has no torch to link to")
    cuda, folder = torch.parent / "nvidia" / "cu13", tmp_path / "a folder"
    folder.mkdir()
    for part, origin, names in (("libtorch", torch, ("include", "lib", "share")), ("cuda", cuda, ("include", "lib", "lib64"))):
        (folder / part).mkdir()
        for name in names:
            (folder / part / name).symlink_to(origin / name)
    return folder


def cmake(*arguments, **environment):
    env = {k: v for k, v in os.environ.items() if k != "CMAKE_PREFIX_PATH"} | environment
    return subprocess.run(["cmake", *arguments], cwd=SOURCE, env=env, capture_output=True, text=True, check=False)


@pytest.mark.thorough
def test_a_libtorch_folder_and_a_toolkit_are_enough(installed):
    build = installed / "build"
    done = cmake("--preset", "release", "-B", build, f"-DCMAKE_PREFIX_PATH={installed}/libtorch",
                 f"-DCUDAToolkit_ROOT={installed}/cuda")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"LibTorch 2.11: {installed}/libtorch" in done.stdout
    assert f"{installed}/cuda/lib64/libcudart" in done.stdout
    for entry in json.loads((build / "compile_commands.json").read_text()):  # the tests' own folders of headers, too
        words = shlex.split(entry["command"])
        assert all(pathlib.Path(folder).is_dir() for word, folder in zip(words, words[1:]) if word == "-idirafter"), words
    done = cmake("--build", build, "-j2", "--target", "safetensors_copy")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    program = next(build.rglob("safetensors_copy"))
    header = b'{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}   '
    (installed / "in").write_bytes(len(header).to_bytes(8, "little") + header + b"ab")
    subprocess.run([program, installed / "in", installed / "out"], check=True)
    assert (installed / "out").read_bytes().endswith(b"ab")
    # It starts on machines without a driver: nothing of the driver's is on the list of needed libraries.
    if shutil.which("readelf"):
        needed = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
        assert "libtorch_cuda.so" in needed
        assert "libcuda.so" not in needed and "nvrtc" not in needed


def test_without_libtorch_it_says_what_to_pass(tmp_path):
    done = cmake("--preset", "release", "-B", tmp_path / "build", "-DCMAKE_PREFIX_PATH=/nowhere")
    assert done.returncode != 0
    message = " ".join(done.stderr.split())
    assert "LibTorch 2.11 not found under CMAKE_PREFIX_PATH=/nowhere" in message
    assert "-DCMAKE_PREFIX_PATH=<site-packages>/torch" in message


def test_another_version_of_libtorch_is_refused(tmp_path):
    headers = tmp_path / "libtorch" / "include"
    (headers / "ATen").mkdir(parents=True)
    (headers / "ATen" / "ATen.h").touch()
    (headers / "torch" / "headeronly").mkdir(parents=True)
    (headers / "torch" / "headeronly" / "version.h").write_text(
        "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 8\n")
    done = cmake("--preset", "release", "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tmp_path}/libtorch")
    assert done.returncode != 0
    assert "LibTorch 2.8" in done.stderr and "written for 2.11" in " ".join(done.stderr.split())
