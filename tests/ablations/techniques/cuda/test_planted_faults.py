"""Faults planted in the kernels, one at a time, are found by the kernels' tests on the CPU.

A fault is an edit of a source. The edited file is compiled in place of its own and linked with the tests, and one of the tests
named beside it must fail. Every barrier of every kernel is left out once."""

import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
TECHNIQUES = ROOT / "ablations/techniques"
# Headers with what compiles them.
HEADERS = {"device.h": "cross_entropy.cu", "fp8_numbers.h": "adamw.cu", "column_strips.h": "column_sum.cu", "gelu.inc.h": "gelu.cu"}
KERNELS = {file.name: file for file in [*TECHNIQUES.glob("*/*.cu"), TECHNIQUES / "cuda/device.h", TECHNIQUES / "cuda/fp8_numbers.h",
                                        TECHNIQUES / "products/column_strips.h", TECHNIQUES / "mlp/gelu.inc.h"]}
BUILD = pathlib.Path(os.environ.get("LADDER_BUILD", ROOT / "build/release"))

# For each file the tests, and the faults: what is wrong, the text, and what becomes of it.
FAULTS = {
    ("add_norm.cu", "AddNorm/*Forward*"): [
        ("a stride of one too many", "a.y + row * C;", "a.y + row * (C + 1);"),
        ("the longest rows lose what is past the registers", "return run(Int<width>(), Int<64>());",
         "return run(Int<width>(), Int<32>());"),
        ("the variance is not of the differences", "to_float(s[k].values[e]) - mean;", "to_float(s[k].values[e]);"),
    ],
    ("add_norm.cu", "AddNorm/*Backward*"): [
        ("the gradient that comes down the stream is left out", "adds ? to_float(passing.values[e]) + own : own", "own"),
        ("the branches get no gradient", "if (a.branch_gradient != nullptr)", "if (false)"),
        ("rows counted by several blocks", "first += int64_t{gridDim.x} * tile_rows", "first += tile_rows"),
        ("a row's part in the column sums is left out", "for (int r = 0; r < rows; ++r)", "for (int r = 1; r < rows; ++r)"),
        ("rows past the last are in the column sums", "a.N - first < tile_rows ?", "false ?"),
        ("the columns of a thread all have the first one's sums", "(c < C ? c : 0)", "thread"),
        ("a copy to shared memory is not waited for", "wait_for_copies();", ""),
        ("the branch's sum is that of what is not rounded",
         "out.values[e] = from_float<T>(to_float(of_branch.values[e]));", "{}"),
        ("the branch's sum is the bias's", "if (sums_branch) sums[2 * output] = branch_sums[k];", "if (sums_branch) sums[2 * output] = bias_sums[k];"),
    ],
    ("column_sum.cu", "ColumnSums/*:FinishColumns*"): [
        ("a stride of one too many", "a.values + row * a.C + column", "a.values + row * (a.C + 1) + column"),
        ("the last strip is left out", "strip < a.strips; strip", "strip < a.strips - 1; strip"),
        ("what one launch does not take is left out", "all = all.subspan(now.size());", "all = {};"),
    ],
    ("column_strips.h", "ColumnSums/*"): [
        ("columns past the last", "if (thread >= tile || first + thread >= C) return;", "if (thread >= tile) return;"),
    ],
    ("cross_entropy.cu", "CrossEntropyOf/*"): [
        ("no elements after the last vector", "thread < before ? thread : after + thread - before", "thread < before ? thread : V"),
        ("no elements before the first vector", "thread < before ? thread : after + thread - before", "after + thread"),
        ("padding is kept", "column < a.stride; column += Threads", "column < V; column += Threads"),
        ("the sum is not rescaled when the maximum grows", "sum * exp_of(max - greatest) + (sums", "sum + (sums"),
        ("vectors of a thread have one place in shared memory", "store(held, i * width,", "store(held, thread * width,"),
        ("shared memory lacks the last vector", "{holding_threads, row_bytes}", "{holding_threads, row_bytes - 16}"),
        ("the target is as any other column", "if (thread == 0 && known)", "if (false)"),
        ("the target is read after it was overwritten", "own.max + logf(own.sum) - target_logit",
         "own.max + logf(own.sum) - (known ? to_float(row[target]) : NAN)"),
    ],
    ("gelu.cu", "Gelu/*"): [
        ("no elements after the last vector", "if (i < count % Width)", "if (false)"),
        ("a vector past the last", "if (i < vectors)", "if (i <= vectors)"),
        ("the sums are of what comes in", "store(a.gradient + first, values); return values;", "store(a.gradient + first, values); return at;"),
    ],
    ("gelu.inc.h", "Gelu/*"): [("huge values are not cut off", "= x > 10.0F ? 10.0F : x < -10.0F ? -10.0F : x;", "= x;")],
    ("scale.cu", "Scale/*"): [
        ("no elements after the last vector", "if (i < count % Width)", "if (false)"),
        ("a vector past the last", "if (i < vectors)", "if (i <= vectors)"),
    ],
    ("adamw.cu", "AdamWKernel*"): [
        ("no elements after the last vector", "i < count; i += threads) update<T, 1>", "i < 0; i += threads) update<T, 1>"),
        ("a chunk begins where its tensor does", "begin = chunk.index * chunk_elements", "begin = 0 * chunk_elements"),
        ("the remainder is not written", "store(tensor.remainder + first, remainders);", "{}"),
        ("the greatest is not reset between steps", "tensor.maxima[chunk.index] = greatest;",
         "tensor.maxima[chunk.index] = fmaxf(tensor.maxima[chunk.index], greatest);"),
        ("the greatest is that of weights before the update", "greatest = fmaxf(greatest, fabsf(to_float(weights.values[e])));",
         "greatest = fmaxf(greatest, fabsf(to_float(load<W>(at).values[e])));"),
        ("a tensor's chunks have one place", "tensor.maxima[chunk.index]", "tensor.maxima[0]"),
        ("the greatest of one warp is the block's", "greatest = block_max<threads>(greatest);", "greatest = warp_max(greatest);"),
    ],
    ("gradient_norm.cu", "GradientNormKernel*"): [
        ("no elements after the last vector", "i < count; i += threads) own +=", "i < 0; i += threads) own +="),
        ("NaN clips nothing", "coefficient > 1.0F ? 1.0F : coefficient", "coefficient < 1.0F ? coefficient : 1.0F"),
    ],
    ("join.cu", "JoinKernel/*"): [
        ("the parts lie behind each other", "row * pitch + part * a.C + column, values", "row * a.C + part * a.N * a.C + column, values"),
        ("the sums of the second part are the first's", "a.partials + int64_t{blockIdx.y} * pitch + part * a.C", "a.partials + int64_t{blockIdx.y} * pitch + (part % 2) * a.C"),
    ],
    ("add_norm.cu", "AddNormCopies*"): [
        ("the scale is not inverted", "1.0F / *a.copy_scale", "*a.copy_scale"),
        ("a lane's greatest is the row's", "fp8_factor(warp_max(greatest), largest_e4m3)", "fp8_factor(greatest, largest_e4m3)"),
        ("the copy is of what came down the stream", "if (Copies || sums_branch)", "if (false)"),
        ("rows that are too long for tiles are not copied", "copy(c, load<Width>(a.gradient + row * C + c));", "{}"),
    ],
    ("cross_entropy.cu", "CrossEntropyCopies*"): [
        ("the target's copy is a probability", "copy[target] = e5m2_of(gradient * to_copy);", "{}"),
        ("padding's copy is not written", "copy[column] = 0;", "{}"),
    ],
    ("row_copies.cu", "RowCopies*"): [
        ("rows that are made at once share a scale", "place * rows_at_once + r) * most_warps + lane()", "place * rows_at_once) * most_warps + lane()"),
        ("one place for the greatest", "place = 1 - place;", ""),
        ("GELU without the bias", "gelu(to_float(x.values[e]) + to_float(b.values[e]))", "gelu(to_float(x.values[e]))"),
    ],
    ("weight_copies.cu", "WeightCopies*"): [
        ("four rows of the transpose the other way round", "<< 8 * k", "<< 8 * (3 - k)"),
        ("the last maximum is left out", "i < w.maxima_count; i", "i < w.maxima_count - 1; i"),
        ("the bound of a LayerNorm without its bias", "* weight + bias;", "* weight;"),
    ],
    ("embedding.cu", "Embedding*"): [
        ("positions go on past the context", "row % a.context * a.C", "row * a.C"),
        ("a token that is none is read", "known ? to_float", "true ? to_float"),
        ("a run that comes from the window before is not cut", "bool from_before = continues(a, begin);", "bool from_before = false;"),
        ("a cut run has two windows at most",
         "while (continues(a, next * window) && a.sorted_tokens[next * window] == token);", "while (false);"),
        ("positions past the context keep what they had", "positions_kernel<T, Width>, a.P", "positions_kernel<T, Width>, a.context"),
    ],
}
# Those of block_sum and block_max are in headers.
BARRIERS = {"add_norm.cu": "AddNorm/*", "column_sum.cu": "ColumnSums/*", "column_strips.h": "ColumnSums/*",
            "cross_entropy.cu": "CrossEntropyOf/*", "device.h": "MeanLoss*", "fp8_numbers.h": "AdamWKernel*", "row_copies.cu": "RowCopies*",
            "weight_copies.cu": "WeightCopies*"}


def planted() -> list:
    edits = []
    for (file, tests), faults in FAULTS.items():
        for what, old, new in faults:
            lines_may_break = r"\s+".join(map(re.escape, old.split()))
            text, count = re.subn(lines_may_break, lambda _, to=new: to, KERNELS[file].read_text())
            assert count > 0, f"{file} no longer has: {old}"
            edits.append(pytest.param(file, tests, text, id=f"{file}: {what}"))
    return edits


def without_barriers() -> list:
    barrier, edits = "__syncthreads();\n", []
    for file, tests in BARRIERS.items():
        parts = KERNELS[file].read_text().split(barrier)
        for i in range(1, len(parts)):
            text = barrier.join(parts[:i]) + "\n" + barrier.join(parts[i:])
            edits.append(pytest.param(file, tests, text, id=f"{file}: barrier {i} of {len(parts) - 1} is left out"))
    return edits


def test_every_barrier_is_left_out_once() -> None:
    barriers = {name: file.read_text().count("__syncthreads();\n") for name, file in KERNELS.items()}
    assert {file for file, count in barriers.items() if count > 0} == set(BARRIERS)
    assert len(without_barriers()) == sum(barriers.values())


def compile_commands(target: str) -> list[dict]:
    return [entry for entry in json.loads((BUILD / "compile_commands.json").read_text()) if f"/{target}.dir/" in entry["output"]]


def run_tests(folder: pathlib.Path, file: str, text: str, tests: str) -> subprocess.CompletedProcess:
    """The kernels' tests with the file's text in its place."""
    edited = folder / KERNELS[file].relative_to(ROOT)
    edited.parent.mkdir(parents=True)
    edited.write_text(text)
    source = KERNELS[HEADERS[file]] if file in HEADERS else edited
    entry = next(e for e in compile_commands("kernels_on_cpu") if e["file"].endswith(f"/{source.name}"))
    words = shlex.split(entry["command"])
    words = words[1:] if "ccache" in pathlib.Path(words[0]).name else words
    words = [str(source) if word == entry["file"] else word for word in words]
    words[words.index("-o") + 1] = str(folder / "edited.o")
    done = subprocess.run([words[0], f"-I{folder}", *words[1:], "-Wno-error"], cwd=entry["directory"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    objects = [pathlib.Path(e["directory"]) / e["output"] for e in compile_commands("kernel_tests")]
    # The edited object comes first: what it defines is not taken from the library.
    libraries = os.environ["KERNEL_TEST_LIBRARIES"].split(":")
    subprocess.run([words[0], folder / "edited.o", *objects, *libraries, "-o", folder / "tests"], check=True)
    return subprocess.run([folder / "tests", "--gtest_brief=1", f"--gtest_filter={tests}"], capture_output=True, text=True,
                          check=False, timeout=600)


@pytest.mark.parametrize(("file", "tests", "text"), planted() + without_barriers())
def test_it_is_found(tmp_path, file, tests, text) -> None:
    done = run_tests(tmp_path, file, text, tests)
    assert done.returncode != 0, "every test passed"
    assert "[  FAILED  ]" in done.stdout and done.returncode > 0, f"no test failed, the program did: {done.returncode}\n{done.stderr}"


@pytest.mark.parametrize(("file", "tests"), [("add_norm.cu", "AddNorm/0.*"), ("device.h", "MeanLoss*")])
def test_without_a_fault_nothing_is_found(tmp_path, file, tests) -> None:
    done = run_tests(tmp_path, file, KERNELS[file].read_text(), tests)
    assert done.returncode == 0 and "PASSED" in done.stdout, done.stdout
