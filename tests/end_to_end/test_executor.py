"""Functions that run as jobs of a whole tgpu."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

import tgpu
from tests.end_to_end.whole_tgpu import Installation
from tgpu.futures import as_completed, wait


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The caller's directory and home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def executor(shared: Installation, folder: Path) -> Iterator[tgpu.Executor]:  # noqa: ARG001  it begins there
    with an_executor(shared) as one:
        yield one
        one.shutdown(cancel_futures=True)


def an_executor(installation: Installation, **fields: Any) -> tgpu.Executor:
    return tgpu.Executor(server=f"unix://{installation.home}/run/tgpu.sock", **fields)


def until(is_so: Any, within_s: float = 60) -> None:
    Installation.wait_until(is_so, "what was waited for", within_s)


def test_a_function_runs_elsewhere_and_its_result_comes_back(
    executor: tgpu.Executor, shared: Installation, folder: Path
) -> None:
    here, factor = os.getpid(), 3

    def work(value: int, *, more: int) -> tuple[int, int, str, str]:
        return value * factor + more, os.getpid(), str(Path.cwd()), os.environ["CUDA_VISIBLE_DEVICES"]

    future = executor.asking(gpu_request=1, name="worker").submit(work, 5, more=2)
    result, pid, cwd, gpus = future.result(timeout=60)
    assert (result, cwd, len(gpus.split(","))) == (17, str(folder), 1)
    assert pid != here
    assert future.done()
    job = shared.show(future.job_id)
    assert (job["name"], job["gpu_request"], job["status"]) == ("worker", 1, "completed")


def test_what_it_raises_comes_back_with_its_traceback(executor: tgpu.Executor, shared: Installation) -> None:
    def breaks(depth: int) -> int:
        return breaks(depth - 1) if depth else 1 // 0

    future = executor.submit(breaks, 2)
    error = future.exception(timeout=60)
    assert isinstance(error, ZeroDivisionError)
    assert str(error.__cause__).count("in breaks") == 3
    assert shared.show(future.job_id)["status"] == "failed"


def test_a_task_that_dies_says_why(executor: tgpu.Executor) -> None:
    def dies(how: str) -> None:
        if how == "exits":
            os.write(2, b"no more of this\n")
            os._exit(3)
        elif how == "leaves":
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    exits, leaves, killed = (executor.submit(dies, how) for how in ("exits", "leaves", "is killed"))
    slow = executor.asking(time_limit_s=1, grace_s=0).submit(time.sleep, 60)
    found = [future.exception(timeout=60) for future in (exits, killed, slow, leaves)]
    assert all(isinstance(error, tgpu.TaskDied) for error in found)
    told = [str(error) for error in found]
    assert told[0] == f"task {exits.task} brought no result: exit code 3; it last wrote:\nno more of this"
    assert "killed by signal 9" in told[1]
    assert "time limit" in told[2]
    assert "ended before the function did" in told[3]
    assert isinstance(found[2], tgpu.TaskDied)
    assert (found[2].cause, found[2].task) == ("time-limit", slow.task)


def test_map_is_one_array_and_keeps_the_order(executor: tgpu.Executor, shared: Installation) -> None:
    before = {job["job_id"] for job in shared.client().jobs()}
    assert list(executor.map(pow, range(20), [2] * 20, timeout=60)) == [n**2 for n in range(20)]
    assert list(executor.map(lambda n: -n, range(7), chunksize=3)) == [0, -1, -2, -3, -4, -5, -6]
    assert list(executor.map(abs, [])) == []
    jobs = [job for job in shared.client().jobs(order="oldest") if job["job_id"] not in before]
    assert [job["array"] for job in jobs] == ["0-19", "0-2"]


def test_when_one_of_a_map_raises_those_that_nobody_waits_for_are_cancelled(
    executor: tgpu.Executor, shared: Installation
) -> None:
    def first_breaks(number: int) -> None:
        if number == 0:
            raise ValueError("the first")
        time.sleep(300)

    with pytest.raises(ValueError, match="the first"):
        list(executor.map(first_breaks, range(4)))
    [job] = shared.client().jobs(limit=1)
    ended = shared.wait_status(job["job_id"], "failed")
    assert ended["task_counts"]["cancelled"] == 3


def test_each_of_many_has_a_future_and_some_come_first(executor: tgpu.Executor) -> None:
    def at_its_time(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    futures = executor.submit_each(at_its_time, [2.5, 0])
    assert [future.result() for future in as_completed(futures, timeout=60)] == [0, 2.5]
    assert [future.index for future in futures] == [0, 1]
    assert not wait(futures).not_done


def test_what_runs_and_what_waits_can_be_cancelled(executor: tgpu.Executor, shared: Installation) -> None:
    running = executor.submit(time.sleep, 300)
    waiting = executor.asking(gpu_request=8, hold=True).submit(time.sleep, 300)
    [_, one_of_many] = many = executor.submit_each(time.sleep, [0, 300])
    until(running.running)
    until(one_of_many.running)
    assert many[0].result(timeout=60) is None
    assert not many[0].cancel()
    for future in (running, waiting, one_of_many):
        assert future.cancel()
        assert future.cancelled()
        with pytest.raises(CancelledError):
            future.result()
        assert shared.wait_status(future.job_id, "cancelled")["status"] == "cancelled"


def test_a_job_that_somebody_else_cancels_is_cancelled_here_too(
    executor: tgpu.Executor, shared: Installation
) -> None:
    future = executor.submit(time.sleep, 300)
    shared.tgpu("cancel", str(future.job_id))
    with pytest.raises(CancelledError):
        future.result(timeout=60)


def test_only_the_last_attempt_counts(executor: tgpu.Executor, folder: Path) -> None:
    marks = folder / "marks"

    def third_time_lucky() -> int:
        marks.write_text((marks.read_text() if marks.exists() else "") + "x")
        if len(marks.read_text()) == 1:
            raise ValueError("not yet")
        return len(marks.read_text())

    assert executor.asking(retries=1).submit(third_time_lucky).result(timeout=60) == 2


def test_a_restart_of_the_server_is_waited_through(installation: Installation, folder: Path) -> None:
    installation.up()
    gate = folder / "gate"

    def waits() -> str:
        while not gate.exists():
            time.sleep(0.05)
        return "through"

    with an_executor(installation) as executor:
        future = executor.submit(waits)
        until(future.running)
        installation.kill("server")
        gate.touch()
        time.sleep(0.5)
        installation.up()
        assert future.result(timeout=60) == "through"


def test_it_can_be_awaited_and_used_from_many_threads(executor: tgpu.Executor) -> None:
    async def story() -> int:
        return await asyncio.get_running_loop().run_in_executor(executor, max, 3, 4)

    assert asyncio.run(story()) == 4
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(executor.submit(abs, -n).result(60)))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(8))


def test_after_shutdown_nothing_is_taken_and_nothing_lies_about(shared: Installation, folder: Path) -> None:
    executor = an_executor(shared)
    done = executor.submit(abs, -1)
    held = executor.asking(hold=True).submit(abs, -2)
    assert done.result(timeout=60) == 1
    executor.shutdown(cancel_futures=True)
    assert held.cancelled()
    with pytest.raises(RuntimeError, match="was shut down"):
        executor.submit(abs, -1)
    assert list(folder.rglob("*")) == [folder / ".tgpu"]


def test_what_is_wrong_is_told_at_once_and_leaves_nothing_behind(
    executor: tgpu.Executor, folder: Path
) -> None:
    with pytest.raises(TypeError, match="nodes is what an executor says itself"):
        executor.asking(nodes=2)
    with pytest.raises(tgpu.TgpuError, match="gpu_request"):
        executor.asking(gpu_request=-1).submit(abs, 1)
    with pytest.raises(TypeError, match="pickle"):
        executor.submit(len, threading.Lock())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="chunksize"):
        executor.map(abs, [1], chunksize=0)
    assert not list(folder.glob(".tgpu/*/*"))


def test_a_job_whose_calls_are_gone_says_so(
    executor: tgpu.Executor, shared: Installation, folder: Path
) -> None:
    held = executor.asking(hold=True)
    future, [of_many, _] = held.submit(abs, -1), held.submit_each(abs, [-1, -2])
    for calls in folder.glob(".tgpu/calls/*/calls"):
        calls.unlink()
    for one in (future, of_many):
        shared.tgpu("release", str(one.job_id))
        error = one.exception(timeout=60)
        assert isinstance(error, FileNotFoundError), error
