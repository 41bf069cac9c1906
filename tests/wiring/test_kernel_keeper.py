"""The compiled kernel is loaded before it is needed, also by followers, and compiled in another process."""

import asyncio
import sys
from pathlib import Path

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
    fill_cache_with(monkeypatch, "print('compiling')")


def fill_cache_with(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(kernel_keeper, "_FILL_CACHE", (sys.executable, "-c", code))


def kept(choice: str, nodes: Nodes) -> KernelKeeper:
    """Of a server that follows, when it has nothing more to do."""
    keeper = KernelKeeper(choice, lambda: None, nodes.count)
    asyncio.run(asyncio.wait_for(keeper.keep(), 10))
    return keeper


def test_follower_loads_it_once_the_store_has_enough_nodes() -> None:
    nodes = Nodes(0, WORTH_IT_FROM_NODES - 1, None, WORTH_IT_FROM_NODES)
    assert kept("auto", nodes).engine is LOADED
    assert nodes.left == []


def test_choice_compiled_does_not_count_nodes() -> None:
    assert kept("compiled", Nodes()).engine is LOADED


def test_choice_plain_loads_nothing() -> None:
    assert kept("plain", Nodes()).engine is PLAIN


@pytest.mark.parametrize("command", [(sys.executable, "-c", "raise SystemExit(1)"), ("/nonexistent/python",)])
def test_plain_kernel_stays_when_compiling_fails(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_keeper, "_FILL_CACHE", command)
    assert kept("compiled", Nodes()).engine is PLAIN


def test_cache_is_filled_before_it_is_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    marker = tmp_path / "filled"
    fill_cache_with(monkeypatch, f"open({str(marker)!r}, 'w').close()")
    monkeypatch.setattr(kernel_cache, "load", lambda _environ: LOADED if marker.exists() else PLAIN)
    assert kept("compiled", Nodes()).engine is LOADED
