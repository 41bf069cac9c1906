"""The language that a job came in: kept and shown, and refused where it cannot be meant."""

import httpx
import pytest

from tests.api.test_api_submit import refusal


def test_what_was_said_is_kept_and_shown(client: httpx.Client) -> None:
    answer = client.post(
        "/jobs", json={"command": "true", "dialect": "slurm", "annotations": {"qos": "gold"}}
    )
    assert answer.status_code == 201
    shown = client.get("/jobs/1").json()
    assert (shown["dialect"], shown["annotations"]) == ("slurm", {"qos": "gold"})


def test_a_job_in_tgpus_own_words_has_none(client: httpx.Client) -> None:
    shown = client.post("/jobs", json={"command": "true"}).json()
    assert (shown["dialect"], shown["annotations"]) == (None, None)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"annotations": {"a": "b"}}, "annotations are about a dialect: say which, or leave them out"),
        (
            {"dialect": "slurm", "annotations": {"": "x"}},
            "annotations: a name has 1 to",
        ),
        ({"dialect": "slurm", "annotations": {"a": "x" * 5000}}, "annotations: a may have at most 4096"),
        ({"dialect": "slurm", "annotations": {"a": "\0"}}, "annotations.a must not contain a NUL"),
        (
            {"dialect": "slurm", "annotations": {str(at): "" for at in range(65)}},
            "annotations may have at most 64 entries; got 65",
        ),
        (
            {"dialect": "slurm", "annotations": {str(at): "x" * 4000 for at in range(60)}},
            "annotations may have at most 32 KiB in all",
        ),
        ({"dialect": "pbs"}, "dialect"),
    ],
)
def test_what_cannot_be_meant_is_refused(client: httpx.Client, fields: dict[str, object], said: str) -> None:
    assert said in refusal(client, {"command": "true", **fields})
