"""What a task finds in its environment: its devices and its name, on top of what its owner sent."""

from collections.abc import Mapping

from tgpu.domain.ids import AttemptId
from tgpu.protocol.messages import Launch
from tgpu.runner.port import LaunchSpec

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def launch_spec(launch: Launch, log_cap_bytes: int, everybodys: Mapping[str, str]) -> LaunchSpec:
    """`everybodys`: what every task of this node finds, unless its owner says otherwise."""
    argv = ("/bin/sh", "-c", launch.command) if isinstance(launch.command, str) else tuple(launch.command)
    return LaunchSpec(
        attempt=launch.attempt,
        argv=argv,
        env={"PATH": DEFAULT_PATH, **everybodys, **launch.env, **task_variables(launch)},
        cwd=launch.cwd,
        user=launch.user,
        time_limit_s=launch.time_limit_s,
        grace_s=launch.grace_s,
        log_cap_bytes=log_cap_bytes,
        once=launch.once,
        secret_env=launch.secret_env,
    )


def task_variables(launch: Launch) -> dict[str, str]:
    """A task without GPUs sees none: an empty list hides them all from CUDA."""
    attempt = AttemptId.parse(launch.attempt)
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, launch.devices)),
        "TGPU_JOB_ID": str(attempt.job_id),
        "TGPU_JOB_NAME": launch.job_name,
        "TGPU_TASK_INDEX": str(attempt.task_index),
        "TGPU_ATTEMPT": str(attempt.number),
        "JOB_COMPLETION_INDEX": str(attempt.task_index),
    }
