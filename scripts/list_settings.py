"""Writes docs/settings.md from the settings themselves."""

from pathlib import Path

from tgpu.config.pools import POOL_KEYS
from tgpu.config.settings import KEYS
from tgpu.config.tiers import TIER_KEYS

TARGET = Path(__file__).parent.parent / "docs" / "settings.md"
INTRODUCTION = """# Settings

Written by `make docs` from `src/tgpu/config/settings.py`; a test fails when this page is stale.

Every key is a line of `tgpu.toml` (in `TGPU_HOME`, else `/etc/tgpu/tgpu.toml`, or where `TGPU_CONFIG` points)
and an environment variable `TGPU_…`; a flag wins over the variable, the variable over the file.
`tgpu doctor --settings` prints the values in force. Some variables have no key: `TGPU_HOME`, where everything
lives (default `/var/lib/tgpu` for root, `~/.local/share/tgpu` for other users); for clients `TGPU_SERVER`
(`unix:///path`, or `https://host:port`, several with commas), `TGPU_TOKEN`, `TGPU_CA` and `TGPU_SERVER_USER`
(the account of a server on this machine, if that is neither root nor your own); for an agent that joins a
cluster `TGPU_JOIN_TOKEN`: see
[network.md](network.md).

| key | variable | default | meaning |
|---|---|---|---|
"""
POOLS = f"""
## Pools

A pool has terms of its own; it keeps nobody out ([operations](operations.md#keeping-others-out)).
It may have its own {", ".join(f"`{key}`" for key in POOL_KEYS)}.
What it does not say is as above. Only the file can hold them, one table per pool:

```toml
[pools.training]
policy = "fair-tree"
default_limit = "3d"
cpu_overcommit = 1.5
```

## Tiers

A tier is a named set of terms for tenants' jobs: {", ".join(f"`{key}`" for key in TIER_KEYS)}.
A tenant of that tier (`tgpu tenants set lab --tier gold`) has them where it says nothing itself: see
[tenants.md](tenants.md).

```toml
[tiers.gold]
classes = ["high", "default", "low"]
default_time_limit = "4h"
max_time_limit = "7d"
```

## Prices

What things cost by the hour, for reports: the table `[prices]`; see [accounting.md](accounting.md).

## Plug-ins

An installed Python package adds names for `policy` and `scorer`, and rules for where a task may run, by
entry points in the groups `tgpu.orders`, `tgpu.scorers` and `tgpu.rules`; [plugins.md](plugins.md) has an
example. One that cannot be imported is told in the server's log and left out.
"""


def page() -> str:
    rows = [
        f"| `{item.name}` | `TGPU_{item.name.upper()}` | `{item.default!r}` | {item.metadata['doc']} |"
        for item in KEYS
    ]
    return INTRODUCTION + "\n".join(rows) + "\n" + POOLS


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
