"""A source of GPUs that never makes its caller wait for long: a driver may hang, and the node must go on."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Generic, TypeVar

from tgpu.agent.inventory.gpus import NO_PROCESSES, GpuProcesses, Gpus, GpuUse, Reported, Sight

T = TypeVar("T")
PATIENCE_S = 3.0
SILENT = "its driver does not answer"


class PatientGpus:
    """The first look takes as long as it takes: before it, nothing is known."""

    def __init__(self, gpus: Gpus, patience_s: float = PATIENCE_S) -> None:
        self._gpus = gpus
        self._looks: _Asked[tuple[Sight, ...]] = _Asked(patience_s)
        self._uses: _Asked[list[GpuUse | None]] = _Asked(patience_s)
        self._told: _Asked[list[GpuProcesses]] = _Asked(patience_s)
        self._last = gpus.look()

    def look(self) -> tuple[Sight, ...]:
        seen = self._looks.answer(self._gpus.look)
        if seen is None:
            return tuple(replace(sight, trouble=SILENT, processes=()) for sight in self._last)
        self._last = seen
        return seen

    def use(self, indices: Sequence[int]) -> list[GpuUse | None]:
        used = self._uses.answer(lambda: self._gpus.use(indices))
        return [None for _ in indices] if used is None else used

    def processes(self, indices: Sequence[int]) -> list[GpuProcesses]:
        told = self._told.answer(lambda: self._gpus.processes(indices))
        return [NO_PROCESSES for _ in indices] if told is None else told

    def reported(self) -> list[Reported]:
        return self._gpus.reported()


class _Asked(Generic[T]):
    """One question at a time, each in a thread of its own for which nobody waits, not even at the end."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._open: Future[T] | None = None

    def answer(self, question: Callable[[], T]) -> T | None:
        """None if it takes too long; it is not asked again before it has answered."""
        if self._open is not None and not self._open.done():
            return None
        answer: Future[T] = Future()
        self._open = answer

        def ask() -> None:
            try:
                answer.set_result(question())
            except BaseException as error:  # noqa: BLE001  it belongs to whoever waits for the answer
                answer.set_exception(error)

        threading.Thread(target=ask, name="gpus", daemon=True).start()
        try:
            return answer.result(self._patience_s)
        except TimeoutError:
            return None
