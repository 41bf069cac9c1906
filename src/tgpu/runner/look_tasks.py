"""Looks at tasks that are processes of this node: by their cgroups, and by their processes for the rest."""

from collections.abc import Iterable, Mapping

from tgpu.runner.cgroups.groups import Cgroups
from tgpu.runner.journal import Claim
from tgpu.runner.look import Look
from tgpu.runner.look_groups import look_at_group
from tgpu.runner.look_tree import Families, completed, members_of


def look_at_tasks(running: Mapping[str, Claim], cgroups: Cgroups | None) -> dict[str, Look]:
    """Reads a few small files per task: not for the event loop. One that ends meanwhile is left out."""
    if cgroups is None:
        return _by_families(running.items())
    looks: dict[str, Look] = {}
    without: list[tuple[str, Claim]] = []
    for attempt, claim in running.items():
        members = members_of(f"{cgroups.base}/{attempt}")
        if not members:
            without.append((attempt, claim))
            continue
        folders = {name: f"{base}/{attempt}" for name, base in cgroups.bases.items()}
        looks[attempt] = completed(look_at_group(cgroups.version, folders), members)
    return looks | _by_families(without)


def _by_families(running: Iterable[tuple[str, Claim]]) -> dict[str, Look]:
    """Also of a task from before this agent, which then had no cgroups."""
    waiting = list(running)
    if not waiting:
        return {}
    families = Families()
    members = {attempt: families.of(claim.pid) for attempt, claim in waiting}
    return {attempt: completed(Look(), pids) for attempt, pids in members.items() if pids}
