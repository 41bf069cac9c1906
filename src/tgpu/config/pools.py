"""What one pool of nodes has of its own, from the file's tables `[pools.NAME]`."""

from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """What one pool has otherwise than the settings of the same names say; None: as they say."""

    name: str
    policy: str | None = None
    scorer: str | None = None
    default_limit: str | None = None
    reserve: int | None = None
    cpu_overcommit: float | None = None
    memory_overcommit: float | None = None
    max_wait: str | None = None
    where: str = field(default="", compare=False)
    """The file and the table that say it, for whoever has to complain of it."""


POOL_KEYS = tuple(item.name for item in fields(PoolSettings) if item.name not in ("name", "where"))
