"""The settings about copies of jobs' code."""

from dataclasses import dataclass

from tgpu.config.setting import setting

SNAPSHOT_CHOICES = {"snapshots": ("off", "auto", "always")}


@dataclass(frozen=True, kw_only=True)  # without slots: `Settings` has several such parts
class SnapshotSettings:
    """A part of `Settings`."""

    snapshots: str = setting(
        "off",
        "Whether `tgpu submit` copies the code that a job runs: `off` (only with --snapshot), `auto` (in a "
        "Git tree), `always`.",
    )
    snapshot_max_mb: int = setting(
        100, "The most MiB that such a copy may have, 1 to 4096: of its files, and packed."
    )
    snapshot_keep: str = setting(
        "30d",
        "How long a copy is kept after it was last submitted with or fetched by a node, at least 1h; live "
        "jobs keep theirs.",
    )
