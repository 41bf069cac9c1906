"""The settings about disk space: log files of tgpu itself, and the reserve that users cannot fill."""

from dataclasses import dataclass

from tgpu.config.setting import setting


@dataclass(frozen=True, kw_only=True)  # without slots: `Settings` has several such parts
class DiskSettings:
    """A part of `Settings`."""

    disk_reserve: str = setting(
        "auto",
        "Free space, such as `1G`, that users' data may not use up on the filesystem of a home: below it, a "
        "server refuses submissions and uploads with status 507, and a node takes no new tasks. `auto`: 2 % "
        "of the filesystem, at most 256M. `0`: none.",
    )
    log_file_size: str = setting(
        "10M", "How large `run/server.log` and `run/agent.log` may grow before they are rotated; at least 1M."
    )
    log_file_count: int = setting(
        3, "How many rotated log files (`server.log.1`, …) are kept of each, at most 100."
    )
