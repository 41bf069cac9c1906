"""The settings that are about one thing each, put together."""

from dataclasses import dataclass

from tgpu.config.access_settings import ACCESS_CHOICES, AccessSettings
from tgpu.config.checkpoint_settings import CheckpointSettings
from tgpu.config.container_settings import CONTAINER_CHOICES, ContainerSettings
from tgpu.config.disk_settings import DiskSettings
from tgpu.config.gang_settings import GangSettings
from tgpu.config.gpu_settings import GPU_CHOICES, GpuSettings
from tgpu.config.isolation_settings import ISOLATION_CHOICES, IsolationSettings
from tgpu.config.network_settings import NetworkSettings
from tgpu.config.snapshot_settings import SNAPSHOT_CHOICES, SnapshotSettings
from tgpu.config.time_settings import TimeSettings
from tgpu.config.use_settings import UseSettings


@dataclass(frozen=True, kw_only=True)
class Parts(
    AccessSettings,
    CheckpointSettings,
    ContainerSettings,
    DiskSettings,
    GangSettings,
    GpuSettings,
    IsolationSettings,
    NetworkSettings,
    SnapshotSettings,
    TimeSettings,
    UseSettings,
):
    """A new part is one more here."""


CHOICES = {
    **ACCESS_CHOICES,
    **CONTAINER_CHOICES,
    **GPU_CHOICES,
    **ISOLATION_CHOICES,
    **SNAPSHOT_CHOICES,
}
