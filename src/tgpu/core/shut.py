"""Nodes that windows close to a task: each told by its own times, those with the same ones together."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tgpu.core.picture import Window
from tgpu.core.wording import clock, limit_before
from tgpu.domain.job import TaskBrief
from tgpu.domain.quantities import time_in_words
from tgpu.domain.tenant import lineage
from tgpu.domain.views import Reason

_TOLD = 3
"""Of different times; the rest is counted."""


class _Closure(NamedTuple):
    """From when on, and until when at last, as windows may follow one another without a gap."""

    from_ms: int
    """Now, if it has begun."""
    until_ms: int
    guest: str | None
    """The tenant for which it is kept, if that is one and the same all the while."""


def shut(windows: Iterable[Window], task: TaskBrief, node_ids: Sequence[str], now_ms: int) -> list[Reason]:
    """`node_ids`: those where it would fit, and would run into a window. First where most time is left."""
    above = lineage(task.tenant_id)
    closing = sorted(
        (each for each in windows if each.until_ms > now_ms and each.tenant_id not in above),
        key=lambda window: window.from_ms,
    )
    alike: dict[_Closure, list[str]] = {}
    for node_id in node_ids:
        mine = [window for window in closing if node_id in window.node_ids]
        alike.setdefault(_closure(mine, now_ms), []).append(node_id)
    groups = sorted(alike.items(), key=lambda group: (-group[0].from_ms, group[0].until_ms))
    reasons = [_told(closure, names, now_ms) for closure, names in groups[:_TOLD]]
    return reasons + ([_rest(groups[_TOLD:], now_ms)] if len(groups) > _TOLD else [])


def _closure(windows: Sequence[Window], now_ms: int) -> _Closure:
    """`windows`: of one node, by their beginning."""
    first, *later = windows
    until_ms, guest = first.until_ms, first.tenant_id
    for window in later:
        if window.from_ms <= until_ms:
            until_ms = max(until_ms, window.until_ms)
            guest = guest if guest == window.tenant_id else None
    return _Closure(max(now_ms, first.from_ms), until_ms, guest)


def _told(closure: _Closure, names: list[str], now_ms: int) -> Reason:
    where = f"{names[0]} is" if len(names) == 1 else f"{len(names)} nodes with room are"
    whom = f" to all but tenant {closure.guest}" if closure.guest is not None else ""
    until = clock(closure.until_ms, now_ms)
    data: dict[str, object] = {"node_id": names[0], "nodes": len(names)}
    if closure.from_ms <= now_ms:
        return Reason("window", f"{where} closed{whom} until {until}", data)
    text = (
        f"{where} closed{whom} from {clock(closure.from_ms, now_ms)} to {until}, and it might still run then"
    )
    ends_s = limit_before(closure.from_ms, now_ms)
    if ends_s > 0:
        text += f"; with a time limit of at most {time_in_words(ends_s)} it would not"
        data["time_limit_s"] = ends_s
    return Reason("window", text, data)


def _rest(groups: list[tuple[_Closure, list[str]]], now_ms: int) -> Reason:
    nodes = sum(len(names) for _, names in groups)
    until = clock(min(closure.until_ms for closure, _ in groups), now_ms)
    text = f"{nodes} more nodes with room are in windows that end at {until} at the earliest"
    return Reason("window", text, {"nodes": nodes})
