"""What the API asks of the parts it must not know: the live scheduler and the agents' hub."""

from collections.abc import Sequence
from typing import Protocol

from tgpu.domain.container import ImageMeaning
from tgpu.domain.job import Gang, Request
from tgpu.domain.log_times import LogTimes
from tgpu.domain.node_orders import NodeOrder, NodesOrdered
from tgpu.domain.overview import ClusterOverview
from tgpu.domain.preview import HypotheticalJob, StartPreview
from tgpu.domain.start_estimate import ExpectedStart
from tgpu.domain.utilization import MeasuredSteps
from tgpu.domain.views import (
    Alert,
    ClusterShares,
    NodeDetail,
    NodeView,
    PlannedStart,
    Quantiles,
    QueueView,
    Why,
)
from tgpu.protocol.shells import FromShell, OpenShell, ToShell


class Live(Protocol):
    """The leader's picture of now. It may be away (no leader yet): then it raises NoLeaderError."""

    @property
    def leads(self) -> bool:
        """Whether this very server leads: then what it says of the cluster is the cluster's own word."""
        ...

    async def why(self, job_id: int) -> Why | None:
        """None if the job is not live."""
        ...

    async def giving_way(self) -> Sequence[int]:
        """The jobs that are being stopped so that others can start."""
        ...

    async def queues(self) -> Sequence[QueueView]: ...

    async def nodes(self) -> Sequence[NodeView]: ...

    async def node(self, node_id: str) -> NodeDetail | None:
        """One node with the tasks on it; None if there is no such node."""
        ...

    async def overview(self, terms: bool = False) -> ClusterOverview:
        """The cluster as columns, at most a second old. `terms`: with labels, taints and drain reasons."""
        ...

    async def measured(self, from_ms: int, node_id: str | None) -> MeasuredSteps:
        """What agents measured since then, of one node or of the cluster: as far back as this leader has
        led, and a day at most."""
        ...

    async def planned_starts(self) -> Sequence[PlannedStart]:
        """Pending tasks for which nodes and devices are kept, by time; the first ones."""
        ...

    async def cluster_shares(self) -> ClusterShares:
        """What every tenant holds now."""
        ...

    async def alerts(self) -> Sequence[Alert]:
        """What is wrong now, the oldest first."""
        ...

    async def decisions(self) -> Quantiles:
        """How long the leader's latest scheduling cycles took, in seconds."""
        ...

    async def expected_starts(self, job_ids: Sequence[int]) -> Sequence[ExpectedStart | None]:
        """When each of these pending jobs is expected to start, by the leader's latest estimate; None of a
        job that it does not know."""
        ...

    async def order_nodes(self, order: NodeOrder) -> NodesOrdered:
        """What became of it, once that is durable."""
        ...

    async def resolve_image(self, image: str, local: bool) -> ImageMeaning:
        """What its name means now; `local`: only if nodes have it already."""
        ...

    async def starting_note(self, job_id: int) -> str:
        """How far a job is that takes long to start; empty if nobody said."""
        ...

    async def never_fits(self, requests: Sequence[Request]) -> Sequence[str | None]:
        """For each request: why no node here could ever run it, or None if one could."""
        ...

    async def why_never(self, request: Request, tasks: int, tenant_id: str) -> str | None:
        """The same of one, in words for a tenant that would run so many of it together."""
        ...

    async def preview(self, jobs: Sequence[HypotheticalJob]) -> Sequence[StartPreview]:
        """What the next scheduling cycle would do with these jobs if they were submitted together."""
        ...

    async def gang_never_fits(self, gang: Gang, members: Sequence[tuple[Request, int]]) -> str | None:
        """Why the nodes here could never run these tasks together (how many ask for what), or None."""
        ...


class LogUnavailableError(Exception):
    """The node that has the output cannot be reached, or has it no more; the text says which."""


class LogReader(Protocol):
    async def read(  # noqa: PLR0917  a question has these parts
        self, node_id: str, attempt: str, stream: str, offset: int, max_bytes: int, wait_s: float
    ) -> tuple[int, bytes, bool, LogTimes]:
        """(where the data begins, the data, whether nothing will follow, when it arrived). A negative offset
        counts from the end. Raises LogUnavailableError."""
        ...


class ShellRefusedError(Exception):
    """Nobody can be let into the attempt; the text says why."""


class ShellDesk(Protocol):
    """The way into running attempts, which leads over the leader. It may be away: then each raises
    NoLeaderError."""

    async def open_shell(self, node_id: str, order: OpenShell) -> int:
        """Its number, once it is open. Raises ShellRefusedError."""
        ...

    async def say_to_shell(self, message: ToShell) -> None: ...

    async def hear_shell(self, shell: int, wait_s: float) -> Sequence[FromShell]:
        """What it has said since this was last asked; empty if that is nothing within the time."""
        ...


class NoLeaderError(Exception):
    """Nobody leads at the moment: try again shortly."""
