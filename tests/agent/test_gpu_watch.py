"""A program that fails with its GPU did not fail by itself."""

from collections.abc import Sequence

import pytest

from tgpu.agent.gpu_watch import GpuWatch
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.domain.node import Capacity, Device
from tgpu.protocol.messages import Launch, NodeUse
from tgpu.runner.port import AttemptEnded

TWO = Capacity(1000, 1000, 1000, tuple(Device(index, f"GPU-{index}", "A100", 1000) for index in (0, 1)))


def failure(indices: Sequence[int]) -> str | None:
    return "GPU 1: Xid 79: it has fallen off the bus" if 1 in indices else None


def launch(attempt: str, *devices: int) -> Launch:
    return Launch(
        attempt=attempt,
        job_name="",
        user="ann",
        command=["true"],
        cwd="/",
        env={},
        devices=devices,
        cpu_milli=1000,
        memory_mib=0,
        gpu_milli=1000 * len(devices),
        time_limit_s=None,
        grace_s=5,
    )


def ended(how: Exit, *devices: int) -> Exit:
    watch = GpuWatch(failure)
    watch.launched(launch("1.0.1", *devices), 0.0)
    return watch.ended(AttemptEnded("1.0.1", how), 10.0).exit


@pytest.mark.parametrize(
    ("how", "detail"),
    [
        (Exit(Cause.EXITED, exit_code=1), "it ended with exit code 1"),
        (Exit(Cause.SIGNALLED, signal=6), "it ended by signal 6"),
        (Exit(Cause.EXITED, exit_code=1, detail="more"), "it ended with exit code 1; more"),
    ],
)
def test_one_that_fails_just_as_its_gpu_does_lost_it(how: Exit, detail: str) -> None:
    told = ended(how, 0, 1)
    assert told.cause is Cause.DEVICE_LOST
    assert told.detail == f"GPU 1: Xid 79: it has fallen off the bus; {detail}"
    assert (told.exit_code, told.signal) == (how.exit_code, how.signal)


@pytest.mark.parametrize(
    ("how", "devices"),
    [
        (Exit(Cause.EXITED, exit_code=0), (1,)),
        (Exit(Cause.EXITED, exit_code=1), (0,)),
        (Exit(Cause.EXITED, exit_code=1), ()),
        (Exit(Cause.CANCELLED, signal=15), (1,)),
        (Exit(Cause.OUT_OF_MEMORY, signal=9), (1,)),
    ],
)
def test_everything_else_ended_as_it_did(how: Exit, devices: tuple[int, ...]) -> None:
    assert ended(how, *devices) == how


def test_what_an_attempt_kept_busy_is_measured_all_the_same() -> None:
    watch = GpuWatch(failure)
    watch.launched(launch("1.0.1", 0), 0.0)
    watch.seen(TWO, NodeUse(gpu_percent=(50, None)), 10.0)
    assert watch.ended(AttemptEnded("1.0.1", Exit(Cause.EXITED, exit_code=0)), 20.0).exit.gpu_ms == 10_000
