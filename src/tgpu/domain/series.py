"""A job of many tasks that are alike and independent: an array, or a parallel job.

Tasks are numbered by their position, from 0 on; the index that people see is the one at that position.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from tgpu.domain.index_set import IndexSet

FIRST_BORN = 64
"""At most so many tasks have rows once the job is submitted; the others get theirs as they are needed."""


class Mode(StrEnum):
    ARRAY = "array"
    INDEXED = "indexed"
    """A parallel job whose tasks know their number."""
    COUNTED = "counted"
    """One of which so many must succeed, whichever."""
    WORK_QUEUE = "work-queue"
    """One whose tasks share out the work among themselves: it is done once one has succeeded and all have
    ended."""


@dataclass(frozen=True, slots=True)
class Series:
    indices: IndexSet
    at_once: int | None = None
    """At most so many of its tasks wait or run at any moment; None: as many as there is room for."""
    mode: Mode = Mode.ARRAY
    of: IndexSet | None = None
    """Of one that does some indices of another again: all that there were. Its tasks may reckon with them."""

    @property
    def first_born(self) -> int:
        """How many tasks have rows at once."""
        return min(self.indices.count, self.at_once or FIRST_BORN, FIRST_BORN)

    def only(self, indices: IndexSet) -> "Series":
        """The same, of some of its indices; its tasks find what they found before."""
        return replace(self, indices=indices, of=self.of or self.indices)

    def variables(self, position: int) -> dict[str, str]:
        """What the task at this position finds in its environment."""
        index, whole = str(self.indices.at(position)), self.of or self.indices
        return {
            "TGPU_ARRAY_INDEX": index,
            "TGPU_ARRAY_COUNT": str(whole.count),
            "TGPU_ARRAY_MIN": str(whole.lowest),
            "TGPU_ARRAY_MAX": str(whole.highest),
            "TGPU_ARRAY_STEP": str(whole.step),
        }
