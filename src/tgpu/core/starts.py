"""What a plan starts: columns, which become objects when somebody looks."""

from collections.abc import Iterator, Sequence
from typing import overload

from tgpu.core.backfill import indices_of
from tgpu.core.paper import Paper
from tgpu.core.plan import Start
from tgpu.domain.ids import TaskId
from tgpu.domain.quota import Admission

_ADMISSION = (Admission.CHARGED, Admission.NOW, Admission.BURST)


class Starts(Sequence[Start]):
    """In the order decided; what they are about stays as it was, whatever becomes of the picture."""

    def __init__(self, paper: Paper) -> None:
        count = int(paper.started.filled[0])
        waiting, slots = paper.table.waiting, paper.started.slot[:count]
        self._started = paper.started
        self._jobs, self._tasks = waiting.job[slots], waiting.task_index[slots]
        self._nodes = paper.table.nodes.nodes.copy()

    def __len__(self) -> int:
        return len(self._jobs)

    @overload
    def __getitem__(self, at: int) -> Start: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Start]: ...

    def __getitem__(self, at: int | slice) -> Start | Sequence[Start]:
        if isinstance(at, slice):
            return [self._start(position) for position in range(*at.indices(len(self)))]
        return self._start(range(len(self))[at])

    def __iter__(self) -> Iterator[Start]:
        return map(self._start, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # like a list

    def __repr__(self) -> str:
        return repr(list(self))

    def _start(self, at: int) -> Start:
        node = self._nodes[self._started.node[at]]
        return Start(
            TaskId(int(self._jobs[at]), int(self._tasks[at])),
            node.node_id,
            indices_of(node, int(self._started.devices[at])),
            _ADMISSION[self._started.held[at]],
        )
