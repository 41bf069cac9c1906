"""What a task finds in its environment: its devices and its name, on top of what its owner sent."""

from collections.abc import Mapping

from msgspec import UNSET

from tgpu.agent.restraint import oom_score
from tgpu.domain.ids import AttemptId
from tgpu.protocol.messages import Launch
from tgpu.runner import checkpoint_folder
from tgpu.runner.limits import Limits
from tgpu.runner.port import LaunchSpec

COMPLETION_INDEX = "JOB_COMPLETION_INDEX"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def launch_spec(
    launch: Launch,
    log_cap_bytes: int,
    everybodys: Mapping[str, str],
    checkpoint_dir: str = "",
) -> LaunchSpec:
    """`everybodys`: what every task of this node finds, unless its owner says otherwise. `checkpoint_dir`:
    where it may save its work."""
    own = {**task_variables(launch), **checkpoint_folder.variables(checkpoint_dir)}
    env = {name: value for name, value in launch.env.items() if name != COMPLETION_INDEX}
    path = {"PATH": DEFAULT_PATH} if launch.container is None else {}  # an image brings its own
    argv = ("/bin/sh", "-c", launch.command) if isinstance(launch.command, str) else tuple(launch.command)
    return LaunchSpec(
        attempt=launch.attempt,
        argv=argv,
        env={**path, **everybodys, **_own_key(launch), **env, **own},
        cwd=launch.cwd,
        user=launch.user,
        time_limit_s=launch.time_limit_s,
        grace_s=launch.grace_s,
        log_cap_bytes=log_cap_bytes,
        once=launch.once,
        pty=launch.pty,
        shared_tmp=launch.shared_tmp,
        secret_env=launch.secret_env,
        limits=limits_of(launch),
        container=launch.container,
        stop_signal=launch.stop_signal,
        warn=launch.warn,
        checkpoint_dir=checkpoint_dir,
        files=launch.files,
        snapshot=launch.snapshot,
    )


def _own_key(launch: Launch) -> dict[str, str]:
    """Not for a job that brings a token of its own; nor for one that names servers of its own, which are none
    of this cluster's and would be shown the key."""
    said = launch.env.keys() | launch.secret_env.keys()
    if not launch.key or said & {"TGPU_TOKEN", "TGPU_SERVER"}:
        return {}
    return {"TGPU_TOKEN": launch.key}


def limits_of(launch: Launch) -> Limits:
    """As far as the order says; its node adds the rest."""
    return Limits(
        cpu_milli=launch.cpu_milli,
        cpu_limit_milli=launch.cpu_limit_milli,
        memory_mib=launch.memory_mib,
        memory_limit_mib=launch.memory_limit_mib,
        disk_mib=launch.disk_mib,
        devices=launch.devices,
        oom_score_adj=oom_score(launch.priority_class, burst=launch.burst, reserves=launch.memory_mib > 0),
    )


def task_variables(launch: Launch) -> dict[str, str]:
    """A task without GPUs sees none: an empty list hides them all from CUDA."""
    attempt = AttemptId.parse(launch.attempt)
    index = attempt.task_index if launch.completion_index is UNSET else launch.completion_index
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, launch.devices)),
        "TGPU_JOB_ID": str(attempt.job_id),
        "TGPU_JOB_NAME": launch.job_name,
        "TGPU_TASK_INDEX": str(attempt.task_index),
        "TGPU_ATTEMPT": str(attempt.number),
    } | ({} if index is None else {COMPLETION_INDEX: str(index)})
