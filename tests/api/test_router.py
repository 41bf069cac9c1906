"""Paths and methods: which endpoint answers."""

import httpx
import pytest


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/whoami", None, 200),
        ("GET", "/jobs?limit=1", None, 200),
        ("GET", "/metrics", None, 200),
        ("GET", "/report?format=csv", None, 200),
        ("GET", "/jobs?lmit=1", None, 400),
        ("POST", "/jobs", {"command": []}, 422),
        ("PUT", "/jobs", {}, 405),
    ],
)
def test_slash_at_the_end_of_a_path_changes_nothing(
    quiet_client: httpx.Client, method: str, path: str, body: object, status: int
) -> None:
    with_slash = path.replace("?", "/?") if "?" in path else f"{path}/"
    plain, slashed = (quiet_client.request(method, it, json=body) for it in (path, with_slash))
    assert (plain.status_code, slashed.status_code) == (status, status)
    assert plain.headers.keys() == slashed.headers.keys()
    assert plain.headers["content-type"] == slashed.headers["content-type"]
    assert plain.headers["content-length"] == str(len(plain.content))
    if path != "/metrics":
        assert plain.content == slashed.content


def test_literal_part_of_a_path_is_preferred_to_a_parameter(client: httpx.Client) -> None:
    made = client.post("/tenants", json={"tenant_id": "lab"})
    assert made.status_code == 201
    for name in ("lab/members", "lab/quota"):
        assert client.get(f"/tenants/{name}").json().get("tenant_id", "lab") == "lab"
    assert "no tenant 'lab/quota/deep'" in client.get("/tenants/lab/quota/deep").json()["detail"]
    assert client.options("/tenants/lab/quota").headers["allow"] == "GET, OPTIONS, PATCH"


def test_a_job_is_answered_with_where_it_is(client: httpx.Client) -> None:
    given = {"Idempotency-Key": "once"}
    first = client.post("/jobs", json={"command": "true", "cwd": "/"}, headers=given)
    again = client.post("/jobs/", json={"command": "true", "cwd": "/"}, headers=given)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.headers["location"] == again.headers["location"] == f"/jobs/{first.json()['job_id']}"
    assert again.headers["idempotent-replay"] == "true"


def test_a_path_is_never_taken_for_its_own_description(quiet_client: httpx.Client) -> None:
    answer = quiet_client.get("/jobs/{job_id}")
    assert answer.status_code == 404
    assert "job ids are numbers" in answer.json()["detail"]
