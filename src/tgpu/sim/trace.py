"""What happened in a run, in order: cheap to write, readable when somebody asks."""

import hashlib
from collections.abc import Callable, Iterator


class Trace:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lines: list[tuple[float, str, str]] = []

    def add(self, who: str, what: str) -> None:
        self._lines.append((self._clock(), who, what))

    def lines(self) -> Iterator[str]:
        for at, who, what in self._lines:
            yield f"{at:9.3f}  {who:<10} {what}"

    def digest(self) -> str:
        """Equal digests: the same run."""
        return hashlib.sha256("\n".join(self.lines()).encode()).hexdigest()
