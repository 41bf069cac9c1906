"""Where a step may run: on the first of its job's nodes, or on others of them that have what it asks for."""

from __future__ import annotations

from tgpu.cli.slurm.turns import Wish
from tgpu.dialects.slurm import step_gpus
from tgpu.dialects.slurm.step_plan import step_of

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SAYS_WHERE = frozenset({"nodelist", "relative", "pty", "input"})
"""The last two because only tasks on the first node hear what is typed."""


class Place(Wish):
    """The step on some of the nodes, and what it takes of these. Raises SlurmError if the job has too few."""

    def __init__(self, said: Mapping[str, str | None], environ: Mapping[str, str]) -> None:
        self.step = step_of(said, environ)
        self.gpus = step_gpus.asked(said, self.step)
        cpus = {node: self.step.cpus_on(node) for node in self.step.nodes}
        named = {} if self.gpus is None else self.gpus.among(environ, environ.get("SLURM_JOB_ID", ""))
        super().__init__({} if "overcommit" in said else cpus, named)

    def first_gpus(self) -> dict[int, list[str]]:
        """By node, whoever else has them."""
        return {node: list(names[:count]) for node, (count, names) in self.named.items()}


def places(said: Mapping[str, str | None], environ: Mapping[str, str]) -> Iterator[Place]:
    """All that would do, the first nodes first."""
    first = Place(said, environ)
    yield first
    if not _SAYS_WHERE & said.keys():
        needed = len(first.step.nodes)  # fewer than --nodes says, if there are not as many tasks
        for at in range(1, int(environ.get("SLURM_JOB_NUM_NODES") or 1) - needed + 1):
            yield Place({**said, "nodes": str(needed), "relative": str(at)}, environ)
