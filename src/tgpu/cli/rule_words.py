"""What a job does about which failure, in a line: `fail-job on exit code 42, ignore on out-of-memory`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST = 8
_CONDITIONS = (
    ("exit_codes", "exit code {}"),
    ("not_exit_codes", "any exit code but {}"),
    ("signals", "signal {}"),
    ("causes", "{}"),
)


def in_words(rules: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(f"{rule['action']} on {_when(rule)}" for rule in rules)


def _when(rule: Mapping[str, Any]) -> str:
    said = [words.format(_listed(rule[name])) for name, words in _CONDITIONS if rule.get(name)]
    return " with ".join(said) or "any failure"


def _listed(values: Sequence[object]) -> str:
    """Those that a manifest means by what it leaves out can be very many."""
    more = f" and {len(values) - _MOST} more" if len(values) > _MOST else ""
    return ", ".join(map(str, values[:_MOST])) + more
