"""Endpoints without a parameter in their path are answered past the router: nobody can tell."""

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
def test_both_ways_give_the_same_answer(
    quiet_client: httpx.Client, method: str, path: str, body: object, status: int
) -> None:
    """With a slash more, a path is the router's to understand."""
    long = path.replace("?", "/?") if "?" in path else f"{path}/"
    by_short, by_long = (quiet_client.request(method, it, json=body) for it in (path, long))
    assert (by_short.status_code, by_long.status_code) == (status, status)
    assert by_short.headers.keys() == by_long.headers.keys()
    assert by_short.headers["content-type"] == by_long.headers["content-type"]
    assert by_short.headers["content-length"] == str(len(by_short.content))
    if path != "/metrics":
        assert by_short.content == by_long.content


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
