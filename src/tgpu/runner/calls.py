"""How an agent calls a supervisor, and what they say to each other then.

The agent listens on a socket named after the attempt and sends SIGUSR1; the supervisor, which looks for a
stop at that signal anyway, finds the socket and connects. So a supervisor that nobody calls costs nothing,
one that is older than this way of calling is not harmed by it, and each call is one connection.
"""

import os

FOLDER = "shells"
ENTER, ATTACH, INPUT, RESIZE = b"e", b"a", b"i", b"w"
"""The agent's words. `ENTER` comes with the program's ends: one terminal, or stdin, stdout and stderr."""
WELCOME, REFUSED, EXITED, OUTPUT = b"k", b"r", b"x", b"o"
"""The supervisor's words."""
HEAD = 5
TTY = "tty"
PLAIN = "plain"


def packed(kind: bytes, body: bytes = b"") -> bytes:
    """As `place.take_frame` takes it apart."""
    return len(body).to_bytes(4, "big") + kind + body


def packed_program(argv: tuple[str, ...], *, tty: bool, term: str) -> bytes:
    """No `marshal`: the supervisor may be of another version than the agent."""
    return b"\0".join(os.fsencode(word) for word in (TTY if tty else PLAIN, term, *argv))


def unpacked_program(body: bytes) -> tuple[bool, str, list[str]]:
    """Whether it has a terminal, of which kind, and the program's words."""
    kind, term, *argv = (os.fsdecode(word) for word in body.split(b"\0"))
    return kind == TTY, term, argv


def packed_size(rows: int, cols: int) -> bytes:
    return rows.to_bytes(2, "big") + cols.to_bytes(2, "big")


def unpacked_size(body: bytes) -> tuple[int, int]:
    return int.from_bytes(body[:2], "big"), int.from_bytes(body[2:4], "big")
