"""What runs attempts on this node, put together by its settings: processes, containers, and their limits."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tgpu.agent.checkpoint_budget import CheckpointBudget
from tgpu.agent.checkpoints import NodeCheckpoints
from tgpu.agent.disk_budgets import check_forever
from tgpu.agent.disk_meter import DiskMeter
from tgpu.agent.failed_tmp import FailedTmp
from tgpu.agent.inventory import Inventory, Owners
from tgpu.agent.node_disk import NodeDisk
from tgpu.agent.restraint import Restraint
from tgpu.agent.snapshot_fetch import SnapshotFetch
from tgpu.agent.snapshot_runner import SnapshotRunner
from tgpu.agent.tmp_budget import TmpBudget
from tgpu.agent.use.uses import Uses
from tgpu.config.settings import Settings
from tgpu.domain.node import Device
from tgpu.domain.quantities import mib, seconds
from tgpu.observe.disk_space import DiskSpace
from tgpu.runner.both import BothRunners
from tgpu.runner.port import LaunchSpec
from tgpu.runner.process import ProcessRunner
from tgpu.runner.process_numbers import kernel_pids, user_pids
from tgpu.wiring.disk_watch import budget_bytes, disk_of
from tgpu.wiring.membership import in_a_container
from tgpu.wiring.node_containers import NodeContainers

_MIB = 1 << 20


class NodeRunners:
    """One for each cluster that the agent meets; it meets only one."""

    def __init__(
        self, settings: Settings, inventory: Inventory, devices: Callable[[], tuple[Device, ...]]
    ) -> None:
        """`devices`: what the agent offered last."""
        self._settings, self._inventory, self._devices = settings, inventory, devices
        space, meter = disk_of(settings), DiskMeter()
        self._restraint = Restraint(
            pids=settings.task_pids,
            user_pids=user_pids(settings.user_pids, kernel_pids()),
            pin_cpus=settings.pin_cpus == "auto",
            devices=devices,
            disk_mib=lambda: _budget(settings, "task_disk", space) // _MIB,
        )
        self.containers = NodeContainers(settings, self._completed)
        self.checkpoints = checkpoints_of(settings)
        self.failed_tmp = FailedTmp(
            settings.home / "failed-tmp",
            seconds("failed_tmp_keep", settings.failed_tmp_keep),
            mib("failed_tmp_max", settings.failed_tmp_max) * _MIB,
            meter,
            shortage=space.shortage,
        )
        self.uses = Uses(settings.sample_s, inventory.gpu_shares)
        self.processes: list[ProcessRunner] = []
        self.both: list[BothRunners] = []
        self._tmp_space, self._checkpoint_space = space, disk_of(settings, checkpoint_root(settings))
        self._tmp_budget = TmpBudget(lambda: self.both, meter, space, self.failed_tmp)
        self._checkpoint_budget = self._budget_of_checkpoints()
        self.snapshots = SnapshotFetch(settings.agent_dir / "snapshots", settings.snapshot_max_mb * _MIB)

    def of_cluster(self, cluster_id: str) -> SnapshotRunner:
        settings = self._settings
        if self.checkpoints is not None:
            self.checkpoints.use_cluster(cluster_id)
        processes = ProcessRunner(
            records_dir=settings.agent_dir / cluster_id,
            logs_dir=settings.logs_dir / cluster_id,
            cluster_id=cluster_id,
            cgroups=settings.cgroups == "auto",
            private_tmp=settings.private_tmp == "auto",
            failed_tmp=self.failed_tmp.folder_of(cluster_id),
            systemd_scope=settings.systemd_scope == "auto",
            complete=self._restraint.completed,
            log_reserve_bytes=disk_of(settings).reserve_bytes,
        )
        self.processes.append(processes)
        self.both.append(self.containers.with_containers(processes, cluster_id))
        self._inventory.owners = Owners(cluster_id, self.both[-1].roots)
        self.uses.open(settings.logs_dir / cluster_id, self.both[-1])
        return SnapshotRunner(
            self.both[-1],
            settings.home / "snapshots" / cluster_id,
            self.snapshots,
            settings.snapshot_max_mb * _MIB,
            now_ms=lambda: time.time_ns() // 1_000_000,
            preparation=processes.preparation,
        )

    @property
    def disk(self) -> NodeDisk:
        """The disks without which nothing can be started here."""
        settings, root = self._settings, checkpoint_root(self._settings)
        spaces, folders = [disk_of(settings)], [settings.agent_dir]
        if root is not None:
            spaces.append(disk_of(settings, root))
            folders.append(root)
        return NodeDisk(spaces, folders)

    async def check_tmp(self) -> None:
        """Until cancelled: ends tasks that write too much."""
        await check_forever(self._tmp_space, self._tmp_budget.check)

    async def check_checkpoints(self) -> None:
        if self._checkpoint_budget is not None:
            await check_forever(self._checkpoint_space, self._checkpoint_budget.check)

    def _budget_of_checkpoints(self) -> CheckpointBudget | None:
        """With a meter of its own: the folders may be on a network drive that hangs."""
        space, settings = self._checkpoint_space, self._settings
        if self.checkpoints is None:
            return None
        return CheckpointBudget(
            lambda: self.both,
            self.checkpoints,
            DiskMeter(),
            space,
            lambda: _budget(settings, "user_checkpoints", space),
        )

    def abilities(self) -> dict[str, str]:
        """By name: why it is not there; empty if it is."""
        return {each.name: each.why_not for runner in self.processes for each in runner.abilities()}

    def _completed(self, spec: LaunchSpec) -> LaunchSpec:
        uuids = {device.index: device.uuid for device in self._devices()}
        gpus = tuple(uuids.get(index, "") for index in spec.limits.devices or ())
        env = in_a_container(self._settings, spec.env)
        return replace(spec, env=env, limits=self._restraint.completed(spec.limits), gpus=gpus)


def checkpoint_root(settings: Settings) -> Path | None:
    """Below the home beside the agent's own folder, which no user may enter, unless it is elsewhere."""
    if settings.checkpoint_root == "off":
        return None
    return Path(settings.checkpoint_root or settings.home / "checkpoints")


def checkpoints_of(settings: Settings) -> NodeCheckpoints | None:
    root = checkpoint_root(settings)
    if root is None:
        return None
    return NodeCheckpoints(root, seconds("checkpoint_keep", settings.checkpoint_keep))


def _budget(settings: Settings, name: str, space: DiskSpace) -> int:
    """In bytes; none while the disk cannot be read."""
    try:
        return budget_bytes(name, getattr(settings, name), space)
    except OSError:
        return 0
