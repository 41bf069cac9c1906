"""Connects this process's own terminal, or its standard streams, with one inside a job."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys

from tgpu.cli.detach_keys import DetachKeys
from tgpu.client.terminal import CHUNK, Over

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tgpu.client.terminal import Output, Terminal

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_CTRL_D = b"\x04"
_END_AGAIN_S = 0.5
"""The end of a terminal's input is for one reader alone, and a shell that has just begun throws it away."""


def size() -> tuple[int, int]:
    """Rows and columns of this terminal."""
    try:
        columns, rows = os.get_terminal_size(_STDIN)
    except OSError:
        return 24, 80
    return rows or 24, columns or 80


def term() -> str:
    return os.environ.get("TERM", "")


@contextlib.contextmanager
def raw_terminal() -> Iterator[None]:
    """Every key goes to the job, Ctrl-C too; afterwards the terminal is as it was."""
    if not sys.stdin.isatty():
        yield
        return
    import termios  # noqa: PLC0415  only who has a terminal needs it
    import tty  # noqa: PLC0415

    before = termios.tcgetattr(_STDIN)
    tty.setraw(_STDIN, termios.TCSADRAIN)  # what was typed ahead is not lost
    try:
        yield
    finally:
        termios.tcsetattr(_STDIN, termios.TCSADRAIN, before)


def connect(terminal: Terminal, *, tty: bool, keys: DetachKeys, stays: bool = False) -> Over | None:
    """Until it is over; None: the keys to detach were typed, or this terminal was closed. `stays`: the end of
    an input that is no terminal is typed as Ctrl-D, and what runs there is looked at until it ends."""
    stays = stays and not sys.stdin.isatty()
    with _resizes() as resized:
        listening = [terminal.fileno(), resized]
        typing = True
        while True:
            wants = [*listening, _STDIN] if typing and terminal.room >= CHUNK else listening
            ready = _ready(terminal, wants, None if typing or not stays else _END_AGAIN_S)
            if resized in ready:
                os.read(resized, 512)
                terminal.resize(*size())
            if terminal.fileno() in ready and (over := _print(terminal)) is not None:
                return over
            if _STDIN in ready:
                typing = _type(terminal, keys, ends=not stays)
                if keys.found or (tty and not typing and not stays):
                    return None
            if not typing and stays and not ready and terminal.room >= CHUNK:
                terminal.type(_CTRL_D)


def _ready(terminal: Terminal, wants: list[int], patience_s: float | None) -> list[int]:
    if terminal.has_more:
        return [terminal.fileno()]
    waiting = select.poll()
    for fd in wants:
        waiting.register(fd, select.POLLIN)
    return [fd for fd, _ in waiting.poll(None if patience_s is None else 1000 * patience_s)]


def _print(terminal: Terminal) -> Over | None:
    for said in terminal.hear():
        if isinstance(said, Over):
            return said
        _write(said)
    return None


def _write(output: Output) -> None:
    rest = memoryview(output.data)
    target = _STDERR if output.stream == _STDERR else _STDOUT
    while rest:
        rest = rest[os.write(target, rest) :]


def _type(terminal: Terminal, keys: DetachKeys, *, ends: bool) -> bool:
    """False once nothing more will be typed; `ends`: then the input there is ended."""
    try:
        data = os.read(_STDIN, CHUNK)
    except OSError:  # the terminal was closed
        data = b""
    if not data:
        if ends:
            terminal.end_input()
        return False
    passed = keys.pass_on(data)
    if passed:
        terminal.type(passed)
    return True


@contextlib.contextmanager
def _resizes() -> Iterator[int]:
    """A pipe to read from whenever this terminal's size has changed."""
    end, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.signal(signal.SIGWINCH, lambda _number, _frame: None)
    fd = signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    try:
        yield end
    finally:
        signal.set_wakeup_fd(fd)
        signal.signal(signal.SIGWINCH, before)
        os.close(end)
        os.close(waker)
