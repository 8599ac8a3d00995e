"""What the host does with a GPU, on a device whose kernels do nothing (tests/fake_cuda): what it launches, waits for, captures,
allocates and traces. What such a device cannot have is proven of nothing: no rung of it may count."""

import json
import os
import re
import subprocess
import sys

import pytest
from conftest import ROOT, assert_perfetto_reads, needs_waiting_times, read_json, write_json

FUSED = read_json(ROOT / "ladders" / "gpt2.json")
del FUSED["shown"]  # ladders with fewer rungs are made of it
FP16 = read_json(ROOT / "ladders" / "gpt2-fp16.json")["rungs"]
GPT2 = FUSED["rungs"][:FUSED["rungs"].index("packed_attention")]  # by PyTorch's operations
TINY = ["--model", "tiny", "-B", "2", "-T", "64", "--warmup", "4", "--steps", "3"]
NO_CALLS = {"allocations": 0, "frees": 0, "retries": 0}  # of the allocator to the device
BUSY = "shared: the processor was busy with something else"  # as it may well be where tests run


@pytest.fixture(scope="module", name="device")
def fixture_device(preloadable) -> dict[str, str]:
    library = os.environ.get("FAKE_CUDA") or pytest.skip("FAKE_CUDA is not set: the headers of cuBLAS, cuDNN or NCCL were not found")
    return {"LD_PRELOAD": str(preloadable(library)), "CUDA_VISIBLE_DEVICES": "0"}


@pytest.fixture(scope="module", name="run")
def fixture_run(ladder, device, tmp_path_factory):
    """run("flash", arguments..., name="gpt2-fp16", GIB="20"): the record of one run on the fake device."""
    folder = tmp_path_factory.mktemp("records")

    def one(rung, *arguments, name="gpt2", **variables) -> dict:
        record = folder / f"{len(list(folder.iterdir()))}.json"
        fake = {f"FAKE_CUDA_{key}": value for key, value in variables.items()}
        done = ladder("run", "--ladder", name, "--rung", rung, *(arguments or TINY), "--out", record, variables=device | fake)
        assert done.returncode == 1, done.stderr  # never proven
        return read_json(record)

    return one


@pytest.fixture(scope="module", name="ladders")
def fixture_ladders(run):
    """Of gpt2-fp16 what is another than gpt2's: up to float16 they are the same."""
    return {"gpt2": {rung: run(rung) for rung in GPT2},
            "gpt2-fp16": {rung: run(rung, name="gpt2-fp16") for rung in FP16[FP16.index("fp16"):]}}


@pytest.fixture(scope="module", name="own_kernels")
def fixture_own_kernels(ladder, device) -> None:
    if "built without its CUDA kernels" in ladder("doctor", "--json", variables=device).stdout:
        pytest.skip("the program was built without its CUDA kernels")


def test_fused_operations_wait_for_nothing_and_are_captured(own_kernels, run) -> None:
    """The first steps time matrix products, and wait; none of the later ones does. What is proven by numbers is not: those of
    master weights are their gradients, which must change from step to step."""
    numbers = {"matmul_precision", "autocast", "weights"}
    head = {"head forward e4m3": 1, "head dgrad e5m2": 1}
    layers = {f"{weight} {direction} e4m3": 2 for weight in ("c_attn", "c_fc", "mlp_proj") for direction in ("forward", "dgrad")}
    for rung in ("fused_norm", "fused_mlp", "fused_loss", "master_weights", "joined_qkv_gradient", "fp8_head", "fp8"):
        record = run(rung)
        assert record["observations"].get("fp8_products") == {"fp8_head": head, "fp8": head | layers}.get(rung)  # none falls back
        calls, passed = record["observations"]["cuda_calls"], proofs(record)
        assert (calls["host_waits"], calls["graph_launches"], calls["kernel_launches"]) == (0, 1, 0), (rung, calls)
        assert record["timing"]["allocator"] == NO_CALLS, rung
        assert not {field for field in passed.keys() - numbers if not passed[field]}, rung
        timings = record["observations"].get("product_timings", [])
        assert ("weight_gradient" in {one["product"] for one in timings}) == (rung != "fused_norm"), timings
        assert all(one["tried"] >= 1 and len(one["bits"]) in (0, 128) and "kept" not in one for one in timings), timings


@pytest.mark.parametrize("capability, says", [
    ("8.0", "fp8 needs compute capability 8.9"), ("8.9", "fp8 all needs compute capability 9.0"), ("10.0", "fp8 all needs compute capability 9.0")])
def test_fp8_is_left_out_where_the_device_has_none(own_kernels, ladder, device, capability, says) -> None:
    """Scales of rows are Hopper's alone, and the head's products have none."""
    done = ladder("ablate", "--dry-run", "--ladder", "gpt2", variables=device | {"FAKE_CUDA_CAPABILITY": capability})
    assert says in " ".join(done.stdout.split()) and ("fp8 needs" in done.stdout) == (capability == "8.0"), done.stdout


def test_runs_of_a_study_make_products_in_the_same_way(own_kernels, ladder, device, tmp_path) -> None:
    """What the first run chooses by timing is handed to the others; a file of another GPU is not."""
    choices = tmp_path / "products.json"

    def timings() -> list:
        record = tmp_path / "record.json"
        ladder("run", "--rung", "master_weights", "--ladder", "gpt2", *TINY, "--out", record,
               variables=device | {"LADDER_PRODUCTS": str(choices)})
        return read_json(record)["observations"]["product_timings"]

    records = [timings(), timings()]
    key = lambda one: [one[name] for name in ("product", "type", "m", "n", "k", "alignment", "bits")]
    assert records[0] and not any("kept" in one for one in records[0])
    assert all(one["kept"] for one in records[1]) and sorted(map(key, records[0])) == sorted(map(key, records[1]))
    kept = read_json(choices)
    assert len(kept["products"]) == len(records[0])
    for other in ({**kept, "gpu": "another"}, {**kept, "a field of a newer program": 1}):
        write_json(choices, other)
        assert not any("kept" in one for one in timings())


@pytest.mark.thorough
def test_a_gates_head_begins_with_the_bases_choices(own_kernels, ladder, program, device, tmp_path) -> None:
    """No run of it is proven here, so that the gate has no verdict."""
    done = ladder("gate", "--base", program, "--head", program, "--ladder", "gpt2", "--rung", "fused_mlp", "--model", "tiny", "-B", 2, "-T", 64,
                  "--warmup", 4, "--steps", 3, "--pairs", 6, "--top-up", 0, "--out", tmp_path / "gate", variables=device)
    base, head = (read_json(tmp_path / "gate" / f"products-{side}.json") for side in (0, 1))
    assert base["products"] and head == base, done.stderr


def test_gelus_gradient_is_an_epilogue_where_timing_chose_it(own_kernels, ladder, device, tmp_path) -> None:
    """On this device both ways take as long, so that the kernel of its own stays; a kept choice is another's."""
    choices, counts = tmp_path / "products.json", tmp_path / "counts.txt"

    def kernels() -> tuple[int, int]:
        ladder("run", "--rung", "fused_mlp", "--ladder", "gpt2", *TINY, "--out", tmp_path / "record.json",
               variables=device | {"LADDER_PRODUCTS": str(choices), "FAKE_CUDA_COUNTS": str(counts)})
        seen = calls_of(counts)
        return tuple(sum(count for name, count in seen.items() if part in name) for part in ("gelu_backward", "column_sum"))

    kernels()
    kept = read_json(choices)
    (choice,) = [one for one in kept["products"] if one["product"] == "gelu_backward"]
    assert choice["bits"] == "" and choice["tried"] == 2
    by_kernel = kernels()
    choice["bits"] = next(one["bits"] for one in kept["products"] if one["bits"])
    write_json(choices, kept)
    by_epilogue = kernels()
    layers = 2
    assert by_epilogue[0] == 0 and by_kernel[0] % layers == 0 and by_kernel[0] > 0
    assert by_epilogue[1] - by_kernel[1] == by_kernel[0], "a sum for each"


def test_each_fused_rung_launches_fewer_kernels(own_kernels, run, tmp_path) -> None:
    """In eager steps, where a launch is a call."""
    rungs = [rung for rung in FUSED["rungs"] if rung not in ("graph", "packed_attention", "fp8_head", "fp8")]
    eager = write_json(tmp_path / "eager.json", {**FUSED, "name": "eager", "rungs": rungs})
    launches = {rung: run(rung, name=eager)["observations"]["cuda_calls"]["kernel_launches"] for rung in rungs[rungs.index("residual16"):]}
    fused = list(launches.values())
    assert len(fused) == 6 and fused == sorted(set(fused), reverse=True), launches


def test_one_launch_adds_up_all_column_sums_of_a_backward_pass(own_kernels, ladder, device, tmp_path) -> None:
    done = ladder("profile", "--trace", "--ladder", "gpt2", "--rung", "master_weights", *TINY, "--out", tmp_path, variables=device)
    assert done.returncode == 0, done.stderr
    names = read_json(tmp_path / "master_weights.trace.json")["summary"]["by_name"]
    assert [row["count"] for row in names if "finish_columns" in row["name"]] == [1], names


def test_a_rank_reduces_within_the_graph(own_kernels, ladder, device, tmp_path) -> None:
    """By an NCCL of make-believe: two layers and the rest."""
    rungs = [*FUSED["rungs"][: FUSED["rungs"].index("master_weights") + 1], "ddp"]
    several = write_json(tmp_path / "several.json", {**FUSED, "name": "several", "rungs": rungs})
    done = ladder("run", "--ladder", several, "--rung", "ddp", *TINY, "--out", tmp_path / "record.json", variables=device | {"WORLD_SIZE": "1"})
    assert done.returncode == 1, done.stderr
    record = read_json(tmp_path / "record.json")
    calls, passed = record["observations"]["cuda_calls"], proofs(record)
    assert (calls["host_waits"], calls["graph_launches"], calls["kernel_launches"]) == (0, 1, 0), calls
    assert record["observations"]["all_reduces"]["calls"] == 3
    assert passed["data_parallel"] and passed["execution"] and passed["device"], record["proofs"]
    assert record["scaling"]["alone_ms"] > 0


def test_packed_attention_launches_what_flash_attention_does(run, ladder, device, tmp_path) -> None:
    """Where that is PyTorch's FlashAttention. Its kernels read views, and three gradients become one in both."""
    rungs = [rung for rung in FUSED["rungs"][: FUSED["rungs"].index("packed_attention") + 1] if rung != "graph"]
    eager = write_json(tmp_path / "eager.json", {**FUSED, "name": "eager", "rungs": rungs})
    flash, packed = (run(rung, name=eager, CAPABILITY="8.0")["observations"]["cuda_calls"] for rung in rungs[-2:])
    assert 100 < packed["kernel_launches"] <= flash["kernel_launches"] and packed["host_waits"] == 0, (packed, flash)
    captured = run("packed_attention", CAPABILITY="8.0")
    calls = captured["observations"]["cuda_calls"]
    assert (calls["host_waits"], calls["graph_launches"], calls["kernel_launches"]) == (0, 1, 0), calls
    assert proofs(captured)["attention"], captured["proofs"]
    done = ladder("run", "--ladder", "gpt2", "--rung", "packed_attention", *TINY, variables=device)  # where cuDNN's is on
    assert done.returncode == 3 and "cuDNN's attention" in done.stderr, done.stderr


def proofs(record) -> dict[str, bool]:
    return {proof["field"]: proof["passed"] for proof in record["proofs"]}


@pytest.mark.parametrize("name", ["gpt2", "gpt2-fp16"])
def test_what_needs_no_numbers_is_proven_of_every_rung(ladders, name) -> None:
    """None waits in a step, a graph is one launch, and no timed step changes the device's memory: a capture does, so none was among them."""
    for rung, record in ladders[name].items():
        calls, passed = record["observations"]["cuda_calls"], proofs(record)
        replayed = record["recipe"]["execution"] == "graph"
        assert (calls["host_waits"], calls["graph_launches"]) == (0, 1 if replayed else 0), (rung, calls)
        assert calls["kernel_launches"] == 0 if replayed else calls["kernel_launches"] > 100, (rung, calls)
        numbers = {"matmul_precision"} | ({"autocast"} if record["recipe"]["autocast"] != "off" else set())
        assert not any(passed[field] for field in numbers), (rung, record["proofs"])
        assert all(passed[field] for field in passed.keys() - numbers - {"autocast"}), (rung, record["proofs"])
        assert record["timing"]["allocator"] == NO_CALLS and not [flag for flag in record["flags"] if flag.startswith("memory: ")], rung


def test_batches_are_made_in_every_way_beside_a_gpu(run) -> None:
    """A step more has been made than steps have had, and with a thread a further one."""
    for rung, way in {"gpu": "tokenized", "token_file": "read", "gather": "gather", "prefetch": "prefetched"}.items():
        record = run(rung, name="data-pipeline")
        assert record["recipe"]["batches"] == way and record["recipe"]["device"] == "cuda"
        passed, calls = proofs(record), record["observations"]["cuda_calls"]
        assert passed["batches"] and passed["device"] and calls["host_waits"] == 0, (rung, record["proofs"], calls)
        assert len(record["timing"]["data_ms"]) == len(record["timing"]["step_ms"]), rung
        assert record["timing"]["allocator"] == NO_CALLS, rung


def test_a_warm_up_too_short_for_a_graph_is_refused(ladder, device, tmp_path) -> None:
    for command in (["run", "--rung", "graph"], ["profile", "--trace", "--rung", "graph"], ["ablate"]):
        done = ladder(*command, "--ladder", "gpt2", "--model", "tiny", "-T", "64", "--warmup", "3", cwd=tmp_path, variables=device)
        assert done.returncode == 2 and "--warmup must be at least 4" in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


def test_timed_steps_that_want_more_memory_are_named(run) -> None:
    """The first step has all yet to allocate. With 2.9 GiB it must free what is in reserve, where otherwise it would take 3.2."""
    record = run("bf16", "--model", "tiny", "-B", "64", "-T", "64", "--warmup", "0", "--steps", "3", GIB="2.9")
    calls = record["timing"]["allocator"]
    assert min(calls.values()) > 0, calls
    counted = ", ".join(f"{name} {count}" for name, count in calls.items())  # by name, as JSON has them
    assert f"memory: the allocator went to the device during the timed steps ({counted})" in record["flags"]


def test_the_processor_is_watched_beside_a_gpu(ladder, device, tmp_path) -> None:
    needs_waiting_times()
    core = min(os.sched_getaffinity(0))

    def stay() -> None:
        os.sched_setaffinity(0, {core})

    rival = subprocess.Popen([sys.executable, "-c", "import signal; signal.alarm(300)\nwhile True: pass"], preexec_fn=stay)
    try:
        ladder("run", "--ladder", "gpt2", "--rung", "bf16", *TINY[:-1], "60", "--out", tmp_path / "record.json", variables=device,
               preexec_fn=stay)
    finally:
        rival.kill()
        rival.wait()
    record = read_json(tmp_path / "record.json")
    assert 0.1 < record["timing"]["processor_lost"] <= 1
    assert [flag for flag in record["flags"] if flag.startswith(BUSY)], record["flags"]


def test_the_attention_is_the_one_that_the_device_has(run) -> None:
    for capability, attention in [("9.0", "cudnn"), ("8.0", "flash"), ("7.5", "efficient")]:
        assert run("flash", CAPABILITY=capability)["recipe"]["attention"] == attention


@pytest.mark.thorough
def test_memory_at_full_size(run, ladder) -> None:
    """PyTorch's allocator counts its bytes whatever the kernels do. Workspaces of cuDNN and the context come on top of an H200's."""
    records = {rung: run(rung, "-B", "64", "--warmup", "4", "--steps", "1", name="gpt2-fp16") for rung in ("graph", "fused_adamw", "in_place_loss", "residual16")}
    peaks = {rung: record["memory"]["reserved_peak_bytes"] / 2**30 for rung, record in records.items()}
    assert peaks["fused_adamw"] < 0.6 * peaks["graph"], peaks
    assert peaks["graph"] == max(peaks.values()) == pytest.approx(118.6, rel=0.05), peaks  # an H200 holds it
    assert all(set(record["timing"]["allocator"].values()) == {0} for record in records.values())  # warm-up has taken all it needs
    # Two matrices B x T x V in float32: the converted log-probabilities, and the zeros with one entry in each row.
    assert peaks["in_place_loss"] == pytest.approx(peaks["fused_adamw"] - 2 * 64 * 1024 * 50304 * 4 / 2**30, rel=0.01)
    memory = {rung: record["memory"] for rung, record in records.items()}
    # The input of 24 LayerNorms in 16 bits and not in 32. What is reserved is another thing: blocks fit together as they fit.
    assert memory["residual16"]["peak_bytes"] < memory["in_place_loss"]["peak_bytes"] - 24 * 64 * 1024 * 768 * 2
    activations = {rung: of["activations_bytes"] / 2**30 for rung, of in memory.items()}
    assert 0 < activations["fused_adamw"] < 0.6 * activations["graph"], activations  # B x 12 x T x T are not kept
    for rung, of in memory.items():
        parts = sum(of[f"{part}_bytes"] for part in ("weights", "gradients", "optimizer", "weight_copies", "activations"))
        assert 0.5 * of["peak_bytes"] < parts < 1.1 * of["peak_bytes"], (rung, of)
        # And so much `doctor` expects, without running anything.
        plan = ladder("doctor", "--plan", json.dumps(records[rung]["recipe"]), "-B", "64", "-T", "1024", "--memory", "1000GiB", "--json")
        plan = json.loads(plan.stdout)
        assert plan["tensor_bytes"] == pytest.approx(of["peak_bytes"], rel=0.03), (rung, plan)
        allocator = next(part["at_peak_bytes"] for part in plan["parts"] if part["part"] == "allocator")
        assert plan["tensor_bytes"] + allocator == pytest.approx(of["reserved_peak_bytes"], rel=0.2), (rung, plan)


def test_memory_of_timing_products_is_not_the_timed_steps(own_kernels, run) -> None:
    """A product that adds to its result is timed on a copy: the head's weight gradient."""
    memory = run("fused_loss", "-B", "16", "--warmup", "4", "--steps", "1")["memory"]
    assert memory["run_peak_bytes"] > memory["peak_bytes"] + 100e6, memory


def test_doctor_plans_for_the_device_that_is_here(ladder, device) -> None:
    plan = ["doctor", "--plan", '{"device": "cuda", "autocast": "bf16"}', *TINY[:6]]
    older = device | {"FAKE_CUDA_CAPABILITY": "7.5"}
    assert ladder("doctor", "--plan", "fp16", *TINY[:6], variables=older).returncode == 0, "without bfloat16 the ladder is the one of float16"
    done = ladder(*plan, variables=older)
    assert done.returncode == 2 and "compute capability" in done.stderr and "7.5" in done.stderr, done.stderr
    done = ladder(*plan, variables=device)
    assert done.returncode == 0 and "assumed" not in done.stdout, done.stdout + done.stderr
    done = ladder(*plan, "--memory", "80GiB", variables=older)
    assert done.returncode == 0 and "--memory is 80.00 GiB (compute capability 9.0 is assumed)" in done.stdout


def test_a_window_lasts_long_enough_for_the_energy_counter(run, ladder, device, tmp_path) -> None:
    """Unless --steps is given: up to eight times as many steps, as the record of a study's run may have, too."""
    assert len(run("gpu", *TINY[:8])["timing"]["step_ms"]) > 4 + 20
    done = ladder("ablate", "--ladder", "gpt2", *TINY[:8], "--repeats", "1", "--budget-s", "1", "--explain", "--json",
                  "--out", tmp_path / "study", variables=device)
    assert "traces that the budget left no time for: " in done.stderr, done.stderr
    assert read_json(tmp_path / "study" / "plan.json")["least_window_s"] == 1.5
    records = [read_json(path) for path in (tmp_path / "study" / "records").glob("*.json")]  # a quick machine makes two in a second
    assert records and all(record["status"] == "ok" and len(record["timing"]["step_ms"]) > 4 + 20 for record in records)


def test_too_little_memory_is_said_with_what_was_asked_and_what_was_there(run) -> None:
    record = run("bf16", "-B", "16", "--warmup", "1", "--steps", "1", GIB="20")
    assert record["failure"]["kind"] == "out_of_memory"
    said = r"asked for [\d.]+ GiB more; of 20\.00 GiB on the device [\d.]+ were free"
    assert re.search(said, record["failure"]["message"]), record["failure"]
    assert run("flash", "-B", "16", "--warmup", "4", "--steps", "1", GIB="20")["status"] == "ok"


def test_doctor_on_a_device(ladder, device) -> None:
    """It never says that it has no driver. An error of the device is a line without PyTorch's advice."""
    done = ladder("doctor", variables=device)
    assert done.returncode == 0, done.stderr
    assert "GPU      fake CUDA device" in done.stdout and "no NVIDIA driver" not in done.stdout
    done = ladder("doctor", "--peaks", variables=device | {"FAKE_CUDA_GIB": "0.5"})
    assert done.returncode == 1
    assert re.fullmatch(r"ladder: CUDA out of memory\. Tried to allocate 1024\.00 MiB\. GPU 0 has a total capacity of 512\.00 MiB "
                        r"of which 51\d\.00 MiB is free\.", done.stderr.strip().splitlines()[-1]), done.stderr


# The energy counter is asked whether it is there, then before and after the timed steps.
NVML = {"init": "0", "shutdown": "0", "sm_clock": "1980", "memory_clock": "2619", "temperature": "50", "power": "500000",
        "reasons": "0", "utilization": "99", "processes": "1 0", "energy": "1000000 1000000 1025000"}


@pytest.fixture(name="watched")
def fixture_watched(device, tmp_path):
    """watched(power="600000"): the fake device with NVML, which says what the script says."""
    library = os.environ.get("FAKE_NVML") or pytest.skip("FAKE_NVML is not set")
    (tmp_path / "libnvidia-ml.so.1").symlink_to(library)

    def variables(**answers) -> dict[str, str]:
        script = "\n".join(f"{name} {values}" for name, values in (NVML | answers).items())
        return device | {"LD_LIBRARY_PATH": str(tmp_path), "FAKE_NVML_SCRIPT": script}

    return variables


def assert_25_joules(monitor: dict, tokens: int) -> None:
    """Shared out among the tokens, or not, where the timed steps took less than a second."""
    assert monitor["energy_j"] == 25.0, monitor
    assert monitor["joules_per_token"] == 25.0 / tokens or "too short" in monitor["notes"]["joules_per_token"], monitor


@pytest.mark.parametrize("answers, flag", [({}, ""), ({"processes": "2 0 77"}, "shared: ")])
def test_power_and_who_disturbs_are_in_the_record(ladder, watched, tmp_path, answers, flag) -> None:
    done = ladder("run", "--ladder", "gpt2", "--rung", "bf16", *TINY[:-1], "60", "--out", tmp_path / "record.json",
                  variables=watched(**answers))  # enough steps for a sample
    record = read_json(tmp_path / "record.json")
    monitor = record["monitor"]
    assert_25_joules(monitor, 60 * 2 * 64)
    assert monitor["power_w"]["median"] == 500 and monitor["sm_clock_mhz"]["median"] == 1980 and monitor["samples"] >= 1
    assert [one[: len(flag)] for one in record["flags"] if not one.startswith(BUSY)] == ([flag] if flag else [])
    said = [line for line in done.stdout.splitlines() if line.startswith("disturbed: ")]
    assert said == [f"disturbed: {one}" for one in record["flags"]]


@pytest.fixture(scope="module", name="traces")
def fixture_traces(ladder, device, tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    result = {}
    for rung in ("gpu", "tf32", "bf16", "graph"):
        done = ladder("profile", "--trace", "--ladder", "gpt2", "--rung", rung, *TINY, "--out", folder, variables=device)
        assert done.returncode == 0, done.stderr
        result[rung] = read_json(folder / f"{rung}.trace.json")["summary"]
        assert_perfetto_reads(read_json(folder / f"{rung}.timeline.json"))
    return result


def test_every_kernel_has_its_phase_also_in_a_graph(traces) -> None:
    for rung, summary in traces.items():
        assert summary["unlabelled_ms"] == 0, rung
        assert {row["phase"] for row in summary["by_phase"]} == {"data", "forward", "backward", "clip", "update"}, rung
        total = sum(row["ms"] for row in summary["by_phase"])
        assert summary["busy_ms"] <= total * (1 + 1e-9) < summary["busy_ms"] * 1.1, rung  # a copy may run beside a kernel
        assert summary["kernel_launches"] == (summary["kernels"] if summary["graph_launches"] == 0 else 0), rung
    parts = [{(row["phase"], row["part"]): row["count"] for row in traces[rung]["by_part"]
              if row["phase"] in ("forward", "backward")} for rung in ("bf16", "graph")]
    assert parts[0] == parts[1], "a captured step has the eager one's kernels"
    assert traces["graph"]["kernels"] < traces["bf16"]["kernels"] + 30, "and a few for what the host computes in an eager step"


def counts(summary) -> dict:
    """What a summary counts, without its times."""
    lists = {key: sorted(tuple(value for name, value in row.items() if name not in ("ms", "min_ms", "max_ms", "bytes")) for row in summary[key])
             for key in ("by_phase", "by_part", "by_layer", "by_name", "transfers")}
    return lists | {key: summary[key] for key in ("kernels", "copies", "sets", "kernel_launches", "graph_launches")}


# That unknown records are left out is decided before anything looks at a graph.
@pytest.mark.parametrize("records, rung", [("reversed", "graph"), ("unknown", "bf16")])
def test_a_trace_bears_unknown_records_and_any_order(ladder, device, traces, tmp_path, records, rung) -> None:
    done = ladder("profile", "--trace", "--ladder", "gpt2", "--rung", rung, *TINY, "--out", tmp_path,
                  variables=device | {"FAKE_CUPTI": records})
    assert done.returncode == 0 and f"fake CUPTI: {records}" in done.stderr.splitlines(), done.stderr
    summary = read_json(tmp_path / f"{rung}.trace.json")["summary"]
    assert counts(summary) == counts(traces[rung])
    total = sum(row["ms"] for row in summary["by_phase"])
    assert summary["busy_ms"] <= total * (1 + 1e-9) < summary["busy_ms"] * 1.1, "activities out of order look idle between"


@pytest.mark.parametrize("records, said", [("dropped", "CUPTI dropped 5 records"),  # also those after the last buffer
                                           ("untimed", "CUPTI could not time void ")])
def test_a_trace_that_lost_records_or_times_is_an_error(ladder, device, tmp_path, records, said) -> None:
    done = ladder("profile", "--trace", "--ladder", "gpt2", "--rung", "bf16", *TINY, "--out", tmp_path / "trace",
                  variables=device | {"FAKE_CUPTI": records})
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith(f"ladder: {said}"), done.stderr
    assert not list((tmp_path / "trace").glob("*.json"))


def test_another_tool_that_has_cupti_is_named(ladder, device, tmp_path) -> None:
    taken = device | {"FAKE_CUPTI": "taken"}
    done = ladder("profile", "--trace", "--ladder", "gpt2", "--rung", "bf16", *TINY, "--out", tmp_path / "trace", variables=taken)
    assert done.returncode == 3 and "another tool is attached to this process" in done.stderr, done.stderr
    assert not list((tmp_path / "trace").glob("*.json"))
    ladder("run", "--ladder", "gpt2", "--rung", "bf16", *TINY, "--out", tmp_path / "record.json", variables=taken)
    observed = read_json(tmp_path / "record.json")["observations"]["cuda_calls"]
    assert "another tool is attached" in observed["unavailable"], observed


def test_what_the_roofline_takes_is_not_the_steps_memory(ladder, device, tmp_path) -> None:
    """Two blocks of a GiB, among others."""
    done = ladder("profile", "--trace", "--roofline", "--ladder", "gpt2", "--rung", "bf16", *TINY, "--out", tmp_path, variables=device)
    assert done.returncode == 0, done.stderr
    memory = read_json(tmp_path / "bf16.trace.json")["memory"]
    assert 0 < memory["peak_bytes"] <= memory["reserved_peak_bytes"] < 2**30, memory


def test_products_are_made_in_the_precision_of_the_rung(traces) -> None:
    """Of every matrix product of a step, as cuBLAS was asked for it."""
    products = {rung: {row["name"] for row in summary["by_name"] if row["name"].startswith("gemm")}
                for rung, summary in traces.items()}
    assert products == {"gpu": {"gemm_float32"}, "tf32": {"gemm_tf32"}, "bf16": {"gemm_bf16"}, "graph": {"gemm_bf16"}}


def test_the_difference_that_a_graph_makes(ladder, device, tmp_path) -> None:
    done = ladder("profile", "--diff", "graph", "--ladder", "gpt2", *TINY, "--out", tmp_path, variables=device)
    if done.returncode == 3:
        pytest.skip("other work ran during a trace, so nothing is said of it")
    assert done.returncode == 0, done.stderr
    said = r"[\d,]+\s+launches\s+became\s+1;\s+idle"
    assert re.search(said, done.stdout), done.stdout
    names = [line.split("  ")[0] for line in done.stdout[done.stdout.index("what changed most"):].splitlines()[2:] if line.strip()]
    assert len(names) == len(set(names)), "kernels that a reader cannot tell apart"
    assert max(map(len, done.stdout.splitlines())) <= 80


def calls_of(file) -> dict[str, int]:
    return {name: int(count) for count, name in (line.split(" ", 1) for line in file.read_text().splitlines())}


def test_no_pinned_memory_is_allocated_in_a_step(ladder, device, tmp_path) -> None:
    """A replayed step takes the host less time than the device: it is ever more steps ahead, and allocating may wait."""
    allocated = []
    for steps in (20, 50):
        file = tmp_path / f"{steps}.txt"
        ladder("run", "--ladder", "gpt2", "--rung", "graph", *TINY[:-1], steps, variables=device | {"FAKE_CUDA_COUNTS": str(file)})
        seen = calls_of(file)
        launched = sum(seen.values()) - seen["cudaHostAlloc"]
        allocated.append((launched, seen["cudaHostAlloc"] - steps))
    assert allocated[1][0] > 2 * allocated[0][0]
    assert allocated[0][1] == allocated[1][1], "as many buffers as steps, made before the first"


@pytest.mark.thorough
def test_an_eager_step_has_no_more_kernels_than_pytorchs(ladder, device, environment, tmp_path) -> None:
    ladder("ablate", "--no-look", "--ladder", "gpt2", *TINY, "--repeats", "1", "--with-peer", "pytorch", "--peer-modes", "eager",
           "--budget-s", "1", "--out", tmp_path / "study", variables=device)
    plan = read_json(tmp_path / "study" / "plan.json")

    def kernels_and_pinned(status: int, command) -> tuple[float, float]:
        """Launched and allocated for one step: ten steps more against none more."""
        counted, pinned = [], []
        for steps in (3, 13):
            file = tmp_path / "counts.txt"
            done = subprocess.run(list(map(str, command(steps))), env=environment | device | {"FAKE_CUDA_COUNTS": str(file)},
                                  capture_output=True, text=True, check=False)
            assert done.returncode == status, done.stderr
            calls = calls_of(file)
            pinned.append(calls.pop("cudaHostAlloc"))
            counted.append(sum(calls.values()))
        return (counted[1] - counted[0]) / 10, (pinned[1] - pinned[0]) / 10

    def ours(rung: dict, steps: int) -> list:
        return [os.environ["LADDER"], "run", "--recipe", json.dumps({**rung["recipe"], "execution": "eager"}), *TINY[:-1], steps]

    def theirs(run: dict, steps: int) -> list:
        document = write_json(tmp_path / "plan.json", {**plan, "timed_steps": steps})
        return [sys.executable, ROOT / "ablations" / "peers" / "pytorch_ladder.py", "--plan", document, "--run", run["id"],
                "--record", tmp_path / "peer.json"]

    peers = [(run, plan["rungs"][run["rung"]]) for run in plan["runs"] if "peer" in plan["rungs"][run["rung"]]]
    assert len(peers) >= 4
    for run, rung in peers:
        (our_kernels, our_pinned), (their_kernels, their_pinned) = (
            kernels_and_pinned(status, lambda steps: command(of, steps)) for status, command, of in ((1, ours, rung), (0, theirs, run)))
        assert 100 < our_kernels <= their_kernels, run["id"]
        assert (our_pinned, their_pinned) == (1, 2), "buffers for every step, made before the first"


@pytest.mark.thorough
def test_a_micro_benchmark_times_the_device_and_not_the_launching(device, environment, tmp_path) -> None:
    """A kernel of the fake device takes 1 us of its own clock, and launching a backward pass a hundred of the host's."""
    micro = os.environ.get("MICRO") or pytest.skip("MICRO is not set: Google Benchmark was not found")
    subprocess.run([micro, "--benchmark_filter=^(gelu/forward|layer_norm/backward)/float32/cuda", "--benchmark_min_time=0.001",
                    "--benchmark_repetitions=5", "--out", str(tmp_path / "micro.json")],
                   env=environment | device, capture_output=True, check=True)
    found = read_json(tmp_path / "micro.json")["benchmarks"]
    kernels = {"gelu/forward/float32/cuda/manual_time": 1, "layer_norm/backward/float32/cuda/manual_time": 2}
    for name, count in kernels.items():  # a busy host may hold one repetition up
        ours = [one for one in found if one["run_name"] == name and one["run_type"] == "iteration"]
        best = min(ours, key=lambda one: one["real_time"])
        assert "launch_bound" not in best and best["real_time"] == pytest.approx(1000 * count, rel=0.01), ours


@pytest.mark.thorough
def test_gpu_check_asks_for_what_the_program_makes(environment, device, ladder, tmp_path) -> None:
    """No run is proven, so that a gate has no verdict, and this device counts nothing. Its plan is that of a GPU with a small model."""
    home, folder = tmp_path / "home", tmp_path / "out"
    (home / "bin").mkdir(parents=True)
    for name in ("LADDER", "MICRO"):
        (home / "bin" / name.lower()).symlink_to(os.environ.get(name) or pytest.skip(f"{name} is not set"))
    (home / "share").mkdir()
    (home / "share" / "gpt2-ladder").symlink_to(ROOT)
    plan = {"size": "--model tiny -B 2 -T 16", "few": "--warmup 4 --steps 3", "study": "--warmup 4 --steps 3 --repeats 1", "repeats": 1, "modes": "eager",
            "large": "--model tiny -T 16 --sweep batch=4", "model": "tiny", "train": "-B 2 -T 16 --steps 8 --validation-every 4",
            "micro": "--benchmark_filter=^gelu/.*/cuda -B 1 -T 128 --benchmark_min_time=0.001"}
    done = subprocess.run([sys.executable, "-c", f"import gpu_check, sys; gpu_check.ON_GPU |= {plan}; sys.exit(gpu_check.main())", "measure", "out"],
                          capture_output=True, text=True, check=False, cwd=tmp_path,
                          env=environment | device | {"LADDER_BUNDLE": str(home), "PYTHONPATH": str(ROOT / "packaging")})
    found = {name: verdict for verdict, name in re.findall(r"^(ok|no result|FAILED) +(\S+)", done.stdout, re.M)}
    assert done.returncode == 1 and [found[name] for name in ("trace/fp8", "trace/joined_qkv_gradient", "counters", "micro")] == [
        "ok", "ok", "no result", "ok"], done.stdout + done.stderr
    assert (found["ladder"], found["peers"], found["large"]) == ("FAILED", "FAILED", "FAILED"), done.stdout
    assert {"pytorch-eager"} <= {rung.get("peer") for rung in read_json(folder / "peers" / "plan.json")["rungs"]}
    assert list((folder / "ladder" / "records").glob("*.json")) and list((folder / "trace" / "fp8").glob("*.trace.json"))
    assert ladder("verify", folder / "ladder").returncode == 0


@pytest.mark.thorough
def test_device_tests_of_numbers_fail_where_nothing_is_computed(device) -> None:
    """The tests that a GPU passes would be worth nothing if a device passed them that only says that it worked."""
    suites = ["Graph", "Deterministic", "DeviceTrace", "Memory", "Ops", "Scaler", "Clock", "Kernels"]
    command = [os.environ["DEVICE_TESTS"], "--gtest_filter=" + ":".join(f"{suite}.*" for suite in suites) + ":Parity.Small*"]
    done = subprocess.run(command, env=os.environ | device, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1 and "SKIPPED" not in done.stdout, done.stdout[-4000:]
    verdicts = {name: verdict for verdict, name in re.findall(r"^\[ +(OK|FAILED) +\] (\w+\.\w+) \(", done.stdout, re.M)}
    assert {name for name, verdict in verdicts.items() if verdict == "OK"} == {
        "Clock.EventsFitIntoTheHostsWindow", "Clock.LeavesOutNothingBetweenTwoSteps", "Deterministic.IsProvenWithoutAWait",
        "DeviceTrace.LabelsEagerKernelsAndGraphNodes", "Memory.ThatIsNotThereIsReported", "Ops.NoAttentionFallsBackToAnother"}
    assert {name for name, verdict in verdicts.items() if verdict == "FAILED" and not name.startswith("Kernels.")} == {
        "Deterministic.ReplayedStepsAreTheEagerOnesToTheBit", "Deterministic.RunsRepeatToTheBit", "Graph.FollowsTheSchedule",
        "Graph.HoldsAllMicroSteps", "Graph.IsCapturedAgainWithoutATrace", "Graph.RepeatsWhatEagerStepsDo", "Ops.EveryAttentionFollowsFloat64",
        "Ops.ForwardAndBackwardFollowFloat64", "Ops.PackedAttentionFollowsFloat64", "Ops.TheLossInPlaceFollowsFloat64", "Ops.TheStreamOf16BitsFollowsFloat64", "Parity.SmallInFloat32", "Parity.SmallInFloat64",
        "Scaler.SkipsAPlantedInfinityAndGoesOn"}
