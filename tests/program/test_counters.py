"""`ladder profile --counters` and `--list-metrics` without a GPU. Plans can be made for every chip. What cannot be counted ends with
the reason and the right exit status.
"""

import json

import pytest

ONE_PASS = "dram__bytes_read.sum,dram__bytes_write.sum,gpu__time_duration.sum"


def refusal(done, status: int) -> str:
    """The one line, without its prefix."""
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    line = done.stderr.splitlines()[0]
    assert line.startswith("ladder: ")
    return line.removeprefix("ladder: ")


def test_counters_need_a_gpu(ladder, tmp_path):
    done = ladder("profile", "--counters", "--rung", "flash", "--ladder", "gpt2", "--out", tmp_path / "counters.json")
    line = refusal(done, 3)
    assert line.startswith("--counters: needs a GPU: no CUDA device (")
    assert not list(tmp_path.iterdir())


def test_a_chip_lists_what_it_counts(ladder):
    done = ladder("profile", "--list-metrics", "--chip", "GH100")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) > 3000
    assert any(line.split()[:2] == ["counter", "dram__bytes_read"] for line in lines)
    listed = json.loads(ladder("profile", "--list-metrics", "--chip", "GH100", "--json").stdout)
    assert listed["chip"] == "GH100"
    assert len(listed["base_metrics"]) == len(lines)
    assert {metric["kind"] for metric in listed["base_metrics"]} == {"counter", "ratio", "throughput"}


@pytest.mark.parametrize(("metrics", "passes"), [(ONE_PASS, "1 pass"), ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "8 passes")])
def test_the_number_of_passes_is_known_beforehand(ladder, metrics, passes):
    done = ladder("profile", "--list-metrics", "--chip", "GH100", "--metrics", metrics)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{passes} on GH100"
    planned = json.loads(ladder("profile", "--list-metrics", "--chip", "GH100", "--metrics", metrics, "--json").stdout)
    assert planned["passes"] == int(passes.split()[0])
    assert [metric["name"] for metric in planned["metrics"]] == metrics.split(",")


@pytest.mark.parametrize(("arguments", "words"), [
    (["--list-metrics", "--chip", "GH100", "--metrics", "dram_bytes_read.sum"],
     'metric "dram_bytes_read.sum": GH100 has no metric of this name; similar: dram__bytes_read.sum'),
    (["--list-metrics", "--chip", "GH100", "--metrics", "dram__bytes_read.total"], 'metric "dram__bytes_read.total"'),
    (["--list-metrics", "--chip", "GH100", "--metrics", "a,,b"], "--metrics a,,b: must be a list"),
    (["--list-metrics", "--chip", "GH100", "--metrics", "a,a"], '--metrics a,a: a is given twice'),
    (["--list-metrics", "--chip", "XY100"], 'chip "XY100": CUPTI knows '),
    (["--list-metrics"], "--list-metrics: needs --chip where there is no GPU; CUPTI knows "),
    (["--list-metrics", "--chip", ""], "must not be empty"),
    (["--list-metrics", "--counters", "--chip", "GH100"], "cannot be combined with"),
    (["--list-metrics", "--chip", "GH100", "--batch", "2"], "cannot be combined with"),
    (["--counters", "--chip", "GH100"], "needs --list-metrics"),
    (["--counters", "--metrics", "a,a"], "a is given twice"),
    (["--counters", "--max-passes", "0"], "--max-passes must be a whole number between 1 and"),
    (["--counters", "--rung", "bf16", "--recipe", "{}"], "cannot be combined with"),
    ([], "needs one of --trace, --diff, --counters and --list-metrics"),
])
def test_bad_input(ladder, arguments, words):
    assert words in refusal(ladder("profile", *arguments), 2)
