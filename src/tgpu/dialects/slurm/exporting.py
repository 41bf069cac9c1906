"""Which of the submitter's environment a job gets: `--export=ALL`, `NONE`, or some variables."""

from __future__ import annotations

from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LOGIN = ("HOME", "LOGNAME", "SHELL", "USER")
"""What a login would set."""


def environment(
    said: str | None, environ: Mapping[str, str], all_of: Callable[[Mapping[str, str]], dict[str, str]]
) -> dict[str, str]:
    """`all_of`: what `ALL` means. Of two words about one variable the later one counts."""
    text = (said or "ALL").strip()
    if text.upper() in ("NONE", "NIL"):
        return _login(environ)
    found = {} if "ALL" in text.upper().split(",") else _login(environ)
    for token in _tokens(text):
        name, equals, value = token.partition("=")
        if token.upper() == "ALL":
            found |= all_of(environ)
        elif equals:
            found[name] = value
        elif name in environ:
            found[name] = environ[name]
    return found


def of_file(data: bytes) -> dict[str, str]:
    """`NAME=value` between NULs."""
    found = {}
    for item in data.split(b"\0"):
        if not item.strip(b"\n"):
            continue
        try:
            name, equals, value = item.decode("utf-8").partition("=")
        except UnicodeDecodeError:
            raise SlurmError(
                "--export-file is not UTF-8: convert it with `iconv -f latin1 -t utf-8`"
            ) from None
        if not equals or not name:
            raise SlurmError("--export-file must have NAME=value in it, with NULs in between")
        found[name] = value
    return found


def _login(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in _LOGIN if name in environ}


def _tokens(text: str) -> list[str]:
    """At the commas outside of quotes: `A='x,y',B=1`."""
    tokens, quote, piece = [], "", ""
    for char in text:
        if quote:
            quote, piece = ("", piece) if char == quote else (quote, piece + char)
        elif char in "'\"":
            quote = char
        elif char == ",":
            tokens.append(piece)
            piece = ""
        else:
            piece += char
    return [token for token in [*tokens, piece] if token]
