"""What the API asks of the live scheduler: answered here while this server leads, by the leader otherwise."""

from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any, TypeVar

from tgpu.api import ports
from tgpu.api.ports import LogUnavailableError, NoLeaderError
from tgpu.control.answers import Answers, NotLeadingError
from tgpu.control.hub import Hub, NodeAwayError
from tgpu.control.shells import ShellRefusedError
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
from tgpu.protocol.peers import ShellAnswer, Span
from tgpu.protocol.shells import FromShell, OpenShell, ToShell
from tgpu.protocol.snapshots import Piece
from tgpu.wiring.known_nodes import KnownNodes
from tgpu.wiring.peers import Asking, UnansweredError
from tgpu.wiring.snapshots import ServerSnapshots

T = TypeVar("T")
_FITS_FOR_S = 5.0
"""How long a server that follows believes that a kind of request can run somewhere."""
_MOST_KEPT = 4096
_SOON_S = 1.0
"""How long a submission waits for the leader's word on it."""
_ALONE_S = 2.0
_SHELL_S = 15.0
"""Longer than the leader waits for a node."""


class OwnDesk:
    """What this server knows itself; for callers here and elsewhere it fails by the same UnansweredError."""

    def __init__(
        self, answers: Answers, hub: Hub, snapshots: ServerSnapshots, decisions: Callable[[], Quantiles]
    ) -> None:
        self._answers, self._hub, self._snapshots, self._decisions = answers, hub, snapshots, decisions

    async def why(self, job_id: int) -> Why | None:
        return await _or_unanswered(self._answers.why(job_id))

    async def giving_way(self) -> Sequence[int]:
        return await _or_unanswered(self._answers.giving_way())

    async def queues(self) -> Sequence[QueueView]:
        return await _or_unanswered(self._answers.queues())

    async def nodes(self) -> Sequence[NodeView]:
        return await _or_unanswered(self._answers.nodes())

    async def node(self, node_id: str) -> NodeDetail | None:
        return await _or_unanswered(self._answers.node(node_id))

    async def overview(self, terms: bool) -> ClusterOverview:
        return await _or_unanswered(self._answers.overview(terms=terms))

    async def measured(self, from_ms: int, node_id: str | None) -> MeasuredSteps:
        return await _or_unanswered(self._answers.measured(from_ms, node_id))

    async def planned_starts(self) -> Sequence[PlannedStart]:
        return await _or_unanswered(self._answers.planned_starts())

    async def cluster_shares(self) -> ClusterShares:
        return await _or_unanswered(self._answers.cluster_shares())

    async def alerts(self) -> Sequence[Alert]:
        return await _or_unanswered(self._answers.alerts())

    async def decisions(self) -> Quantiles:
        return self._decisions()

    async def expected_starts(self, job_ids: Sequence[int]) -> Sequence[ExpectedStart | None]:
        return await _or_unanswered(self._answers.expected_starts(job_ids))

    async def never_fits(self, requests: Sequence[Request]) -> Sequence[str | None]:
        return await _or_unanswered(self._answers.never_fits(requests))

    async def why_never(self, request: Request, tasks: int, tenant_id: str) -> str | None:
        return await _or_unanswered(self._answers.why_never(request, tasks, tenant_id))

    async def gang_never_fits(self, gang: Gang, members: Sequence[tuple[Request, int]]) -> str | None:
        return await _or_unanswered(self._answers.gang_never_fits(gang, members))

    async def preview(self, jobs: Sequence[HypotheticalJob]) -> Sequence[StartPreview]:
        return await _or_unanswered(self._answers.preview(jobs))

    async def resolve_image(self, image: str, local: bool) -> ImageMeaning:
        return await self._hub.images.meaning(image, local=local)

    async def starting_note(self, job_id: int) -> str:
        return await _or_unanswered(self._answers.starting_note(job_id))

    async def order_nodes(self, order: NodeOrder) -> NodesOrdered:
        return await _or_unanswered(self._answers.order_nodes(order))

    async def read_log(  # noqa: PLR0917  a question has these parts
        self, node_id: str, attempt: str, stream: str, offset: int, max_bytes: int, wait_s: float
    ) -> Span:
        chunk = await _or_unanswered(self._hub.read(node_id, attempt, stream, offset, max_bytes, wait_s))
        if chunk.error:
            raise UnansweredError(chunk.error)
        return Span(offset=chunk.offset, data=chunk.data, at_end=chunk.at_end, times=chunk.times)

    async def open_shell(self, node_id: str, order: OpenShell) -> ShellAnswer:
        try:
            return ShellAnswer(shell=await _or_unanswered(self._hub.open_shell(node_id, order)))
        except ShellRefusedError as error:
            return ShellAnswer(refusal=str(error))

    async def say_to_shell(self, message: ToShell) -> None:
        """Without a pause, so that what is said in turn arrives in turn."""
        self._hub.shells.say(message)

    async def hear_shell(self, shell: int, wait_s: float) -> Sequence[FromShell]:
        return await self._hub.shells.hear(shell, wait_s)

    async def snapshot_piece(self, user: str, digest: str, offset: int) -> Piece:
        return await self._snapshots.own_piece(user, digest, offset)

    async def take_snapshot(self, user: str, digest: str) -> bool:
        return await self._snapshots.bring(user, digest)


async def _or_unanswered(answer: Awaitable[T]) -> T:
    try:
        return await answer
    except (NotLeadingError, NodeAwayError) as error:
        raise UnansweredError(str(error)) from error


class LiveAnswers:
    """The API's `Live`, `LogReader` and `ShellDesk`."""

    def __init__(
        self,
        own: OwnDesk,
        asking: Asking,
        leads: Callable[[], bool],
        store: Callable[[], Awaitable[object]],
        known: KnownNodes,
    ) -> None:
        """`store`: a question to the store, which fails as it does if that is away. `known`: what this server
        knows of the nodes itself, for when the leader does not answer."""
        self._own, self._asking, self._leads, self._store, self._known = own, asking, leads, store, known
        self._fits: dict[Request, float] = {}
        self._alone_until = 0.0
        """The leader did not answer a moment ago: until then it is not waited for again."""

    @property
    def leads(self) -> bool:
        return self._leads()

    async def why(self, job_id: int) -> Why | None:
        answer: Why | None = await self._answer("why", job_id)
        return answer

    async def giving_way(self) -> Sequence[int]:
        answer: Sequence[int] = await self._answer("giving_way")
        return answer

    async def queues(self) -> Sequence[QueueView]:
        answer: Sequence[QueueView] = await self._answer("queues")
        return answer

    async def nodes(self) -> Sequence[NodeView]:
        answer: Sequence[NodeView] = await self._answer("nodes")
        return answer

    async def node(self, node_id: str) -> NodeDetail | None:
        answer: NodeDetail | None = await self._answer("node", node_id)
        return answer

    async def overview(self, terms: bool = False) -> ClusterOverview:
        answer: ClusterOverview = await self._answer("overview", terms)
        return answer

    async def measured(self, from_ms: int, node_id: str | None) -> MeasuredSteps:
        answer: MeasuredSteps = await self._answer("measured", from_ms, node_id)
        return answer

    async def planned_starts(self) -> Sequence[PlannedStart]:
        answer: Sequence[PlannedStart] = await self._answer("planned_starts")
        return answer

    async def cluster_shares(self) -> ClusterShares:
        answer: ClusterShares = await self._answer("cluster_shares")
        return answer

    async def order_nodes(self, order: NodeOrder) -> NodesOrdered:
        answer: NodesOrdered = await self._answer("order_nodes", order)
        return answer

    async def resolve_image(self, image: str, local: bool) -> ImageMeaning:
        if monotonic() < self._alone_until:
            return ImageMeaning()  # as if no node had answered
        answer: ImageMeaning = await self._answer("resolve_image", image, local)
        return answer

    async def preview(self, jobs: Sequence[HypotheticalJob]) -> Sequence[StartPreview]:
        answer: Sequence[StartPreview] = await self._answer("preview", jobs)
        return answer

    async def starting_note(self, job_id: int) -> str:
        answer: str = await self._answer("starting_note", job_id)
        return answer

    async def alerts(self) -> Sequence[Alert]:
        answer: Sequence[Alert] = await self._answer("alerts")
        return answer

    async def decisions(self) -> Quantiles:
        answer: Quantiles = await self._answer("decisions")
        return answer

    async def expected_starts(self, job_ids: Sequence[int]) -> Sequence[ExpectedStart | None]:
        answer: Sequence[ExpectedStart | None] = await self._answer("expected_starts", list(job_ids))
        return answer

    async def never_fits(self, requests: Sequence[Request]) -> Sequence[str | None]:
        if self._leads():
            return await self._or_no_leader(self._own.never_fits(requests))
        now = monotonic()
        if all(self._fits.get(request, 0.0) > now for request in requests):
            return [None] * len(requests)
        verdicts: Sequence[str | None]
        try:
            verdicts = await self._soon("never_fits", list(requests))
        except UnansweredError:
            return await self._known.never_fits(requests)
        if len(self._fits) > _MOST_KEPT:
            self._fits.clear()
        self._fits.update(
            {
                request: now + _FITS_FOR_S
                for request, verdict in zip(requests, verdicts, strict=True)
                if verdict is None
            }
        )
        return verdicts

    async def why_never(self, request: Request, tasks: int, tenant_id: str) -> str | None:
        if self._leads():
            return await self._or_no_leader(self._own.why_never(request, tasks, tenant_id))
        try:
            sentence: str | None = await self._soon("why_never", request, tasks, tenant_id)
        except UnansweredError:
            return (await self._known.never_fits([request]))[0]
        return sentence

    async def gang_never_fits(self, gang: Gang, members: Sequence[tuple[Request, int]]) -> str | None:
        if self._leads():
            return await self._or_no_leader(self._own.gang_never_fits(gang, members))
        try:
            verdict: str | None = await self._soon("gang_never_fits", gang, list(members))
        except UnansweredError:
            return await self._known.gang_never_fits(gang, members)
        return verdict

    async def _soon(self, method: str, *arguments: object) -> Any:  # noqa: ANN401  as METHODS says
        """For whoever can do without the leader's word: it is not waited for long, and not each time. Raises
        UnansweredError."""
        if monotonic() < self._alone_until:
            raise UnansweredError("the leader did not answer a moment ago")
        try:
            return await self._asking.ask(method, *arguments, patience_s=_SOON_S)
        except UnansweredError:
            self._alone_until = monotonic() + _ALONE_S
            raise

    async def read(  # noqa: PLR0917  a question has these parts
        self, node_id: str, attempt: str, stream: str, offset: int, max_bytes: int, wait_s: float
    ) -> tuple[int, bytes, bool, LogTimes]:
        question = (node_id, attempt, stream, offset, max_bytes, wait_s)
        try:
            if self._leads():
                span = await self._own.read_log(*question)
            else:
                span = await self._asking.ask("read_log", *question, patience_s=wait_s + 15)
        except UnansweredError as error:
            raise LogUnavailableError(str(error)) from error
        return span.offset, span.data, span.at_end, span.times

    async def open_shell(self, node_id: str, order: OpenShell) -> int:
        answer: ShellAnswer = await self._answer("open_shell", node_id, order, patience_s=_SHELL_S)
        if answer.refusal:
            raise ports.ShellRefusedError(answer.refusal)
        return answer.shell

    async def say_to_shell(self, message: ToShell) -> None:
        await self._answer("say_to_shell", message)

    async def hear_shell(self, shell: int, wait_s: float) -> Sequence[FromShell]:
        said: Sequence[FromShell] = await self._answer(
            "hear_shell", shell, wait_s, patience_s=wait_s + _SHELL_S
        )
        return said

    async def _answer(self, method: str, *arguments: object, patience_s: float = 10.0) -> Any:  # noqa: ANN401  as METHODS says
        if self._leads():
            return await self._or_no_leader(getattr(self._own, method)(*arguments))
        return await self._or_no_leader(self._asking.ask(method, *arguments, patience_s=patience_s))

    async def _or_no_leader(self, answer: Awaitable[T]) -> T:
        """Nobody can lead while the store is away: then that is said, and not that nobody leads."""
        try:
            return await answer
        except UnansweredError as error:
            await self._store()
            raise NoLeaderError(str(error)) from error
