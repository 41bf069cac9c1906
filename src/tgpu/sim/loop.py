"""An event loop in virtual time: it never waits, and chance (a seed) decides who of the ready goes first."""

import asyncio
import contextlib
import heapq
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, TypeVar, TypeVarTuple

MOST_STEPS = 2_000_000
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class StuckError(Exception):
    """The run cannot come to an end: nothing is left to happen, or it goes round in circles."""


class Incarnation:
    """One life of one process: from its start to its crash. What it scheduled dies with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.fuse: int | None = None
        """How many more steps it takes before `on_fuse` is called: a crash at any await."""
        self.on_fuse: Callable[[], None] = _nothing
        self.parked: list[tuple[asyncio.Handle, Incarnation | None]] = []
        self.context = copy_context()
        self.context.run(INCARNATION.set, self)


def _nothing() -> None:
    pass


INCARNATION: ContextVar[Incarnation | None] = ContextVar("incarnation", default=None)


class SimLoop(asyncio.BaseEventLoop):
    """Every handle belongs to the incarnation that its context names; those of a dead one are never run."""

    def __init__(self, random: Random, begins_s: float = 0.0) -> None:
        super().__init__()
        self.steps = 0
        self.tasks: list[asyncio.Task[Any]] = []
        """All that were ever made: what is collected as garbage would run its `finally`."""
        self._random = random
        self._now = begins_s
        self._number = 0
        self._soon: list[tuple[asyncio.Handle, Incarnation | None]] = []
        self._later: list[tuple[float, int, asyncio.Handle, Incarnation | None]] = []
        self._kept: list[asyncio.Handle] = []
        self._outside = Context()
        self._disposing = False
        self._stopping = False

    def time(self) -> float:
        return self._now

    # What asyncio asks of a loop

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._soon.append((handle, _owner(context)))
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._number += 1
        heapq.heappush(self._later, (when, self._number, handle, _owner(context)))
        return handle

    def create_task(  # type: ignore[override]  # later Pythons add options that nobody uses here
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        task = super().create_task(coro, name=name, context=context)
        self.tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Nothing is printed: a task that failed is found among `tasks`, a callback that failed is raised."""
        error = context.get("exception")
        if error is not None and "handle" in context and not self._disposing:
            raise error

    # For the world around the hosts

    def outside(self, delay: float, callback: Callable[[*Ts], object], *args: *Ts) -> asyncio.TimerHandle:
        """Belongs to no host, whoever asks for it."""
        return self.call_at(self._now + delay, callback, *args, context=self._outside)

    def resume(self, incarnation: Incarnation) -> None:
        incarnation.paused = False
        self._soon += incarnation.parked
        incarnation.parked = []

    # The heart

    def _run_once(self) -> None:
        if not self._soon and not self._stopping:
            self._advance()
        if not self._soon:
            return
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise StuckError(f"after {MOST_STEPS} steps it is only second {self._now:.1f}")
        chosen = int(self._random.random() * len(self._soon))
        self._soon[chosen], self._soon[-1] = self._soon[-1], self._soon[chosen]
        self._run(*self._soon.pop())

    def _advance(self) -> None:
        """Time jumps to the next timer; all that are due then are ready together."""
        while self._later and self._later[0][2].cancelled():
            heapq.heappop(self._later)
        if not self._later:
            raise StuckError("nothing is left to happen")
        self._now = max(self._now, self._later[0][0])
        while self._later and self._later[0][0] <= self._now:
            _, _, handle, owner = heapq.heappop(self._later)
            self._soon.append((handle, owner))

    def _run(self, handle: asyncio.Handle, owner: Incarnation | None) -> None:
        if handle.cancelled():
            return
        if owner is not None:
            if not owner.alive:
                self._kept.append(handle)
                return
            if owner.paused:
                owner.parked.append((handle, owner))
                return
        handle._run()  # noqa: SLF001  the one thing that a loop does with a handle
        if owner is not None and owner.fuse is not None:
            owner.fuse -= 1
            if owner.fuse <= 0:
                owner.fuse = None
                owner.on_fuse()

    def dispose(self) -> None:
        """After the run: unfinished coroutines are closed where nothing hears their last words."""
        self._disposing = True
        for task in self.tasks:
            if not task.done():
                _close(task)
        self.tasks.clear()
        self._kept.clear()
        self._soon.clear()
        self._later.clear()
        self.close()


def _owner(context: Context | None) -> Incarnation | None:
    return INCARNATION.get() if context is None else context.get(INCARNATION)


def _close(task: asyncio.Task[Any]) -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  asyncio would complain of it
    coroutine = task.get_coro()
    assert coroutine is not None
    for _ in range(3):  # a `finally` that awaits survives the first time
        with contextlib.suppress(BaseException):
            coroutine.close()
            return
