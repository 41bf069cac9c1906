"""Of a job that was just submitted: which that it waits for have ended so that it can never start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgpu.cli.screen import note
from tgpu.client.errors import TgpuError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tgpu.client import Client

_MOST_ASKED = 100
_ENDS = frozenset({"completed", "failed", "cancelled"})


def tell(client: Client, described: Iterable[Mapping[str, object]]) -> None:
    """A remark, and no refusal: the server has taken the job, and knows best."""
    wanted = [need for job in described for need in _needs(job)][:_MOST_ASKED]
    if not wanted:
        return
    try:
        states = {job["job_id"]: job["status"] for job in client.jobs_by_id({on for _, on in wanted})}
    except TgpuError:
        return
    for kind, on in dict.fromkeys(wanted):
        status = states[on]
        if status in _ENDS and (status == "completed") == (kind == "afternotok"):
            has = "was cancelled" if status == "cancelled" else f"has {status}"
            note(f"job {on} {has} and cannot meet {kind}:{on} any more: the new job fails by it")


def _needs(job: Mapping[str, object]) -> list[tuple[str, int]]:
    given = job.get("after")
    if not isinstance(given, list):
        return []
    from tgpu.domain.needs import parse_needs  # noqa: PLC0415  only who uses it

    bound = ("afterok", "afternotok")
    return [(need.kind.value, need.on) for need in parse_needs("after", given) if need.kind.value in bound]
