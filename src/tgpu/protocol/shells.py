"""What is said about a shell: somebody inside a running attempt, from their terminal to its node and back.

A shell has a number, given by the server that leads. Each side may have `WINDOW` bytes under way that the
other's end has not taken yet, and no more: so whoever prints without end waits for the one who reads, and
nobody between them keeps it all. A shell lives on one stream of its agent: if that breaks, it is over.
"""

import msgspec

WINDOW = 256 * 1024
CHUNK = 32 * 1024
"""The most data in one message: heartbeats travel on the same stream."""
MOST_WORDS = 128 * 1024
STDOUT, STDERR = 1, 2


class OpenShell(msgspec.Struct, frozen=True, kw_only=True, tag="open-shell"):
    """Run a program inside an attempt; or, without a command, look at the attempt's own terminal."""

    shell: int
    attempt: str
    command: tuple[str, ...] = ()
    tty: bool = False
    """Whether the program gets a terminal, of this size."""
    rows: int = 24
    cols: int = 80
    term: str = ""
    user: str = ""
    """Who opens it; empty: an older server does not say."""


class ShellInput(msgspec.Struct, frozen=True, kw_only=True, tag="shell-input"):
    shell: int
    data: bytes
    """Empty: nothing will follow."""


class ResizeShell(msgspec.Struct, frozen=True, kw_only=True, tag="resize-shell"):
    shell: int
    rows: int
    cols: int


class Taken(msgspec.Struct, frozen=True, kw_only=True, tag="taken"):
    """So many bytes more have reached their end: said by both sides."""

    shell: int
    count: int


class CloseShell(msgspec.Struct, frozen=True, kw_only=True, tag="close-shell"):
    """Its user is gone."""

    shell: int


class ShellOpened(msgspec.Struct, frozen=True, kw_only=True, tag="shell-opened"):
    shell: int


class ShellOutput(msgspec.Struct, frozen=True, kw_only=True, tag="shell-output"):
    shell: int
    data: bytes
    stream: int = STDOUT


class ShellOver(msgspec.Struct, frozen=True, kw_only=True, tag="shell-over"):
    """The last of a shell."""

    shell: int
    exit_code: int | None = None
    """128+n if signal n ended it; None: it was no program's end."""
    detail: str = ""
    refused: bool = False
    """It was never opened; `detail` says why."""
    lost: bool = False
    """Only the way to it broke; an attempt's own terminal may be attached to again."""


ToShell = ShellInput | ResizeShell | Taken | CloseShell
FromShell = ShellOpened | ShellOutput | Taken | ShellOver
