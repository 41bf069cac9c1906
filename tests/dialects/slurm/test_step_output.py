"""What the tasks of a step print: lines stay whole, whoever else prints at the same moment."""

import threading
from pathlib import Path

import pytest

from tgpu.cli.slurm import local_tasks
from tgpu.cli.slurm.local_tasks import LocalTasks
from tgpu.cli.slurm.step_output import StepOutput
from tgpu.dialects.slurm.step_plan import step_of


def output(said: dict[str, str | None]) -> StepOutput:
    return StepOutput(said, step_of(said, {"SLURM_JOB_NODELIST": "n1"}), 0)


def printed(said: dict[str, str | None], capfdbinary: pytest.CaptureFixture[bytes]) -> bytes:
    """Two tasks, each in two pieces, one between the other's; and an end that is no whole line."""
    step = output({"ntasks": "2", **said})
    for rank, data in ((0, b"rank "), (1, b"rank "), (0, b"0\n"), (1, b"1\nlast"), (0, b"10%\r")):
        step.told_from_afar(rank, "stdout", data)
    step.finish()
    return capfdbinary.readouterr().out


def test_lines_of_several_tasks_do_not_run_into_each_other(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert printed({}, capfdbinary) == b"rank 0\nrank 1\n10%\rlast"
    assert printed({"label": None}, capfdbinary) == b"0: rank 0\n1: rank 1\n0: 10%\r\n1: last\n"


def test_without_a_buffer_all_is_shown_as_it_comes(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert printed({"unbuffered": None}, capfdbinary) == b"rank rank 0\n1\nlast10%\r"


def test_a_line_that_does_not_end_is_not_kept_for_ever(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    step = output({"ntasks": "2"})
    step.told(0, "stdout", b"." * 70_000)
    assert len(capfdbinary.readouterr().out) == 70_000


def test_one_task_prints_where_srun_does() -> None:
    steps: list[dict[str, str | None]] = [{"ntasks": "1"}, {"ntasks": "1", "label": None}, {"ntasks": "2"}]
    assert [output(said).is_heard for said in steps] == [False, True, True]


def test_tasks_that_leave_processes_behind_delay_the_end_of_a_step_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, waits, join = LocalTasks(lambda *_: None), [], threading.Thread.join

    def recorded(thread: threading.Thread, timeout: float) -> None:
        join(thread, timeout)
        waits.append(timeout if thread.is_alive() else 0.0)

    for rank in range(4):
        tasks.start(rank, ["/bin/sh", "-c", "sleep 20 &"], {}, str(tmp_path), {})
    tasks.read()
    for process in tasks._running.values():
        process.wait(60)
    monkeypatch.setattr(threading.Thread, "join", recorded)
    assert sorted(tasks.ended()) == [(rank, 0) for rank in range(4)]
    assert 0 < sum(waits) <= local_tasks._LAST_WORDS_S
