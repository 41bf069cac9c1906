"""The policy that the settings describe, with what plug-ins add to it.

A plug-in is an installed package with entry points in the groups `tgpu.rules`, `tgpu.orders` or
`tgpu.scorers`, each a name and a callable of the types in `tgpu.core.policy`.
"""

from collections.abc import Callable, Collection
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tgpu.config.bounds import MOST_OVERCOMMIT_MILLI
from tgpu.config.pools import PoolSettings
from tgpu.config.settings import Settings
from tgpu.core.policy import ORDERS, SCORERS, OnGpuFailure, Policy, PoolPolicy, UnknownPolicyError
from tgpu.core.rules import RULES
from tgpu.domain.node_terms import generic_pairs
from tgpu.domain.quantities import milli, seconds
from tgpu.observe.logs import logger


def policy_of(settings: Settings) -> Policy:
    """Raises UnknownPolicyError if it names an order or a scorer that is nowhere."""
    orders, scorers = _plug_ins("tgpu.orders", ORDERS), _plug_ins("tgpu.scorers", SCORERS)
    for pool in settings.pools:
        _check_name("policy", pool.policy, (*ORDERS, *orders), pool)
        _check_name("scorer", pool.scorer, (*SCORERS, *scorers), pool)
    return Policy(
        default=_pool(settings, PoolSettings(name="")),
        pools={pool.name: _pool(settings, pool) for pool in settings.pools},
        aging_step_s=seconds("aging_step", settings.aging_step),
        aging_most=settings.aging_most,
        preemption=settings.preemption == "on",
        min_run_s=seconds("min_run", settings.min_run),
        backoff_s=seconds("preemption_backoff", settings.preemption_backoff),
        half_life_s=seconds("fair_half_life", settings.fair_half_life),
        on_gpu_failure=OnGpuFailure(settings.on_gpu_failure),
        cluster_generic=dict(generic_pairs("cluster_generic", settings.cluster_generic)),
        outside_rules=_plug_ins("tgpu.rules", RULES),
        outside_orders=orders,
        outside_scorers=scorers,
    )


def _check_name(kind: str, name: str | None, known: Collection[str], pool: PoolSettings) -> None:
    """Here, because the policy does not know which file and table a pool comes from."""
    if name is not None and name not in known:
        raise UnknownPolicyError(
            f"{pool.where}.{kind}: there is no {kind} {name!r}; take one of {', '.join(known)}"
        )


def _pool(settings: Settings, pool: PoolSettings) -> PoolPolicy:
    def said(name: str) -> Any:  # noqa: ANN401  each setting has its own type
        own = getattr(pool, name)
        return getattr(settings, name) if own is None else own

    return PoolPolicy(
        order=said("policy"),
        scorer=said("scorer"),
        cpu_overcommit=milli("cpu_overcommit", said("cpu_overcommit"), MOST_OVERCOMMIT_MILLI),
        memory_overcommit=milli("memory_overcommit", said("memory_overcommit"), MOST_OVERCOMMIT_MILLI),
        default_limit_s=seconds("default_limit", said("default_limit")),
        reserve=said("reserve"),
    )


def _plug_ins(group: str, taken: Collection[str]) -> dict[str, Callable[..., Any]]:
    """By name; what cannot be used is told in the log and left out: a plug-in must not stop the server."""
    found: dict[str, Callable[..., Any]] = {}
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        if point.name in taken or point.name in found:
            logger("plug-ins").error("left out: its name is taken", group=group, name=point.name)
        elif (loaded := _loaded(point)) is not None:
            found[point.name] = loaded
    return found


def _loaded(point: EntryPoint) -> Callable[..., Any] | None:
    about = {"group": point.group, "name": point.name, "module": point.value}
    try:
        thing = point.load()
    except Exception as error:  # noqa: BLE001  code from elsewhere may fail in any way
        logger("plug-ins").error("left out: it cannot be imported", error=repr(error), **about)
        return None
    if not callable(thing):
        logger("plug-ins").error("left out: it cannot be called", **about)
        return None
    made: Callable[..., Any] = thing
    return made
