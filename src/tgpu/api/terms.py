"""What holds for a tenant's jobs: its own terms, its tier's and those of all above it, put together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tgpu.config.tiers import TierSettings
from tgpu.domain.priority import TERMS, USER_CLASSES, PriorityClass
from tgpu.domain.quota import OverQuota
from tgpu.domain.tenant import Tenant

T = TypeVar("T")
ALL_CLASSES = frozenset(PriorityClass)
_NO_TIER = TierSettings(name="")


@dataclass(frozen=True, slots=True)
class Effective:
    """The nearest that says something counts; but nobody may use what somebody above may not."""

    default_class: PriorityClass = PriorityClass.DEFAULT
    classes: frozenset[PriorityClass] = ALL_CLASSES
    """What operators and administrators may use."""
    user_classes: frozenset[PriorityClass] = frozenset(USER_CLASSES)
    """What ordinary users may use."""
    class_lists: tuple[tuple[str, frozenset[PriorityClass]], ...] = ()
    """Each tenant, root first, that names the classes of its jobs, by itself or by its tier."""
    default_limit_s: int | None = None
    most_limit_s: int | None = None
    over_quota: OverQuota = OverQuota.REJECT
    may_burst: bool = True
    archived_id: str | None = None
    """Which of them is archived, if one is."""
    gpu_hours_id: str | None = None
    """Which of them has a limit on GPU-hours, if one has."""
    named_limits: frozenset[str] = frozenset()
    """Of GPU models and other named things, anybody's."""

    @property
    def archived(self) -> bool:
        return self.archived_id is not None


def effective(
    line: Sequence[Tenant],
    tiers: Mapping[str, TierSettings],
    user_classes: Iterable[PriorityClass] = USER_CLASSES,
) -> Effective:
    """`line`: from the root down to the tenant. A tier that is not in the settings says nothing.
    `user_classes`: those of ordinary users where no tenant names any."""
    class_lists: list[tuple[str, frozenset[PriorityClass]]] = []
    most_s: int | None = None
    default_class: PriorityClass | None = None
    default_s: int | None = None
    over_quota, may_burst = OverQuota.REJECT, True
    for tenant in line:
        terms, tier = tenant.terms, tiers.get(tenant.terms.tier or "", _NO_TIER)
        named = _first(terms.classes, None if tier.classes is None else frozenset(tier.classes))
        if named is not None:
            class_lists.append((tenant.tenant_id, named))
        most_s = _least(most_s, _first(terms.most_limit_s, tier.max_time_limit_s))
        default_class = _first(terms.default_class, tier.default_class, default_class)
        default_s = _first(terms.default_limit_s, tier.default_time_limit_s, default_s)
        over_quota = _first(terms.over_quota, over_quota) or over_quota
        may_burst = may_burst if terms.may_burst is None else terms.may_burst
    classes = ALL_CLASSES.intersection(*(named for _, named in class_lists))
    # A default class above those of the setting is a permission, too: it would otherwise be of no use.
    named_default = [default_class] if default_class else []
    usual = classes if class_lists else frozenset([*user_classes, *named_default])
    return Effective(
        default_class=_allowed(default_class or PriorityClass.DEFAULT, usual),
        classes=classes,
        user_classes=usual,
        class_lists=tuple(class_lists),
        default_limit_s=default_s if default_s is None else _least(default_s, most_s),
        most_limit_s=most_s,
        over_quota=over_quota,
        may_burst=may_burst,
        archived_id=next((tenant.tenant_id for tenant in line if tenant.terms.archived), None),
        gpu_hours_id=next(
            (tenant.tenant_id for tenant in line if tenant.job_limits.gpu_ms is not None), None
        ),
        named_limits=frozenset(name for tenant in line for name, _ in tenant.limits.named),
    )


def in_order(classes: Iterable[PriorityClass]) -> list[PriorityClass]:
    """The most urgent first."""
    return sorted(classes, key=lambda each: TERMS[each].rank)


def _first(*said: T | None) -> T | None:
    return next((each for each in said if each is not None), None)


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _allowed(wanted: PriorityClass, classes: frozenset[PriorityClass]) -> PriorityClass:
    """It, else the next one below it that is allowed, else the lowest of those above it."""
    ordered, rank = in_order(classes), TERMS[wanted].rank
    below = [each for each in ordered if TERMS[each].rank >= rank]
    return next(iter([*below, *reversed(ordered)]), wanted)
