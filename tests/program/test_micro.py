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

from conftest import ROOT

B, T, C, V = 1, 16, 768, 50257
LINEAR = {"qkv": (C, 3 * C), "linear_attn_proj": (C, C), "linear_c_fc": (C, 4 * C), "linear_mlp_proj": (4 * C, C)}
FUSED = {"add_norm_fused": "add_norm", "self_attention_packed": "self_attention", "mlp_fused": "mlp", "head_loss_fused": "head_loss"}
QUICK = ["--benchmark_min_time=0.0001", "-B", B, "-T", T]


@pytest.fixture(scope="module")
def micro(tmp_path_factory):
    program = os.environ.get("MICRO") or pytest.skip("MICRO is not set")
    nowhere = tmp_path_factory.mktemp("cwd")

    def run(*arguments, **options) -> subprocess.CompletedProcess:
        return subprocess.run([program, *map(str, arguments)], cwd=nowhere, stdin=subprocess.DEVNULL, capture_output=True,
                              env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, text=True, check=False, timeout=300, **options)

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


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_every_operation_of_the_model_has_its_benchmarks(listed, device, direction):
    for operation in operations_of_the_model():
        for precision in ("float32", "bf16"):
            pattern = rf"{operation}(_\w+)?/{direction}/{precision}/{device}"
            assert any(re.fullmatch(pattern, name) for name in listed), f"no benchmark is named {pattern}"


def test_every_implementation_of_attention_has_its_benchmarks(listed):
    cpu = {name.split("/")[0] for name in listed if name.startswith("attention_") and name.endswith("/bf16/cpu")}
    cuda = {name.split("/")[0] for name in listed if name.startswith("attention_") and name.endswith("/bf16/cuda")}
    assert cpu == {"attention_manual", "attention_math", "attention_flash"}
    assert cuda == cpu | {"attention_efficient", "attention_cudnn"}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_both_implementations_of_the_loss_have_their_benchmarks(listed, device):
    for name in ("cross_entropy", "cross_entropy_in_place"):
        assert {f"{name}/{direction}/bf16/{device}" for direction in ("forward", "backward")} <= set(listed)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_what_takes_an_operations_place_stands_after_it(listed, precision, direction):
    for name in FUSED:
        place = listed.index(f"{FUSED[name]}/{direction}/{precision}/cpu")
        assert listed[place + 2] == f"{name}/{direction}/{precision}/cpu"


def test_all_that_is_listed_for_the_cpu_runs(listed, operations):
    assert set(operations) == {name for name in listed if re.search("/(forward|backward)/.*/cpu$", name)}
    for name, result in operations.items():
        assert not result.get("error_occurred"), result
        assert result["real_time"] > 0 and result["iterations"] >= 1, name


def test_bytes_are_counted_but_where_a_gradient_is_only_handed_on(operations):
    """The fused head and loss makes its gradients in forward."""
    without = {name for name, result in operations.items() if "bytes" not in result}
    assert without == {"residual/backward/float32/cpu", "head_loss_fused/backward/float32/cpu", "head_loss_fused/backward/bf16/cpu"}
    for name, result in operations.items():
        if name not in without:
            assert result["bytes"] > 0, name
            seconds = result["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[result["time_unit"]]
            assert result["bytes_per_second"] == pytest.approx(result["bytes"] / seconds, rel=1e-3), name


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_flops_are_those_of_the_matrix_products(operations, precision):
    products = {name: 2 * B * T * rows * columns for name, (rows, columns) in LINEAR.items()}
    products["head"] = 2 * B * T * C * V
    # The causal halves of q k^T and of the product with v.
    products |= {f"attention_{kind}": 2 * B * T * T * C for kind in ("manual", "math", "flash")}
    for name, flops in products.items():
        assert operations[f"{name}/forward/{precision}/cpu"]["flops"] == flops
        assert operations[f"{name}/backward/{precision}/cpu"]["flops"] == 2 * flops
        assert operations[f"{name}/backward/{precision}/cpu"]["flops_per_second"] > 0
    packed = {f"{name}_packed": products[name] for name in (*LINEAR, "head")}  # for float32 only
    if precision == "float32":
        assert all(operations[f"{name}/forward/float32/cpu"]["flops"] == flops for name, flops in packed.items())
    large = {"self_attention": products["qkv"] + products["attention_manual"], "head_loss": products["head"],
             "mlp": products["linear_c_fc"] + products["linear_mlp_proj"]}
    for name, flops in large.items():
        assert operations[f"{name}/forward/{precision}/cpu"]["flops"] == flops
        assert operations[f"{name}/backward/{precision}/cpu"]["flops"] == 2 * flops
    fused = {name: large[of] for name, of in FUSED.items() if of in large}
    for name, flops in fused.items():
        both = [operations[f"{name}/{direction}/{precision}/cpu"].get("flops", 0) for direction in ("forward", "backward")]
        assert both == ([3 * flops, 0] if name == "head_loss_fused" else [flops, 2 * flops])
    counted = {name.split("/")[0] for name, result in operations.items() if "flops" in result}
    assert counted == {*products, *packed, *large, *fused}


def test_bytes_are_those_of_the_types_a_step_has(operations):
    """Under autocast LayerNorm's output and the weights are float32; the output of a linear layer has 16 bits."""
    x, weight, bias, y = B * T * C, 4 * C * C, 4 * C, B * T * 4 * C
    assert operations["linear_c_fc/forward/float32/cpu"]["bytes"] == 4 * (x + weight + bias + y)
    assert operations["linear_c_fc/forward/bf16/cpu"]["bytes"] == 4 * (x + weight + bias) + 2 * y
    # It reads y's gradient, x and the weight, and writes the gradients of x, weight and bias.
    assert operations["linear_c_fc/backward/bf16/cpu"]["bytes"] == 2 * y + 4 * (x + weight) + 4 * (x + weight + bias)
    assert operations["gelu/forward/bf16/cpu"]["bytes"] == 2 * (y + y)
    assert operations["residual/backward/bf16/cpu"]["bytes"] == 4 * x + 2 * x
    assert operations["embed/forward/bf16/cpu"]["bytes"] == 8 * B * T + 4 * (B * T + T) * C + 4 * x
    assert operations["cross_entropy/forward/bf16/cpu"]["bytes"] == 2 * B * T * V + 8 * B * T + 4


def test_bytes_of_large_operations_are_those_that_a_step_counts(operations):
    x, wte = B * T * C, V * C
    # The sum is written and read again, and LayerNorm's output is float32; or the sum is written once, and the output has 16 bits.
    assert operations["add_norm/forward/bf16/cpu"]["bytes"] == (4 + 2 + 4) * x + (4 + 4) * x + 4 * 2 * C
    assert operations["add_norm_fused/forward/bf16/cpu"]["bytes"] == (4 + 2 + 4 + 2) * x + 4 * 2 * C
    assert operations["add_norm_fused/forward/float32/cpu"]["bytes"] == 4 * (4 * x + 2 * C)
    # x, wte and targets read; the gradients of x and wte, and the loss, written.
    assert operations["head_loss_fused/forward/float32/cpu"]["bytes"] == 4 * (2 * x + 2 * wte) + 8 * B * T + 4


def test_attention_written_out_keeps_a_matrix_and_flash_attention_none(measured):
    results = measured("^attention_memory_.*/(128|256)/cpu")
    kept = {name: result["kept_bytes"] for name, result in results.items()}
    assert len(kept) == 4
    for length in (128, 256):
        matrices, output = 4 * 12 * length * length, 4 * length * C  # float32
        assert output <= kept[f"attention_memory_flash/{length}/cpu"] < 1.5 * output, kept
        assert kept[f"attention_memory_manual/{length}/cpu"] >= matrices + output, kept


def test_batches_are_made_by_a_loop_and_by_one_gather(measured):
    results = measured("^batch_(loop|gather)/(16|128)x512/cpu")
    assert set(results) == {f"batch_{way}/{size}x512/cpu" for way in ("loop", "gather") for size in (16, 128)}
    for name, result in results.items():
        assert not result.get("error_occurred") and result["real_time"] > 0, result
        assert result["bytes"] == 20 * 512 * int(name.split("/")[1].split("x")[0])


@pytest.mark.thorough
def test_optimizer_batches_and_overheads_are_measured_too(listed, measured):
    results = measured("^(clip|adamw_.*|batch_loader|inputs|harness|nvtx)/.*cpu")
    assert set(results) == {"clip/float32/cpu", "adamw_loop/float32/cpu", "adamw_foreach/float32/cpu",
                            "adamw_fused/float32/cpu", "adamw_master/float32/cpu", "batch_loader/next/cpu", "inputs/advance/cpu",
                            "harness/measured_step/cpu", "nvtx/range/cpu"}
    assert all(result["real_time"] > 0 for result in results.values())
    parameters = 124439808
    assert results["clip/float32/cpu"]["bytes"] == 4 * parameters
    assert results["adamw_fused/float32/cpu"]["bytes"] == 28 * parameters
    assert results["batch_loader/next/cpu"]["bytes"] == 20 * B * T
    # Five phases and the step's end; ten parts of each of 12 blocks, and four outside them.
    ranges = results["nvtx/range/cpu"]
    assert ranges["per_step"] == 6 + 12 * 10 + 4
    seconds = ranges["real_time"] * 1e-9
    assert ranges["time_unit"] == "ns"
    assert ranges["share_of_step"] == pytest.approx(ranges["per_step"] * seconds / ranges["step_seconds"], rel=1e-3)
    assert ranges["share_of_step"] < 1e-2  # a processor's step takes some hundred thousand times as long as a range
    measured_step = results["harness/measured_step/cpu"]
    assert measured_step["share_of_step"] > 0 and measured_step["per_step"] == 1


def test_what_needs_a_gpu_is_skipped_and_says_why(micro, measured):
    results = measured("linear_c_fc/.*cuda|nvtx.*cuda")
    assert {name.split("/")[-2] for name in results} == {"float32", "bf16", "fp16", "tf32", "range"}
    for result in results.values():
        assert result["error_occurred"] and re.search("CUDA|device|driver", result["error_message"])
    done = micro(*QUICK, "--benchmark_filter=linear_c_fc/.*cuda")
    assert f"8 skipped: {results['nvtx/range/cuda']['error_message']}\n" in done.stdout


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
            shown, errors = waiting.communicate(timeout=300)
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
    (["-B", "0"], "--batch: Value 0 not in range"),
    (["--bogus"], "--bogus"),
    (["--benchmark_format=json"], "--benchmark_format=json: the program prints its own table; --out FILE keeps the JSON"),
    (["--benchmark_filter=nothing_like_it"], "--benchmark_list_tests lists them"),
    (["--out", "/nowhere/micro.json"], "/nowhere/micro.json"),
])
def test_what_cannot_be_used_is_refused(micro, arguments, message):
    done = micro(*arguments)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("micro: ") and message in done.stderr


def test_help_lists_the_flags(micro):
    done = micro("--help")
    assert done.returncode == 0
    assert all(flag in done.stdout for flag in ("--batch", "--context", "--threads", "--out", "--benchmark_filter"))
