"""What a setting's value must be like, beyond its type: one check per setting that has bounds."""

from collections.abc import Callable
from typing import Any

from tgpu.domain import node_terms
from tgpu.domain.container import network
from tgpu.domain.label_rules import label
from tgpu.domain.priority import MAX_GRACE_S, PriorityClass
from tgpu.domain.quantities import MAX_PRIORITY, MILLI, BadQuantityError, bounded, mib, milli, seconds
from tgpu.domain.tenant_rules import tenant_rules

_MOST_RESERVED = 1000
_MOST_AGING = 1_000_000
MOST_OVERCOMMIT_MILLI = 100 * MILLI
_MOST_CELSIUS = 1000
_MOST_ECC_ERRORS = 1_000_000_000
_MOST_SAMPLE_S = 3600
_MOST_SNAPSHOT_MB = 4096
_MOST_LOG_FILES = 100
_MOST_PIDS = 4_194_304  # no kernel has more
_CONNECTIONS = (16, 100_000)
_MOST_SESSION_HOURS = 8784
_OTHERS_MAY = ("details", "logs", "cancel")


def _at_least(name: str, number: int, low: int, written: object, low_written: object) -> None:
    if number < low:
        raise BadQuantityError(f"{name} must be at least {low_written}; got {written}")


def _duration(name: str, text: str) -> None:
    seconds(name, text)


def _grace(name: str, text: str) -> None:
    bounded(name, seconds(name, text), MAX_GRACE_S, written=text, maximum_written="24h")


def _some_time(name: str, text: str) -> None:
    _at_least(name, seconds(name, text), 1, text, "1s")


def _an_hour(name: str, text: str) -> None:
    _at_least(name, seconds(name, text), 3600, text, "1h")


def _checkpoint_root(name: str, path: str) -> None:
    if path not in {"", "off"} and (not path.startswith("/") or path == "/"):
        raise BadQuantityError(f"{name} takes a whole path below /, off, or nothing; got {path!r}")


def _up_to(maximum: int) -> Callable[[str, int], None]:
    def check(name: str, number: int) -> None:
        bounded(name, number, maximum, written=number)

    return check


def _sample(name: str, number: float) -> None:
    if not 1 <= number <= _MOST_SAMPLE_S:
        raise BadQuantityError(f"{name} must be between 1 and {_MOST_SAMPLE_S} seconds; got {number:g}")


def _megabytes(name: str, number: int) -> None:
    if not 1 <= number <= _MOST_SNAPSHOT_MB:
        raise BadQuantityError(f"{name} must be from 1 to {_MOST_SNAPSHOT_MB}; got {number}")


def _connections(name: str, number: int) -> None:
    low, high = _CONNECTIONS
    if not low <= number <= high:
        raise BadQuantityError(f"{name} must be from {low} to {high}; got {number}")


def _session_hours(name: str, number: float) -> None:
    if not 0 < number <= _MOST_SESSION_HOURS:
        raise BadQuantityError(
            f"{name} must be more than 0 and at most {_MOST_SESSION_HOURS}; got {number:g}"
        )


def _some_time_or_none(name: str, text: str) -> None:
    if text:
        _some_time(name, text)


def _reserve(name: str, text: str) -> None:
    if text != "auto":
        mib(name, text)


def _log_file_size(name: str, text: str) -> None:
    _at_least(name, mib(name, text), 1, text, "1M")


def _factor(name: str, value: float) -> None:
    factor = milli(name, value, MOST_OVERCOMMIT_MILLI)
    _at_least(name, factor, MILLI, value, 1)


def _mountable(name: str, paths: tuple[str, ...]) -> None:
    for path in paths:
        if path != "~" and (not path.startswith("/") or path == "/"):
            raise BadQuantityError(f"{name} takes whole paths below /, and ~; got {path!r}")


def _networks(name: str, words: tuple[str, ...]) -> None:
    for word in words:
        network(name, word)


def _deeds(name: str, words: tuple[str, ...]) -> None:
    for word in words:
        if word not in _OTHERS_MAY:
            raise BadQuantityError(f"{name} takes {', '.join(_OTHERS_MAY)}; got {word!r}")


def _classes(name: str, words: tuple[str, ...]) -> None:
    known = tuple(PriorityClass)
    wrong = next((word for word in words if word not in known), None)
    if wrong is not None or not words:
        got = "none" if wrong is None else repr(wrong)
        raise BadQuantityError(f"{name} takes at least one of {', '.join(known)}; got {got}")


def _pids_or_auto(name: str, text: str) -> None:
    if text != "auto" and not (text.isascii() and text.isdigit() and int(text) <= _MOST_PIDS):
        raise BadQuantityError(f"{name} must be auto, or a whole number up to {_MOST_PIDS}; got {text!r}")


BOUNDS: dict[str, Callable[[str, Any], object]] = {
    "others_may": _deeds,
    "tenant_rules": tenant_rules,
    "node_pool": label,
    "node_labels": node_terms.labels,
    "node_taints": node_terms.taints,
    "node_generic": node_terms.generic_pairs,
    "cluster_generic": node_terms.generic_pairs,
    "default_limit": _some_time,
    "max_wait": _some_time_or_none,
    "max_grace": _grace,
    "reserve": _up_to(_MOST_RESERVED),
    "aging_step": _some_time,
    "aging_most": _up_to(_MOST_AGING),
    "min_run": _duration,
    "preemption_backoff": _duration,
    "fair_half_life": _some_time,
    "cpu_overcommit": _factor,
    "memory_overcommit": _factor,
    "mount_allow": _mountable,
    "container_networks": _networks,
    "container_keep": _duration,
    "checkpoint_root": _checkpoint_root,
    "checkpoint_keep": _an_hour,
    "failed_tmp_keep": _duration,
    "failed_tmp_max": mib,
    "gpu_recovery": _duration,
    "gpu_too_hot": _up_to(_MOST_CELSIUS),
    "gpu_ecc_errors": _up_to(_MOST_ECC_ERRORS),
    "foreign_gpu_floor": mib,
    "task_pids": _up_to(_MOST_PIDS),
    "user_pids": _pids_or_auto,
    "max_priority": _up_to(MAX_PRIORITY),
    "user_classes": _classes,
    "sample_s": _sample,
    "snapshot_max_mb": _megabytes,
    "snapshot_keep": _an_hour,
    "memory_reserve": _reserve,
    "disk_reserve": _reserve,
    "task_disk": _reserve,
    "user_checkpoints": _reserve,
    "log_file_size": _log_file_size,
    "log_file_count": _up_to(_MOST_LOG_FILES),
    "connections_per_user": _connections,
    "connections_per_address": _connections,
    "web_session_hours": _session_hours,
}
"""By setting: raises BadQuantityError, whose text begins with the name it was given."""
