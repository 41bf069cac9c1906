"""Flags whose values are secrets: given as `@FILE`, on stdin or in the environment, not as they are."""

from __future__ import annotations

import os
import sys

from tgpu.cli.argv_memory import blank
from tgpu.cli.exits import UsageError
from tgpu.cli.screen import note

JOIN_VARIABLE = "TGPU_JOIN_TOKEN"
_OLD_JOIN_VARIABLE = "TGPU_JOIN"
_MOST_BYTES = 64 * 1024


def whole_path(said: str) -> str:
    """Servers and services run in another directory: `@FILE` has to name its file from there, too."""
    return "@" + os.path.abspath(said[1:]) if said.startswith("@") else said  # noqa: PTH100  light


class StoreFlag:
    """The type of a flag that takes a database's URL. One with a password still works, for old command lines:
    it is taken out of the process list at once, and a warning names the new form."""

    def __init__(self, flag: str, otherwise: str = "") -> None:
        self._flag, self._otherwise = flag, otherwise

    def __call__(self, text: str) -> str:
        from tgpu.config.url_password import has_password  # noqa: PLC0415  `--help` needs none of it

        if text.startswith("@"):
            return whole_path(text)
        if has_password(text):
            hidden = blank(text)
            note(
                f"beware: the password in {self._flag} could be read by every user of this machine"
                + (" until now" if hidden else "")
                + f": change it, put the URL into a file (chmod 600) and say {self._flag} @FILE"
                + self._otherwise
            )
        return text


def join_token(said: str | None) -> str | None:
    """The token, or `@FILE` with its name: from `--join @FILE`, `--join -` (stdin) or the environment, from
    which it is removed, so that no child process inherits it. A token in the command line is refused."""
    kept = [os.environ.pop(name, "") for name in (JOIN_VARIABLE, _OLD_JOIN_VARIABLE)]
    if said is None:
        return next(filter(None, kept), None)
    if said == "-":
        return _from_stdin()
    if said.startswith("@"):
        return said
    blank(said)
    raise UsageError(
        "a join token in the command line can be read by every user of this machine: put it into a file "
        f"(chmod 600) and say --join @FILE, or --join - to read it from stdin, or set {JOIN_VARIABLE}; "
        "revoke this one with `tgpu nodes join-tokens revoke ID` and make another"
    )


def _from_stdin() -> str:
    token = sys.stdin.read(_MOST_BYTES).strip()
    if not token:
        raise UsageError("--join - found no token on stdin: pipe it in, as `tgpu nodes join-token` prints it")
    return token
