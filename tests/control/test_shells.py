"""The leader's switchboard: whose words reach whom, and when a shell is over without an end of its own."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tgpu.control import shells
from tgpu.control.shells import MOST_KEPT, ShellRefusedError, Switchboard
from tgpu.protocol.messages import FromServer
from tgpu.protocol.shells import (
    CHUNK,
    CloseShell,
    OpenShell,
    ShellInput,
    ShellOpened,
    ShellOutput,
    ShellOver,
)

ORDER = OpenShell(shell=0, attempt="1.0.1", command=("sh",))


class Agent:
    """An agent's stream, and what it answers to a call for a shell."""

    def __init__(
        self, board: Switchboard, answer: Callable[[int], Any] = lambda number: ShellOpened(shell=number)
    ) -> None:
        self.board, self.answer = board, answer
        self.told: list[FromServer] = []

    def send(self, message: FromServer) -> None:
        self.told.append(message)
        if isinstance(message, OpenShell) and (said := self.answer(message.shell)) is not None:
            self.board.heard(self, said)


def story(work: Callable[[Switchboard], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work(Switchboard()))


def test_what_is_said_goes_to_its_shell_and_back_in_turn() -> None:
    async def work(board: Switchboard) -> None:
        agent = Agent(board)
        number = await board.open(agent, ORDER)
        board.say(ShellInput(shell=number, data=b"x"))
        assert agent.told[1:] == [ShellInput(shell=number, data=b"x")]
        said = [ShellOutput(shell=number, data=b"a"), ShellOutput(shell=number, data=b"b")]
        for message in said:
            board.heard(agent, message)
        assert await board.hear(number, 1) == said
        assert await board.hear(number, 0.01) == []
        waiting = asyncio.create_task(board.hear(number, 5))
        await asyncio.sleep(0)
        board.heard(agent, ShellOver(shell=number, exit_code=3))
        assert await waiting == [ShellOver(shell=number, exit_code=3)]
        (over,) = await board.hear(number, 0.01)
        assert isinstance(over, ShellOver)
        assert over.lost, "it is not known any more"

    story(work)


def test_a_number_is_not_given_twice_and_opens_nothing_of_another_agents() -> None:
    async def work(board: Switchboard) -> None:
        one, other = Agent(board), Agent(board)
        first, second = await board.open(one, ORDER), await board.open(other, ORDER)
        assert first != second
        assert min(first, second) > 10, "nobody can guess it"
        board.heard(other, ShellOutput(shell=first, data=b"forged"))
        assert await board.hear(first, 0.01) == []

    story(work)


def test_a_refusal_is_passed_on_with_its_words() -> None:
    async def work(board: Switchboard) -> None:
        agent = Agent(board, lambda number: ShellOver(shell=number, detail="too many", refused=True))
        with pytest.raises(ShellRefusedError, match="too many"):
            await board.open(agent, ORDER)

    story(work)


def test_an_agent_that_does_not_answer_or_goes_away_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shells, "OPENING_S", 0.05)

    async def work(board: Switchboard) -> None:
        silent = Agent(board, lambda _: None)
        with pytest.raises(ShellRefusedError, match="did not answer"):
            await board.open(silent, ORDER)
        assert isinstance(silent.told[-1], CloseShell)
        opening = asyncio.create_task(board.open(silent, ORDER))
        await asyncio.sleep(0)
        board.left(silent)
        with pytest.raises(ShellRefusedError, match="broke"):
            await opening

    story(work)


def test_a_shell_is_lost_with_its_agents_stream() -> None:
    async def work(board: Switchboard) -> None:
        agent, other = Agent(board), Agent(board)
        number, kept = await board.open(agent, ORDER), await board.open(other, ORDER)
        board.left(agent)
        (over,) = await board.hear(number, 1)
        assert isinstance(over, ShellOver)
        assert over.lost
        assert await board.hear(kept, 0.01) == []

    story(work)


def test_a_shell_that_no_server_asks_about_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shells, "UNASKED_S", 0.05)

    async def work(board: Switchboard) -> None:
        agent = Agent(board)
        number = await board.open(agent, ORDER)
        await board.hear(number, 0.04)
        await asyncio.sleep(0.2)
        assert agent.told[-1] == CloseShell(shell=number)

    story(work)


def test_an_agent_that_sends_without_end_fills_nobodys_memory() -> None:
    async def work(board: Switchboard) -> None:
        agent = Agent(board)
        number = await board.open(agent, ORDER)
        for _ in range(MOST_KEPT // CHUNK + 2):
            board.heard(agent, ShellOutput(shell=number, data=bytes(CHUNK)))
        assert agent.told[-1] == CloseShell(shell=number)
        heard = await board.hear(number, 1)
        assert isinstance(heard[0], ShellOver)

    story(work)
