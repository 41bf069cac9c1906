"""Tenants as people see them: a tree with what each is due and has, and all about one of them."""

from __future__ import annotations

from tgpu.cli import words
from tgpu.cli.quota_bars import bars, hours
from tgpu.cli.screen import clean
from tgpu.cli.table import Cell, Column, table

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_COLUMNS = (
    Column("TENANT", floor=10),
    Column("WEIGHT", right=True),
    Column("DUE", right=True),
    Column("GPUS", right=True),
    Column("CPUS", right=True),
    Column("MEMORY", right=True, rank=3),
    Column("RUNNING", right=True),
    Column("WAITING", right=True),
    Column("GPU-HOURS", right=True, rank=1),
    Column("TERMS", floor=8, rank=2),
)


def tree(screen: Screen, tenants: list[dict[str, Any]], *, complete: bool) -> Iterator[str]:
    """What is due is of the whole, if everybody had something to run; nobody knows it who sees but a part."""
    below: dict[str, list[dict[str, Any]]] = {}
    known = {tenant["tenant_id"] for tenant in tenants}
    for tenant in sorted(tenants, key=lambda one: one["tenant_id"].split("/")):
        parent = tenant["tenant_id"].rpartition("/")[0]
        below.setdefault(parent if parent in known else "", []).append(tenant)
    yield from table(screen, _COLUMNS, list(_branch(below, "", "", 1.0 if complete else None)))
    yield "GPUS, CPUS, MEMORY: admitted; of a tenant that rejects what is beyond its quota, also what waits"
    if any((tenant.get("quota") or {}).get("gpu_hours_reserved") for tenant in tenants):
        yield "GPU-HOURS: used, + what is reserved by what runs, until its time limits"


def _branch(
    below: dict[str, list[dict[str, Any]]], parent: str, indent: str, due: float | None
) -> Iterator[list[Cell | str]]:
    children = below.get(parent, [])
    whole = sum(child.get("weight") or 1 for child in children if not is_archived(child))
    for at, child in enumerate(children):
        last = at == len(children) - 1
        name = child["tenant_id"] if not parent else child["tenant_id"].removeprefix(f"{parent}/")
        mark = "" if not parent else "└─ " if last else "├─ "
        part = None if due is None or is_archived(child) else due * (child.get("weight") or 1) / whole
        yield _row(child, f"{indent}{mark}{name}", part)
        deeper = "" if not parent else "   " if last else "│  "
        yield from _branch(below, child["tenant_id"], indent + deeper, part)


def _row(tenant: dict[str, Any], name: str, due: float | None) -> list[Cell | str]:
    quota = tenant.get("quota") or {}
    gpu_hours = quota.get("gpu_hours_used") or 0
    spent = _spent(quota)
    return [
        Cell(name, "dim" if is_archived(tenant) else ""),
        words.number(tenant.get("weight")),
        "-" if due is None else f"{due:.0%}",
        _of(quota, "gpu_used", "gpu_limit"),
        _of(quota, "cpu_used", "cpu_limit"),
        _of(quota, "mem_used_mb", "mem_limit_mb", words.size),
        _of(quota, "running_jobs_used", "running_jobs_limit"),
        _of(quota, "waiting_jobs_used", "waiting_jobs_limit"),
        spent if gpu_hours or quota.get("gpu_hours_limit") is not None else "",
        ", ".join(_terms(tenant)),
    ]


def _of(quota: dict[str, Any], used: str, limit: str, say: Callable[[float], str] = words.number) -> str:
    """`6/8`, or `6` without a limit."""
    said = say(quota.get(used) or 0)
    return said if quota.get(limit) is None else f"{said}/{say(quota[limit])}"


def _spent(quota: dict[str, Any]) -> str:
    """`0.1+48/500`: used, reserved, and the limit."""
    kept = quota.get("gpu_hours_reserved") or 0
    used = hours(max(0, (quota.get("gpu_hours_used") or 0) - kept)) + (f"+{hours(kept)}" if kept else "")
    return used if quota.get("gpu_hours_limit") is None else f"{used}/{hours(quota['gpu_hours_limit'])}"


def _terms(tenant: dict[str, Any]) -> Iterator[str]:
    """What it says itself, and whether it takes jobs; what else it has from above stands there."""
    if is_archived(tenant):
        yield "archived"
    if tenant.get("tier"):
        yield f"tier {tenant['tier']}"
    if tenant.get("over_quota"):
        yield {"queue": "queues", "reject": "rejects"}.get(tenant["over_quota"], str(tenant["over_quota"]))
    if tenant.get("classes") is not None:
        yield f"only {' '.join(tenant['classes'])}"
    if tenant.get("max_time_limit_s") is not None:
        yield f"at most {words.duration(tenant['max_time_limit_s'])}"


def is_archived(tenant: dict[str, Any]) -> bool:
    return bool(tenant.get("archived") or (tenant.get("effective") or {}).get("archived"))


def card(screen: Screen, tenant: dict[str, Any]) -> Iterator[str]:
    title = screen.paint(clean(tenant["tenant_id"]), "bold")
    yield title + ("  archived: takes no new jobs" if is_archived(tenant) else "")
    for label, value in _facts(tenant):
        yield f"  {screen.paint(f'{label:<13}', 'dim')} {clean(value)}"
    yield from bars(screen, tenant.get("quota") or {})


def _facts(tenant: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "weight", words.number(tenant.get("weight"))
    if tenant.get("tier"):
        yield "tier", tenant["tier"]
    for label, name, say in (
        ("classes", "classes", " ".join),
        ("default class", "default_class", str),
        ("default time", "default_time_limit_s", words.duration),
        ("longest time", "max_time_limit_s", words.duration),
        ("over quota", "over_quota", str),
        ("may burst", "may_burst", lambda may: "yes" if may else "no"),
    ):
        value = (tenant.get("effective") or {}).get(name)
        if value is not None:
            yield label, say(value) + _source(tenant, name)
    if tenant.get("budget_gpu_hours") is not None:
        period = tenant.get("budget_period")
        every = "in all" if period == "ever" else f"a {period}"
        spent = tenant.get("budget_used_gpu_hours")
        of = "" if spent is None else f"{hours(spent)} of "
        yield "budget", f"{of}{words.gpu_hours(hours(tenant['budget_gpu_hours']))} {every}"


def _source(tenant: dict[str, Any], name: str) -> str:
    """Who says it, unless that is the tenant itself."""
    source = str((tenant.get("effective_from") or {}).get(name) or "own")
    if source.startswith("parent "):
        source = f"from {source.removeprefix('parent ')}"
    return {"own": "", "default": " (unless said)"}.get(source, f" ({source})")
