"""How heavily a running task weighs on its node's memory."""

from typing import NamedTuple

from tgpu.runner import tree
from tgpu.runner.cgroups import files
from tgpu.runner.cgroups.groups import Cgroups
from tgpu.runner.journal import Claim

KIB_IN_MIB = 1024


class Burden(NamedTuple):
    attempt: str
    score: int
    """The higher, the sooner it gives way (`oom_score_adj`)."""
    reserved_mib: int
    used_mib: int

    @property
    def excess_mib(self) -> int:
        return self.used_mib - self.reserved_mib


def burden_of(attempt: str, claim: Claim, reserved_mib: int, cgroups: Cgroups | None) -> Burden:
    """The score is the kernel's, so that it is known of a task from before this agent, too."""
    pids = tree.descendants(claim.pid)
    score = files.read(f"/proc/{pids[0]}/oom_score_adj").strip() if pids else ""
    used = cgroups.memory_mib(attempt) if cgroups is not None else 0
    if not used:
        used = sum(files.entry_kib(f"/proc/{pid}/status", "RssAnon:") for pid in pids) // KIB_IN_MIB
    return Burden(attempt, int(score or 0), reserved_mib, used)
