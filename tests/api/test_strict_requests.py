"""Requests that are read strictly: keys written twice, NUL characters, OPTIONS and large bodies."""

import httpx
import pytest

from tests.api.conftest import ServerUnderTest
from tgpu.api.body_budget import FREE_BYTES, BodyBudget
from tgpu.api.problems import ProblemError
from tgpu.api.strict_json import check_strict, check_strict_around

JOB = '{"command": "x", "cwd": "/", "gpu_request": 99'


@pytest.mark.parametrize(
    ("path", "body", "key"),
    [
        ("/jobs", JOB + ', "command": "y"}', "command"),
        ("/jobs", JOB + ', "env": {"A": "1", "A": "2"}}', "A"),
        ("/jobs", JOB + r', "\u0063ommand": "y"}', "command"),
        ("/jobs", f'{{"jobs": [{JOB}}}, {JOB}, "name": "a", "name": "b"}}]}}', "name"),
        ("/jobs", f'{{"jobs": [{JOB}}}], "jobs": [{JOB}}}]}}', "jobs"),
        ("/jobs", f'{{"jobs": [], "jobs": [{JOB}}}]}}', "jobs"),
        ("/tokens", '{"note": "a", "note": "b"}', "note"),
        ("/tenants", '{"tenant_id": "a", "tenant_id": "b"}', "tenant_id"),
    ],
)
def test_key_that_is_written_twice_is_refused_by_name(
    quiet_client: httpx.Client, path: str, body: str, key: str
) -> None:
    answer = quiet_client.post(path, content=body)
    assert answer.status_code == 400
    assert f"the key {key!r} is written twice in one object" in answer.json()["detail"]


def test_same_key_in_different_objects_is_no_mistake(quiet_client: httpx.Client) -> None:
    answer = quiet_client.post(
        "/jobs", content=f'{{"jobs": [{JOB}}},\n {JOB}, "env": {{"command": "1"}}}}]}}'
    )
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:tgpu:problem:never-fits")


def test_text_that_looks_like_a_key_is_none() -> None:
    check_strict(rb'{"a": "\"b\": 1, \"b\": 2", "c": ["d", "d"]}')
    job = rb'{"a": "{\"jobs\": ["}'
    check_strict_around(b'{"jobs": [' + job + b", " + job + b"]}", [job, job])


@pytest.mark.parametrize(
    ("extra", "field"),
    [
        (r'"submit_host": "a\u0000b"', "submit_host"),
        (r'"name": "\u0000"', "name"),
        (r'"env": {"A": "\u0000"}', "env.A"),
        (r'"env": {"a\u0000": "b"}', r"env.a\u0000"),
        (r'"tenant_id": "\u0000"', "tenant_id"),
        (r'"user_id": "\u0000"', "user_id"),
    ],
)
def test_nul_is_refused_in_every_string(quiet_client: httpx.Client, extra: str, field: str) -> None:
    single = quiet_client.post("/jobs", content=f"{JOB}, {extra}}}")
    assert (single.status_code, single.json()["field"]) == (422, field)
    assert "must not contain a NUL character" in single.json()["detail"]
    bulk = quiet_client.post("/jobs", content=f'{{"jobs": [{JOB}}}, {JOB}, {extra}}}]}}')
    assert (bulk.status_code, bulk.json()["field"]) == (422, f"jobs[1].{field}")


def test_backslash_before_u0000_is_no_nul(quiet_client: httpx.Client) -> None:
    answer = quiet_client.post("/jobs", content=JOB + r', "name": "a\\u0000"}')
    assert answer.json()["type"] != "urn:tgpu:problem:invalid-field" or "NUL" not in answer.json()["detail"]


@pytest.mark.parametrize(
    "path",
    ["/jobs?user_id=%00", "/tenants/%00", "/members/a%00", "/nodes/%00", "/snapshots/%00", "/jobs/1%00"],
)
def test_nul_in_path_or_query_is_refused(quiet_client: httpx.Client, path: str) -> None:
    assert quiet_client.get(path).status_code in (400, 404)


def test_lone_surrogates_are_refused(quiet_client: httpx.Client) -> None:
    for text in (r"\ud800", r"\udc00\ud800", r"\ud800A"):
        assert quiet_client.post("/jobs", content=JOB + f', "name": "{text}"}}').status_code == 400


def test_options_lists_every_method_of_a_path(quiet_client: httpx.Client) -> None:
    described = quiet_client.get("/openapi.json").json()["paths"]
    for path, methods in described.items():
        url = path.replace("{tenant_id}", "default").replace("{", "").replace("}", "")
        allowed = quiet_client.options(url).headers["allow"].split(", ")
        assert sorted(allowed) == sorted([*(method.upper() for method in methods), "OPTIONS"]), path


def test_large_bodies_of_one_user_are_limited_together() -> None:
    budget = BodyBudget(per_user=1000, total=1500)
    first, second, other = (budget.open({}, user) for user in ("alice", "alice", "bob"))  # type: ignore[typeddict-item]
    first.grow_to(FREE_BYTES + 900)
    with pytest.raises(ProblemError) as refused:
        second.grow_to(FREE_BYTES + 101)
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "2")
    second.grow_to(FREE_BYTES)
    with pytest.raises(ProblemError) as full:
        other.grow_to(FREE_BYTES + 700)
    assert full.value.status == 503
    first.close()
    first.close()
    other.grow_to(FREE_BYTES + 700)
    other.close()
    assert budget.used == 0


def test_body_gives_its_share_back_when_it_is_answered(
    server: ServerUnderTest, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tgpu.api.body_budget.FREE_BYTES", 0)
    budget = server.services.bodies
    budget._per_user = 3000
    for _ in range(3):
        assert client.post("/jobs", json={"command": "x", "cwd": "/", "name": "n" * 100}).status_code == 201
        assert client.post("/jobs", content=b" " * 5000).status_code == 429
    assert budget.used == 0


def test_request_without_a_token_may_not_be_large(quiet: ServerUnderTest) -> None:
    with quiet.tcp() as client:
        answer = client.post("/agents/join", content=b'{"token": "' + b"x" * 20_000 + b'"}')
        assert answer.status_code == 413
