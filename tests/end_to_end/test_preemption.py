"""Urgent work takes the place of what can wait; that gives way with grace, comes back and loses nothing."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.whole_tgpu import Installation
from tgpu.client import Client

SAVES_ITS_WORK = """
echo "$TGPU_ATTEMPT on $CUDA_VISIBLE_DEVICES" >> $0
test $TGPU_ATTEMPT -gt 1 && exit 0
trap 'echo told to go >> $0; until test -e $1; do sleep 0.05; done; echo saved >> $0; exit 143' TERM
while true; do sleep 0.05; done
"""
UNTIL_THERE = "until test -e $0; do sleep 0.05; done"


@pytest.fixture
def client(up: Installation) -> Iterator[Client]:
    with up.client() as one:
        yield one


def written(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def kinds(job: dict[str, Any]) -> list[str]:
    return [event["kind"] for event in job["events"]]


def test_a_job_gives_way_to_an_urgent_one_and_runs_again_when_that_is_done(
    installation: Installation,
) -> None:
    installation.environ["TGPU_PREEMPTION_BACKOFF"] = "1s"
    installation.up()
    diary, saved, gate = (installation.files / name for name in ("diary", "saved", "gate"))
    patient = installation.submit(
        *("--gpus", "8", "--class", "best-effort", "--grace", "30s"),
        *("--", "sh", "-c", SAVES_ITS_WORK, str(diary), str(saved)),
    )
    installation.wait_until(lambda: written(diary) == ["1 on 0,1,2,3,4,5,6,7"], "the first one runs")
    urgent = installation.submit(
        *("--gpus", "8", "--class", "real-time", "--", "sh", "-c", UNTIL_THERE, str(gate))
    )

    installation.wait_until(lambda: "told to go" in written(diary), "it got a SIGTERM")
    why = installation.json("why", str(urgent))
    assert [reason["code"] for reason in why["reasons"]] == ["claim"]
    assert f"job {patient} of " in why["summary"]
    assert "is being stopped for it" in why["summary"]
    assert "is being stopped for it" in installation.tgpu("why", str(urgent)).stdout
    assert [installation.status(job_id) for job_id in (patient, urgent)] == ["running", "pending"]

    saved.touch()
    assert installation.wait_status(urgent, "running")["devices"] == list(range(8))
    assert written(diary)[1:] == ["told to go", "saved"]
    stopped = installation.show(patient)
    assert stopped["status"] == "preempted"
    assert kinds(stopped) == ["submitted", "assigned", "started", "stop-ordered", "preempted"]
    assert stopped["events"][3]["data"]["by"] == f"job {urgent}"
    assert [attempt["cause"] for attempt in stopped["attempts"]] == ["preempted"]
    told = installation.tgpu("show", str(patient)).stdout
    assert f"cause=preempted  by=job {urgent}" in told
    assert "gave way to a task of a higher class" in told
    assert installation.json("why", str(patient))["waiting"] is True

    gate.touch()
    installation.wait_status(urgent, "completed")
    done = installation.wait_status(patient, "completed")
    assert [attempt["cause"] for attempt in done["attempts"]] == ["preempted", "exited"]
    assert (kinds(done)[5], kinds(done)[-1]) == ("assigned", "succeeded")
    assert written(diary)[3:] == ["2 on 0,1,2,3,4,5,6,7"]


def test_a_job_that_allows_one_try_gives_way_and_has_failed(shared: Installation) -> None:
    once = shared.submit("--gpus", "8", "--class", "best-effort", "--no-requeue", "--", "sleep", "300")
    shared.wait_status(once, "running")
    urgent = shared.submit("--gpus", "8", "--class", "real-time", "--", "true")
    failed = shared.wait_status(once, "failed")
    assert failed["cause"] == "preempted"
    assert failed["reason"] == "gave way to a task of a higher class; --no-requeue forbids to try again"
    assert kinds(failed) == ["submitted", "assigned", "started", "stop-ordered", "failed"]
    assert "--no-requeue forbids to try again" in shared.tgpu("show", str(once)).stdout
    assert shared.tgpu("wait", str(once), check=False).stdout == f"Job {once} failed: {failed['reason']}\n"
    shared.wait_status(urgent, "completed")
    assert [attempt["cause"] for attempt in shared.show(once)["attempts"]] == ["preempted"]


def test_nobody_of_a_lower_class_slips_in_while_one_that_gave_way_backs_off(
    installation: Installation,
) -> None:
    installation.environ["TGPU_PREEMPTION_BACKOFF"] = "8s"
    installation.up()
    middle = installation.submit("--gpus", "8", "--class", "default", "--", "sleep", "300")
    installation.wait_status(middle, "running")
    lowest = installation.sleeper("--gpus", "8", "--class", "low")
    urgent = installation.submit("--gpus", "8", "--class", "high", "--", "true")
    installation.wait_status(urgent, "completed")
    assert [installation.status(job_id) for job_id in (middle, lowest)] == ["preempted", "pending"]
    kept = installation.json("why", str(lowest))
    assert kept["reasons"][0]["code"] == "kept-for"
    assert f"job {middle}" in kept["summary"]
    installation.wait_status(middle, "running", within_s=40)
    assert installation.status(lowest) == "pending"


def test_nothing_is_stopped_where_preemption_is_off(installation: Installation) -> None:
    installation.environ["TGPU_PREEMPTION"] = "off"
    installation.up()
    gate = installation.files / "gate"
    patient = installation.submit(
        *("--gpus", "8", "--class", "best-effort", "--", "sh", "-c", UNTIL_THERE, str(gate))
    )
    installation.wait_status(patient, "running")
    urgent = installation.submit("--gpus", "8", "--class", "real-time", "--", "true")
    why = installation.json("why", str(urgent))
    assert "needs 8 GPUs" in why["summary"]
    assert [holder["job_id"] for holder in why["holders"]] == [patient]
    time.sleep(1.5)  # longer than from one look at everything to the next
    gate.touch()
    done = installation.wait_status(patient, "completed")
    assert kinds(done) == ["submitted", "assigned", "started", "succeeded"]
    installation.wait_status(urgent, "completed")


def test_tenants_start_in_the_ratio_of_their_weights_and_a_new_weight_counts_at_once(
    up: Installation, client: Client
) -> None:
    for tenant_id in ("one", "three"):
        client.session.call("POST", "/tenants", body={"tenant_id": tenant_id})
    blocker = up.sleeper("--gpus", "8")
    up.wait_status(blocker, "running")
    jobs = [
        {"command": ["sleep", "300"], "cwd": "/", "gpu_request": 1, "cpu_request": 1, "tenant_id": tenant_id}
        for tenant_id in ("one",) * 8 + ("three",) * 8
    ]
    ids = client.submit_many(jobs)
    client.session.call("PATCH", "/tenants/three", body={"weight": 3})
    up.tgpu("cancel", str(blocker))

    def running() -> list[dict[str, Any]]:
        return [job for job in client.jobs_by_id(ids) if job["status"] == "running"]

    up.wait_until(lambda: len(running()) == 8, "eight of them run")
    counts = {name: sum(job["tenant_id"] == name for job in running()) for name in ("one", "three")}
    assert counts == {"one": 2, "three": 6}
