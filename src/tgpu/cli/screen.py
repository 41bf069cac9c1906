"""What a stream can show: its width, and colour only where somebody looks."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
STATUS_STYLES = {
    "pending": "yellow",
    "preempted": "yellow",
    "scheduled": "cyan",
    "running": "green",
    "completed": "dim",
    "failed": "red",
    "cancelled": "dim",
    "ready": "green",
    "draining": "yellow",
    "offline": "red",
}


class Screen:
    """`width` is None where nobody looks: then nothing is cut."""

    def __init__(self, stream: TextIO) -> None:
        self.is_terminal = stream.isatty()
        self.width = _width(stream) if self.is_terminal else None
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self.colour = self.is_terminal and not plain

    def paint(self, text: str, style: str) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colour and style else text


def clean(text: object) -> str:
    """Text from others, such as a job's name, must not steer this terminal."""
    said = str(text)
    return said if said.isprintable() else "".join(c if c.isprintable() else "?" for c in said)


def columns(text: str) -> int:
    """How many columns of a terminal a text takes: characters of East Asian scripts and emoji take two,
    combining marks none."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def cut(text: str, width: int) -> str:
    """At most so many columns of it, with an ellipsis for what is left out."""
    if columns(text) <= width:
        return text
    kept, left = "", width - 1
    for char in text:
        left -= _columns_of(char)
        if left < 0:
            break
        kept += char
    return f"{kept}…"


def _columns_of(char: str) -> int:
    from unicodedata import category, east_asian_width  # noqa: PLC0415  rarely needed

    if category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in ("W", "F") else 1


def note(text: str) -> None:
    """A remark beside the result; on a terminal it takes the place of a progress line, if there is one."""
    start = "\r\x1b[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{start}tgpu: {text}\n")  # in one piece: two streams may be followed at once
    sys.stderr.flush()


def _width(stream: TextIO) -> int:
    said = os.environ.get("COLUMNS", "")
    if said.isascii() and said.isdigit() and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80
