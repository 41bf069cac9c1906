"""Shows an answer again and again in place, until Ctrl-C."""

from __future__ import annotations

import os
import sys
import time

from tgpu.cli.exits import OK
from tgpu.cli.screen import Screen
from tgpu.client.errors import TgpuError
from tgpu.client.waiting import is_passing

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable

    from tgpu.cli.answer import Answer

_EVERY_S = 2.0
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_OTHER_SCREEN, _OWN_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?1049l\x1b[?25h"


def watch(ask: Callable[[], Answer]) -> int:
    """On a terminal in place, without flicker; elsewhere one picture after another."""
    if not Screen(sys.stdout).is_terminal:
        while True:
            print("\n".join(_lines(ask)), flush=True)
            time.sleep(_EVERY_S)
    sys.stdout.write(_OTHER_SCREEN)
    try:
        while True:
            lines = _lines(ask)[: _height() - 1]
            picture = "".join(f"{line}{_CLEAR_LINE}\n" for line in lines)
            sys.stdout.write(f"{_HOME}{picture}{_CLEAR_BELOW}")
            sys.stdout.flush()
            time.sleep(_EVERY_S)
    except KeyboardInterrupt:
        return OK
    finally:
        sys.stdout.write(_OWN_SCREEN)
        sys.stdout.flush()


def _lines(ask: Callable[[], Answer]) -> list[str]:
    """A server that restarts is no reason to stop looking."""
    screen = Screen(sys.stdout)
    head = screen.paint(time.strftime("%H:%M:%S"), "dim")
    try:
        return [head, *ask().people(screen)]
    except TgpuError as error:
        if not is_passing(error):
            raise
        return [head, str(error)]


def _height() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines
    except OSError:
        return 24
