"""Those who wait for one thing, in order: a sorted array of slots with a moving head."""

from collections.abc import Callable, Iterable

import numpy as np

from tgpu.core.kernel.shapes import Small

Key = tuple[int, ...]
_NONE: Small = np.empty(0, dtype=np.int32)


class Queue:
    """Taking the first of 100,000 moves nobody; joining at the end, neither."""

    __slots__ = ("_end", "_head", "_key_of", "_slots", "priorities")

    def __init__(
        self, key_of: Callable[[int], Key], slots: Small = _NONE, priorities: Iterable[int] = ()
    ) -> None:
        """`slots`: in their order."""
        self._key_of = key_of
        self._slots: Small = np.empty(max(16, 2 * len(slots)), dtype=np.int32)
        self._slots[: len(slots)] = slots
        self._head, self._end = 0, len(slots)
        self.priorities = set(priorities)
        """Those seen here: where there is only one, waiting changes no order."""

    def trial_copy(self, key_of: Callable[[int], Key]) -> "Queue":
        return Queue(key_of, self.slots, self.priorities)

    def __len__(self) -> int:
        return self._end - self._head

    @property
    def slots(self) -> Small:
        return self._slots[self._head : self._end]

    def add(self, slot: int) -> None:
        if self._end == len(self._slots):
            self._make_room()
        key = self._key_of(slot)
        at = self._end
        if at > self._head and key < self._key_of(self._slots.item(at - 1)):
            at = self._find(key)
            self._slots[at + 1 : self._end + 1] = self._slots[at : self._end].copy()
        self._slots[at] = slot
        self._end += 1

    def remove(self, slot: int) -> None:
        if self._slots[self._head] == slot:
            self._head += 1
            return
        at = self._find(self._key_of(slot))
        assert self._slots[at] == slot, "a queue is sorted by the keys of those in it"
        self._slots[at : self._end - 1] = self._slots[at + 1 : self._end].copy()
        self._end -= 1

    def before(self, slot: int) -> int:
        """How many are served before this one."""
        return self._find(self._key_of(slot)) - self._head

    def sort_again(self) -> None:
        """After the keys have changed."""
        self.slots[:] = sorted(self.slots.tolist(), key=self._key_of)

    def _find(self, key: Key) -> int:
        low, high = self._head, self._end
        while low < high:
            middle = (low + high) // 2
            if self._key_of(int(self._slots[middle])) < key:
                low = middle + 1
            else:
                high = middle
        return low

    def _make_room(self) -> None:
        kept = self.slots
        larger = np.empty(max(16, 2 * len(kept)), dtype=np.int32)
        larger[: len(kept)] = kept
        self._slots, self._head, self._end = larger, 0, len(kept)
