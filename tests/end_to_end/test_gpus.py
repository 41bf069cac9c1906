"""Real processes on GPUs that fall off the bus, come back, and are used by somebody who asked nobody.

NVIDIA's own binding talks to a library that says what the test likes.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.whole_tgpu import Installation
from tests.inventory.nvml_stub import NvmlStub, compiled


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml(installation: Installation, library: Path) -> NvmlStub:
    """Two GPUs and an agent that sees them."""
    stub = NvmlStub(installation.files, library)
    stub.says("count 2")
    recovery = {"TGPU_GPU_RECOVERY": "1s"}
    installation.environ |= stub.environ | recovery
    installation.tgpu("up", "--detach", "--cpus", "8", "--memory", "8G")
    return stub


def devices(up: Installation) -> list[dict[str, Any]]:
    (node,) = up.json("nodes")
    found: list[dict[str, Any]] = node["devices"]
    return found


def alerts(up: Installation) -> dict[str, str]:
    return {alert["name"]: alert["text"] for alert in up.json("stats")["alerts"]}


def test_a_job_whose_gpu_falls_off_the_bus_goes_on_with_another(
    installation: Installation, nvml: NvmlStub
) -> None:
    job = installation.sleeper("--gpus", "1")
    assert installation.wait_status(job, "running")["devices"] == [0]

    nvml.says("count 2", "xid 1 0 79")  # the driver's advice might be seen before its error
    installation.wait_until(lambda: installation.show(job)["devices"] == [1], "it runs on the other one")
    again = installation.wait_status(job, "running")
    lost, now = again["attempts"]
    reason = "Xid 79: it has fallen off the bus; it needs a reset"
    assert (lost["cause"], now["devices"]) == ("device-lost", [1])
    assert lost["reason"].startswith("its GPU failed: GPU 0 of ")
    assert lost["reason"].endswith(reason)
    assert [event["kind"] for event in again["events"]] == [
        "submitted", "assigned", "started", "stop-ordered", "requeued", "assigned", "started",
    ]  # fmt: skip
    assert [(each["healthy"], each["note"]) for each in devices(installation)] == [
        (False, reason),
        (True, ""),
    ]
    installation.wait_until(lambda: "gpu-unhealthy" in alerts(installation), "somebody is told")
    assert reason in alerts(installation)["gpu-unhealthy"]

    other = installation.sleeper("--gpus", "1")
    why = installation.json("why", str(other))
    assert any(each["code"] == "gpu-unhealthy" and reason in each["text"] for each in why["reasons"])
    nvml.says("count 2", "gpu 0 action 0", "xid 1 0 79")
    assert installation.wait_status(other, "running")["devices"] == [0]
    installation.wait_until(lambda: "gpu-unhealthy" not in alerts(installation), "that is over")


def test_a_program_that_notices_first_is_not_blamed(installation: Installation, nvml: NvmlStub) -> None:
    gate = installation.files / "gate"
    script = 'test "$TGPU_ATTEMPT" -gt 1 && exit 0; until test -e $0; do sleep 0.02; done; exit 3'
    job = installation.submit("--gpus", "1", "--", "sh", "-c", script, str(gate))
    installation.wait_status(job, "running")
    nvml.says("count 2", "gpu 0 lost")
    installation.wait_until(lambda: not devices(installation)[0]["healthy"], "it is gone")
    gate.touch()
    done = installation.wait_status(job, "completed")
    assert [(each["cause"], each["devices"]) for each in done["attempts"]] == [
        ("device-lost", [0]),
        ("exited", [1]),
    ]


@pytest.fixture
def stranger(installation: Installation, nvml: NvmlStub) -> Iterator["subprocess.Popen[bytes]"]:  # noqa: ARG001
    """Somebody who says to be the first job's."""
    records = installation.home / "agent"
    installation.wait_until(lambda: [*records.glob("*/claims")], "the agent has met its cluster")
    (claims,) = records.glob("*/claims")
    env = {"TGPU_ATTEMPT_KEY": f"{claims.parent.name}:1.0.1"}
    process = subprocess.Popen(["sleep", "300"], env=env)
    yield process
    process.kill()
    process.wait()


def test_a_gpu_that_somebody_uses_outside_is_avoided_and_shown(
    installation: Installation, nvml: NvmlStub, stranger: "subprocess.Popen[bytes]"
) -> None:
    running = installation.sleeper("--gpus", "1")
    assert (running, installation.wait_status(running, "running")["devices"]) == (1, [0])
    own = installation.json("nodes")[0]
    nvml.says("count 2", f"gpu 1 process {stranger.pid} 12288")
    installation.wait_until(lambda: not devices(installation)[1]["usable"], "it is avoided")
    (use,) = devices(installation)[1]["foreign"]
    assert (use["pid"], use["program"], use["memory_mb"]) == (stranger.pid, "sleep", 12288)
    told = f"is used by {use['user']} outside of tgpu: sleep, 12 GiB"
    assert devices(installation)[1]["healthy"]

    waiting = installation.sleeper("--gpus", "1")
    why = installation.tgpu("why", str(waiting)).stdout
    assert f"GPU 1 of {own['node_id']} {told}" in why
    shown = installation.tgpu("nodes", "show", own["node_id"]).stdout
    assert f"{use['user']}'s sleep (pid {stranger.pid}, 12G) outside of tgpu" in shown
    installation.wait_until(lambda: told in alerts(installation).get("gpu-foreign", ""), "somebody is told")

    main = installation.files / "pid"
    nvml.says("count 2")
    assert installation.wait_status(waiting, "running")["devices"] == [1]
    job = installation.submit("--", "sh", "-c", "echo $$ > $0; exec env -i sleep 300", str(main))
    installation.wait_status(job, "running")
    installation.wait_until(lambda: main.exists() and main.read_text() != "", "it says who it is")
    for degrees in (51, 52, 53):  # three looks at least
        of_a_task = f"gpu 1 process {main.read_text().strip()} 12288"
        nvml.says("count 2", of_a_task, f"gpu 1 temperature {degrees}")
        installation.wait_until(
            lambda degrees=degrees: devices(installation)[1]["temperature_c"] == degrees, "it is looked at"
        )
    assert devices(installation)[1]["foreign"] == [], "a task's own process is no stranger"
