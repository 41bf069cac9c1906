"""Overview of the cluster: the whole, its changes as a stream, and what others may not see of it."""

import copy
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.api.conftest import NOW_MS, ServerUnderTest
from tests.api.people import House, house
from tests.control.control_story import task
from tgpu.api.overview_feed import EVERY_S
from tgpu.control.overview import Heard
from tgpu.domain.access import Role
from tgpu.domain.ids import TaskId
from tgpu.domain.lifecycle import AttemptState
from tgpu.domain.priority import PriorityClass
from tgpu.domain.views import Alert, NodeTask
from tgpu.protocol.messages import NodeUse


class Overviews:
    """Collects the overview events of a stream, and merges them as a page does."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.frames: list[dict[str, Any]] = []
        self.doc: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        try:
            with self._client.stream("GET", "/events?overview=true") as answer:
                kind = ""
                for line in answer.iter_lines():
                    if line.startswith("event: "):
                        kind = line.removeprefix("event: ")
                    elif line.startswith("data: ") and kind == "overview":
                        self._take(json.loads(line.removeprefix("data: ")))
        except (httpx.TransportError, httpx.StreamError, RuntimeError):
            pass  # the test has closed its client

    def _take(self, frame: dict[str, Any]) -> None:
        if frame["whole"]:
            self.doc = copy.deepcopy(frame)
        for name, part in frame.items():
            if name in ("nodes", "use", "devices", "busy") and not frame["whole"]:
                table = self.doc["nodes" if name in ("nodes", "use") else "devices"]
                for column, values in part.items():
                    for row, value in zip(part["row"], values, strict=True):
                        if column != "row":
                            table[column][row] = value
            elif not frame["whole"] and name != "whole":
                self.doc[name] = part
        self.frames.append(frame)

    def wait(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while not (self.doc and condition(self.doc)):
            assert time.monotonic() < deadline, self.doc
            time.sleep(0.01)
        return self.doc


@contextmanager
def overviews(client: httpx.Client) -> Iterator[Overviews]:
    yield Overviews(client)


def place(server: ServerUnderTest, job_id: int, device: int, **more: Any) -> None:
    async def effect() -> None:
        server.live.picture.place(task(job_id, **more), TaskId(job_id, 0).attempt(1), "ws1", (device,))

    server.run(effect())


def without_time(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "at"}


def test_overview_shows_nodes_devices_and_holders(server: ServerUnderTest, client: httpx.Client) -> None:
    place(server, 7, 1)
    server.live.heard = Heard({"ws1": NodeUse(cpu_milli=1500, memory_mib=77, gpu_percent=(0, 80))}, {}, 0.0)
    found = client.get("/overview").json()
    assert found["nodes"] == {
        "name": ["ws1"], "pool": ["default"], "status": ["ready"], "gpus": [2], "cpu_total": [32],
        "cpu_allocated": [1], "cpu_used": [1.5], "mem_total_mb": [131072], "mem_allocated_mb": [0],
        "mem_used_mb": [77], "silent_since": [None],
    }  # fmt: skip
    assert found["devices"] == {
        "index": [0, 1], "model": [0, 0], "allocated": [0, 1], "busy_percent": [0, 80], "user": [-1, 0],
        "job_id": [0, 7],
    }  # fmt: skip
    assert found["users"] == [{"user_id": "ada", "tenant_id": "default"}]
    assert found["jobs"] == {"running": 1, "pending": 0, "held": 0}
    assert found["resources"]["gpu"] == {"total": 2, "allocated": 1, "used": 0.8}
    assert "terms" not in found
    terms = client.get("/overview?terms=true").json()["terms"]
    assert (terms["labels"], terms["taints"], terms["drain_since"]) == ([{}], [[]], [None])


def test_stream_sends_the_whole_and_then_only_what_changed(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    with overviews(client) as live, server.unix() as asker:
        live.wait(lambda doc: doc["whole"])
        place(server, 7, 1)
        live.wait(lambda doc: doc["devices"]["user"] == [-1, 0])
        first, second = live.frames[:2]
        assert first["whole"]
        assert not second["whole"]
        assert second["devices"] == {"row": [1], "allocated": [1], "user": [0], "job_id": [7]}
        assert "busy" not in second
        assert "alerts" not in second
        time.sleep(2.5 * EVERY_S)
        assert len(live.frames) == 2, "nothing has changed since"
        assert without_time(asker.get("/overview").json()) == without_time(live.doc)


def test_stream_begins_again_when_nodes_join(server: ServerUnderTest, client: httpx.Client) -> None:
    with overviews(client) as live:
        live.wait(lambda doc: doc["whole"])
        node = server.live.picture.places["ws1"].node

        async def join() -> None:
            server.live.picture.set_node(type(node)("ws0", node.state, node.capacity))

        server.run(join())
        live.wait(lambda doc: doc["nodes"]["name"] == ["ws0", "ws1"])
        assert live.frames[-1]["whole"]


def test_stream_tells_that_no_server_leads_and_goes_on(server: ServerUnderTest, client: httpx.Client) -> None:
    with overviews(client) as live:
        live.wait(lambda doc: not doc["alerts"])
        server.live.leads = False
        live.wait(lambda doc: [alert["name"] for alert in doc["alerts"]] == ["no-leader"])
        server.live.leads = True
        live.wait(lambda doc: not doc["alerts"])


@pytest.fixture
def apart() -> Iterator[House]:
    with house(others_see="nothing", tenant_rules=("user:bob=org", "user:ann=lab")) as found:
        found.tenants("lab", "org")
        for name in ("ann", "bob"):
            found.person(name)
        found.person("ott", Role.OPERATOR)
        place(found.server, 1, 0, user="ann", tenant_id="lab")
        place(found.server, 2, 1, user="bob", tenant_id="org")

        async def wait() -> None:
            waiting = [("ann", "lab", 100), ("bob", "org", 200), ("bob", "org", 300)]
            for job_id, (user, tenant_id, at_ms) in enumerate(waiting, 3):
                found.server.live.picture.add_waiting(
                    task(job_id, gpus=2, user=user, tenant_id=tenant_id, submitted_ms=at_ms)
                )

        found.server.run(wait())
        found.server.live.wrong = [Alert("budget-spent:org", "no hours left", NOW_MS, ("org",))]
        yield found


def test_holders_of_invisible_jobs_are_anonymous(apart: House) -> None:
    everyone = apart.caller("ott", role="operator").get("/overview").json()
    assert everyone["devices"]["user"] == [0, 1]
    assert everyone["jobs"] == {"running": 2, "pending": 3, "held": 0}
    assert [each["pending"] for each in everyone["queue"]] == [3]
    assert everyone["alerts"]
    found = apart.caller("ann").get("/overview")
    seen = found.json()
    assert seen["devices"]["user"] == [0, -2]
    assert seen["devices"]["job_id"] == [1, 0]
    assert seen["devices"]["allocated"] == [1, 1]
    assert seen["jobs"] == {"running": 1, "pending": 1, "held": 0}
    assert [(each["pending"], each["oldest_since"]) for each in seen["queue"]] == [
        (1, "1970-01-01T00:00:00.100Z")
    ]
    assert "bob" not in found.text
    assert "org" not in found.text


def test_streams_of_different_callers_keep_apart_what_each_may_see(apart: House) -> None:
    with overviews(apart.caller("ann")) as ann, overviews(apart.caller("bob")) as bob:
        assert ann.wait(lambda doc: doc["whole"])["devices"]["user"] == [0, -2]
        assert bob.wait(lambda doc: doc["whole"])["devices"]["user"] == [-2, 0]

        async def swap() -> None:
            picture = apart.server.live.picture
            picture.release(TaskId(1, 0))
            picture.release(TaskId(2, 0))

        apart.server.run(swap())
        place(apart.server, 8, 0, user="bob", tenant_id="org")
        place(apart.server, 9, 1, user="ann", tenant_id="lab")
        ann.wait(lambda doc: doc["devices"]["job_id"] == [0, 9])
        bob.wait(lambda doc: doc["devices"]["job_id"] == [8, 0])
        assert "bob" not in json.dumps(ann.frames)
        assert '"ann"' not in json.dumps(bob.frames)


def test_utilization_joins_allocation_and_samples(server: ServerUnderTest, client: httpx.Client) -> None:
    found = client.get("/utilization", params={"since": "3m", "points": 3}).json()
    assert found["step_s"] == 60
    assert len(found["allocated"]["gpu"]) in (3, 4)
    assert found["measured"]["cpu"][:3] == [1, None, 3]
    assert found["measured"]["gpu_busy_percent"][:3] == [50.0, None, 75.0]
    server.live.leads = False
    assert set(client.get("/utilization").json()["measured"]["cpu"]) == {None}
    for asked in ("since=8d", "since=2200-01-01T00:00:00Z", "points=0", "points=501"):
        assert client.get(f"/utilization?{asked}").status_code == 400


def test_node_activity_shows_visible_tasks_and_coming_windows(apart: House) -> None:
    def on_node(job_id: int, user: str, tenant_id: str, device: int) -> NodeTask:
        return NodeTask(
            TaskId(job_id, 0).attempt(1), user, tenant_id, "train", PriorityClass.DEFAULT, (device,), 1000,
            64, 1000, AttemptState.RUNNING, NOW_MS,
        )  # fmt: skip

    apart.server.live.tasks = [on_node(1, "ann", "lab", 0), on_node(2, "bob", "org", 1)]
    found = apart.caller("ann").get("/nodes/ws1/activity").json()
    assert [(each["job_id"], each["name"], each["devices"]) for each in found["tasks"]] == [(1, "train", [0])]
    assert found["hidden_tasks"] == 1
    assert apart.caller("ann").get("/nodes/ws9/activity").status_code == 404
