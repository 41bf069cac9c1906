"""Compiled code is there before it is needed: a server that follows loads it too."""

import asyncio

import pytest

from tgpu.core.engine import PLAIN, plain_with
from tgpu.store.port import StoreUnavailableError
from tgpu.wiring import kernel_cache, kernel_keeper
from tgpu.wiring.kernel_keeper import WORTH_IT_FROM_NODES, KernelKeeper

LOADED = plain_with({})


class Nodes:
    """How many the store knows, one answer after the other; None: it is away."""

    def __init__(self, *answers: int | None) -> None:
        self.left = list(answers)

    async def count(self) -> int:
        answer = self.left.pop(0)
        if answer is None:
            raise StoreUnavailableError("away")
        return answer


@pytest.fixture(autouse=True)
def in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_keeper, "ASK_EVERY_S", 0)
    monkeypatch.setattr(kernel_cache, "load", lambda _environ: LOADED)


def kept(choice: str, nodes: Nodes) -> KernelKeeper:
    """Of a server that follows, when it has nothing more to do."""
    keeper = KernelKeeper(choice, lambda: None, nodes.count)
    asyncio.run(asyncio.wait_for(keeper.keep(), 10))
    return keeper


def test_a_follower_loads_it_once_the_store_knows_nodes_enough() -> None:
    nodes = Nodes(0, WORTH_IT_FROM_NODES - 1, None, WORTH_IT_FROM_NODES)
    assert kept("auto", nodes).engine is LOADED
    assert nodes.left == []


def test_who_wants_it_in_any_case_need_not_ask() -> None:
    assert kept("compiled", Nodes()).engine is LOADED


def test_who_does_without_it_does_not_load_it() -> None:
    assert kept("plain", Nodes()).engine is PLAIN
