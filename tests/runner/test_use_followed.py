"""A real task's use, followed by one agent after the other."""

import asyncio
from collections.abc import Callable

import pytest

from tests.runner.conftest import Machine
from tgpu.agent.use import uses as uses_module
from tgpu.agent.use.uses import Uses
from tgpu.domain.lifecycle import Cause
from tgpu.protocol.use import UseFile, doubles, unpacked
from tgpu.runner.port import AttemptStarted


def column(file: UseFile, name: str) -> list[float]:
    return list(doubles(file.columns[name]))


def test_a_real_task_is_followed_through_the_crash_of_its_agent(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uses_module, "FIRST_LOOK_S", 0.05)
    attempt = machine.shell("python3 -c 'x = bytearray(60 << 20)\nwhile True: pass'", time_limit_s=60)
    began = machine.start_of(attempt)
    logs = machine.home / "logs"

    def followed(events: list[AttemptStarted], enough: Callable[[UseFile], bool], *, adopt: bool) -> None:
        uses = Uses(0.2)
        uses.open(logs, machine.runner)

        async def follow() -> None:
            now = machine.loop.time()
            if adopt:
                uses.adopted(events, now)
            else:
                uses.started(events[0], now)
            looking = machine.loop.create_task(uses.go_on())
            deadline = now + 40
            while (file := unpacked(uses.read(attempt))) is None or not enough(file):
                assert machine.loop.time() < deadline
                await asyncio.sleep(0.05)
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

        machine.loop.run_until_complete(follow())

    followed([began], lambda file: file.cpu_us >= 300_000, adopt=False)
    kept = unpacked((logs / attempt / "use").read_bytes())
    assert kept is not None
    machine.close()
    (again,) = machine.open()
    followed([again], lambda file: file.cpu_us >= kept.cpu_us + 200_000, adopt=True)
    later = unpacked((logs / attempt / "use").read_bytes())
    assert later is not None
    assert column(later, "cpu_milli")[0] == column(kept, "cpu_milli")[0]
    assert 60 <= max(column(later, "memory_mib_peak")) <= 120
    machine.runner.stop(attempt, Cause.CANCELLED, "", at_once=True)
    machine.end_of(attempt)
