"""Several people on one machine: each is who the kernel says, and touches only what is theirs."""

import grp
import os
import pwd
from collections.abc import Iterator
from typing import Any

import pytest

from tests.end_to_end.unix_users import USERS, accounts, as_user
from tests.end_to_end.whole_tgpu import Installation
from tgpu.client import Client
from tgpu.config import settings as configuration
from tgpu.wiring import up as wiring_up

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")


@pytest.fixture(scope="module", autouse=True)
def people() -> Iterator[None]:
    with accounts():
        yield


@pytest.fixture
def client(shared: Installation) -> Client:
    return shared.client()


def submit_as(user: str, client: Client, command: str, **fields: Any) -> int:
    job = as_user(user, lambda: client.submit(command, cwd="/tmp", **fields))
    assert "job_id" in job, job
    job_id = job["job_id"]
    assert isinstance(job_id, int)
    return job_id


def test_a_job_runs_as_whoever_submitted_it_in_every_respect(shared: Installation, client: Client) -> None:
    job_id = submit_as(USERS[0], client, "id -un; id -gn; id -Gn; echo $HOME; pwd; echo $USER")
    shared.wait_status(job_id, "completed")
    account = pwd.getpwnam(USERS[0])
    said = shared.tgpu("logs", str(job_id)).stdout.splitlines()
    assert said[0] == USERS[0]
    assert said[1] == grp.getgrgid(account.pw_gid).gr_name
    assert "audio" in said[2].split()
    assert said[3:] == [account.pw_dir, "/tmp", USERS[0]]


def test_nobody_touches_anothers_job(shared: Installation, client: Client) -> None:
    job_id = submit_as(USERS[0], client, "echo secret; sleep 60", env={"API_TOKEN": "hush"}, name="anns")
    shared.wait_status(job_id, "running")
    assert as_user(USERS[1], lambda: client.cancel(job_id))["refused"] == 403
    assert as_user(USERS[1], lambda: list(map(bytes.decode, client.logs(job_id))))["refused"] == 403
    seen = as_user(USERS[1], lambda: client.job(job_id))
    assert (seen["user_id"], seen["name"], seen["status"]) == (USERS[0], "anns", "running")
    assert (seen["command"], seen["env"], seen["cwd"]) == (None, None, None)
    assert as_user(USERS[0], lambda: client.job(job_id))["env"] == {"API_TOKEN": "hush"}
    assert shared.status(job_id) == "running"
    as_user(USERS[0], lambda: client.cancel(job_id))
    shared.wait_status(job_id, "cancelled")


def test_nobody_can_pose_as_another(shared: Installation, client: Client) -> None:
    before = shared.json("list", "--all")
    posed = as_user(USERS[1], lambda: client.submit("true", cwd="/tmp", user_id=USERS[0]))
    assert posed["refused"] == 403
    assert shared.json("list", "--all") == before


def test_an_unreadable_directory_fails_with_that_reason(shared: Installation, client: Client) -> None:
    private = shared.files / "private"
    private.mkdir(mode=0o700)
    job = as_user(USERS[1], lambda: client.submit("true", cwd=str(private)))
    if "refused" in job:
        assert str(private) in job["detail"]
    else:
        ended = shared.wait_status(job["job_id"], "failed")
        assert ended["cause"] == "could-not-start"
        assert str(private) in ended["reason"]


def test_the_database_and_the_output_are_closed_to_others(shared: Installation, client: Client) -> None:
    job_id = submit_as(USERS[0], client, "echo mine")
    shared.wait_status(job_id, "completed")

    def look() -> list[str]:
        paths = [
            shared.home / name for name in ("tgpu.db", "logs", "agent", "run/agents.sock", "run/owner.sock")
        ]
        return [str(path) for path in paths if os.access(path, os.R_OK) or os.access(path, os.W_OK)]

    assert as_user(USERS[1], look) == []


def test_only_its_owner_can_stop_it(shared: Installation) -> None:
    settings = configuration.load({"TGPU_HOME": str(shared.home)})
    assert as_user(USERS[1], lambda: wiring_up.down(settings)) == 5
    assert shared.pid("server") is not None
    assert shared.pid("agent") is not None
