"""Shells on a node, seen from its stream: windows, bounds, and ends."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tgpu.agent.shells import MOST, MOST_OF_USER, Shells
from tgpu.protocol.messages import FromAgent
from tgpu.protocol.shells import (
    CHUNK,
    WINDOW,
    CloseShell,
    OpenShell,
    ResizeShell,
    ShellInput,
    ShellOpened,
    ShellOutput,
    ShellOver,
    Taken,
)
from tgpu.runner.shell_port import STDOUT, Output, Over, Shell, ShellOrder, ShellRefusedError


class FakeShell:
    """Prints without end, or what it is given."""

    def __init__(self) -> None:
        self.prints: asyncio.Queue[Output | Over] = asyncio.Queue()
        self.endless = False
        self.typed: list[bytes] = []
        self.takes = asyncio.Event()
        self.takes.set()
        self.size = (0, 0)
        self.closed = False
        self.breaks = False

    async def read(self) -> Output | Over:
        if self.breaks:
            raise RuntimeError("a bug")
        if self.endless:
            await asyncio.sleep(0)
            return Output(STDOUT, bytes(CHUNK))
        return await self.prints.get()

    async def write(self, data: bytes) -> None:
        await self.takes.wait()
        self.typed.append(data)

    def resize(self, rows: int, cols: int) -> None:
        self.size = (rows, cols)

    def close(self) -> None:
        self.closed = True


class FakeRunner:
    def __init__(self) -> None:
        self.shell = FakeShell()
        self.refusal = ""

    async def open_shell(self, order: ShellOrder) -> Shell:
        if self.refusal:
            raise ShellRefusedError(f"{order.attempt}: {self.refusal}")
        return self.shell


class Node:
    def __init__(self) -> None:
        self.said: list[FromAgent] = []
        self.shells = Shells(self.said.append)
        self.runner = FakeRunner()

    async def open(self, number: int = 1, user: str = "") -> FakeShell:
        order = OpenShell(shell=number, attempt="1.0.1", command=("sh",), user=user)
        self.shells.open(order, self.runner)  # type: ignore[arg-type]
        await self.settle()
        return self.runner.shell

    async def settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)


def story(work: Callable[[Node], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        node = Node()
        await work(node)
        node.shells.hang_up()

    asyncio.run(run())


def test_what_is_typed_and_printed_passes_and_is_counted() -> None:
    async def work(node: Node) -> None:
        shell = await node.open()
        node.shells.heard(ShellInput(shell=1, data=b"abc"))
        node.shells.heard(ResizeShell(shell=1, rows=5, cols=6))
        await node.settle()
        shell.prints.put_nowait(Output(2, b"oh"))
        shell.prints.put_nowait(Over(4, "why"))
        await node.settle()
        assert (shell.typed, shell.size, shell.closed) == ([b"abc"], (5, 6), True)
        assert node.said == [
            ShellOpened(shell=1),
            Taken(shell=1, count=3),
            ShellOutput(shell=1, stream=2, data=b"oh"),
            ShellOver(shell=1, exit_code=4, detail="why"),
        ]

    story(work)


def test_no_more_is_read_than_its_user_has_room_for() -> None:
    async def work(node: Node) -> None:
        node.runner.shell.endless = True
        await node.open()
        assert sum(len(said.data) for said in node.said if isinstance(said, ShellOutput)) == WINDOW
        node.shells.heard(Taken(shell=1, count=CHUNK))
        await node.settle()
        assert sum(len(said.data) for said in node.said if isinstance(said, ShellOutput)) == WINDOW + CHUNK

    story(work)


def test_who_types_beyond_the_window_is_put_out() -> None:
    async def work(node: Node) -> None:
        shell = await node.open()
        shell.takes.clear()
        for _ in range(WINDOW // CHUNK):
            node.shells.heard(ShellInput(shell=1, data=bytes(CHUNK)))
        await node.settle()
        assert not shell.closed
        node.shells.heard(ShellInput(shell=1, data=b"x"))
        await node.settle()
        assert shell.closed

    story(work)


def test_only_so_many_are_open_at_once() -> None:
    async def work(node: Node) -> None:
        for number in range(MOST + 1):
            await node.open(number)
        refused = node.said[-1]
        assert isinstance(refused, ShellOver)
        assert (refused.shell, refused.refused) == (MOST, True)
        assert refused.detail.startswith(f"{MOST} shells are open on its node")
        node.shells.heard(CloseShell(shell=0))
        await node.open(MOST + 1)
        assert node.said[-1] == ShellOpened(shell=MOST + 1)

    story(work)


def test_shells_of_one_user_leave_room_for_those_of_others() -> None:
    async def work(node: Node) -> None:
        for number in range(MOST_OF_USER + 1):
            await node.open(number, "eve")
        refused = node.said[-1]
        assert isinstance(refused, ShellOver)
        assert (refused.shell, refused.refused) == (MOST_OF_USER, True)
        assert refused.detail.startswith(f"eve has {MOST_OF_USER} shells open on its node")
        await node.open(MOST, "bob")
        assert node.said[-1] == ShellOpened(shell=MOST)

    story(work)


def test_a_refusal_and_a_bug_end_one_shell_and_nothing_else() -> None:
    async def work(node: Node) -> None:
        node.runner.refusal = "it has just ended"
        await node.open()
        assert node.said == [ShellOver(shell=1, detail="1.0.1: it has just ended", refused=True)]
        node.runner.refusal, node.runner.shell.breaks = "", True
        await node.open(2)
        over = node.said[-1]
        assert isinstance(over, ShellOver)
        assert "failed at it: RuntimeError" in over.detail
        assert node.runner.shell.closed

    story(work)


def test_all_are_hung_up_with_the_stream() -> None:
    async def work(node: Node) -> None:
        shell = await node.open()
        node.shells.hang_up()
        await node.settle()
        assert shell.closed
        node.shells.heard(ShellInput(shell=1, data=b"late"))
        assert shell.typed == []

    story(work)
