"""The settings about GPUs: when one counts as ill, and what is done about others who use one."""

from dataclasses import dataclass

from tgpu.config.setting import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSettings:
    """A part of `Settings`."""

    on_gpu_failure: str = setting(
        "requeue",
        "What becomes of a task whose GPU fails: `requeue` (stopped, and tried again on others), `keep` "
        "(left alone), `fail` (stopped, and not tried again). A setting of the servers.",
    )
    gpu_recovery: str = setting(
        "5m", "How long a GPU of this node that was ill must be well before it is given out again."
    )
    gpu_too_hot: int = setting(
        100, "Nothing new starts on a GPU of this node that is so hot or hotter, in °C; 0: never mind."
    )
    gpu_ecc_errors: int = setting(
        10,
        "A GPU of this node counts as failed when its memory has had more errors than so many that could not "
        "be corrected, since the driver was loaded.",
    )
    foreign_gpu_use: str = setting(
        "avoid",
        "What to do about processes on this node's GPUs that belong to no job: `avoid` (nothing new is put "
        "there meanwhile), `share` (they are only shown), `ignore` (nobody looks).",
    )
    foreign_gpu_floor: str = setting(
        "512M", "Such processes on a GPU count when together they use so much of its memory, such as `2G`."
    )


GPU_CHOICES = {
    "on_gpu_failure": ("requeue", "keep", "fail"),
    "foreign_gpu_use": ("avoid", "share", "ignore"),
}
