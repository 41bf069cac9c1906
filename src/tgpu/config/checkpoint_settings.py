"""The settings about folders in which tasks save their work."""

from dataclasses import dataclass

from tgpu.config.setting import setting


@dataclass(frozen=True, kw_only=True)  # without slots: `Settings` has several such parts
class CheckpointSettings:
    """A part of `Settings`."""

    checkpoint_root: str = setting(
        "",
        "Where tasks of this node have their folders for checkpoints (TGPU_CHECKPOINT_DIR), such as "
        "/shared/checkpoints: the same on all nodes if they share it, and writable for root. Empty: the "
        "folder `checkpoints` in the home, from which only attempts on the same node can go on. `off`: none.",
    )
    checkpoint_keep: str = setting(
        "7d",
        "How long a folder for checkpoints is kept after the last change in it, unless its task runs; at "
        "least 1h.",
    )
