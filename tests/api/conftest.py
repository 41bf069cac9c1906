"""A real server on a real unix socket and a loopback port, with a store in memory and a scheduler made up."""

import asyncio
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import uvicorn
import uvloop

from tgpu.api.app import create_app
from tgpu.api.bounded_http import BoundedProtocol
from tgpu.api.feed import Feed
from tgpu.api.ports import LogUnavailableError, NoLeaderError, ShellRefusedError
from tgpu.api.services import Services
from tgpu.api.websocket import LONGEST_MESSAGE, PeerCredWebSocket
from tgpu.config.settings import Settings
from tgpu.control.overview import Heard, OverviewColumns
from tgpu.control.series_book import SeriesBook
from tgpu.core.picture import Picture
from tgpu.core.policy import named
from tgpu.core.preview import preview, with_jobs
from tgpu.domain.container import ImageMeaning
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Gang, Request
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.log_times import LogTimes
from tgpu.domain.node import Capacity, Device, DeviceSigns, ForeignUse, Node
from tgpu.domain.node_orders import NodeOrder, NodesOrdered
from tgpu.domain.overview import ClusterOverview
from tgpu.domain.preview import FIRST_HYPOTHETICAL_ID, HypotheticalJob, StartPreview
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Amounts
from tgpu.domain.start_estimate import ExpectedStart, StartInterval
from tgpu.domain.utilization import MeasuredSteps
from tgpu.domain.views import (
    Advice,
    Alert,
    ClusterShares,
    DeviceView,
    Holder,
    NodeDetail,
    NodeTask,
    NodeView,
    PlannedStart,
    Quantiles,
    QueueView,
    Reason,
    Why,
)
from tgpu.observe.metrics import Metrics
from tgpu.protocol.shells import FromShell, OpenShell, ShellInput, ShellOutput, ShellOver, Taken, ToShell
from tgpu.store.memory import MemoryStore

T = TypeVar("T")
HERE = Path(__file__).parent
NOW_MS = 1_900_000_000_000
OTHER = "nobody"


class FakeLive:
    """Knows one node with two GPUs; anything above eight GPUs, or not on an A100, can never run."""

    def __init__(self) -> None:
        self.leads = True
        self.answers: dict[int, Why] = {}
        self.yielding: list[int] = []
        self.wrong: list[Alert] = []
        self.orders: list[NodeOrder] = []
        self.outcome = NodesOrdered(("ws1",))
        self.images: dict[str, ImageMeaning] = {}
        self.images_asked: list[tuple[str, bool]] = []
        self.notes: dict[int, str] = {}
        self.tasks: list[NodeTask] = []
        self.now_ms = lambda: NOW_MS
        self.columns, self.heard = OverviewColumns(), Heard({}, {}, 0.0)
        self.picture = Picture(named("priority"))
        """The cluster state that the overview shows and previews are planned on."""
        devices = tuple(Device(index, f"GPU-{index}", "A100", 81920) for index in range(2))
        self.picture.set_node(Node("ws1", NodeState.READY, Capacity(32_000, 131072, 512000, devices)))
        self.picture.set_reachable("ws1", reachable=True)
        self.planned: list[PlannedStart] = []
        self.shares = ClusterShares(Amounts(32_000, 131072, 512000, 2000))
        self.expected: dict[int, ExpectedStart] = {}
        self.start: StartInterval | None = None

    def _check(self) -> None:
        if not self.leads:
            raise NoLeaderError("no server leads yet")

    async def alerts(self) -> list[Alert]:
        self._check()
        return self.wrong

    async def expected_starts(self, job_ids: Sequence[int]) -> list[ExpectedStart | None]:
        self._check()
        return [self.expected.get(job_id) for job_id in job_ids]

    async def decisions(self) -> Quantiles:
        self._check()
        return Quantiles(2, 0.001, 0.002, 0.002)

    async def why(self, job_id: int) -> Why | None:
        self._check()
        holder = Holder(1, "alice", "train", 1000, (0,), "ws1", 10.0, None)
        reasons = (Reason("gpu-taken", "All 2 GPUs are taken."),)
        advice = Advice("gpu_milli", 2000, 1500, "with --gpus 1.5 it would start now on ws1")
        return Why(
            job_id,
            True,
            "Waits for a GPU.",
            reasons,
            (holder,),
            position=1,
            starts_at_ms=NOW_MS,
            estimate="not before 17:46 UTC",
            advice=advice,
            start=self.start,
        )

    async def preview(self, jobs: Sequence[HypotheticalJob]) -> Sequence[StartPreview]:
        self._check()
        self.picture.now_ms = max(self.picture.now_ms, NOW_MS)
        tasks = [job.tasks(FIRST_HYPOTHETICAL_ID + place) for place, job in enumerate(jobs)]
        return preview(with_jobs(self.picture, tasks), self.picture.policy, tasks)

    async def giving_way(self) -> Sequence[int]:
        self._check()
        return self.yielding

    async def resolve_image(self, image: str, local: bool) -> ImageMeaning:
        self._check()
        self.images_asked.append((image, local))
        return self.images.get(image, ImageMeaning())

    async def starting_note(self, job_id: int) -> str:
        self._check()
        return self.notes.get(job_id, "")

    async def queues(self) -> Sequence[QueueView]:
        self._check()
        why = (Reason("gpus", "needs 2 GPUs", {"needs": 2}),)
        return [QueueView("default", PriorityClass.HIGH, 3, 42, 0.25, 0.5, why)]

    async def nodes(self) -> Sequence[NodeView]:
        self._check()
        bob = ForeignUse(4711, "bob", "python", 12288)
        devices = (
            Device(0, "GPU-0", "A100", 81920, island=0, minor=1, pci="0000:1b:00.0"),
            Device(1, "GPU-1", "A100", 81920, island=0, foreign=(bob,), avoided=True),
        )
        capacity = Capacity(32_000, 131072, 512000, devices, {"licence": 2})
        node = Node("ws1", NodeState.READY, capacity, labels={"zone": "a"}, taints=("spot",))
        signs = DeviceSigns(61, 250, "heat", 0, 2)
        views = (DeviceView(0, 500, ((42, "alice"),), 80, 30000, signs), DeviceView(1, 0))
        return [NodeView(node, Amounts(2500, 16384, 0, 500), views, (AttemptId(42, 0, 1),), None, 1700, 9000)]

    async def node(self, node_id: str) -> NodeDetail | None:
        views = {view.node.node_id: view for view in await self.nodes()}
        return NodeDetail(views[node_id], tuple(self.tasks)) if node_id in views else None

    async def overview(self, terms: bool = False) -> ClusterOverview:
        """Of a real picture, which tests may change; without one, of a node with two GPUs."""
        self._check()
        return self.columns.make(self.picture, SeriesBook(), self.heard, self.now_ms(), terms=terms)

    async def measured(self, from_ms: int, _node_id: str | None) -> MeasuredSteps:
        self._check()
        return MeasuredSteps(from_ms, 60_000, [1000, None, 3000], [10, None, 30], [50.0, None, 75.0])

    async def planned_starts(self) -> Sequence[PlannedStart]:
        self._check()
        return self.planned

    async def cluster_shares(self) -> ClusterShares:
        self._check()
        return self.shares

    async def order_nodes(self, order: NodeOrder) -> NodesOrdered:
        self._check()
        self.orders.append(order)
        return self.outcome

    async def never_fits(self, requests: Sequence[Request]) -> Sequence[str | None]:
        self._check()
        return [self._never(request) for request in requests]

    async def why_never(self, request: Request, tasks: int, tenant_id: str) -> str | None:
        self._check()
        never = self._never(request)
        return (
            None if never is None else f"{never}; {tenant_id} would need {tasks * request.gpu_milli // 1000}"
        )

    async def gang_never_fits(self, gang: Gang, members: Sequence[tuple[Request, int]]) -> str | None:
        self._check()
        tasks = sum(count for _, count in members)
        return f"its {tasks} tasks are too many" if gang.size > 100 else None

    def _never(self, request: Request) -> str | None:
        if "a100" in request.gpu_types_barred:
            return "a100 GPUs are given only by name"
        return "no node has more than 8 GPUs" if request.gpu_milli > 8000 else None


class FakeLogs:
    """Output by (attempt, stream); grows when a test appends, ends when a test says so."""

    def __init__(self) -> None:
        self.data: dict[tuple[str, str], bytes] = {}
        self.dropped: dict[tuple[str, str], int] = {}
        self.times: dict[tuple[str, str], LogTimes] = {}
        self.ended: set[str] = set()
        self.broken = ""

    async def read(
        self, _node_id: str, attempt: str, stream: str, offset: int, max_bytes: int, wait_s: float
    ) -> tuple[int, bytes, bool, LogTimes]:
        if self.broken:
            raise LogUnavailableError(self.broken)
        key = (attempt, stream)
        for _ in range(int(wait_s * 100)):
            if len(self.data.get(key, b"")) > offset >= 0 or attempt in self.ended:
                break
            await asyncio.sleep(0.01)
        data, dropped = self.data.get(key, b""), self.dropped.get(key, 0)
        begin = max(len(data) + offset if offset < 0 else offset, dropped)
        # A node answers with less than was asked for when that is more than it likes to send at once.
        part = data[begin : begin + min(max_bytes, 100_000)]
        times = tuple(time for time in self.times.get(key, ()) if begin <= time[0] < begin + len(part))
        return begin, part, attempt in self.ended and begin + len(part) >= len(data), times


class FakeShells:
    """Echoes input in capitals. After the end of input it waits until the user has taken all output, then
    ends with exit code 3. `asleep`: takes and says nothing.
    """

    def __init__(self) -> None:
        self.refusal = self.away = ""
        self.asleep = False
        self.orders: list[OpenShell] = []
        self.heard: list[ToShell] = []
        self.said: dict[int, asyncio.Queue[FromShell]] = {}
        self._untaken: Counter[int] = Counter()
        """Bytes of output per shell that the user has not taken yet."""
        self._input_ended: set[int] = set()

    async def open_shell(self, _node_id: str, order: OpenShell) -> int:
        if self.refusal:
            raise ShellRefusedError(self.refusal)
        if self.away:
            raise NoLeaderError(self.away)
        self.orders.append(order)
        self.said[len(self.orders)] = asyncio.Queue()
        return len(self.orders)

    async def say_to_shell(self, message: ToShell) -> None:
        self.heard.append(message)
        if self.asleep:
            return
        match message:
            case ShellInput(data=b""):
                self._input_ended.add(message.shell)
            case ShellInput(data=data):
                self.say(ShellOutput(shell=message.shell, data=data.upper()))
                self.say(Taken(shell=message.shell, count=len(data)))
            case Taken(count=count):
                self._untaken[message.shell] -= count
        if message.shell in self._input_ended and not self._untaken[message.shell]:
            self._input_ended.remove(message.shell)
            self.say(ShellOver(shell=message.shell, exit_code=3))

    async def hear_shell(self, shell: int, wait_s: float) -> Sequence[FromShell]:
        try:
            return [await asyncio.wait_for(self.said[shell].get(), wait_s)]
        except TimeoutError:
            return []

    def say(self, message: FromShell) -> None:
        if isinstance(message, ShellOutput):
            self._untaken[message.shell] += len(message.data)
        self.said[message.shell].put_nowait(message)


@dataclass
class Reply:
    """What a request in another user's name came back with."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class ServerUnderTest:
    def __init__(self, store: Any, directory: Path, known: dict[str, Any], /, **settings: Any) -> None:
        """`known`: what else the server knows of itself, by the names of Services."""
        self.store, self.live, self.logs, self.feed = store, FakeLive(), FakeLogs(), Feed()
        self.shells = FakeShells()
        self.metrics = Metrics()
        self.now_ms = NOW_MS
        self.epoch = 0
        self.socket_path = directory / "api.sock"
        self.services = Services(
            store=store,
            live=self.live,
            logs=self.logs,
            shells=self.shells,
            settings=Settings(home=directory, **settings),
            metrics=self.metrics,
            feed=self.feed,
            now_ms=lambda: self.now_ms,
            version="0.0-test",
            **known,
        )
        self.loop = uvloop.new_event_loop()
        self.port = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._started = threading.Event()
        self._server: uvicorn.Server | None = None

    def _serve(self) -> None:
        with asyncio.Runner(
            loop_factory=lambda: self.loop
        ) as runner:  # leaves no task and no open file behind
            try:
                runner.run(self._main())
            finally:
                self._started.set()

    async def _main(self) -> None:
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(str(self.socket_path))
        self.socket_path.chmod(0o666)
        tcp = socket.socket(socket.AF_INET)
        tcp.bind(("127.0.0.1", 0))
        self.port = tcp.getsockname()[1]
        for listener in (unix, tcp):
            listener.listen(1024)
        config = uvicorn.Config(
            create_app(self.services),
            http=BoundedProtocol,
            ws=PeerCredWebSocket,
            ws_max_size=LONGEST_MESSAGE,
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        serving = asyncio.create_task(self._server.serve([unix, tcp]))
        while not self._server.started:  # noqa: ASYNC110  uvicorn offers nothing else to wait for
            await asyncio.sleep(0.005)
        self._started.set()
        await serving

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(60)
        assert self._server is not None, "the server could not start"

    def stop(self) -> None:
        assert self._server is not None
        self.loop.call_soon_threadsafe(self.feed.close)
        self._server.should_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """On the server's own loop, as the control loop would."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(10)

    def unix(self) -> httpx.Client:
        return _client("http://localhost", uds=str(self.socket_path))

    def tcp(self, token: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return _client(f"http://127.0.0.1:{self.port}", headers)

    def token(self, client: httpx.Client, **asked: Any) -> str:
        made = client.post("/tokens", json=asked)
        assert made.status_code == 201, made.text
        return str(made.json()["token"])

    def as_user(
        self, user: str | int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Reply:
        """The same request made by another account's process over the unix socket."""
        account = pwd.getpwnam(user) if isinstance(user, str) else None
        uid, gid = (account.pw_uid, account.pw_gid) if account else (user, user)
        order = json.dumps([str(self.socket_path), method, path, body, headers or {}])
        done = subprocess.run(
            ["/usr/bin/env", "python3", "-ISc", (HERE / "other_user.py").read_text()],
            input=order.encode(),
            capture_output=True,
            user=uid,
            group=gid,
            extra_groups=[],
            env={"PATH": f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}"},
            cwd="/",
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        status, received, text = json.loads(done.stdout)
        return Reply(status, received, text.encode("latin-1"))


def _client(url: str, headers: dict[str, str] | None = None, uds: str | None = None) -> httpx.Client:
    """There is no TLS here, and reading whom to trust in it would take longer than most tests."""
    transport = httpx.HTTPTransport(verify=False, uds=uds)
    return httpx.Client(transport=transport, base_url=url, headers=headers, timeout=60)


@contextmanager
def serving(
    store: Any = None, known: dict[str, Any] | None = None, /, **settings: Any
) -> Iterator[ServerUnderTest]:
    directory = Path(tempfile.mkdtemp(prefix="tgpu-api-"))
    directory.chmod(0o755)
    server = ServerUnderTest(store or MemoryStore(), directory, known or {}, **settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


@pytest.fixture
def server() -> Iterator[ServerUnderTest]:
    with serving() as running:
        yield running


@pytest.fixture(scope="session")
def quiet() -> Iterator[ServerUnderTest]:
    """Shared by tests that only ask for what is refused, so that it stays empty."""
    with serving() as running:
        yield running


@pytest.fixture(scope="session")
def quiet_client(quiet: ServerUnderTest) -> Iterator[httpx.Client]:
    with quiet.unix() as opened:
        yield opened


@pytest.fixture
def me() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture
def client(server: ServerUnderTest) -> Iterator[httpx.Client]:
    with server.unix() as opened:
        yield opened


@pytest.fixture
def other(server: ServerUnderTest, client: httpx.Client) -> Iterator[httpx.Client]:
    """Somebody who is not an administrator, over TCP."""
    with server.tcp(server.token(client, user_id=OTHER)) as opened:
        yield opened
