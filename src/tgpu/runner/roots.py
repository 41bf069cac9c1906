"""Where the processes of the tasks here begin: what tells a task's own from one that only says so."""

from collections.abc import Mapping
from typing import NamedTuple

from tgpu.runner.journal import Claim


class Roots(NamedTuple):
    supervisors: Mapping[int, tuple[str, Claim]]
    """By number of process: whose attempt it supervises. All processes of that descend from it."""
    containers: Mapping[str, int]
    """By attempt, its first process; 0: not known yet."""

    def supervised_by(self, pid: int) -> str | None:
        attempt, claim = self.supervisors.get(pid, ("", None))
        return attempt if claim is not None and claim.is_alive() else None
