"""Out-of-memory kills that the engine reports late or never."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.runner.docker.conftest import HUNGRY_CHILDREN, ContainerNode
from tgpu.domain.lifecycle import Cause
from tgpu.runner.docker import memory_kills
from tgpu.runner.docker.engine import Engine
from tgpu.runner.limits import Limits

MINE, OTHER = "a1" * 32, "b2" * 32
LINE = (
    "4,1234,619351702,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={0},mems_allowed=0,"
    "oom_memcg=/docker/{0},task_memcg=/docker/{0},task=tail,pid=12993,uid=0\n"
)


class ScriptedEngine:
    """Says of its container whether a process in it was killed: first this, then that."""

    def __init__(self, *killed: bool, code: int = 3, running: bool = False) -> None:
        self.asked = 0
        self.is_local = True
        self._killed, self._code, self._running = killed, code, running

    async def inspect(self, _name: str) -> dict[str, Any]:
        killed = self._killed[min(self.asked, len(self._killed) - 1)]
        self.asked += 1
        state = {"Running": self._running, "ExitCode": self._code, "OOMKilled": killed}
        return {"Id": MINE, "State": state}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_kills, "LATE_S", 0.01)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kmsg"
    monkeypatch.setattr(memory_kills, "KERNEL_LOG", path)
    return path


def lacked(engine: ScriptedEngine, *, is_limited: bool = True) -> bool:
    state = asyncio.run(memory_kills.state_of(engine, "one", is_limited=is_limited))  # type: ignore[arg-type]
    assert state is not None
    return state.lacked_memory


def test_kill_that_only_the_kernel_reports_is_found(log: Path) -> None:
    log.write_text(LINE.format(OTHER) + LINE.format(MINE))
    assert lacked(ScriptedEngine(False))
    assert lacked(ScriptedEngine(False, code=0))


def test_kill_in_another_container_is_not_this_ones(log: Path) -> None:
    log.write_text(LINE.format(OTHER) + f"4,1,2,-;something about {MINE}\n")
    engine = ScriptedEngine(False)
    assert not lacked(engine)
    assert engine.asked == 1, "the kernel's log answers without a wait"


def test_late_event_is_awaited_where_the_kernel_log_is_unreadable(log: Path) -> None:
    assert not log.exists()
    assert lacked(ScriptedEngine(False, False, True))


@pytest.mark.parametrize(("killed", "looks"), [((False,), 11), ((True,), 1)])
def test_wait_for_a_late_event_is_bounded(log: Path, killed: Sequence[bool], looks: int) -> None:
    assert not log.exists()
    engine = ScriptedEngine(*killed)
    assert lacked(engine) is killed[-1]
    assert engine.asked == looks


def test_successful_or_unlimited_container_is_not_delayed(log: Path) -> None:
    assert not log.exists()
    for engine, is_limited in ((ScriptedEngine(False, code=0), True), (ScriptedEngine(False), False)):
        assert not lacked(engine, is_limited=is_limited)
        assert engine.asked == 1


def test_kill_is_reported_although_the_engine_lost_its_event(
    node: ContainerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Engine.inspect

    async def forgetful(engine: Engine, name: str) -> Any:
        found = await asked(engine, name)
        return found and {**found, "State": {**found["State"], "OOMKilled": False}}

    monkeypatch.setattr(Engine, "inspect", forgetful)
    end, _ = node.run(f"{HUNGRY_CHILDREN}; exit 3", limits=Limits(memory_limit_mib=32))
    assert (end.cause, end.exit_code) == (Cause.EXITED, 3)
    assert end.detail == "out of memory, a process in its container was killed: its limit is 32 MiB"
