"""Two people in two tenants: who may submit where, how much, with what in hand, and who did what."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.end_to_end.unix_users import USERS, accounts, as_user
from tests.end_to_end.whole_tgpu import Installation
from tgpu.client import Client

ANN, BOB = USERS
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")


@pytest.fixture(scope="module", autouse=True)
def people() -> Iterator[None]:
    with accounts():
        yield


@pytest.fixture
def lab(up: Installation) -> Installation:
    """`lab` may have 6 of the 8 GPUs, ann's `lab/vision` 4 of them; bob is in `lab/speech`."""
    up.tgpu("tenants", "add", "lab", "--gpus", "6")
    up.tgpu("tenants", "add", "lab/vision", "--gpus", "4")
    up.tgpu("tenants", "add", "lab/speech")
    up.tgpu("users", "add", ANN, "lab/vision")
    up.tgpu("users", "add", BOB, "lab/speech")
    return up


@pytest.fixture
def client(up: Installation) -> Client:
    return up.client()


def sleeper(user: str, client: Client, tenant: str, gpus: int, **fields: Any) -> Any:
    """The job, or the refusal."""
    asked = {"tenant_id": tenant, "gpu_request": gpus, "cwd": "/tmp", **fields}
    return as_user(user, lambda: client.submit("exec sleep 300", **asked))


def quota(up: Installation, tenant: str) -> dict[str, Any]:
    """Of the tenant itself: the last of its levels."""
    found = up.json("quota", tenant)[-1]
    assert isinstance(found, dict)
    return found


def test_a_user_submits_where_they_have_a_role(lab: Installation, client: Client) -> None:
    assert lab.json("users", "list", "--tenant", "lab/vision")[0]["user_id"] == ANN
    assert sleeper(ANN, client, "lab/vision", 1)["tenant_id"] == "lab/vision"
    elsewhere = sleeper(ANN, client, "lab/speech", 1)
    assert elsewhere["refused"] == 403
    assert "lab/speech" in elsewhere["detail"]
    assert sleeper(ANN, client, "lab/nowhere", 1)["refused"] in (403, 404, 422)
    assert as_user(ANN, lambda: client.change_quota("lab/vision", gpu_limit=8))["refused"] == 403
    assert as_user(ANN, lambda: client.set_member(ANN, "lab", "admin"))["refused"] == 403
    me = as_user(ANN, client.whoami)
    assert (me["user_id"], me["via"], me["home_tenant_id"]) == (ANN, "socket", "default")
    assert me["memberships"] == [{"tenant_id": "lab/vision", "role": "user"}]


def test_what_is_beyond_the_quota_is_refused_with_the_numbers(lab: Installation, client: Client) -> None:
    first, second = (sleeper(ANN, client, "lab/vision", 2)["job_id"] for _ in range(2))
    refused = sleeper(ANN, client, "lab/vision", 1)
    assert refused["refused"] == 409
    assert "lab/vision may have 4 GPUs" in refused["detail"]
    bobs = sleeper(BOB, client, "lab/speech", 2)["job_id"]
    by_the_parent = sleeper(BOB, client, "lab/speech", 1)
    assert by_the_parent["refused"] == 409
    assert "lab may have 6 GPUs" in by_the_parent["detail"]
    assert (quota(lab, "lab/vision")["gpu_used"], quota(lab, "lab")["gpu_used"]) == (4, 6)

    as_user(ANN, lambda: client.cancel(first))
    lab.wait_status(first, "cancelled")
    assert quota(lab, "lab")["gpu_used"] == 4
    assert sleeper(BOB, client, "lab/speech", 1)["status"] == "pending"
    for job_id in (second, bobs):
        lab.wait_status(job_id, "running")


def test_with_queue_it_waits_until_there_is_room(lab: Installation, client: Client) -> None:
    lab.tgpu("quota", "set", "lab/vision", "--over", "queue")
    jobs = [sleeper(ANN, client, "lab/vision", 2)["job_id"] for _ in range(3)]
    for job_id in jobs[:2]:
        lab.wait_status(job_id, "running")
    waits = lab.show(jobs[2])
    assert (waits["status"], waits["held"]) == ("pending", True)
    assert "quota" in lab.tgpu("why", str(jobs[2])).stdout
    assert quota(lab, "lab/vision")["gpu_used"] == 4
    assert quota(lab, "lab/vision")["waiting_jobs_used"] == 1
    assert sleeper(ANN, client, "lab/vision", 5)["refused"] == 409

    as_user(ANN, lambda: client.cancel(jobs[0]))
    started = lab.wait_status(jobs[2], "running")
    assert started["held"] is False
    assert quota(lab, "lab/vision")["gpu_used"] == 4
    assert quota(lab, "lab/vision")["waiting_jobs_used"] == 0


def test_what_runs_on_the_burst_gives_way_even_to_its_own_class(lab: Installation, client: Client) -> None:
    lab.tgpu("quota", "set", "lab", "--gpus", "none")
    full = sleeper(ANN, client, "lab/vision", 4)["job_id"]
    lab.wait_status(full, "running")
    assert sleeper(ANN, client, "lab/vision", 2)["refused"] == 409
    burst = sleeper(ANN, client, "lab/vision", 2, priority_class="low")["job_id"]
    lab.wait_status(burst, "running")
    assert (quota(lab, "lab/vision")["gpu_used"], quota(lab, "lab/vision")["gpu_burst"]) == (4, 2)
    assert sleeper(ANN, client, "lab/vision", 3, priority_class="low")["refused"] == 409

    bobs = sleeper(BOB, client, "lab/speech", 4, priority_class="low")["job_id"]
    lab.wait_status(bobs, "running")
    assert lab.show(burst)["status"] == "preempted"
    assert lab.show(burst)["held"] is True
    assert lab.status(full) == "running"
    assert quota(lab, "lab/vision")["gpu_burst"] == 0


def test_a_token_does_what_it_was_made_for_and_no_more(lab: Installation, client: Client) -> None:
    made = lab.json(
        "token", "create", "--for", ANN, "--tenant", "lab/vision", "--actions", "read,submit", "--max-class",
        "low", "--jobs", "2", "--note", "ci",
    )  # fmt: skip
    url = client.cluster()["servers"][0]["url"]
    ci = Client(url, token=made["token"])

    def refused(**fields: Any) -> int:
        asked = {"tenant_id": "lab/vision", "priority_class": "low", "cwd": "/tmp", **fields}
        answer = as_user(BOB, lambda: ci.submit("true", **asked))
        return int(answer.get("refused", 0))

    assert as_user(BOB, ci.whoami)["user_id"] == ANN
    assert refused(priority_class="default") == 403
    assert refused(tenant_id="default") == 403
    assert refused() == 0
    assert refused() == 0
    assert refused() in (403, 409)
    job_id = lab.json("list", "--all")[0]["job_id"]
    assert as_user(BOB, lambda: ci.cancel(job_id))["refused"] == 403
    assert as_user(BOB, lambda: list(map(bytes.decode, ci.logs(job_id))))["refused"] == 403
    assert as_user(BOB, ci.create_token)["refused"] == 403
    lab.tgpu("token", "revoke", str(made["token_id"]))
    assert as_user(BOB, ci.whoami)["refused"] == 401


def test_a_job_gets_its_secret_and_nobody_is_shown_it(lab: Installation, client: Client) -> None:
    as_user(ANN, lambda: client.set_secret("hf-token", b"hush-hush"))
    assert [one["name"] for one in as_user(ANN, client.secrets)] == ["hf-token"]
    asked = {"tenant_id": "lab/vision", "cwd": "/tmp", "secret_env": {"HF_TOKEN": "store:hf-token"}}
    job = as_user(ANN, lambda: client.submit('echo "it is $HF_TOKEN"', **asked))
    lab.wait_status(job["job_id"], "completed")
    assert lab.tgpu("logs", str(job["job_id"])).stdout == "it is hush-hush\n"
    for words in (("show", str(job["job_id"])), ("audit",), ("list", "--all")):
        assert "hush-hush" not in lab.tgpu(words[0], "--json", *words[1:]).stdout
    for name in ("server.log", "agent.log"):
        assert "hush-hush" not in (lab.home / "run" / name).read_text()

    assert as_user(BOB, client.secrets) == []
    stolen = as_user(BOB, lambda: client.submit("true", **asked | {"tenant_id": "lab/speech"}))
    assert stolen["refused"] == 422
    assert "hf-token" in stolen["detail"]


def test_every_change_is_a_line_of_the_audit_log(lab: Installation, client: Client) -> None:
    lab.tgpu("tenants", "set", "lab/vision", "--weight", "3")
    lab.tgpu("quota", "set", "lab/vision", "--gpus", "2")
    lab.tgpu("tenants", "move", "lab/speech", "lab/audio")
    token = lab.json("token", "create", "--for", BOB)
    lab.tgpu("token", "revoke", str(token["token_id"]))
    as_user(BOB, lambda: client.set_secret("key", b"hush"))
    entries = lab.json("audit")
    number = token["token_id"]
    assert [(one["user_id"], one["via"], one["action"], one["target"]) for one in entries] == [
        (BOB, "socket", "secret.set", f"secret/{BOB}/key"),
        ("root", "socket", "token.revoke", f"token/{number}"),
        ("root", "socket", "token.create", f"token/{number}"),
        ("root", "socket", "tenant.move", "lab/speech"),
        ("root", "socket", "tenant.update", "lab/vision"),
        ("root", "socket", "tenant.update", "lab/vision"),
        ("root", "socket", "member.set", "lab/speech"),
        ("root", "socket", "member.set", "lab/vision"),
        ("root", "socket", "tenant.create", "lab/speech"),
        ("root", "socket", "tenant.create", "lab/vision"),
        ("root", "socket", "tenant.create", "lab"),
    ]
    assert (entries[5]["before"], entries[5]["after"]) == ({"weight": 1}, {"weight": 3})
    assert token["token"] not in str(entries)
    assert "hush" not in str(entries)
    moved = lab.json("audit", "--target", "lab", "--action", "tenant.move")
    assert [one["after"] for one in moved] == [{"tenant_id": "lab/audio"}]
    assert as_user(BOB, lambda: list(client.audit()))["refused"] == 403
