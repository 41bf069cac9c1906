"""Every setting as it is: its value, where that comes from and what it means, without secrets."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tgpu.config.pools import POOL_KEYS, PoolSettings
from tgpu.config.prices import MILLION, Prices
from tgpu.config.settings import KEYS, Settings
from tgpu.config.tiers import TIER_FIELDS, TierSettings
from tgpu.config.url_password import MASK, masked

BY_FLAG = "TGPU_SAID_BY_FLAG"
"""The variable in which a server is told which of its settings were flags, with commas."""
_SECRET = re.compile(r"token|secret|passw", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Described:
    name: str
    value: object
    """Text, a number, a list, or for a pool a mapping of what it has of its own."""
    source: str
    doc: str


def described(settings: Settings, environ: Mapping[str, str]) -> list[Described]:
    """`environ`: what the settings were loaded with. Flags of `tgpu up` reach its parts as variables, and
    `BY_FLAG` names them."""
    rows = [Described("home", str(settings.home), _source("home", environ, changed=False), "TGPU_HOME")]
    for key in KEYS:
        value = getattr(settings, key.name)
        source = _source(key.name, environ, changed=value != key.default)
        rows.append(Described(key.name, _shown(key.name, value), source, key.metadata["doc"]))
    tables = [*map(_of_pool, settings.pools), *map(_of_tier, settings.tiers)]
    return [*rows, *tables, *([_of_prices(settings.prices)] if settings.prices else [])]


def _of_pool(pool: PoolSettings) -> Described:
    said = {key: getattr(pool, key) for key in POOL_KEYS if getattr(pool, key) is not None}
    doc = "What this pool has otherwise than the settings of the same names say."
    return Described(f"pools.{pool.name}", said, "the TOML file", doc)


def _of_tier(tier: TierSettings) -> Described:
    said = {key: getattr(tier, key) for key in TIER_FIELDS if getattr(tier, key) is not None}
    doc = "What holds for the jobs of tenants of this tier that do not say otherwise."
    return Described(f"tiers.{tier.name}", said, "the TOML file", doc)


def _of_prices(prices: Prices) -> Described:
    said: dict[str, object] = {
        name: price / MILLION
        for name, price in (("gpu", prices.gpu), ("cpu", prices.cpu), ("memory_gb", prices.memory_gb))
        if price
    }
    said |= {f"models.{part}": price / MILLION for part, price in prices.models}
    said |= {"currency": prices.currency} if prices.currency else {}
    return Described("prices", said, "the TOML file", "What things cost by the hour, for reports.")


def _source(name: str, environ: Mapping[str, str], *, changed: bool) -> str:
    """A flag wins over a variable, and that over the file; if nothing says it, it is the default."""
    variable = f"TGPU_{name.upper()}"
    if name in environ.get(BY_FLAG, "").split(","):
        return "flag"
    if variable in environ:
        return variable
    return "the TOML file" if changed else "default"


def _shown(name: str, value: object) -> object:
    if isinstance(value, tuple):
        return [_shown(name, item) for item in value]
    if not isinstance(value, str) or not value:
        return value
    if _SECRET.search(name):
        return MASK
    return masked(value)
