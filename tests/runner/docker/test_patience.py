"""An engine that fails while it goes away, and one that fails because of what it is told."""

import pytest

from tests.runner.docker.conftest import ContainerNode
from tgpu.domain.lifecycle import Cause
from tgpu.runner.docker import patience
from tgpu.runner.docker.engine import Engine, EngineRefusedError
from tgpu.runner.port import CouldNotPrepareError

WORDS = "failed to update the store state of sandbox"


class Failing:
    """Refuses so many times to start a container, or for ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int | None, status: int = 500) -> None:
        self.asked, started = 0, Engine.start

        async def start(engine: Engine, name: str) -> None:
            self.asked += 1
            if times is None or self.asked <= times:
                raise EngineRefusedError(status, WORDS)
            await started(engine, name)

        monkeypatch.setattr(Engine, "start", start)
        monkeypatch.setattr(patience, "PAUSE_S", 0.01)


def test_one_that_fails_for_a_moment_is_asked_again(
    node: ContainerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Failing(monkeypatch, 3)
    end, printed = node.run("echo at last")
    assert (end.cause, end.exit_code, printed, failing.asked) == (Cause.EXITED, 0, "at last\n", 4)


def test_one_that_was_just_away_and_fails_is_not_the_tasks_doing(
    node: ContainerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    Failing(monkeypatch, None)
    monkeypatch.setattr(patience, "FAILING_S", 0.2)
    node.loop.call_soon(node.runner._keeper.lost)
    end, _ = node.run("true")
    assert (end.cause, end.detail) == (Cause.NODE_LOST, f"the container engine refused: {WORDS}")
    assert node.containers() == [], "what was made and did not start is gone"


@pytest.mark.parametrize("status", [400, 500])
def test_one_that_fails_steadily_does_so_because_of_what_it_is_told(
    node: ContainerNode, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    failing = Failing(monkeypatch, None, status)
    monkeypatch.setattr(patience, "FAILING_S", 0.2)
    end, _ = node.run("true")
    assert (end.cause, end.detail) == (Cause.COULD_NOT_START, f"the container engine refused: {WORDS}")
    assert (failing.asked == 1) is (status == 400)
    assert node.containers() == []


def test_one_that_is_stopped_meanwhile_is_not_tried_again(
    node: ContainerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Failing(monkeypatch, None)
    attempt = node.shell("true")
    node.until(lambda: failing.asked > 1)
    node.runner.stop(attempt, Cause.CANCELLED, "by ann")
    end = node.end_of(attempt)
    assert (end.cause, end.detail, node.containers()) == (Cause.CANCELLED, "by ann", [])


def test_one_that_fails_as_a_gang_gets_ready_after_it_was_away(
    node: ContainerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_engine: Engine, _name: str, _body: object) -> str:
        raise EngineRefusedError(500, WORDS)

    monkeypatch.setattr(Engine, "create", refused)
    monkeypatch.setattr(patience, "PAUSE_S", 0.01)
    monkeypatch.setattr(patience, "FAILING_S", 0.1)
    with pytest.raises(CouldNotPrepareError, match="refused") as told:
        node.wait_for(node.runner.prepare(node.spec("true")))
    assert told.value.cause is Cause.COULD_NOT_START
    node.loop.call_soon(node.runner._keeper.lost)
    with pytest.raises(CouldNotPrepareError, match="refused") as told:
        node.wait_for(node.runner.prepare(node.spec("true")))
    assert told.value.cause is Cause.NODE_LOST
