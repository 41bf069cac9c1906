"""The job list as the dashboard asks for it: search, order, pages, totals, rows and ids."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.conftest import OTHER, ServerUnderTest
from tests.api.people import House, house
from tests.api.stories import assign, end, start, submit
from tgpu.domain.access import Role
from tgpu.domain.job import Request
from tgpu.domain.lifecycle import Cause, Happening


def ids(client: httpx.Client, **query: Any) -> list[int]:
    answer = client.get("/jobs", params=query)
    assert answer.status_code == 200, answer.text
    return [job["job_id"] for job in answer.json()["jobs"]]


def three(server: ServerUnderTest) -> None:
    submit(server, name="train")
    server.now_ms += 1000
    submit(server, user=OTHER, name="<script>alert(1)</script>", request=Request(gpu_milli=2000))
    server.now_ms += 1000
    submit(server, name="evaluate")
    assign(server, 1)
    start(server, 1)


def test_search_finds_names_users_ids_and_the_begin_of_commands(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    three(server)
    assert ids(client, q="RAIN") == [1]
    assert ids(client, q="<script>") == [2]
    assert ids(client, q=OTHER[:4]) == [2]
    assert ids(client, q="3") == [3]
    assert ids(client, q="python tr") == [3, 2, 1]
    assert ids(client, q="train.py") == []
    assert ids(client, q="[a-") == []
    assert ids(client, q="  ") == [3, 2, 1]


def test_search_text_that_is_too_long_is_refused_by_name(client: httpx.Client) -> None:
    answer = client.get("/jobs", params={"q": "x" * 201})
    assert answer.status_code == 422
    assert answer.json()["field"] == "q"
    assert "at most 200 characters" in answer.json()["detail"]


def test_list_is_sorted_and_cursors_go_on_where_a_page_ended(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    three(server)
    for query, expected in (
        ({"sort": "gpus"}, [2, 3, 1]),
        ({"sort": "name", "order": "asc"}, [2, 3, 1]),
        ({"sort": "started"}, [1, 3, 2]),
        ({"sort": "submitted", "order": "asc"}, [1, 2, 3]),
        ({"sort": "run_time", "status": "running,pending"}, [1, 3, 2]),
        ({"q": "a"}, [3, 2, 1]),
        ({}, [3, 2, 1]),
    ):
        assert ids(client, **query) == expected, query
        cursor, seen = None, []
        while True:
            page = client.get("/jobs", params={**query, "limit": 1, **({"cursor": cursor} if cursor else {})})
            seen += [job["job_id"] for job in page.json()["jobs"]]
            cursor = page.json()["next_cursor"]
            if cursor is None:
                break
        assert seen == expected
        assert ids(client, **query, skip=2) == expected[2:]


def written(*parts: object) -> str:
    """A cursor that a caller made up."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("sort", "now_ms", "value", "job_id"),
    [
        ("name", 1, "a\0b", 1),
        ("name", 1, "\ud800", 1),
        ("run_time", -1, 5, 1),
        ("run_time", 2**63 - 1, 5, 1),
        ("run_time", -(2**63) + 1, 5, 1),
        ("run_time", 1, 2**63, 1),
        ("gpus", 1, 5, 2**63 - 1),
        ("gpus", 1, 5, -1),
        ("gpus", 1, "5", 1),
    ],
)
def test_cursor_with_values_that_no_column_can_hold_is_refused(
    lab: House, sort: str, now_ms: int, value: object, job_id: int
) -> None:
    for order, descending in (("desc", True), ("asc", False)):
        cursor = written(sort, descending, now_ms, value, job_id)
        query = {"sort": sort, "order": order, "cursor": cursor}
        answer = lab.caller("ann").get("/jobs", params=query)
        assert (answer.status_code, answer.json()["detail"][:6]) == (400, "cursor"), answer.text


def test_a_thousand_ids_can_be_sorted_and_counted(lab: House) -> None:
    wanted = ",".join(str(2 * number + 1) for number in range(1000))
    query = {"ids": wanted, "sort": "gpus", "total": "true", "view": "list"}
    answer = lab.caller("ann").get("/jobs", params=query)
    assert answer.status_code == 200, answer.text
    assert [job["job_id"] for job in answer.json()["jobs"]] == [1]


def test_broken_cursors_and_orders_are_refused(server: ServerUnderTest, client: httpx.Client) -> None:
    three(server)
    cursor = client.get("/jobs?sort=gpus&limit=1").json()["next_cursor"]
    for query in (
        f"sort=name&cursor={cursor}",
        f"sort=gpus&order=asc&cursor={cursor}",
        "sort=gpus&cursor=42",
        "sort=gpus&cursor=%21%21",
        "sort=gpus&cursor=WzEsMl0",
        "sort=colour",
        "cursor=abc",
        "skip=-1",
        "view=all",
    ):
        assert client.get(f"/jobs?{query}").status_code == 400, query


def test_total_counts_all_pages(server: ServerUnderTest, client: httpx.Client) -> None:
    three(server)
    answer = client.get("/jobs?total=true&limit=1&status=pending").json()
    assert (answer["total"], answer["total_is_exact"], len(answer["jobs"])) == (2, True, 1)
    assert "total" not in client.get("/jobs").json()


def test_rows_are_short_and_ids_are_only_ids(server: ServerUnderTest, client: httpx.Client) -> None:
    three(server)
    row = client.get("/jobs?view=list&limit=1").json()["jobs"][0]
    assert row["command"] == "python train.py"
    assert "env" not in row
    assert "actions" not in row
    assert client.get("/jobs?view=ids&total=true").json() == {
        "job_ids": [3, 2, 1],
        "total": 3,
        "total_is_exact": True,
    }
    assert client.get("/jobs?view=ids&limit=10000&q=train").json()["job_ids"] == [3, 2, 1][2:]


def test_several_tenants_classes_and_causes_are_any_of_them(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    three(server)
    end(server, 1, Happening.FAILED, Cause.TIME_LIMIT)
    assert ids(client, tenant_id="default,other") == [3, 2, 1]
    assert ids(client, tenant_id="other") == []
    assert ids(client, priority_class="low,default") == [3, 2, 1]
    assert ids(client, priority_class="low") == []
    assert ids(client, cause="time-limit,exited", node="ws1") == [1]
    assert client.get("/jobs?priority_class=best").status_code == 400


@pytest.fixture(scope="module")
def lab() -> Iterator[House]:
    """Two tenants that are kept apart."""
    with house(others_see="nothing", tenant_rules=[]) as found:
        found.tenants("red", "blue")
        found.person("ann", Role.USER, "red")
        found.person("bob", Role.USER, "blue")
        submit(found.server, user="ann", name="secret-red", tenant_id="red")
        submit(found.server, user="bob", name="secret-blue", tenant_id="blue")
        yield found


def test_search_sort_total_and_ids_show_nothing_of_another_tenant(lab: House) -> None:
    ann = lab.caller("ann")
    for query in ("q=secret", "q=python", "sort=name", "sort=gpus&order=asc", "skip=0", "q=bob", "q=2"):
        answer = ann.get(f"/jobs?{query}&total=true").json()
        assert {job["job_id"] for job in answer["jobs"]} <= {1}, query
        assert answer["total"] <= 1
        assert set(ann.get(f"/jobs?{query}&view=ids").json()["job_ids"]) <= {1}
    for verb in ("cancel", "hold", "release", "retry"):
        answer = ann.post(f"/jobs/{verb}", json={"job_ids": [2, 99]}).json()
        assert answer["not_found"] == [2, 99]
    for path in ("", "/why", "/logs?last=10", "/tasks", "/use"):
        assert ann.get(f"/jobs/2{path}").status_code == 404, path


def test_commands_of_jobs_seen_in_outline_are_not_found_by_search() -> None:
    with house(others_see="outline") as found:
        found.tenants("red", "blue")
        found.person("ann", Role.USER, "red")
        found.person("bob", Role.USER, "blue")
        submit(found.server, user="bob", name="open", tenant_id="blue")
        end_of_command = found.caller("ann").get("/jobs?q=python").json()
        assert end_of_command["jobs"] == []
        assert [job["job_id"] for job in found.caller("ann").get("/jobs?q=open").json()["jobs"]] == [1]
        assert [job["job_id"] for job in found.caller("bob").get("/jobs?q=python").json()["jobs"]] == [1]
        row = found.caller("ann").get("/jobs?view=list").json()["jobs"][0]
        assert (row["command"], row["reason"], row["exit_code"]) == (None, None, None)
