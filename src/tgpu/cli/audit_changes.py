"""What a line of the audit log changed, as people say it; and every action that there is."""

from __future__ import annotations

from tgpu.cli import words
from tgpu.cli.quota_bars import hours

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

ACTIONS = (
    "job.attach",
    "job.cancel",
    "job.edit",
    "job.enter",
    "job.hold",
    "job.release",
    "job.resume",
    "job.retry",
    "job.submit",
    "job.suspend",
    "join-token.create",
    "join-token.revoke",
    "member.remove",
    "member.set",
    "node.approve",
    "node.drain",
    "node.join",
    "node.remove",
    "node.undrain",
    "secret.remove",
    "secret.set",
    "tenant.create",
    "tenant.move",
    "tenant.remove",
    "tenant.update",
    "token.create",
    "token.revoke",
    "window.cancel",
    "window.create",
)
_NOTHING: tuple[object, ...] = (None, "", [], {})
_MILLI = 1000
_GPU_HOUR_MS = 3_600_000


def is_action(text: str) -> bool:
    """Or the part of some before the dot."""
    return any(text in {action, action.partition(".")[0]} for action in ACTIONS)


def changes(entry: dict[str, Any]) -> str:
    """`weight 1 → 3; GPUs 4 → none`: what is not as it was; of something new or gone, what it holds."""
    action, before, after = str(entry["action"]), _facts(entry.get("before")), _facts(entry.get("after"))
    if action.startswith("member."):
        who = after.get("user") or before.get("user") or "?"
        return f"{who}: {_said(str, before.get('role'))} → {_said(str, after.get('role'))}"
    if action == "token.revoke":
        note = before.get("note")
        return f"of {before.get('user', '?')}" + (f": {note}" if note else "")
    if action == "tenant.move":
        return f"is {after.get('tenant_id', '?')} from then on"
    if before and after:
        return "; ".join(_differences(before, after))
    return "; ".join(_contents(before or after))


def _facts(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _differences(before: dict[str, Any], after: dict[str, Any], within: str = "") -> Iterator[str]:
    for name in dict.fromkeys([*before, *after]):
        was, now = before.get(name), after.get(name)
        if was == now or (was in _NOTHING and now in _NOTHING):
            continue
        if name == "budget":
            yield f"budget {_budget(was)} → {_budget(now)}"
            continue
        if isinstance(was, dict) or isinstance(now, dict):
            yield from _differences(_facts(was), _facts(now), f"{name}.")
        else:
            label, say = _reading(within + name)
            yield f"{label} {_said(say, was)} → {_said(say, now)}"


def _contents(facts: dict[str, Any], within: str = "") -> Iterator[str]:
    for name, value in facts.items():
        if name == "budget" and value:
            yield f"budget {_budget(value)}"
        elif isinstance(value, dict):
            yield from _contents(value, f"{name}.")
        elif value not in _NOTHING and value is not False and not _is_idle_period(name, facts):
            label, say = _reading(within + name)
            yield f"{label} {_said(say, value)}"


def _budget(value: object) -> str:
    """`5 GPU-hours a day`; of a change, only the part that differs."""
    facts = _facts(value)
    amount = "" if facts.get("gpu_ms") is None else words.gpu_hours(_gpu_hours(facts["gpu_ms"]))
    period = str(facts.get("period") or "")
    per = "in all" if period == "ever" else f"{'a' if amount else 'by the'} {period}" if period else ""
    return f"{amount} {per}".strip() or "none"


def _is_idle_period(name: str, facts: dict[str, Any]) -> bool:
    """By which period nothing is counted."""
    return name == "period" and facts.get("gpu_ms") is None


def _said(say: Callable[[Any], str], value: object) -> str:
    if value in _NOTHING:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, list) and say is str else say(value)


def _reading(name: str) -> tuple[str, Callable[[Any], str]]:
    """What a fact is called, and how its value is said."""
    if name in _READINGS:
        return _READINGS[name]
    if name.startswith("limits.gpu:"):
        return f"GPUs of {name.removeprefix('limits.gpu:')}", _thousandths
    bare = name.removeprefix("limits.generic:").rpartition(".")[2]
    if bare.endswith("_at"):
        return bare.removesuffix("_at").replace("_", " "), words.local_time
    return bare.replace("_", " "), str


def _thousandths(value: float) -> str:
    return words.number(value / _MILLI)


def _gpu_hours(value: float) -> str:
    return hours(value / _GPU_HOUR_MS)


def _moment(value: float) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415  2 ms that only times need

    return words.local_time(datetime.fromtimestamp(value / _MILLI, UTC).isoformat())


_READINGS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "limits.cpu_milli": ("CPUs", _thousandths),
    "limits.memory_mib": ("memory", words.size),
    "limits.disk_mib": ("disk", words.size),
    "limits.gpu_milli": ("GPUs", _thousandths),
    "job_limits.running": ("running tasks", str),
    "job_limits.waiting": ("waiting tasks", str),
    "job_limits.gpu_ms": ("GPU-hours", _gpu_hours),
    "job_limits.period": ("GPU-hours by the", str),
    "terms.default_limit_s": ("default time", words.duration),
    "terms.most_limit_s": ("longest time", words.duration),
    "expires_ms": ("expires", _moment),
    "tenant_id": ("tenant", str),
    "took_over": ("took over ended jobs:", str),
    "highest_class": ("up to class", str),
    "gpu_ms_left": ("GPU-hours left", _gpu_hours),
    "job_ids": ("jobs", words.ranges),
}
