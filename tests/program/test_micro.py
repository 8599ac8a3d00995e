"""The micro benchmarks as a user starts them: all operations of the model are there, and the counts follow from the shapes.

MICRO names the program. Of times the tests only ask that they are there and above zero, on every machine.
"""

import fcntl
import json
import os
import re
import resource
import subprocess

import pytest

from conftest import HANGS_AFTER_S, ROOT

B, T, C, V = 1, 16, 768, 50257
LINEAR = {"qkv": (C, 3 * C), "linear_attn_proj": (C, C), "linear_c_fc": (C, 4 * C), "linear_mlp_proj": (4 * C, C)}
FUSED = {"add_norm_fused": "add_norm", "self_attention_packed": "self_attention", "mlp_fused": "mlp", "head_loss_fused": "head_loss"}
QUICK = ["--benchmark_min_time=0.0001", "-B", B, "-T", T, "--threads", 1]  # other tests run beside: two threads would wait for each other


@pytest.fixture(scope="module")
def micro(tmp_path_factory):
    program = os.environ.get("MICRO") or pytest.skip("MICRO is not set")
    nowhere = tmp_path_factory.mktemp("cwd")

    def run(*arguments, **options) -> subprocess.CompletedProcess:
        return subprocess.run([program, *map(str, arguments)], cwd=nowhere, stdin=subprocess.DEVNULL, capture_output=True,
                              env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, text=True, check=False, timeout=HANGS_AFTER_S, **options)

    return run


@pytest.fixture(scope="module")
def listed(micro):
    done = micro("--benchmark_list_tests")
    assert done.returncode == 0, done.stderr
    names = [line.removesuffix("/manual_time") for line in done.stdout.splitlines()]
    assert len(set(names)) == len(names)
    return names


@pytest.fixture(scope="module")
def measured(micro, tmp_path_factory):
    """measured(filter): the JSON's entries by name."""
    folder = tmp_path_factory.mktemp("json")

    def run(pattern: str) -> dict[str, dict]:
        out = folder / "micro.json"
        done = micro(*QUICK, f"--benchmark_filter={pattern}", "--out", out)
        assert done.returncode == 0, done.stdout + done.stderr
        assert all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout

        def refuse(constant):
            raise AssertionError(f"{constant} is not JSON")

        document = json.loads(out.read_text(), parse_constant=refuse)
        assert document["context"]["sizes"] == f"cpu B={B} T={T}, cuda B={B} T={T}"
        assert [path.name for path in folder.iterdir()] == ["micro.json"]
        results = {result["run_name"].removesuffix("/manual_time"): result for result in document["benchmarks"]}
        for name, result in results.items():
            assert result.get("error_occurred") or name in done.stdout
        return results

    return run


@pytest.fixture(scope="module")
def operations(measured):
    return measured("/(forward|backward)/.*/cpu")


def operations_of_the_model() -> list[str]:
    """Those of the table in model/ops.h."""
    names = re.findall(r"std::function<[^;]*>\s+(\w+);", (ROOT / "model" / "ops.h").read_text())
    assert {"linear", "cross_entropy", "add_norm", "head_loss"} <= set(names)
    return names


def test_everything_has_its_benchmarks(listed):
    for operation in operations_of_the_model():
        for way in ("forward/float32", "forward/bf16", "backward/float32", "backward/bf16"):
            for device in ("cpu", "cuda"):
                assert any(re.fullmatch(rf"{operation}(_\w+)?/{way}/{device}", name) for name in listed), (operation, way, device)
    attention = {device: {name.split("/")[0] for name in listed if name.startswith("attention_") and name.endswith(f"/bf16/{device}")}
                 for device in ("cpu", "cuda")}
    assert attention["cpu"] == {"attention_manual", "attention_math", "attention_flash"}
    assert attention["cuda"] == attention["cpu"] | {"attention_efficient", "attention_cudnn"}
    for name, of in FUSED.items():  # what takes an operation's place stands after it
        assert listed[listed.index(f"{of}/forward/bf16/cpu") + 2] == f"{name}/forward/bf16/cpu"


def test_all_that_is_listed_for_the_cpu_runs_and_counts_its_bytes(listed, operations):
    """But where a gradient is only handed on. The fused head and loss makes its gradients in forward."""
    assert set(operations) == {name for name in listed if re.search("/(forward|backward)/.*/cpu$", name)}
    assert {name for name, result in operations.items() if "bytes" not in result} == {
        "residual/backward/float32/cpu", "head_loss_fused/backward/float32/cpu", "head_loss_fused/backward/bf16/cpu"}
    for name, result in operations.items():
        assert not result.get("error_occurred") and result["real_time"] > 0 and result["iterations"] >= 1, result
        if "bytes" in result:
            seconds = result["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[result["time_unit"]]
            assert result["bytes_per_second"] == pytest.approx(result["bytes"] / seconds, rel=1e-3), name


def test_flops_are_those_of_the_matrix_products(operations):
    products = {name: 2 * B * T * rows * columns for name, (rows, columns) in LINEAR.items()} | {"head": 2 * B * T * C * V}
    # The causal halves of q k^T and of the product with v.
    products |= {f"attention_{kind}": 2 * B * T * T * C for kind in ("manual", "math", "flash")}
    large = {"self_attention": products["qkv"] + products["attention_manual"], "head_loss": products["head"],
             "mlp": products["linear_c_fc"] + products["linear_mlp_proj"]}
    fused = {name: large[of] for name, of in FUSED.items() if of in large}
    packed = {f"{name}_packed": products[name] for name in (*LINEAR, "head")}  # forward, for float32
    for precision in ("float32", "bf16"):
        def of(name: str) -> list[int]:
            return [operations[f"{name}/{direction}/{precision}/cpu"].get("flops", 0) for direction in ("forward", "backward")]

        for name, flops in (products | large).items():
            assert of(name) == [flops, 2 * flops], name
        for name, flops in fused.items():
            assert of(name) == ([3 * flops, 0] if name == "head_loss_fused" else [flops, 2 * flops]), name
    assert all(operations[f"{name}/forward/float32/cpu"]["flops"] == flops for name, flops in packed.items())
    assert {name.split("/")[0] for name, result in operations.items() if "flops" in result} == {*products, *packed, *large, *fused}


def test_bytes_are_those_of_the_types_a_step_has(operations):
    """Under autocast LayerNorm's output and the weights are float32; the output of a linear layer has 16 bits."""
    x, weight, bias, y = B * T * C, 4 * C * C, 4 * C, B * T * 4 * C
    expected = {"linear_c_fc/forward/float32": 4 * (x + weight + bias + y), "linear_c_fc/forward/bf16": 4 * (x + weight + bias) + 2 * y,
                # It reads y's gradient, x and the weight, and writes the gradients of x, weight and bias.
                "linear_c_fc/backward/bf16": 2 * y + 4 * (x + weight) + 4 * (x + weight + bias), "residual/backward/bf16": 4 * x + 2 * x,
                "cross_entropy/forward/bf16": 2 * B * T * V + 8 * B * T + 4,
                # The sum is written and read again, and LayerNorm's output is float32; or the sum is written once, and the output has 16 bits.
                "add_norm/forward/bf16": (4 + 2 + 4) * x + (4 + 4) * x + 4 * 2 * C, "add_norm_fused/forward/bf16": (4 + 2 + 4 + 2) * x + 4 * 2 * C,
                # x, wte and targets read; the gradients of x and wte, and the loss, written.
                "head_loss_fused/forward/float32": 4 * (2 * x + 2 * V * C) + 8 * B * T + 4}
    assert {name: operations[f"{name}/cpu"]["bytes"] for name in expected} == expected


def test_attention_written_out_keeps_a_matrix_and_flash_attention_none(measured):
    results = measured("^attention_memory_.*/(128|256)/cpu")
    kept = {name: result["kept_bytes"] for name, result in results.items()}
    assert len(kept) == 4
    for length in (128, 256):
        matrices, output = 4 * 12 * length * length, 4 * length * C  # float32
        assert output <= kept[f"attention_memory_flash/{length}/cpu"] < 1.5 * output, kept
        assert kept[f"attention_memory_manual/{length}/cpu"] >= matrices + output, kept


def test_batches_are_made_by_a_loop_and_by_one_gather(measured):
    results = measured("^batch_(mapped|loop|gather)(_random)?/(16|128)x512/cpu")
    assert set(results) == {f"batch_{way}{places}/{size}x512/cpu" for way in ("mapped", "loop", "gather")
                            for places in ("", "_random") for size in (16, 128)}
    for name, result in results.items():
        assert not result.get("error_occurred") and result["real_time"] > 0, result
        assert result["bytes"] == 20 * 512 * int(name.split("/")[1].split("x")[0])


def test_odd_widths_and_heads(micro, tmp_path):
    odd, out = (3, 75), tmp_path / "micro.json"
    done = micro(*QUICK, "--heads", odd[0], "--width", odd[1], "--benchmark_filter=^(linear_c_fc|attention_flash)/forward/float32/cpu", "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(out.read_text())
    flops = {result["name"].split("/")[0]: result["flops"] for result in document["benchmarks"]}
    assert flops == {"linear_c_fc": 2 * B * T * 4 * odd[1] ** 2, "attention_flash": 2 * B * T * T * odd[1]}
    assert document["context"]["sizes"].endswith(", C=75 NH=3")


@pytest.mark.thorough
def test_optimizer_batches_and_overheads_are_measured_too(measured):
    results = measured("^(clip|adamw_.*|batch_loader|inputs|harness|nvtx)/.*cpu")
    assert set(results) == {"clip/float32/cpu", "adamw_loop/float32/cpu", "adamw_foreach/float32/cpu",
                            "adamw_fused/float32/cpu", "adamw_master/float32/cpu", "batch_loader/next/cpu", "inputs/advance/cpu",
                            "harness/measured_step/cpu", "nvtx/range/cpu"}
    assert all(result["real_time"] > 0 for result in results.values())
    assert results["adamw_fused/float32/cpu"]["bytes"] == 28 * 124439808 and results["batch_loader/next/cpu"]["bytes"] == 20 * B * T
    # Five phases and the step's end; ten parts of each of 12 blocks, and four outside them.
    ranges = results["nvtx/range/cpu"]
    assert ranges["per_step"] == 6 + 12 * 10 + 4 and ranges["time_unit"] == "ns" and results["harness/measured_step/cpu"]["per_step"] == 1
    assert ranges["share_of_step"] == pytest.approx(ranges["per_step"] * ranges["real_time"] * 1e-9 / ranges["step_seconds"], rel=1e-3)


def test_what_needs_a_gpu_is_skipped_and_says_why(measured):
    results = measured("linear_c_fc/.*cuda|nvtx.*cuda")
    assert {name.split("/")[-2] for name in results} == {"float32", "bf16", "fp16", "tf32", "range"}
    for result in results.values():
        assert result["error_occurred"] and re.search("CUDA|device|driver", result["error_message"])


def test_the_first_on_a_device_waits_for_whoever_measures_there(tmp_path):
    program = os.environ.get("MICRO") or pytest.skip("MICRO is not set")
    with (tmp_path / "gpt2-ladder-cpu.lock").open("w+") as lock:
        lock.write("somebody\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        with subprocess.Popen([program, *map(str, QUICK), "--benchmark_filter=batch_loader/next/cpu"], cwd=tmp_path, text=True,
                              env={**os.environ, "LADDER_LOCK_DIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as waiting:
            told = iter(waiting.stderr.readline, "")
            assert "micro: device cpu is in use by somebody; waiting for its end\n" in told
            assert waiting.poll() is None
            fcntl.flock(lock, fcntl.LOCK_UN)
            shown, errors = waiting.communicate(timeout=HANGS_AFTER_S)
    assert waiting.returncode == 0 and "batch_loader/next/cpu" in shown, errors
    assert (tmp_path / "gpt2-ladder-cpu.lock").read_text().startswith(f"micro (pid {waiting.pid}) since ")


def test_one_that_fails_costs_its_own_number_only(micro, tmp_path):
    """The logits of 64 x 64 tokens need 0.8 of one gigabyte of memory, and the model has the rest."""
    out = tmp_path / "micro.json"
    done = micro("--benchmark_min_time=0.0001", "--threads", 1, "-B", 64, "-T", 64, "--out", out,
                 "--benchmark_filter=^(head/forward/float32|batch_loader/next)/cpu",
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30)))
    assert done.returncode == 1
    assert "1 skipped: " in done.stdout and "batch_loader/next/cpu" in done.stdout
    head, batch = json.loads(out.read_text())["benchmarks"]
    assert head["error_occurred"] and "allocate memory" in head["error_message"]
    assert batch["real_time"] > 0


@pytest.mark.parametrize(("arguments", "message"), [
    (["-T", "1025"], "--context: Value 1025 not in range"),
    (["--width", "100"], "--width must be a multiple of --heads, 12, got 100"),
    (["--benchmark_format=json"], "--benchmark_format=json: the program prints its own table; --out FILE keeps the JSON"),
    (["--benchmark_filter=nothing_like_it"], "--benchmark_list_tests lists them"),
    (["--out", "/nowhere/micro.json"], "/nowhere/micro.json"),
])
def test_what_cannot_be_used_is_refused(micro, arguments, message):
    done = micro(*arguments)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("micro: ") and message in done.stderr
