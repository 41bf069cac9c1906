"""Whom quotas refuse in one plan, what is kept for them, and whom they refused in the last one."""

import numpy as np

from tgpu.core.columns.table import Table
from tgpu.core.columns.verdict import NOBODY, Refusals
from tgpu.core.kernel.shapes import Codes, Flags, Ints, Small
from tgpu.domain.ids import TaskId


class Refused:
    """The last columns of `Stream`, for all classes."""

    def __init__(self, table: Table, kinds: int) -> None:
        self._table, self._kinds = table, kinds
        tenants = len(table.tenants.row_of)
        self.asks = table.waiting.any_held or table.quotas.limits_begin
        """Whether any quota can refuse anybody."""
        count = tenants * kinds if self.asks else 0
        self.promised: Ints = np.zeros((tenants, table.quotas.width + 2), dtype=np.int64)
        self.codes: Codes = np.zeros(count, dtype=np.int8)
        self.before: Codes = np.zeros(count, dtype=np.int8)
        self.line: Small = np.zeros(len(table.waiting.tasks) if self.asks else 0, dtype=np.int32)
        self.filled: Ints = np.zeros(1, dtype=np.int64)
        self._recalled: Refusals = NOBODY

    def recall(self) -> None:
        """Who was refused in the last plan is asked again, whatever else was found about its kind."""
        if self.asks:
            self._recalled = self._table.verdict.refused
            self.before[self._recalled[:, 0] * self._kinds + self._recalled[:, 1]] = 1

    def anybody_recalled(self, rank: int) -> bool:
        """Whether somebody of this class may be among those."""
        if not len(self._recalled):
            return False
        count: Flags = self._table.waiting.count[rank] > 0
        kinds = self._recalled[:, 1]
        return bool(count[kinds[kinds < len(count)]].any())

    def note(self, tenant: int, kind: int, lacks: int) -> None:
        at = tenant * self._kinds + kind
        self.codes[at] = max(int(self.codes[at]), lacks)

    def join_line(self, slot: int) -> None:
        self.line[self.filled[0]] = slot
        self.filled[0] += 1

    def found(self, *, cut_short: bool) -> Refusals:
        """For the next plan; with those of the last one, if this one did not come to all of them."""
        if not self.asks:
            return NOBODY
        codes = self.codes | self.before if cut_short else self.codes
        found = np.flatnonzero(codes)
        return np.stack(np.divmod(found, max(1, self._kinds)), axis=1)

    def in_line(self) -> tuple[TaskId, ...]:
        task = self._table.waiting.task
        return tuple(task(slot).task_id for slot in self.line[: self.filled[0]].tolist())
