"""`ladder run`, `tokenize` and `doctor`, as a user calls them."""

import json
import os
import pathlib
import pty
import re
import resource
import subprocess

import pytest
from conftest import MEASURED, kibibytes, read_json, validator

RUN = ["run", "--model", "tiny", "-B", "1", "-T", "16", "--steps", "2", "--warmup", "1", "--threads", "1"]


def test_a_run_without_enough_memory(program, environment, start) -> None:
    """The limit is a little more than a run needs that has passed its proof of host memory, which needs 64 MiB for a moment."""
    arguments = [*RUN[:-6], "--threads", "1", "--steps"]
    reader, writer = pty.openpty()
    enough = subprocess.Popen([program, *arguments, "100000"], env=environment, stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    shown = b""
    while b"step 5/" not in shown:
        shown += os.read(reader, 4096)
    limit = (kibibytes(enough.pid, "VmSize") << 10) + (16 << 20)
    enough.kill()
    enough.wait()
    os.close(reader)
    starved = start(*arguments, "100", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    stdout, stderr = starved.communicate()
    assert starved.returncode == 1 and stdout == ""
    assert stderr.startswith("ladder: ") and stderr.count("\n") == 1 and "frame #" not in stderr


def test_one_run(ladder, tmp_path) -> None:
    done = ladder(*RUN, "--recipe", '{"attention": "flash"}', "--out", tmp_path / "record.json", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record == read_json(tmp_path / "record.json") and not list(validator("record").iter_errors(record))
    assert record["recipe"]["attention"] == "flash" and len(record["timing"]["loss"]) == 3
    least, tiny = record["least_work"], 50257 * 32  # the embedding of model tiny: AdamW alone moves 28 bytes for each number
    assert least["bytes"] > 28 * tiny and 0.5 < least["flops"] / record["workload"]["flops_per_step"] < 1.5

    (tmp_path / "recipe.json").write_text('{"attention": "flash"}')
    from_file = ladder(*RUN, "-v", "--recipe", tmp_path / "recipe.json")
    assert from_file.returncode == 0 and from_file.stderr == ""
    assert re.match(r"tiny B=1 T=16: median [\d.,]+ ms/step \(least .*, most .*\) over 2 steps, ", from_file.stdout)
    proven = re.findall(r"^proven (\w+) ", from_file.stdout, re.M)
    assert proven == [proof["field"] for proof in record["proofs"]] and "attention" in proven
    assert f"last loss {record['timing']['loss'][-1]:.4f}\n" in from_file.stdout
    assert f"\n{len(proven)} of {len(proven)} proofs passed\n" in from_file.stdout
    assert "proven" not in ladder(*RUN).stdout  # the list is for those who ask


def test_libraries_that_are_told_to_log_do_not_among_the_results(ladder, environment, monkeypatch) -> None:
    for name in ("MKL_VERBOSE", "ONEDNN_VERBOSE", "DNNL_VERBOSE"):
        monkeypatch.setitem(environment, name, "1")
    done = ladder(*RUN, "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert '"kernel": null' not in json.dumps(record["observations"]["fingerprint"])  # the program reads it from such logs
    assert not [name for name in record["environment"]["kernel_switches"] if "VERBOSE" in name]
    assert sorted(re.findall(r"^note: (\w+) is ignored: ", done.stderr, re.M)) == ["DNNL_VERBOSE", "MKL_VERBOSE", "ONEDNN_VERBOSE"]


def test_what_chooses_kernels_is_told_and_keeps_two_runs_apart(ladder, environment, monkeypatch, tmp_path) -> None:
    assert ladder(*RUN, "--out", tmp_path / "as-it-is.json").returncode == 0
    for name, value in {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "OMP_NUM_THREADS": "1",
                        "LD_PRELOAD": "/nonexistent/libjemalloc.so.2", "MALLOC_ARENA_MAX": "1", "MALLOC_CONF": "",
                        "GLIBC_TUNABLES": "glibc.malloc.check=0"}.items():
        monkeypatch.setitem(environment, name, value)
    assert ladder(*RUN, "--out", tmp_path / "default.json").returncode == 0
    told = read_json(tmp_path / "default.json")["environment"]
    assert told["torch_cpu_capability"] == "DEFAULT"
    switches = {name: value for name, value in told["kernel_switches"].items() if name != "OMP_WAIT_POLICY"}  # ctest sets it
    assert switches == {"ATEN_CPU_CAPABILITY": "default", "GLIBC_TUNABLES": "glibc.malloc.check=0", "LD_PRELOAD": "libjemalloc.so.2",
                        "MALLOC_ARENA_MAX": "1", "MKL_CBWR": "COMPATIBLE"}  # `threads` says the number
    done = ladder("compare", tmp_path / "as-it-is.json", tmp_path / "default.json")
    assert done.returncode == 3 and "against ATEN_CPU_CAPABILITY=default, GLIBC_TUNABLES=" in done.stderr, done.stderr
    assert ladder("compare", tmp_path / "default.json", tmp_path / "default.json").returncode in MEASURED


def test_peak_memory_is_the_runs_own(ladder, tmp_path) -> None:
    """Linux hands a parent's high-water mark of memory on to its child."""
    small, large = (f"{i}.json" for i in range(2))
    ladder(*RUN, "--out", tmp_path / small)
    held = bytearray(b"x") * (1500 * 2**20)
    ladder(*RUN, "--out", tmp_path / large)
    del held
    peaks = [read_json(tmp_path / name)["memory"]["peak_bytes"] for name in (small, large)]
    assert peaks[1] < 1.2 * peaks[0] < 1500 * 2**20


@pytest.mark.parametrize(("flags", "context"), [((), 64), (("--positions", "128"), 128), (("--ladder", "gpt2-cpu", "--rung", "start"), 64)])
def test_a_context_nobody_asked_for_fits_the_model(ladder, flags, context) -> None:
    done = ladder("run", "--model", "tiny", "-B", "1", "--steps", "1", "--warmup", "1", "--threads", "1", *flags, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["workload"]["context"] == context, done.stderr


def test_tokens_from_a_file(ladder, environment, tmp_path) -> None:
    text = pathlib.Path(environment["XDG_CACHE_HOME"]) / "gpt2-ladder" / "data" / "shakespeare.txt"
    (tmp_path / "part.txt").write_bytes(text.read_bytes()[:50000])
    done = ladder("tokenize", "--data", tmp_path / "part.txt", "--out", tmp_path / "part.bin")
    assert done.returncode == 0 and re.fullmatch(r".*part\.bin: \d+ tokens in [\d,]+ bytes, from 50,000 bytes of text \(0\.\d\d of its size\)\n", done.stdout)
    (tmp_path / "short.txt").write_text("To be")
    done = ladder("tokenize", "--data", tmp_path / "short.txt", "--out", tmp_path / "short.bin")
    assert done.stdout.endswith("short.bin: 2 tokens in 4 bytes, from 5 bytes of text (0.80 of its size)\n"), done.stdout
    from_text, from_tokens = (json.loads(ladder(*RUN, "--json", "--data", tmp_path / name).stdout)
                              for name in ("part.txt", "part.bin"))
    assert from_text["timing"]["loss"] == from_tokens["timing"]["loss"]
    assert from_text["workload"]["data"]["sha256"] == from_tokens["workload"]["data"]["sha256"]


def test_doctor(ladder) -> None:
    done = ladder("doctor")
    assert done.returncode == 0 and done.stderr == ""
    for line in (r"CPU      .+ \d+ cores?", "GPU      none: no CUDA device", r"memory   [\d.]+ GiB available; disk \d+ GiB free",
                 r"  tiny +ok, \d+ of 10 rungs, at least .* GiB", r"  gpt2 +(needs a GPU|ok)", r"Next: ladder ablate --(quick|ladder tiny)"):
        assert re.search(f"^{line}", done.stdout, re.M), line
    assert len(done.stdout.splitlines()) <= 25 and max(map(len, done.stdout.splitlines())) <= 80
    one = ladder("doctor", "--ladder", "tiny")
    assert one.returncode == 0 and one.stdout.endswith("\nNext: ladder ablate --ladder tiny\n")
    assert re.search(r"^  gpu +not applicable here: no CUDA device", one.stdout, re.M) and re.search(r"^  start +float32 +4 x ", one.stdout, re.M)
    found = json.loads(ladder("doctor", "--json").stdout)
    assert found["environment"]["gpu"] is None and found["environment"]["cpu"]["logical_cores"] >= 1
    assert isinstance(found["notes"], list)
    rungs = {rung["rung"]: rung for rung in found["ladders"]["tiny"]}
    assert rungs["start"]["status"] == "can be measured" and not rungs["start"]["reason"]
    assert rungs["gpu"]["status"] == "not applicable here" and "no CUDA device" in rungs["gpu"]["reason"]


def test_a_dry_run_is_the_plan_and_no_run(ladder, tmp_path) -> None:
    here = [rung["rung"] for rung in json.loads(ladder("doctor", "--json").stdout)["ladders"]["tiny"] if rung["status"] == "can be measured"]
    one, other = here[-2:]
    done = ladder("ablate", "--ladder", "tiny", "--sweep", "batch=1,2", "--rung", f"{one},{other}", "--repeats", "3", "-n", cwd=tmp_path)
    assert done.returncode in MEASURED and done.stderr == "" and not list(tmp_path.iterdir())
    assert re.findall(r"^  (\S+) .* 3 x +\d:\d\d +\d\.\d GiB$", done.stdout, re.M) == [f"{one}-B1", f"{other}-B1", f"{one}-B2", f"{other}-B2"]
    assert re.search(r"\nIt would make 12 runs and write them into studies/tiny-\w+\n$", done.stdout)
    refused = ladder("ablate", "--ladder", "tiny", "--steps", "100000", "--limit-s", "1", "--dry-run")
    assert refused.returncode == 3 and "--limit-s stops it after 1 s" in refused.stderr and "It would" not in refused.stdout
    (tmp_path / "study").touch()
    assert ladder("ablate", "--ladder", "tiny", "-n", "--out", tmp_path / "study").returncode == 2


def test_doctor_says_what_ablate_would_refuse(ladder, tmp_path) -> None:
    ladders = json.loads(ladder("doctor", "--json").stdout)["ladders"]
    refused = {name: rung["reason"] for name, rungs in ladders.items() for rung in rungs if rung["status"] == "refused here"}
    available = int(re.search(r"MemAvailable: +(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) / 2**20
    assert "gpt2" in refused or available > 25, "on a CPU its first rung takes 29 GiB"
    for name, reason in list(refused.items())[:1]:
        done = ladder("ablate", "--ladder", name, "--out", tmp_path / name)
        assert done.returncode == 3 and (reason.split(", but")[0] in done.stderr or f"ladder {name} needs a GPU" in done.stderr), done.stderr
        assert f"refused here: {reason}"[:60] in " ".join(ladder("doctor", "--ladder", name).stdout.split())


def test_doctor_says_how_much_memory_a_step_takes(ladder) -> None:
    size = ["--model", "tiny", "-B", "2", "-T", "64"]
    done = ladder("doctor", "--plan", "{}", *size, "--json")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    plan = json.loads(done.stdout)
    assert plan["fits"] and plan["largest_batch"] > 2 and plan["recipe"]["device"] == "cpu" and plan["batch"] == 2
    assert sum(part["at_peak_bytes"] for part in plan["parts"]) == pytest.approx(plan["total_bytes"])
    record = json.loads(ladder("run", "--recipe", "{}", *size, "--warmup", "1", "--steps", "2", "--json").stdout)
    assert plan["total_bytes"] == pytest.approx(record["memory"]["peak_bytes"], rel=0.2)  # mostly libraries, other ones elsewhere

    another = ["doctor", "--plan", "graph", "--ladder", "gpt2", "-B", "64"]
    done = ladder(*another, "--memory", "80GiB")
    assert done.returncode == 1 and re.search(r"^logits +\d+\.\d{3} +\d+\.\d{3}  ", done.stdout, re.M), done.stdout
    assert re.fullmatch(r"ladder doctor: B=64 does not fit: its step takes about 1\d\d\.\d\d GiB, and --memory is 80\.00 GiB \(compute "
                        r"capability 9\.0 is assumed\); "
                        r"the largest B that fits is 4\d\n", done.stderr), done.stderr
    done = ladder(*another[:-1], "1", "--memory", "2GB")
    assert done.returncode == 1 and done.stderr.endswith(" GiB, and --memory is 1.86 GiB (compute capability 9.0 is assumed); not even B=1 fits\n"), done.stderr
    done = ladder("doctor", "--plan", '{"device": "cuda"}')
    assert done.returncode == 3 and "on a GPU: about " in done.stdout
    assert re.search(r"GiB, compared with nothing: no CUDA device.*; --memory 80GiB, for instance, asks.*9\.0 is assumed", done.stderr), done.stderr
    done = ladder("doctor", "--plan", "{}", *size, "--memory", "80GiB")
    assert done.returncode == 0 and "--memory is 80.00 GiB; " in done.stdout  # a CPU has none


@pytest.mark.thorough
def test_doctor_measures_what_the_machine_reaches(ladder) -> None:
    done = ladder("doctor", "--peaks", "--json")
    assert done.returncode == 0, done.stderr
    peaks = json.loads(done.stdout)["peaks"]
    assert peaks["source"] is None and peaks["reason"] == "there is no table of peaks for CPUs"
    assert [rate["what"] for rate in peaks["rates"]] == ["copy", "update", "fp32", "oneDNN", "packed", "bf16",
                                                      *(["packed bf16"] if "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text() else [])]
    for rate in peaks["rates"]:
        assert rate["measured"] > 0 and rate["table"] is None and rate["share"] is None
        assert re.fullmatch(r"\d+ MiB" if rate["what"] in ("copy", "update") else r"\d+\^3", rate["size"])
