"""What a user says over the WebSocket into a job, and what they are told: the shapes, and what is judged."""

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from tgpu.api.problems import ProblemError, bad_request, unprocessable
from tgpu.api.strict_json import check_strict
from tgpu.protocol.shells import MOST_WORDS

_TERM = re.compile(r"[A-Za-z0-9+._-]{0,64}")
Size = Annotated[int, Meta(ge=1, le=10_000)]


class ShellAsked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The first message: what to run; without a command, the job's own terminal."""

    command: list[str] = []
    tty: bool = False
    rows: Size = 24
    cols: Size = 80
    term: str = ""


class Said(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Every later one that is text: one of these."""

    resize: tuple[Size, Size] | None = None
    taken: Annotated[int, Meta(ge=1)] | None = None
    end: bool = False


class Opened(msgspec.Struct, kw_only=True):
    attempt_id: str
    node_id: str


class Over(msgspec.Struct, kw_only=True):
    exit_code: int | None
    detail: str
    lost: bool


class Told(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the server says in text: one of these."""

    opened: Opened | None = None
    refused: msgspec.Raw | None = None
    taken: int | None = None
    over: Over | None = None


_asked = msgspec.json.Decoder(ShellAsked)
_said = msgspec.json.Decoder(Said)
_encode = msgspec.json.Encoder().encode


def read_asked(text: str) -> ShellAsked:
    """Raises ProblemError."""
    try:
        asked = _asked.decode(text)
    except msgspec.MsgspecError as error:
        raise bad_request(
            f"the first message must say what to run, as in the API's description: {error}"
        ) from None
    check_strict(text.encode())
    if asked.command and not asked.command[0]:
        raise unprocessable("command", "command is empty: say which program to run")
    if any("\0" in word for word in asked.command):
        raise unprocessable("command", "command must not contain a NUL character")
    if sum(len(word.encode()) + 1 for word in asked.command) > MOST_WORDS:
        raise unprocessable("command", f"command may have at most {MOST_WORDS // 1024} KiB")
    if not _TERM.fullmatch(asked.term):
        raise unprocessable("term", "term must be the name of a terminal, such as xterm-256color")
    return asked


def read_said(text: str) -> Said:
    """Raises ProblemError."""
    try:
        return _said.decode(text)
    except msgspec.MsgspecError as error:
        raise bad_request(f"a message is not one of those in the API's description: {error}") from None


def told(message: Told) -> str:
    return _encode(message).decode()


def told_refusal(problem: ProblemError) -> str:
    return told(Told(refused=msgspec.Raw(problem.body())))
