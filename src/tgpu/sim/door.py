"""Where whoever stands outside asks: some server answers, sooner or later."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from tgpu.sim.store import SimStore

T = TypeVar("T")


class Door(Protocol):
    async def ask(self, question: Callable[[SimStore], Coroutine[Any, Any, T]]) -> T:
        """Asks again until somebody answers; a refusal is an answer and is raised."""
        ...

    def now_ms(self) -> int: ...
