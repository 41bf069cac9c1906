"""submitit, as its users write it, on a whole tgpu: its own AutoExecutor finds tgpu by the entry point."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import submitit
from submitit.core import utils

from tests.end_to_end.whole_tgpu import Installation
from tgpu.api.job_form import JobAsked
from tgpu.submitit_plugin import TgpuExecutor, TgpuJob
from tgpu.submitit_plugin.executor import FIELDS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def auto(
    shared: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[submitit.AutoExecutor]:
    monkeypatch.setenv("TGPU_HOME", str(shared.home))
    monkeypatch.delenv("TGPU_SERVER", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # functions of this module are imported over there
    executor = submitit.AutoExecutor(folder=tmp_path / "logs")
    executor.update_parameters(timeout_min=5, mem_gb=0.25, cpus_per_task=1, name="of-submitit")
    yield executor
    TgpuJob.watcher.clear()


def add(one: int, other: int) -> int:
    print("adding", one, other, flush=True)
    return one + other


def written(job: submitit.Job[Any], text: str) -> None:
    """It may come a moment after the result."""
    Installation.wait_until(lambda: text in (job.stdout() or ""), f"{text} in the output of {job.job_id}")


class Counting(submitit.helpers.Checkpointable):
    """Counts slowly up to a number, and goes on where it was when it is stopped."""

    def __init__(self) -> None:
        self.at = 0
        self.lives = 0

    def __call__(self, up_to: int, mark: str) -> tuple[int, int]:
        self.lives += 1
        while self.at < up_to or self.lives == 1:
            self.at += 1
            Path(mark).write_text(str(self.at))
            time.sleep(0.01)
        return self.at, self.lives


def test_it_finds_tgpu_by_itself_and_a_function_comes_back(
    auto: submitit.AutoExecutor, shared: Installation
) -> None:
    assert auto.cluster == "tgpu"
    job = auto.submit(add, 5, 7)
    assert isinstance(job, TgpuJob)
    assert job.result() == 12
    written(job, "adding 5 7")
    assert job.paths.stdout.name == f"{job.job_id}_0_log.out"
    shown = shared.wait_status(int(job.job_id), "completed")  # a moment after its result
    job.watcher.update()
    assert job.state == "COMPLETED"
    assert (shown["name"], shown["mem_request_mb"], shown["time_limit_s"]) == ("of-submitit", 256, 300)
    assert job.submission().args == (5, 7)


def test_an_array_is_one_job_of_tgpu(auto: submitit.AutoExecutor, shared: Installation) -> None:
    auto.update_parameters(tgpu_array_parallelism=2, tgpu_priority=3)
    jobs = auto.map_array(add, [1, 2, 3], [10, 20, 30])
    number = jobs[0].job_id.split("_")[0]
    assert [job.job_id for job in jobs] == [f"{number}_0", f"{number}_1", f"{number}_2"]
    assert [job.result() for job in jobs] == [11, 22, 33]
    written(jobs[2], "adding 3 30")
    shown = shared.show(int(number))
    assert (shown["array"], shown["at_once"], shown["priority"]) == ("0-2", 2, 3)


def test_a_folder_may_be_named_by_the_job_and_have_one_file_for_both_streams(
    auto: submitit.AutoExecutor, tmp_path: Path
) -> None:
    other = submitit.AutoExecutor(folder=tmp_path / "100%" / "%j")
    other.update_parameters(timeout_min=5, stderr_to_stdout=True)
    job = other.submit(os.system, "echo to stderr >&2")
    assert job.result() == 0
    written(job, "to stderr")
    assert job.paths.stdout.parent == tmp_path / "100%" / job.job_id
    assert job.stderr() is None
    assert [one.result() for one in other.map_array(add, [1, 2], [3, 4])] == [4, 6]
    assert auto.folder == tmp_path / "logs"


def test_a_batch_is_submitted_when_it_is_complete(auto: submitit.AutoExecutor) -> None:
    with auto.batch():
        jobs = [auto.submit(add, number, 1) for number in range(3)]
    found = submitit.helpers.as_completed(jobs, poll_frequency=0.2)
    assert sorted(job.result() for job in found) == [1, 2, 3]


def test_what_it_raises_is_told_with_its_traceback(auto: submitit.AutoExecutor) -> None:
    job = auto.submit(add, 1, "x")  # type: ignore[arg-type]
    error = job.exception()
    assert isinstance(error, utils.FailedJobError)
    assert "unsupported operand type" in str(error)
    with pytest.raises(utils.FailedJobError):
        job.result()


def test_a_job_that_dies_is_done_and_says_what_it_wrote(
    auto: submitit.AutoExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies() -> None:
        os.write(2, b"last words\n")
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(TgpuJob, "_results_timeout_s", 1)
    job = auto.submit(dies)
    error = job.exception()
    assert isinstance(error, utils.UncompletedJobError)
    assert "last words" in str(error)
    assert str(error).startswith("tgpu says: killed by signal 9\n")
    assert (job.state, job.get_info()["Reason"]) == ("FAILED", "killed by signal 9")


def test_it_can_be_cancelled(auto: submitit.AutoExecutor, shared: Installation) -> None:
    alone, [_, of_many] = auto.submit(time.sleep, 300), auto.map_array(time.sleep, [0, 300])
    for job in (alone, of_many):
        shared.wait_until(lambda job=job: job.get_info("force").get("State") == "RUNNING", "it runs")
        job.cancel()
        job.wait()
        assert job.get_info("force")["State"] == "CANCELLED"
        job.cancel()


def test_a_checkpointable_one_that_gives_way_goes_on_where_it_was(
    auto: submitit.AutoExecutor, tmp_path: Path, shared: Installation
) -> None:
    mark = tmp_path / "mark"
    job = auto.submit(Counting(), 50, str(mark))
    shared.wait_until(mark.exists, "it counts")
    job._interrupt()
    reached, lives = job.result()
    assert lives == 2
    assert reached >= 50
    assert shared.show(int(job.job_id))["attempt_count"] == 2


def test_a_checkpointable_one_goes_on_after_its_time_limit(
    auto: submitit.AutoExecutor, tmp_path: Path, shared: Installation
) -> None:
    auto.update_parameters(timeout_min=1, tgpu_signal_delay_s=59)
    executor = auto._executor
    assert isinstance(executor, TgpuExecutor)
    assert executor.job_fields()["warn_s"] == 30
    mark = tmp_path / "mark"
    job = auto.submit(Counting(), 50, str(mark))
    shared.wait_until(mark.exists, "it counts")
    [pid] = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and f"submitit.core._submit\0{tmp_path}".encode() in _command_line(entry)
    ]
    os.kill(pid, signal.SIGUSR2)  # as tgpu does it half a minute before
    assert job.result()[1] == 2
    assert [one["exit_code"] for one in shared.wait_status(int(job.job_id), "completed")["attempts"]] == [
        144,
        0,
    ]


def _command_line(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def test_tasks_that_start_together_know_their_ranks(auto: submitit.AutoExecutor) -> None:
    auto.update_parameters(nodes=1, tasks_per_node=2, gpus_per_node=2)

    def who() -> tuple[int, int, int, int]:
        here = submitit.JobEnvironment()
        return here.global_rank, here.local_rank, here.num_tasks, here.num_nodes

    job = auto.submit(who)
    assert job.num_tasks == 2
    written(job.task(1), "global_rank=1(2)")
    assert job.results() == [(0, 0, 2, 1), (1, 1, 2, 1)]


def for_torch() -> tuple[dict[str, str], str]:
    """What submitit's own recipe leaves in the environment, and the GPUs that were there before."""
    given = os.environ["CUDA_VISIBLE_DEVICES"]
    submitit.helpers.TorchDistributedEnvironment().export()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT", "CUDA_VISIBLE_DEVICES")
    return {name: os.environ[name] for name in names}, given


def test_the_recipe_for_torch_finds_ranks_and_gpus_that_are_there_already(
    auto: submitit.AutoExecutor,
) -> None:
    auto.update_parameters(nodes=1, tasks_per_node=2, gpus_per_node=2)
    (first, of_first), (second, of_second) = auto.submit(for_torch).results()
    assert (first["RANK"], first["LOCAL_RANK"], first["CUDA_VISIBLE_DEVICES"]) == ("0", "0", of_first)
    assert (second["RANK"], second["LOCAL_RANK"], second["CUDA_VISIBLE_DEVICES"]) == ("1", "1", of_second)
    assert of_first != of_second
    assert first["MASTER_PORT"] == second["MASTER_PORT"]
    assert first["WORLD_SIZE"] == second["LOCAL_WORLD_SIZE"] == "2"


@pytest.mark.parametrize(("given", "left"), [("5,6", "5"), ("5", "5"), ("", "")])
def test_the_recipe_for_torch_takes_the_first_of_a_tasks_own_gpus(
    given: str, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")  # to be put back
        monkeypatch.delenv(name)
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "tgpu")
    monkeypatch.setenv("TGPU_JOB_ID", "42")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    assert for_torch()[0]["CUDA_VISIBLE_DEVICES"] == left
    with pytest.raises(RuntimeError, match="is already set"):
        for_torch()  # of a task alone, somebody else has set them


def test_slurms_commands_that_are_tgpus_are_not_taken_for_slurm(
    auto: submitit.AutoExecutor, shared: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.tgpu("slurm", "install", "--to", str(tmp_path / "bin"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    assert submitit.AutoExecutor(folder=tmp_path).cluster == auto.cluster
    (tmp_path / "bin" / "srun").write_text("#!/bin/sh\n")
    assert submitit.AutoExecutor(folder=tmp_path).cluster == "slurm"


def test_a_parameter_that_there_is_not_is_refused_by_name(
    auto: submitit.AutoExecutor, tmp_path: Path
) -> None:
    with pytest.raises(NameError, match="Unknown argument 'partition' for executor 'tgpu'"):
        auto.update_parameters(tgpu_partition="gpu")
    with pytest.raises(ValueError, match="has no parameter partition"):
        TgpuExecutor(tmp_path).update_parameters(partition="gpu")


def test_every_parameter_is_a_field_of_a_job() -> None:
    fields: Any = JobAsked.__struct_fields__
    assert set(fields) >= FIELDS
