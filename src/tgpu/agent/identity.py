"""What an agent says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from tgpu import __version__
from tgpu.domain.node import Capacity
from tgpu.protocol.messages import PROTOCOL, AttemptReport, Hello


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """What does not change while it runs."""

    node_id: str
    boot_id: str
    pool: str
    labels: Mapping[str, str]
    serves: str
    taints: tuple[str, ...] = ()
    cluster_id: str | None = None
    """Which it has joined; None: whichever it meets first."""
    key: str = ""
    """By which that cluster knows it."""
    instance: str = ""
    """Of this process, and of no other."""

    def why_not(self, theirs: str) -> str:
        """A server of that cluster is not obeyed."""
        if self.cluster_id is None:
            return f"the server now belongs to another cluster, {theirs}"
        return (
            f"this node has joined cluster {self.cluster_id}, but the server belongs to {theirs}: "
            "check --server, or join that cluster with a token of its own"
        )

    def hello(  # noqa: PLR0917  a node has these facts
        self,
        labels: Mapping[str, str],
        capacity: Capacity,
        attempts: tuple[AttemptReport, ...],
        clock_ms: int,
        last_sessions: tuple[int, ...] | None = None,
        disk_shortage: str = "",
    ) -> Hello:
        """The answer to a greeting; `labels` are all that it has now."""
        return Hello(
            protocol=PROTOCOL,
            node_id=self.node_id,
            boot_id=self.boot_id,
            version=__version__,
            capacity=capacity,
            pool=self.pool,
            labels=labels,
            serves=self.serves,
            attempts=attempts,
            taints=self.taints,
            key=self.key,
            clock_ms=clock_ms,
            disk_shortage=disk_shortage,
            shells=True,
            gangs=True,
            snapshots=True,
            shared_tmp=True,
            keys=self.cluster_id is not None,
            instance=self.instance,
            last_sessions=last_sessions,
        )
