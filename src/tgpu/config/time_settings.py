"""The settings about how long jobs may wait."""

from dataclasses import dataclass

from tgpu.config.setting import setting


@dataclass(frozen=True, kw_only=True)  # without slots: `Settings` has several such parts
class TimeSettings:
    """A part of `Settings`."""

    max_wait: str = setting(
        "",
        "How long a job that says nothing of it (max_wait_s) may wait for its first place, such as 15s; then "
        "it has failed. Empty: for ever. Of a pool: jobs that name the pool.",
    )
