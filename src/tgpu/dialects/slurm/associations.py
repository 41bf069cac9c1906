"""Who may charge what to whom: tenants as the accounts that `sacctmgr` and `sshare` tell of."""

from __future__ import annotations

from tgpu.dialects.slurm.sheets import Sheet

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

CLUSTER = "tgpu"


class Association:
    """A tenant, by a name that `--account` takes, and who may name it."""

    def __init__(self, account: str, user: str, tenant: Mapping[str, Any]) -> None:
        self.account, self.user, self.tenant = account, user, tenant

    @property
    def parent(self) -> str:
        return str(self.tenant.get("parent_id") or "root")

    @property
    def shares(self) -> str:
        return str(self.tenant.get("weight") or 1)


def associations(tenants: Sequence[Mapping[str, Any]], user: str) -> list[Association]:
    """Each tenant by all its names: `lab/vision`, and `vision` if no other is called so. None where there is
    one tenant: any account is taken there, and programs look whether theirs is among those listed."""
    if len(tenants) <= 1:
        return []
    ends = [str(tenant["tenant_id"]).rpartition("/")[2] for tenant in tenants]
    found = []
    for tenant, end in zip(tenants, ends, strict=True):
        names = dict.fromkeys([str(tenant["tenant_id"]), *([end] if ends.count(end) == 1 else [])])
        found += [Association(name, user, tenant) for name in names]
    return found


FIELDS: dict[str, tuple[str, int, Callable[[Association], str]]] = {
    "account": ("Account", 10, lambda one: one.account),
    "adminlevel": ("Admin", 9, lambda _: "None"),
    "cluster": ("Cluster", 10, lambda _: CLUSTER),
    "defaultaccount": ("Def Acct", 10, lambda one: one.account),
    "defaultqos": ("Def QOS", 9, lambda _: "normal"),
    "description": ("Descr", 20, lambda one: str(one.tenant["tenant_id"])),
    "fairshare": ("Share", 9, lambda one: one.shares),
    "name": ("Name", 10, lambda one: one.account),
    "organization": ("Org", 20, lambda one: str(one.tenant["tenant_id"]).partition("/")[0]),
    "parentname": ("Par Name", 10, lambda one: one.parent),
    "qos": ("QOS", 20, lambda _: "normal"),
    "rawshares": ("RawShares", 10, lambda one: one.shares),
    "share": ("Share", 9, lambda one: one.shares),
    "user": ("User", 10, lambda one: one.user),
}
_NOTHING = (
    "EffectvUsage FairShareFactor GrpCPUMins GrpCPUs GrpJobs GrpNodes GrpSubmitJobs GrpTRES GrpTRESMins "
    "GrpTRESRunMins GrpWall ID LevelFS MaxJobs MaxNodes MaxSubmitJobs MaxTRES MaxTRESMins MaxTRESPerJob "
    "MaxTRESPerNode MaxWall NormShares NormUsage Partition Priority RawUsage TRESRunMins"
)
"""Slurm has words for these; what is like them here `tgpu quota` and `tgpu report` tell."""
FIELDS |= {name.lower(): (name, max(10, len(name)), lambda _: "") for name in _NOTHING.split()}


def sheet(form: str) -> Sheet:
    return Sheet(form, FIELDS, f"there are {', '.join(sorted(FIELDS))}")
