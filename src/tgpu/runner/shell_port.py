"""Being inside a running attempt: what is asked of a runner, and what it gives."""

from dataclasses import dataclass
from typing import Protocol

STDOUT, STDERR = 1, 2
CHUNK = 32 * 1024
"""The most that is read at once."""


@dataclass(frozen=True, slots=True)
class ShellOrder:
    attempt: str
    command: tuple[str, ...]
    """Empty: the attempt's own terminal."""
    tty: bool = False
    """Whether the program gets a terminal, of this size."""
    rows: int = 24
    cols: int = 80
    term: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    stream: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing follows. `exit_code` is 128+n if signal n ended the program, None if there was none."""

    exit_code: int | None = None
    detail: str = ""


class ShellRefusedError(Exception):
    """It cannot be opened; the sentence says why, and what to do."""


class Shell(Protocol):
    """Whoever stops reading stops the program, not the node."""

    async def read(self) -> Output | Over:
        """Waits for the next that there is."""
        ...

    async def write(self, data: bytes) -> None:
        """Returns when it was taken, or when nobody will take it any more; empty: nothing will follow."""
        ...

    def resize(self, rows: int, cols: int) -> None: ...

    def close(self) -> None:
        """Its user is gone: a program gets SIGHUP, an attempt's own terminal is let alone."""
        ...
