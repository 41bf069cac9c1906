"""The waiting tasks of one kind, in order."""

from bisect import bisect_left, insort

from tgpu.core.ordering import Key
from tgpu.domain.ids import TaskId


class Line:
    """A sorted list with a moving head: taking the first of 100,000 does not shift the others."""

    __slots__ = ("_head", "_keys")

    _COMPACT_AT = 512

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self._head = 0

    def __len__(self) -> int:
        return len(self._keys) - self._head

    def add(self, key: Key) -> None:
        if not self._keys or key > self._keys[-1]:
            self._keys.append(key)
        else:
            insort(self._keys, key, lo=self._head)

    def remove(self, key: Key) -> None:
        at = bisect_left(self._keys, key, lo=self._head)
        if at != self._head:
            del self._keys[at]
            return
        self._head += 1
        if self._head >= self._COMPACT_AT and self._head * 2 > len(self._keys):
            del self._keys[: self._head]
            self._head = 0

    def at(self, position: int) -> Key | None:
        index = self._head + position
        return self._keys[index] if index < len(self._keys) else None

    def before(self, key: Key) -> int:
        """How many are served before this key."""
        return bisect_left(self._keys, key, lo=self._head) - self._head


def task_of(key: Key) -> TaskId:
    return TaskId(key[3], key[4])
