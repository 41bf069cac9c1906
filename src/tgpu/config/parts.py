"""The settings that are about one thing each, put together."""

from dataclasses import dataclass

from tgpu.config.checkpoint_settings import CheckpointSettings
from tgpu.config.container_settings import ContainerSettings
from tgpu.config.gang_settings import GangSettings
from tgpu.config.gpu_settings import GpuSettings
from tgpu.config.isolation_settings import IsolationSettings
from tgpu.config.snapshot_settings import SnapshotSettings
from tgpu.config.time_settings import TimeSettings
from tgpu.config.use_settings import UseSettings


@dataclass(frozen=True, kw_only=True)
class Parts(
    CheckpointSettings,
    ContainerSettings,
    GangSettings,
    GpuSettings,
    IsolationSettings,
    SnapshotSettings,
    TimeSettings,
    UseSettings,
):
    """A new part is one more here."""
