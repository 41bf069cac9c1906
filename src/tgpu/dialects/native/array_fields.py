"""A job's fields about many tasks and their failures, under the names people use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgpu.dialects.native.problems import JobFieldError
from tgpu.domain import quantities

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MOST = 2**31 - 1
MODES = ("Indexed", "NonIndexed")


def _array(name: str, value: object) -> str:
    """Read here already, so that what is wrong is told with the name that was written."""
    from tgpu.domain.index_set import parse_array  # noqa: PLC0415  only who uses it

    if isinstance(value, bool) or not isinstance(value, str | int):
        raise JobFieldError(f"{name} must be indices, such as 0-999%50; got {value!r}")
    parse_array(name, str(value))
    return str(value)


def _number(low: int) -> Callable[[str, object], int]:
    def convert(name: str, value: object) -> int:
        found = None if isinstance(value, bool) else quantities.natural(str(value).strip())
        if found is not None and found > _MOST:
            raise JobFieldError(f"{name} may be at most {_MOST}; got {value!r}")
        if found is None or found < low:
            more = "; 0 suspends the job" if low == 0 and "parallelism" in name else ""
            raise JobFieldError(f"{name} must be a whole number, {low} or more; got {value!r}{more}")
        return found

    return convert


def _mode(name: str, value: object) -> str:
    if value not in MODES:
        raise JobFieldError(f"{name} must be {' or '.join(MODES)}; got {value!r}")
    return str(value)


def _seconds(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise JobFieldError(f"{name} must be a duration such as 2h; got {value!r}")
    return quantities.seconds(name, str(value))


def _rules(name: str, value: object) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(rule, dict) for rule in value):
        raise JobFieldError(
            f"{name} must be a list of rules, each with an action (count, ignore, fail-index, fail-job) and "
            f"exit_codes, not_exit_codes, signals or causes; got {value!r}"
        )
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise JobFieldError(f"{name} must be true or false; got {value!r}")
    return value


SERIES_FIELDS: dict[str, Callable[[str, Any], object]] = {
    "array": _array,
    "completions": _number(1),
    "parallelism": _number(0),
    "completion_mode": _mode,
    "retries": _number(0),
    "backoff_limit": _number(0),
    "backoff_limit_per_index": _number(0),
    "max_failures": _number(0),
    "failure_rules": _rules,
    "active_deadline_s": _seconds,
    "ttl_after_finished_s": _seconds,
    "suspend": _flag,
}
SERIES_ALIASES = {"active_deadline": "active_deadline_s", "ttl_after_finished": "ttl_after_finished_s"}
SERIES_FRIENDLY = {"active_deadline_s": "active_deadline", "ttl_after_finished_s": "ttl_after_finished"}
