"""Allocation over time: averages per step, from where attempts began and ended.

The level of a step follows from all starts and ends before it; inside a step each start and end counts for
the part of the step that follows it. So a database has to return only sums per step, however many attempts
there were.
"""

from collections.abc import Sequence

from tgpu.domain.utilization import AllocationSteps

MILLIONTHS = 1_000_000
"""Moments inside a step are counted in these, so that sums over a million attempts stay below 2**63."""


class AllocationSum:
    def __init__(self, from_ms: int, until_ms: int, step_ms: int) -> None:
        self._from_ms, self._until_ms, self._step_ms = from_ms, until_ms, step_ms
        self._steps = -(-(until_ms - from_ms) // step_ms)
        self._changes = [[0, 0, 0] for _ in range(self._steps)]
        self._late = [[0, 0, 0] for _ in range(self._steps)]

    def add(self, sign: int, step: int, amounts: Sequence[int], late: Sequence[int]) -> None:
        """`amounts` (CPU, memory, GPUs) begin (1) or end (-1) in this step; `late`: each amount times the
        part of the step before that, in millionths."""
        if not 0 <= step < self._steps:
            return
        for at in range(3):
            self._changes[step][at] += sign * int(amounts[at])
            self._late[step][at] += sign * int(late[at])

    def add_attempt(self, started_ms: int, ended_ms: int, amounts: Sequence[int]) -> None:
        if ended_ms < self._from_ms or started_ms >= self._until_ms:
            return
        for sign, at_ms in ((1, max(started_ms, self._from_ms)), (-1, min(ended_ms, self._until_ms))):
            step, rest_ms = divmod(at_ms - self._from_ms, self._step_ms)
            part = rest_ms * MILLIONTHS // self._step_ms
            self.add(sign, step, amounts, [amount * part for amount in amounts])

    def averages(self) -> AllocationSteps:
        level, found = [0, 0, 0], []
        for step in range(self._steps):
            begin_ms = self._from_ms + step * self._step_ms
            whole = min(self._step_ms, self._until_ms - begin_ms) * MILLIONTHS // self._step_ms
            sums = [
                (before + change) * whole - late
                for before, change, late in zip(level, self._changes[step], self._late[step], strict=True)
            ]
            found.append([max(0, round(each / max(1, whole))) for each in sums])
            level = [before + change for before, change in zip(level, self._changes[step], strict=True)]
        cpu, memory, gpu = ([each[at] for each in found] for at in range(3))
        return AllocationSteps(self._from_ms, self._step_ms, cpu, memory, gpu)
