"""Servers ask the one that leads, on real sockets: typed answers, refusals in words, strangers cut off."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.core.core_story import task
from tgpu.domain.container import ImageMeaning
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Gang, LabelOp, LabelRule, Request
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import Capacity, Device, Node
from tgpu.domain.node_orders import NodeOrder, NodesOrdered, NodeVerb
from tgpu.domain.overview import ClusterOverview
from tgpu.domain.preview import HypotheticalJob, StartPreview, Starts
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Amounts
from tgpu.domain.retries import Retries
from tgpu.domain.start_estimate import ExpectedStart, StartInterval
from tgpu.domain.timing import Timing
from tgpu.domain.utilization import MeasuredSteps
from tgpu.domain.views import (
    Advice,
    Alert,
    ClusterShares,
    DeviceView,
    NodeDetail,
    NodeView,
    PlannedStart,
    Quantiles,
    QueueView,
    Reason,
    StartKind,
    TenantShare,
    Why,
)
from tgpu.protocol import door
from tgpu.protocol.peers import METHODS, ShellAnswer, Span
from tgpu.protocol.server_proof import digest_of
from tgpu.protocol.shells import FromShell, OpenShell, ShellInput, ShellOutput, Taken, ToShell
from tgpu.protocol.snapshots import Piece
from tgpu.store.memory import MemoryStore
from tgpu.wiring import peers
from tgpu.wiring.connection_limits import ConnectionLimits
from tgpu.wiring.peers import AskedLink, Asking, UnansweredError, desk_of
from tgpu.wiring.prover import ProofLink, Prover

STORE = MemoryStore()
CLUSTER = STORE.cluster_id
LIMITS = ConnectionLimits(per_user=9, per_address=9, total=99)
PROVER = Prover(STORE, digest_of("secret"))
NODE = NodeView(
    node=Node("n1", NodeState.READY, Capacity(1000, 64, 0, (Device(0, "u", "A100", 80),), {"nic": 2})),
    allocated=Amounts(cpu_milli=1),
    devices=(DeviceView(0, 500, ((7, "ada"),)),),
    running=(),
    silent_s=None,
)
WHY = Why(7, waiting=True, summary="waits", reasons=(Reason("gpus", "needs 2", {"needed": 2}),), position=1,
          advice=Advice("gpu_milli", 2000, 1000, "with 1"))  # fmt: skip
REQUEST = Request(cpu_milli=1000, memory_mib=1, disk_mib=0, gpu_milli=2000)
TASK = task(1, held=True, timing=Timing(begin_ms=5), retries=Retries(limit=1), gang=Gang(2))
ALERT = Alert("many-nodes-lost", "4 of 9 nodes are lost", 5)
PLANNED = PlannedStart(StartKind.CLAIM, TaskId(7, 0), "ada", "t", "train", "n1", (0, 1), 5, 9)
SHARES = ClusterShares(Amounts(1, 2, 3, 4), (TenantShare("t", 0.5, "gpu", Amounts(1)),))
ORDER = NodeOrder(NodeVerb.DRAIN, "ann", ("n1",), (LabelRule("rack", LabelOp.IN, ("r7",)),), "hot")


class Leader:
    """Knows a little, and nothing of job 13; job 14 takes for ever."""

    asked = 0

    async def why(self, job_id: int) -> Why | None:
        self.asked += 1
        if job_id == 13:
            raise UnansweredError("not that one")
        if job_id == 14:
            await asyncio.sleep(60)
        return WHY if job_id == 7 else None

    async def queues(self) -> list[QueueView]:
        reasons = (Reason("quota", "tenant t may run 1 task at once", {"limit": 1}),)
        return [QueueView("t", PriorityClass.DEFAULT, 3, 7, 0.5, head_reasons=reasons)]

    async def nodes(self) -> list[NodeView]:
        return [NODE]

    async def node(self, node_id: str) -> NodeDetail | None:
        assert node_id == "n9"
        return None

    async def overview(self, terms: bool) -> ClusterOverview:
        raise UnansweredError(f"not with terms: {terms}")

    async def measured(self, from_ms: int, node_id: str | None) -> MeasuredSteps:
        return MeasuredSteps(from_ms, cpu_milli=[None if node_id is None else 1])

    async def preview(self, jobs: list[HypotheticalJob]) -> list[StartPreview]:
        return [StartPreview(Starts.NOW, WHY, places=(("n1", (len(jobs),)),)) for _ in jobs]

    async def never_fits(self, requests: list[Request]) -> list[str | None]:
        return [None if request == REQUEST else "never" for request in requests]

    async def why_never(self, request: Request, tasks: int, tenant_id: str) -> str | None:
        return f"never {tasks} for {tenant_id}" if request == REQUEST else None

    async def gang_never_fits(self, gang: Gang, members: list[tuple[Request, int]]) -> str | None:
        assert members == [(REQUEST, gang.size)]
        return "it needs 2 nodes; there is 1" if gang.nodes == 2 else None

    async def giving_way(self) -> list[int]:
        return [7]

    async def expected_starts(self, job_ids: list[int]) -> list[ExpectedStart | None]:
        assert job_ids == [7, 8]
        return [ExpectedStart(StartInterval(1, 2, 3, "time limits")), None]

    async def decisions(self) -> Quantiles:
        return Quantiles(2, 0.001, 0.002, 0.002)

    async def planned_starts(self) -> list[PlannedStart]:
        return [PLANNED]

    async def cluster_shares(self) -> ClusterShares:
        return SHARES

    async def alerts(self) -> list[Alert]:
        return [ALERT]

    async def order_nodes(self, order: NodeOrder) -> NodesOrdered:
        assert order == ORDER
        return NodesOrdered(("n1",))

    async def read_log(self, *question: object) -> Span:
        assert question == ("n1", "7.0.1", "stdout", -10, 100, 0.5)
        return Span(offset=5, data=b"\x00\xff", at_end=True, times=((5, 1), (6, None)))

    async def resolve_image(self, image: str, local: bool) -> ImageMeaning:
        return ImageMeaning(digest=f"{image}@sha256:1", hosts=("n1",) if local else ())

    async def starting_note(self, job_id: int) -> str:
        return f"job {job_id}: its image is being fetched"

    async def open_shell(self, node_id: str, order: OpenShell) -> ShellAnswer:
        return ShellAnswer(shell=9) if order.command else ShellAnswer(refusal=f"no terminal on {node_id}")

    async def say_to_shell(self, message: ToShell) -> None:
        assert message == ShellInput(shell=9, data=b"\xff")

    async def hear_shell(self, shell: int, _wait_s: float) -> list[FromShell]:
        return [ShellOutput(shell=shell, data=b"\x00"), Taken(shell=shell, count=1)]

    async def snapshot_piece(self, user: str, digest: str, offset: int) -> Piece:
        return Piece(data=f"{user} {digest} {offset}".encode(), total=99)

    async def take_snapshot(self, user: str, digest: str) -> bool:
        return (user, digest) == ("a", "d")


class Door(asyncio.Protocol):
    """Takes the first word off and hands the connection on."""

    def __init__(self, link: Callable[[], AskedLink]) -> None:
        self._link = link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        link: asyncio.Protocol
        if data.startswith(door.PROVE):
            link = ProofLink(PROVER, lambda _visit: Door(self._link), LIMITS.unlimited())
        else:
            assert data.startswith(door.PEER)
            link = self._link()
        self._transport.set_protocol(link)
        link.connection_made(self._transport)
        link.data_received(data[door.LENGTH :])


def with_leader(story: Callable[[Leader, Asking, Callable[[], None]], Awaitable[None]], **said: Any) -> None:
    async def run() -> None:
        leader, links = Leader(), []

        def link() -> AskedLink:
            links.append(AskedLink(desk_of(leader), CLUSTER, "secret"))
            return links[-1]

        server = await asyncio.get_running_loop().create_server(lambda: Door(link), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        at = {"url": f"http://127.0.0.1:{port}"} | said
        asking = Asking(
            leader=lambda: at["url"],
            cluster_id=said.get("cluster_id", CLUSTER),
            secret=said.get("secret", "secret"),
            tls=lambda: None,
        )
        await story(leader, asking, lambda: [made.close() for made in links] and None)
        asking.close()
        server.close()

    asyncio.run(run())


def test_every_question_has_its_typed_answer() -> None:
    async def story(_leader: Leader, asking: Asking, _cut: Callable[[], None]) -> None:
        assert set(METHODS) == {
            "why",
            "giving_way",
            "queues",
            "nodes",
            "never_fits",
            "why_never",
            "gang_never_fits",
            "preview",
            "node",
            "overview",
            "measured",
            "order_nodes",
            "read_log",
            "alerts",
            "decisions",
            "planned_starts",
            "cluster_shares",
            "expected_starts",
            "resolve_image",
            "starting_note",
            "open_shell",
            "say_to_shell",
            "hear_shell",
            "snapshot_piece",
            "take_snapshot",
        }
        assert await asking.ask("why", 7) == WHY
        assert await asking.ask("why", 8) is None
        assert await asking.ask("nodes") == [NODE]
        assert await asking.ask("alerts") == [ALERT]
        assert await asking.ask("decisions") == Quantiles(2, 0.001, 0.002, 0.002)
        assert await asking.ask("planned_starts") == [PLANNED]
        assert await asking.ask("cluster_shares") == SHARES
        expected = ExpectedStart(StartInterval(1, 2, 3, "time limits"))
        assert await asking.ask("expected_starts", [7, 8]) == [expected, None]
        assert (await asking.ask("queues"))[0].priority_class is PriorityClass.DEFAULT
        assert await asking.ask("never_fits", [REQUEST, Request(1, 1, 1, 1)]) == [None, "never"]
        assert await asking.ask("why_never", REQUEST, 2, "lab") == "never 2 for lab"
        assert await asking.ask("node", "n9") is None
        assert await asking.ask("measured", 5, "n1") == MeasuredSteps(5, cpu_milli=[1])
        with pytest.raises(UnansweredError, match="not with terms: True"):
            await asking.ask("overview", True)
        jobs = [HypotheticalJob(TASK, ((REQUEST, 2),))]
        assert await asking.ask("preview", jobs) == [StartPreview(Starts.NOW, WHY, places=(("n1", (1,)),))]
        gang = Gang(2, per_node=1, nodes=2)
        assert await asking.ask("gang_never_fits", gang, [(REQUEST, 2)]) == "it needs 2 nodes; there is 1"
        assert await asking.ask("giving_way") == [7]
        assert await asking.ask("order_nodes", ORDER) == NodesOrdered(("n1",))
        assert await asking.ask("resolve_image", "a", True) == ImageMeaning("a@sha256:1", ("n1",))
        assert await asking.ask("starting_note", 7) == "job 7: its image is being fetched"
        assert await asking.ask("snapshot_piece", "a", "d", 5) == Piece(data=b"a d 5", total=99)
        assert await asking.ask("take_snapshot", "a", "d") is True
        span = await asking.ask("read_log", "n1", "7.0.1", "stdout", -10, 100, 0.5)
        assert (span.offset, span.data, span.at_end) == (5, b"\x00\xff", True)
        assert span.times == ((5, 1), (6, None))

    with_leader(story)


def test_a_shell_is_opened_spoken_to_and_heard() -> None:
    async def story(_leader: Leader, asking: Asking, _cut: Callable[[], None]) -> None:
        order = OpenShell(shell=0, attempt="7.0.1", command=("sh",), tty=True)
        assert await asking.ask("open_shell", "n1", order) == ShellAnswer(shell=9)
        attaching = OpenShell(shell=0, attempt="7.0.1")
        assert (await asking.ask("open_shell", "n1", attaching)).refusal == "no terminal on n1"
        assert await asking.ask("say_to_shell", ShellInput(shell=9, data=b"\xff")) is None
        said = [ShellOutput(shell=9, data=b"\x00"), Taken(shell=9, count=1)]
        assert await asking.ask("hear_shell", 9, 0.5) == said

    with_leader(story)


def test_a_refusal_is_told_in_the_leaders_words() -> None:
    async def story(_leader: Leader, asking: Asking, _cut: Callable[[], None]) -> None:
        with pytest.raises(UnansweredError, match="not that one"):
            await asking.ask("why", 13)

    with_leader(story)


def test_a_slow_answer_holds_up_no_other_and_is_given_up_in_time() -> None:
    async def story(_leader: Leader, asking: Asking, _cut: Callable[[], None]) -> None:
        slow = asyncio.create_task(asking.ask("why", 14, patience_s=0.3))
        assert await asking.ask("why", 7) == WHY
        with pytest.raises(UnansweredError, match="did not answer"):
            await slow

    with_leader(story)


def test_a_broken_stream_fails_what_is_open_and_the_next_question_dials_anew() -> None:
    async def story(_leader: Leader, asking: Asking, cut: Callable[[], None]) -> None:
        hanging = asyncio.create_task(asking.ask("why", 14))
        await asyncio.sleep(0.05)
        cut()
        with pytest.raises(UnansweredError, match="gone"):
            await hanging
        assert await asking.ask("why", 7) == WHY

    with_leader(story)


@pytest.mark.parametrize("wrong", [{"secret": "guessed"}, {"cluster_id": "another"}])
def test_who_does_not_know_the_secret_or_belongs_elsewhere_is_cut_off(wrong: dict[str, str]) -> None:
    async def story(leader: Leader, asking: Asking, _cut: Callable[[], None]) -> None:
        with pytest.raises(UnansweredError):
            await asking.ask("why", 7)
        assert leader.asked == 0

    with_leader(story, **wrong)


@pytest.mark.parametrize(
    ("url", "why"), [(None, "no server leads"), ("http://127.0.0.1:1", "cannot be reached")]
)
def test_without_a_leader_there_is_no_answer(url: str | None, why: str) -> None:
    async def story(_leader: Leader, asking: Asking, _cut: Callable[[], None]) -> None:
        with pytest.raises(UnansweredError, match=why):
            await asking.ask("queues")

    with_leader(story, url=url)


def introduced_by(data: bytes) -> bytes:
    """What a connection that begins with `data` reads until the leader closes it."""

    async def run() -> bytes:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Door(lambda: AskedLink(desk_of(Leader()), "c", "secret")), "127.0.0.1", 0
        )
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(door.PEER + data)
        async with asyncio.timeout(20):
            try:
                return await reader.read()
            except ConnectionResetError:
                return b""
            finally:
                writer.close()
                server.close()

    return asyncio.run(run())


def test_stranger_may_not_send_a_large_frame() -> None:
    assert introduced_by((1 << 20).to_bytes(4, "big") + bytes(100)) == b""


def test_stranger_that_does_not_introduce_itself_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "INTRODUCTION_S", 0.05)
    assert introduced_by(b"") == b""
