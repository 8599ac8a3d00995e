"""`ladder measure` of programs of several ranks: whose lines count, which rank is behind, and what nobody watches."""

import shlex
import sys

import pytest
from conftest import MEASURED, ROOT
from measuring import here, measure, one_record, program, study  # noqa: F401

# They begin together, and then rank 1 sleeps longer: nobody waits.
APART = """
import os, pathlib, sys, time
rank, run = int(sys.argv[1]), pathlib.Path(sys.argv[2])
(run / str(rank)).touch()
while len(list(run.iterdir())) < 2:
    time.sleep(0.001)
for step in range(1000000):
    time.sleep((0.02, 0.06)[rank])
    if os.environ.get("RANK"):
        import ladder_client
        ladder_client.step(3 / (step + 1) + rank)
    else:
        print(f"step {step} loss {3 / (step + 1) + rank:.5f}", flush=True)
"""
STEPS = ("--warmup", "1", "--steps", "30", "--repeats", "1")  # so many that both are seen in the trial


@pytest.fixture
def both(here, measure):  # noqa: F811
    """both("VARIABLE={rank}", " | filter {rank}"): the finished process."""
    (here / "apart.py").write_text(APART)

    def run(before: str = "", behind: str = ""):
        command = f"{before} {shlex.quote(sys.executable)} apart.py {{rank}} {{run}}{behind}"
        return measure(" & ".join(command.replace("{rank}", str(rank)) for rank in (0, 1)) + " & wait", short=STEPS)

    return run


def assert_the_slow_rank_counts(record) -> None:
    ranks = record["command"]["ranks"]
    assert (ranks["count"], ranks["slowest"], ranks["takes_longer"]) == (2, 1, True) and ranks["behind"] > 0.5, ranks
    assert record["summary"]["median_ms"] > 55, record["summary"]
    assert record["timing"]["loss"][:2] == [pytest.approx(3 / (step + 1), abs=1e-4) for step in record["command"]["steps"][1:3]]


@pytest.mark.parametrize("tag", ["[rank{rank}]: ", "{rank}: ", "[1,{rank}]<stdout>: "])
def test_a_step_ends_with_the_last_ranks_line(both, study, tmp_path, tag) -> None:  # noqa: F811
    """As torchrun, srun --label and mpirun --tag-output say whose line it is. The losses are rank 0's."""
    done = both(behind=f" | sed -u 's/^/{tag}/'")
    assert done.returncode in MEASURED and ", the last of 2 ranks" in done.stderr, done.stderr
    assert_the_slow_rank_counts(one_record(tmp_path / "study"))
    assert any("rank 1 is the slowest: " in warning and "% behind the others" in warning for warning in study()["warnings"])


def test_every_rank_of_a_client_counts(both, study, tmp_path) -> None:  # noqa: F811
    done = both(f"RANK={{rank}} WORLD_SIZE=2 PYTHONPATH={ROOT / 'client'}")
    assert done.returncode in MEASURED, done.stderr
    record = one_record(tmp_path / "study")
    assert_the_slow_rank_counts(record)
    assert record["command"]["shape"] == "lines of ladder_client"
    assert study()["rungs"][0]["command"]["ranks"]["slowest"] == 1


# Both on another machine each, of which this one sees two files. The lines come as their steps end.
HOSTS = """
import json, os, time
logs = [open(os.environ["LADDER_LOG"] + end, "a", 1) for end in ("", ".1")]
for rank, log in enumerate(logs):
    ahead = 1000 * rank  # its machine was started earlier
    print(json.dumps({"ladder": 1, "clock": time.time() - time.monotonic() - ahead, "rank": rank, "ranks": 3, "host": f"node-{rank}"}), file=log)
for step in range(1000000):
    time.sleep(0.1)
    for rank, log in enumerate(logs):
        print(json.dumps({"step": step, "t": time.monotonic() + 1000 * rank, "loss": rank}), file=log)
"""


def test_what_runs_elsewhere_is_told(measure, study, tmp_path) -> None:  # noqa: F811
    done = measure(program(HOSTS))
    assert done.returncode in MEASURED, done.stderr
    ranks = one_record(tmp_path / "study")["command"]["ranks"]
    assert (ranks["count"], ranks["unseen"], ranks["nodes"]) == (2, 1, 2) and "slowest" not in ranks, ranks
    for words in ("it runs on 2 machines: only this one and its GPUs are watched", "1 of its 3 ranks wrote no line that can be read here"):
        assert any(words in warning for warning in study()["warnings"]), study()["warnings"]
    assert all(seconds < 1000 for seconds in one_record(tmp_path / "study")["command"]["seconds"])


def test_variables_tell_of_other_machines(measure, tmp_path) -> None:  # noqa: F811
    """As torchrun, srun and others set them for what they start."""
    done = measure(f"env WORLD_SIZE=16 LOCAL_WORLD_SIZE=8 {shlex.quote(sys.executable)} loop.py")
    assert done.returncode in MEASURED, done.stderr
    assert one_record(tmp_path / "study")["command"]["ranks"] == {"count": 1, "nodes": 2}


# As data-parallel trainings do, both wait for each other in each step. Rank 1 computes longer, and so rank 0 waits.
TOGETHER = """
import os, time
import torch
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
for step in range(1000000):
    time.sleep(0.02 + 0.02 * rank)
    loss = torch.tensor(3 / (step + 1) + rank)
    torch.distributed.all_reduce(torch.ones(8))
    os.write(1, f"step {step} loss {loss.item():.5f}\\n".encode())  # print() without a buffer would write the line's end later
"""


@pytest.mark.parametrize("flags", ["", "--tee 3"])
def test_ranks_that_wait_for_each_other_accuse_nobody(measure, here, tmp_path, flags) -> None:  # noqa: F811
    """Of torchrun's own. With --tee it says whose line it is, ten times a second."""
    pytest.importorskip("torch")
    (here / "together.py").write_text(TOGETHER)
    done = measure(f"{shlex.quote(sys.executable)} -m torch.distributed.run --standalone --nproc-per-node 2 {flags} together.py")
    assert done.returncode in MEASURED, done.stderr
    record = one_record(tmp_path / "study")
    assert record["command"]["ranks"]["count"] == 2 and not record["command"]["ranks"].get("takes_longer"), record["command"]
    assert record["timing"]["window_ms"] >= 0.03 * 1000 * 8, record["timing"]
    assert record["timing"]["loss"] == [pytest.approx(3 / (step + 1), abs=1e-4) for step in record["command"]["steps"][1:]]
