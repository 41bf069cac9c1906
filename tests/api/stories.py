"""What the control loop and the agents would have done to a job, in few words."""

from typing import Any

from tests.api.conftest import ServerUnderTest
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Exit, Group, JobSpec, Request
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.store.port import Assigned, AttemptEnded, Batch, Receipt, Started


def submit(
    server: ServerUnderTest,
    user: str = "root",
    name: str = "train",
    tenant_id: str = "default",
    **group: Any,
) -> int:
    group = {"request": Request(), **group}
    spec = JobSpec(
        user, (Group(("python", "train.py"), cwd="/tmp", **group),), name=name, tenant_id=tenant_id
    )
    return int(server.run(server.store.submit([spec], server.now_ms)).job_ids[0])


def commit(server: ServerUnderTest, **changes: Any) -> Receipt:
    server.epoch = server.epoch or server.run(server.store.claim())
    receipt: Receipt = server.run(server.store.commit(server.epoch, Batch(server.now_ms, **changes)))
    assert not receipt.refused, receipt.refused
    server.loop.call_soon_threadsafe(server.feed.publish, receipt.events)
    return receipt


def assign(server: ServerUnderTest, job_id: int, number: int = 1, devices: tuple[int, ...] = (0,)) -> None:
    commit(server, assigned=[Assigned(AttemptId(job_id, 0, number), "ws1", devices)])


def start(server: ServerUnderTest, job_id: int, number: int = 1) -> None:
    commit(server, started=[Started(AttemptId(job_id, 0, number), server.now_ms)])


def end(
    server: ServerUnderTest,
    job_id: int,
    happening: Happening,
    cause: Cause,
    *,
    number: int = 1,
    exit_code: int | None = None,
    **more: Any,
) -> None:
    how = Exit(cause, exit_code=exit_code, **{"ended_ms": server.now_ms, **more})
    commit(server, ended=[AttemptEnded(AttemptId(job_id, 0, number), how, happening)])
