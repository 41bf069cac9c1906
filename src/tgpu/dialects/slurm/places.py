"""Partitions and accounts by name: the pool and the tenant that they are here."""

from __future__ import annotations

from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Sequence


def pool_of(said: str, pools: Sequence[str] | None) -> tuple[str | None, str]:
    """And a remark, if it has no effect. `pools`: those that there are, if that is known."""
    names = [name.strip() for name in said.split(",") if name.strip()]
    if pools is None:
        return names[0] if names else None, ""
    found = next((name for name in names if name in pools), None)
    if found is not None:
        return found, ""
    if len(pools) <= 1:
        return None, f"--partition={said} has no effect: all nodes are in one pool"
    raise SlurmError(f"--partition: there is no pool {said}; there are {', '.join(sorted(pools))}")


def tenant_of(said: str, tenants: Sequence[str] | None) -> tuple[str | None, str]:
    if tenants is None or said in tenants:
        return said, ""
    below = [name for name in tenants if name.rpartition("/")[2] == said]
    if len(below) == 1:
        return below[0], ""
    if len(tenants) <= 1:
        return None, f"--account={said} has no effect: there is one tenant"
    if below:
        raise SlurmError(f"--account={said} could be {', '.join(sorted(below))}: say which")
    raise SlurmError(f"--account: there is no tenant {said}; `tgpu tenants` lists those that exist")
