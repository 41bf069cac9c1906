"""What a task finds in its environment."""

from typing import Any

import pytest

from tgpu.agent.environment import DEFAULT_PATH, launch_spec, task_variables
from tgpu.domain.container import Container
from tgpu.domain.priority import PriorityClass
from tgpu.protocol.messages import Launch
from tgpu.runner.limits import Limits
from tgpu.runner.port import LaunchSpec


def launch(**more: Any) -> Launch:
    facts: dict[str, Any] = {
        "attempt": "42.7.2",
        "job_name": "train",
        "user": "ada",
        "command": ["python", "train.py"],
        "cwd": "/work",
        "env": {},
        "devices": (1, 3),
        "cpu_milli": 1000,
        "memory_mib": 0,
        "gpu_milli": 2000,
        "time_limit_s": 60,
        "grace_s": 5,
    }
    return Launch(**(facts | more))


def test_a_task_finds_its_devices_and_its_name() -> None:
    assert task_variables(launch()) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "1,3",
        "TGPU_JOB_ID": "42",
        "TGPU_JOB_NAME": "train",
        "TGPU_TASK_INDEX": "7",
        "TGPU_ATTEMPT": "2",
        "JOB_COMPLETION_INDEX": "7",
    }


def test_a_task_without_gpus_sees_none() -> None:
    assert task_variables(launch(devices=()))["CUDA_VISIBLE_DEVICES"] == ""


def test_a_list_is_run_as_it_is() -> None:
    assert launch_spec(launch(), 9, {}) == LaunchSpec(
        attempt="42.7.2",
        argv=("python", "train.py"),
        env={"PATH": DEFAULT_PATH, **task_variables(launch())},
        cwd="/work",
        user="ada",
        time_limit_s=60,
        grace_s=5,
        log_cap_bytes=9,
        limits=Limits(cpu_milli=1000, devices=(1, 3), oom_score_adj=750),
    )


def test_limits_are_those_of_the_order_and_its_class() -> None:
    said = {"cpu_limit_milli": 2000, "memory_mib": 64, "memory_limit_mib": 128, "disk_mib": 9, "burst": True}
    limits = launch_spec(launch(**said, priority_class=PriorityClass.BEST_EFFORT), 9, {}).limits
    assert limits == Limits(
        cpu_milli=1000,
        cpu_limit_milli=2000,
        memory_mib=64,
        memory_limit_mib=128,
        disk_mib=9,
        devices=(1, 3),
        oom_score_adj=495,
    )


def test_a_string_is_run_by_the_shell() -> None:
    assert launch_spec(launch(command="echo $HOME | wc"), 9, {}).argv == ("/bin/sh", "-c", "echo $HOME | wc")


def test_the_owners_variables_replace_the_path_and_never_the_devices() -> None:
    sent = {"PATH": "/opt/bin", "WANDB": "off", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    env = launch_spec(launch(env=sent), 9, {}).env
    assert (env["PATH"], env["WANDB"], env["CUDA_VISIBLE_DEVICES"]) == ("/opt/bin", "off", "1,3")


def test_what_the_node_gives_everybody_gives_way_to_what_the_owner_sent() -> None:
    everybodys = {"TGPU_SERVER": "unix:///run/s", "LANG": "C"}
    env = launch_spec(launch(env={"LANG": "de"}), 9, everybodys).env
    assert (env["TGPU_SERVER"], env["LANG"]) == ("unix:///run/s", "de")


def test_a_task_with_a_key_finds_it_as_its_token() -> None:
    everybodys = {"TGPU_SERVER": "https://gpu1:7480"}
    env = launch_spec(launch(key="tgpu-job.42.7.2.x"), 9, everybodys).env
    assert (env["TGPU_TOKEN"], env["TGPU_SERVER"]) == ("tgpu-job.42.7.2.x", "https://gpu1:7480")
    in_a_container = launch_spec(launch(key="k", container=Container("python:3.12")), 9, everybodys).env
    assert in_a_container["TGPU_TOKEN"] == "k"
    assert "TGPU_TOKEN" not in launch_spec(launch(), 9, everybodys).env


@pytest.mark.parametrize(
    "brought",
    [
        {"env": {"TGPU_TOKEN": "tgpu_own"}},
        {"env": {"TGPU_SERVER": "https://elsewhere:7480"}},
        {"secret_env": {"TGPU_TOKEN": "file:/home/ada/token"}},
        {"secret_env": {"TGPU_SERVER": "file:/home/ada/server"}},
    ],
)
def test_who_brings_a_token_or_servers_gets_no_key(brought: dict[str, Any]) -> None:
    env = launch_spec(launch(key="tgpu-job.42.7.2.x", **brought), 9, {}).env
    assert env.get("TGPU_TOKEN") == brought.get("env", {}).get("TGPU_TOKEN")


@pytest.mark.parametrize(("index", "found"), [(None, None), (5, "5")])
def test_completion_index_is_the_one_that_the_server_sent(index: int | None, found: str | None) -> None:
    order = launch(completion_index=index, env={"JOB_COMPLETION_INDEX": "of the submitting job"})
    assert launch_spec(order, 9, {}).env.get("JOB_COMPLETION_INDEX") == found
