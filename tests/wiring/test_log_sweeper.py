"""Old output goes, and a disk in trouble does not stop that from being tried again."""

import asyncio
from typing import cast

import pytest

from tgpu.runner.process import ProcessRunner
from tgpu.wiring import log_sweeper


class Runner:
    def __init__(self) -> None:
        self.asked: list[float] = []
        self.enough = asyncio.Event()

    async def sweep_logs(self, older_than_days: float) -> int:
        self.asked.append(older_than_days)
        if len(self.asked) == 3:
            self.enough.set()
        if len(self.asked) == 1:
            raise OSError("the disk is in trouble")
        return 3


def test_it_sweeps_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_sweeper, "EVERY_S", 0.01)
    runner = Runner()

    async def story() -> None:
        sweeping = asyncio.create_task(log_sweeper.sweep_for_ever([cast("ProcessRunner", runner)], 30.0))
        await runner.enough.wait()
        sweeping.cancel()

    asyncio.run(asyncio.wait_for(story(), 10))
    assert runner.asked[:3] == [30.0] * 3
