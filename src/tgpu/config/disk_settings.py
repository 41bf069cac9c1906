"""The settings about disk space: log files of tgpu itself, and the reserve that users cannot fill."""

from dataclasses import dataclass

from tgpu.config.setting import setting


@dataclass(frozen=True, kw_only=True)  # without slots: `Settings` has several such parts
class DiskSettings:
    """A part of `Settings`."""

    disk_reserve: str = setting(
        "auto",
        "Free space, such as `1G`, that users' data may not use up on the filesystem of a home: below it, a "
        "server refuses submissions and uploads with status 507, and a node takes no new tasks. On a node it "
        "holds for the filesystem of `checkpoint_root`, too. `auto`: 2 % of the filesystem, at most 256M. "
        "`0`: none.",
    )
    task_disk: str = setting(
        "auto",
        "How much the private /tmp of a task may hold on this node, such as `50G`, if the job names no "
        "`--disk`; a task that holds more is ended. `auto`: a quarter of the filesystem. `0`: no limit.",
    )
    user_checkpoints: str = setting(
        "auto",
        "How much all checkpoint folders of one user may hold together below `checkpoint_root`, such as "
        "`200G`; beyond that, tasks of the user that write to theirs are ended. `auto`: a quarter of the "
        "filesystem. `0`: no limit.",
    )
    log_file_size: str = setting(
        "10M", "How large `run/server.log` and `run/agent.log` may grow before they are rotated; at least 1M."
    )
    log_file_count: int = setting(
        3, "How many rotated log files (`server.log.1`, …) are kept of each, at most 100."
    )
