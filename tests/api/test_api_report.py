"""Reports over HTTP: figures, prices, forms, and whose use one may see."""

import csv
import io
from dataclasses import replace

import pytest

from tests.api.conftest import NOW_MS, OTHER, ServerUnderTest, serving
from tgpu.config.prices import Prices
from tgpu.domain.access import Actor
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Exit, Group, JobSpec, Request
from tgpu.domain.lifecycle import Cause, Happening, NodeState
from tgpu.domain.node import Capacity, Device, Node
from tgpu.domain.tenant import Tenant
from tgpu.store.port import Assigned, AttemptEnded, Batch

HOUR = 3_600_000
ROOT = Actor("root", "server")
HALF = Prices(gpu=1_000_000, cpu=100_000, memory_gb=10_000, models=(("a100", 2_500_000),), currency="EUR")


async def _fill(server: ServerUnderTest) -> None:
    """Two hours of ann's on an A100, one of nobody's on an H100, both in the last day."""
    store = server.store
    server.epoch = epoch = await store.claim()
    for name in ("lab", "lab/vision", "shop"):
        await store.create_tenant(Tenant(name), ROOT, 1)
    asked = Request(cpu_milli=2000, memory_mib=1024, gpu_milli=1000)
    specs = [
        JobSpec("ann", (Group("true", asked),), tenant_id="lab/vision"),
        JobSpec(OTHER, (Group("true", asked),), tenant_id="shop"),
    ]
    await store.submit(specs, NOW_MS - 6 * HOUR)
    nodes = [
        Node(name, NodeState.READY, Capacity(8000, 8192, 0, (Device(0, name, model, 1),)), pool)
        for name, model, pool in (("n1", "NVIDIA A100", "default"), ("n2", "NVIDIA H100", "big"))
    ]
    placed = [Assigned(AttemptId(1, 0, 1), "n1", (0,)), Assigned(AttemptId(2, 0, 1), "n2", (0,))]
    await store.commit(epoch, Batch(NOW_MS - 5 * HOUR, nodes=nodes, assigned=placed))
    first = Exit(
        Cause.EXITED, 3, started_ms=NOW_MS - 5 * HOUR, ended_ms=NOW_MS - 3 * HOUR, cpu_ms=HOUR,
        peak_memory_mib=512,
        gpu_ms=HOUR,
    )  # fmt: skip
    second = replace(first, ended_ms=NOW_MS - 4 * HOUR, gpu_ms=None)
    ended = [
        AttemptEnded(AttemptId(1, 0, 1), first, Happening.FAILED),
        AttemptEnded(AttemptId(2, 0, 1), second, Happening.FAILED),
    ]
    await store.commit(epoch, Batch(NOW_MS - 2 * HOUR, ended=ended))


@pytest.fixture
def filled(server: ServerUnderTest) -> ServerUnderTest:
    server.run(_fill(server))
    return server


def test_a_report_adds_up_what_was_given_and_used(filled: ServerUnderTest) -> None:
    with filled.unix() as client:
        report = client.get("/report", params={"by": "user,pool", "since": "1d"}).json()
    assert report["by"] == ["user", "pool"]
    assert (report["covers"], report["currency"]) == ("everybody", None)
    ann, other = report["rows"]
    assert ann == {
        "keys": {"user": "ann", "pool": "default"},
        "figures": {
            "attempts": 1, "jobs": 1, "wait_mean_s": 3600.0, "wait_max_s": 3600.0, "run_s": 7200.0,
            "cpu_s": 14400.0, "cpu_used_s": 3600.0, "cpu_measured_s": 14400.0, "cpu_wasted_s": 10800.0,
            "mem_mb_s": 7372800, "mem_used_mb_s": 3686400, "mem_measured_mb_s": 7372800,
            "mem_wasted_mb_s": 3686400,
            "gpu_s": 7200.0, "gpu_used_s": 3600.0, "gpu_measured_s": 7200.0, "gpu_wasted_s": 3600.0,
            "gpu_hours": 2, "lost_s": 0.0, "lost_gpu_s": 0.0, "cost": None,
            "wait_p50_s": None, "wait_p90_s": None, "failed_s": None, "failed_gpu_s": None,
        },
    }  # fmt: skip
    assert other["keys"] == {"user": OTHER, "pool": "big"}
    assert (other["figures"]["gpu_s"], other["figures"]["gpu_used_s"]) == (3600.0, None)
    total = report["total"]
    assert (total["gpu_hours"], total["gpu_measured_s"], total["gpu_used_s"]) == (3, 7200.0, 3600.0)


def test_a_report_is_cut_at_its_edges(filled: ServerUnderTest) -> None:
    with filled.unix() as client:
        report = client.get("/report", params={"by": "gpu-type", "since": "4h", "until": "210m"}).json()
    (row,) = report["rows"]
    assert row["keys"] == {"gpu-type": "NVIDIA A100"}
    figures = row["figures"]
    assert (figures["run_s"], figures["gpu_used_s"], figures["attempts"]) == (1800.0, 900.0, 0)


def test_prices_go_by_the_model_of_the_gpu() -> None:
    with serving(prices=HALF) as server:
        server.run(_fill(server))
        with server.unix() as client:
            report = client.get("/report", params={"by": "user"}).json()
    assert report["currency"] == "EUR"
    assert [row["figures"]["cost"] for row in report["rows"]] == [
        2 * 2.5 + 4 * 0.1 + 2 * 0.01,
        1 * 1.0 + 2 * 0.1 + 1 * 0.01,
    ]
    assert report["total"]["cost"] == 5.42 + 1.21


def test_a_report_as_csv_has_the_same_figures(filled: ServerUnderTest) -> None:
    with filled.unix() as client:
        answer = client.get("/report", params={"by": "tenant", "depth": 1, "format": "csv"})
        report = client.get("/report", params={"by": "tenant", "depth": 1}).json()
    assert answer.headers["content-type"].startswith("text/csv")
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert [line["tenant"] for line in lines] == ["lab", "shop"]
    for line, row in zip(lines, report["rows"], strict=True):
        figures = {name: "" if value is None else str(value) for name, value in row["figures"].items()}
        assert line == row["keys"] | figures


def test_who_is_no_member_sees_their_own_use(filled: ServerUnderTest) -> None:
    report = filled.as_user(OTHER, "GET", "/report?by=user").json()
    assert [row["keys"]["user"] for row in report["rows"]] == [OTHER]
    assert report["covers"] == "your own jobs"
    assert report["total"]["gpu_s"] == 3600.0
    assert filled.as_user(OTHER, "GET", "/report?by=user&user=ann").json()["rows"] == []


def test_a_viewer_of_a_tenant_sees_what_everybody_below_it_used(filled: ServerUnderTest) -> None:
    with filled.unix() as client:
        assert client.put(f"/tenants/lab/members/{OTHER}", json={"role": "viewer"}).status_code in (200, 201)
    report = filled.as_user(OTHER, "GET", "/report?by=user").json()
    assert [row["keys"]["user"] for row in report["rows"]] == ["ann", OTHER]
    assert report["covers"] == "your own jobs and those of lab"
    with filled.unix() as client:
        token = filled.token(client, user_id=OTHER, tenant_id="lab/vision", role="viewer")
    with filled.tcp(token) as narrowed:
        report = narrowed.get("/report", params={"by": "user"}).json()
        assert [row["keys"]["user"] for row in report["rows"]] == ["ann"], "the token is good only there"
        assert narrowed.get("/report", params={"tenant": "shop"}).status_code == 400


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"by": "colour"}, "by takes user, tenant, pool"),
        ({"by": "day,week"}, "one of day, week and month"),
        ({"by": "user,user"}, "different words"),
        ({"since": "1h", "until": "2h"}, "since must be before until"),
        ({"depth": "0"}, "depth must be a whole number from 1 to 8"),
        ({"format": "xml"}, "format must be one of json, csv"),
        ({"tennant": "lab"}, "did you mean tenant?"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    filled: ServerUnderTest, params: dict[str, str], sentence: str
) -> None:
    with filled.unix() as client:
        refused = client.get("/report", params=params)
    assert refused.status_code == 400
    assert sentence in refused.json()["detail"]


@pytest.mark.parametrize("when", ["", "started_", "ended_"])
def test_jobs_of_a_time_that_ends_before_it_begins_are_refused(filled: ServerUnderTest, when: str) -> None:
    since, until = f"{when}since", f"{when}until"
    with filled.unix() as client:
        refused = client.get("/jobs", params={since: "1h", until: "2h"})
        assert client.get("/jobs", params={since: "2h", until: "1h"}).status_code == 200
    assert (refused.status_code, refused.json()["detail"]) == (400, f"{since} must be before {until}")


def found(server: ServerUnderTest, **params: object) -> list[int]:
    with server.unix() as client:
        answer = client.get("/jobs", params=params)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    return [job["job_id"] for job in answer.json()["jobs"]]


def test_jobs_are_found_by_how_where_and_when_they_ran(filled: ServerUnderTest) -> None:
    assert found(filled, cause="exited,preempted") == [2, 1]
    assert found(filled, cause="preempted") == []
    assert found(filled, node="n1") == [1]
    assert found(filled, within="lab") == [1]
    assert found(filled, exit_code=3) == [2, 1]
    assert found(filled, exit_code=0) == []
    assert found(filled, ended_since="200m") == [1]
    assert found(filled, ended_until="200m") == [2]
    assert found(filled, started_since="5h", started_until="5h") == [2, 1]
    assert found(filled, min_elapsed="90m") == [1]
    with filled.unix() as client:
        assert client.get("/jobs", params={"cause": "boredom"}).status_code == 400
        assert client.get("/jobs", params={"min_elapsed": "long"}).status_code == 400


def test_nobody_learns_an_exit_code_by_looking_for_it(filled: ServerUnderTest) -> None:
    jobs = filled.as_user(OTHER, "GET", "/jobs?exit_code=3").json()["jobs"]
    assert [job["job_id"] for job in jobs] == [2]


def test_a_list_may_show_attempts_with_their_figures(filled: ServerUnderTest) -> None:
    with filled.unix() as client:
        (job,) = client.get("/jobs", params={"attempts": "true", "node": "n1"}).json()["jobs"]
        shown = client.get("/jobs/1").json()
    (attempt,) = job["attempts"]
    assert attempt == shown["attempts"][0]
    assert (attempt["wait_s"], attempt["run_s"], attempt["lost_s"], attempt["gpu_busy_s"]) == (
        3600.0,
        7200.0,
        0.0,
        3600.0,
    )


def test_report_with_detail_has_percentiles_of_waits_and_the_time_of_failed_tasks(
    filled: ServerUnderTest,
) -> None:
    with filled.unix() as client:
        report = client.get("/report", params={"by": "tenant", "since": "1d", "detail": "true"}).json()
    vision, shop = (row["figures"] for row in report["rows"])
    assert (vision["wait_p50_s"], vision["wait_p90_s"]) == (3600.0, 3600.0)
    assert (vision["failed_gpu_s"], shop["failed_gpu_s"]) == (7200.0, 3600.0)
    assert (report["total"]["failed_s"], report["total"]["wait_p90_s"]) == (10800.0, 3600.0)


def test_report_is_csv_for_clients_that_accept_only_that(filled: ServerUnderTest) -> None:
    with filled.unix() as client:
        report = client.get("/report", headers={"Accept": "text/csv"})
        assert report.headers["content-type"].startswith("text/csv")
        assert "attachment" in report.headers["content-disposition"]
        both = client.get("/report", headers={"Accept": "text/csv, application/json"})
        assert both.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)"])
def test_csv_cells_that_a_spreadsheet_would_calculate_are_escaped(server: ServerUnderTest, name: str) -> None:
    async def fill() -> None:
        epoch = await server.store.claim()
        await server.store.submit([JobSpec("root", (Group("true", Request()),))], NOW_MS - HOUR)
        node = Node(name, NodeState.READY, Capacity(8000, 8192, 0))
        placed = [Assigned(AttemptId(1, 0, 1), name, ())]
        await server.store.commit(epoch, Batch(NOW_MS - HOUR, nodes=[node], assigned=placed))
        over = Exit(Cause.EXITED, 0, started_ms=NOW_MS - HOUR, ended_ms=NOW_MS)
        done = [AttemptEnded(AttemptId(1, 0, 1), over, Happening.SUCCEEDED)]
        await server.store.commit(epoch, Batch(NOW_MS, ended=done))

    server.run(fill())
    with server.unix() as client:
        text = client.get("/report", params={"by": "node", "format": "csv"}).text
    assert [row["node"] for row in csv.DictReader(io.StringIO(text))] == [f"'{name}"]
