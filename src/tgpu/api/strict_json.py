"""Strict pass over JSON that was decoded: refuses keys that are written twice, and NUL in strings."""

import json
from collections.abc import Iterator, Sequence

from tgpu.api.problems import bad_request, unprocessable

_NUL = b"\\u0000"
"""The only way to write it: a bare control character is not JSON."""


class _DuplicateKeyError(Exception):
    """Its text is the key."""


def _check_keys(pairs: list[tuple[str, object]]) -> None:
    if len(dict(pairs)) == len(pairs):
        return
    seen = set()
    for key, _ in pairs:
        if key in seen:
            raise _DuplicateKeyError(key)
        seen.add(key)


_scan = json.JSONDecoder(object_pairs_hook=_check_keys).decode


def check_strict(raw: bytes, at: str = "") -> None:
    """`raw`: JSON that was decoded before, so it is known to be valid. Raises ProblemError."""
    where = f"{at}: " if at else ""
    try:
        _scan(raw.decode())
    except _DuplicateKeyError as error:
        key = str(error)[:80]
        raise bad_request(f"{where}the key {key!r} is written twice in one object; write it once") from None
    except ValueError:  # a number of thousands of digits in a field that takes any value
        raise bad_request(f"{where}a number in the body has too many digits") from None
    if _NUL in raw:
        _check_strings(json.loads(raw), at)


def _check_strings(value: object, at: str) -> None:
    for path, text in _strings(value, at):
        if "\0" in text:
            raise unprocessable(path, f"{path or 'the body'} must not contain a NUL character")


def _strings(value: object, at: str) -> Iterator[tuple[str, str]]:
    """With their fields; those in a list have the field of the list."""
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each, at)
    elif isinstance(value, dict):
        for key, each in value.items():
            path = f"{at}.{key}" if at else key
            yield (path.replace("\0", "\\u0000"), key)
            yield from _strings(each, path)


def check_strict_around(raw: bytes, parts: Sequence[bytes]) -> None:
    """As `check_strict`, but for what stands around these values, which are checked one by one; they stand
    in `raw` in this order."""
    between: list[bytes] = []
    at = 0
    for part in parts:
        begin = raw.index(part, at)
        between.append(raw[at:begin])
        at = begin + len(part)
    check_strict(b"0".join([*between, raw[at:]]))
