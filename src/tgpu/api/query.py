"""What stands behind the question mark, read strictly: a misspelt filter must not mean "everything"."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from difflib import get_close_matches
from urllib.parse import parse_qsl

from tgpu.api.problems import ProblemError, bad_request
from tgpu.domain.ids import MAX_JOB_ID
from tgpu.domain.quantities import BadQuantityError, seconds

_RANGE = re.compile(r"([0-9]{1,16})(?:-([0-9]{1,16}))?")
_MOST_RANGES = 1000
_MOST_FIELDS = 200


def parse_job_id(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 16 and 0 < int(text) <= MAX_JOB_ID:  # noqa: PLR2004  digits of MAX_JOB_ID
        return int(text)
    raise ProblemError(404, "not-found", f"there is no job {text[:40]!r}: job ids are numbers such as 42")


class Query:
    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    @classmethod
    def parse(cls, raw: bytes, known: frozenset[str]) -> "Query":
        if not raw:
            return _EMPTY
        try:
            pairs = parse_qsl(
                raw.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=_MOST_FIELDS,
            )
        except ValueError:
            raise bad_request(
                f"the query must be percent-encoded UTF-8 with at most {_MOST_FIELDS} fields"
            ) from None
        if any("\0" in value for _, value in pairs):
            raise bad_request("the query must not contain a NUL character")
        query = cls(pairs)
        for name in query._values:
            if name not in known:
                raise bad_request(_unknown(name, known))
        return query

    def one(self, name: str) -> str | None:
        values = self._values.get(name)
        if values is None:
            return None
        if len(values) > 1:
            raise bad_request(f"{name} may be given once; got it {len(values)} times")
        return values[0]

    def many(self, name: str) -> list[str]:
        """`a=1&a=2` and `a=1,2` alike."""
        parts = [part.strip() for value in self._values.get(name, ()) for part in value.split(",")]
        return [part for part in parts if part]

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self.one(name)
        if value is None:
            return default
        if value not in choices:
            raise bad_request(f"{name} must be one of {', '.join(choices)}; got {value!r}")
        return value

    def flag(self, name: str) -> bool:
        return self.choice(name, ("true", "false", "1", "0"), "false") in ("true", "1")

    def whole(self, name: str, low: int, high: int) -> int | None:
        value = self.one(name)
        if value is None:
            return None
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 16 and low <= int(value) <= high):  # noqa: PLR2004  keeps int() cheap
            raise bad_request(f"{name} must be a whole number from {low} to {high}; got {value[:40]!r}")
        return int(value)

    def time_ms(self, name: str, now_ms: int) -> int | None:
        """An RFC 3339 time, or how long ago, such as `2h`."""
        value = self.one(name)
        if value is None:
            return None
        try:
            return now_ms - 1000 * seconds(name, value)
        except BadQuantityError:
            pass
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise bad_request(
                f"{name} must be a time such as 2030-01-31T12:00:00Z, or how long ago, such as 2h or 7d; got "
                f"{value[:60]!r}"
            ) from None
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return int(aware.timestamp() * 1000)

    def ranges(self, name: str) -> tuple[tuple[int, int], ...]:
        """`3,7-12` → ((3, 3), (7, 12))."""
        parts = self.many(name)
        if len(parts) > _MOST_RANGES:
            raise bad_request(f"{name} may have at most {_MOST_RANGES} parts; got {len(parts)}")
        found = []
        for part in parts:
            match = _RANGE.fullmatch(part)
            if match is None or int(match[2] or match[1]) < int(match[1]):
                raise bad_request(f"{name} must be ids such as 3,7-12; got {part[:40]!r}")
            found.append((int(match[1]), min(int(match[2] or match[1]), MAX_JOB_ID)))
        return tuple(found)


def _unknown(name: str, known: frozenset[str]) -> str:
    if not known:
        return f"this path takes no parameters; got {name[:60]!r}"
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(sorted(known))}"
    return f"unknown parameter {name[:60]!r}; {hint}"


_EMPTY = Query(())
