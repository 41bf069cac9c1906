"""Named sets of terms for tenants, from the file's tables `[tiers.NAME]`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tgpu.domain.label_rules import label
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quantities import BadQuantityError, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSettings:
    """What holds for the jobs of tenants of this tier that do not say otherwise; None: not said here."""

    name: str
    default_class: PriorityClass | None = None
    classes: tuple[PriorityClass, ...] | None = None
    default_time_limit_s: int | None = None
    max_time_limit_s: int | None = None


def tiers_of(tables: object, where: str) -> tuple[TierSettings, ...]:
    """Raises BadQuantityError, whose text begins with `where`: the file's name."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise BadQuantityError(f"{where}: tiers must be written as tables, such as [tiers.gold]")
    return tuple(_tier(name, table, f"{where}: tiers.{name}") for name, table in tables.items())


def _tier(name: str, table: Mapping[str, object], where: str) -> TierSettings:
    label(where, name)
    unknown = next((key for key in table if key not in _KEYS), None)
    if unknown is not None:
        raise BadQuantityError(f"{where}: unknown key {unknown!r}; a tier has {', '.join(_KEYS)}")
    said: dict[str, Any] = {}
    for key, value in table.items():
        field, read = _KEYS[key]
        said[field] = read(f"{where}.{key}", value)
    tier = TierSettings(name=name, **said)
    if tier.classes is not None and tier.default_class not in (None, *tier.classes):
        raise BadQuantityError(f"{where}.default_class must be one of its classes; got {tier.default_class}")
    return tier


def _class(where: str, value: object) -> PriorityClass:
    try:
        return PriorityClass(str(value))
    except ValueError:
        raise BadQuantityError(f"{where} must be of {', '.join(PriorityClass)}; got {value!r}") from None


def _classes(where: str, value: object) -> tuple[PriorityClass, ...]:
    if not isinstance(value, list) or not value:
        raise BadQuantityError(
            f'{where} must be a list of classes, such as ["default", "low"]; got {value!r}'
        )
    return tuple(_class(where, item) for item in value)


def _limit(where: str, value: object) -> int:
    found = seconds(where, str(value))
    if found < 1:
        raise BadQuantityError(f"{where} must be at least 1s; got {value}")
    return found


_KEYS: dict[str, tuple[str, Callable[[str, object], object]]] = {
    "default_class": ("default_class", _class),
    "classes": ("classes", _classes),
    "default_time_limit": ("default_time_limit_s", _limit),
    "max_time_limit": ("max_time_limit_s", _limit),
}
"""By what the file calls it: the field, and how its value is read."""
TIER_KEYS = tuple(_KEYS)
TIER_FIELDS = tuple(item.name for item in fields(TierSettings) if item.name != "name")
