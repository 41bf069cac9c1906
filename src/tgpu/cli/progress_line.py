"""One line on the terminal that is rewritten in place."""

from __future__ import annotations

from tgpu.cli.screen import Screen

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, TextIO


class ProgressLine:
    """Only on a terminal; elsewhere nothing is written. It leaves no trace."""

    def __init__(self, stream: TextIO, *, silent: bool) -> None:
        self._stream = stream
        self._screen = Screen(stream)
        self.active = self._screen.is_terminal and not silent

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write("")

    def say(self, text: str) -> None:
        self._write(text[: (self._screen.width or 80) - 1])

    def _write(self, text: str) -> None:
        if self.active:
            self._stream.write(f"\r\x1b[K{self._screen.paint(text, 'dim') if text else ''}")
            self._stream.flush()
