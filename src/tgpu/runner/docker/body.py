"""What an engine is told of one container: what it is given, and what it is kept from."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tgpu.domain.container import HOSTFILE, Mount
from tgpu.runner.docker import gpus
from tgpu.runner.docker.engine import About
from tgpu.runner.docker.following import COPY_BYTES
from tgpu.runner.docker.mounting import Bound, covers
from tgpu.runner.limits import Limits
from tgpu.runner.port import LaunchSpec
from tgpu.runner.task import ROOT, Account, Refusal
from tgpu.runner.terminal import COLS, ROWS

LABEL = "tgpu.dev"
_MIB = 1 << 20
_NANO_PER_MILLI = 1_000_000
_SHARES_PER_CPU = 1024
_LEAST_SHARES = 2
_LEAST_MEMORY_MIB = 6
"""Engines refuse less."""
_WRITABLE = "/tmp"  # noqa: S108  in the container
_NUMBERS = ("time_limit_s", "grace_s", "log_cap_bytes", "stop_signal", "warn", "checkpoint_dir")


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """What this node allows its containers."""

    mount_allow: tuple[str, ...]
    networks: tuple[str, ...]
    """The first is what one gets that does not say."""
    gpu_injection: str


def labels(cluster_id: str, owner: str) -> dict[str, str]:
    """By which an agent finds its own containers, and nobody else's."""
    return {f"{LABEL}/cluster": cluster_id, f"{LABEL}/owner": owner}


def name_of(cluster_id: str, attempt: str) -> str:
    return f"tgpu-{cluster_id}-{attempt}"


def network_of(spec: LaunchSpec, house: House) -> str:
    assert spec.container is not None
    asked = spec.container.network
    if asked is None and house.networks:
        return house.networks[0]
    if asked is None or asked not in house.networks:
        raise Refusal(
            f"this node does not let containers use the network {asked or 'of the engine'}: allowed are "
            f"{', '.join(house.networks) or 'none'}; an administrator can add it to container_networks"
        )
    return asked


def body(  # noqa: PLR0917  all that a container is made of
    spec: LaunchSpec,
    account: Account,
    bounds: Sequence[Bound],
    secrets: Mapping[str, str],
    house: House,
    about: About,
    marks: Mapping[str, str],
) -> dict[str, Any]:
    """`marks`: the labels that name it. The image's own environment, entry point and directory hold unless
    the job says otherwise."""
    container = spec.container
    assert container is not None
    targets = [Mount(one.source, one.target) for one in bounds]
    env = _environment(spec, account, targets, secrets)
    env["TGPU_ATTEMPT_KEY"] = f"{marks[f'{LABEL}/cluster']}:{spec.attempt}"  # whose process it is, on a GPU
    made: dict[str, Any] = {
        "Image": container.runs,
        "User": "0:0" if about.rootless else f"{account.uid}:{account.gid}",
        "Env": [f"{key}={value}" for key, value in env.items()],
        "Labels": {**marks, **_numbers(spec), f"{LABEL}/user": spec.user},
        "AttachStdin": spec.pty,
        "OpenStdin": spec.pty,  # and it stays open, whoever comes and goes
        "Tty": spec.pty,
        "NetworkDisabled": False,
        "HostConfig": _host_config(spec, account, bounds, house, about),
    }
    if spec.argv and container.ignores_entrypoint:
        made |= {"Entrypoint": [spec.argv[0]], "Cmd": list(spec.argv[1:])}
    elif spec.argv:
        made["Cmd"] = list(spec.argv)
    if container.cwd is not None:
        made["WorkingDir"] = container.cwd
    elif covers(targets, spec.cwd):
        made["WorkingDir"] = spec.cwd
    return made


def _host_config(
    spec: LaunchSpec, account: Account, bounds: Sequence[Bound], house: House, about: About
) -> dict[str, Any]:
    container = spec.container
    assert container is not None
    groups = os.getgrouplist(account.name, account.gid)
    config: dict[str, Any] = {
        "NetworkMode": network_of(spec, house),
        "IpcMode": "private",
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "Privileged": False,
        "Init": True,
        "ReadonlyRootfs": container.read_only,
        "RestartPolicy": {"Name": "no"},
        "LogConfig": log_config(about),
        "GroupAdd": [] if about.rootless else [str(group) for group in groups if group != account.gid],
        "Mounts": [_mount(one) for one in (*bounds, *_hostfile(spec), *_checkpoints(spec, bounds))],
        "DeviceRequests": gpus.device_requests(spec.gpus, house.gpu_injection, about),
        **resources(spec.limits),
        **_process_limit(spec.limits.user_pids, account, about),
    }
    if spec.pty:
        config["ConsoleSize"] = [ROWS, COLS]
    if container.shm_mib is not None:
        config["ShmSize"] = container.shm_mib * _MIB
    if container.read_only and not any(one.target == _WRITABLE for one in bounds):
        config["Tmpfs"] = {_WRITABLE: "rw,nosuid,nodev,mode=1777"}
    return config


def resources(limits: Limits) -> dict[str, Any]:
    """Swap counts as memory: what may use so much may not use more of the disk instead."""
    found: dict[str, Any] = {}
    if limits.cpu_milli:
        found["CpuShares"] = max(_LEAST_SHARES, limits.cpu_milli * _SHARES_PER_CPU // 1000)
    if 0 < limits.cpu_limit_milli < 1000 * (os.cpu_count() or 1):  # engines refuse more than there are
        found["NanoCpus"] = limits.cpu_limit_milli * _NANO_PER_MILLI
    if limits.memory_limit_mib:
        most = max(limits.memory_limit_mib, _LEAST_MEMORY_MIB) * _MIB
        found |= {"Memory": most, "MemorySwap": most}
    if limits.pids:
        found["PidsLimit"] = limits.pids
    if limits.cpus:
        found["CpusetCpus"] = ",".join(map(str, limits.cpus))
    if limits.oom_score_adj is not None:
        found["OomScoreAdj"] = limits.oom_score_adj
    return found


def _process_limit(most: int, account: Account, about: About) -> dict[str, Any]:
    """Of all that the user has on this node, in containers or not: the kernel counts by the user's number. As
    for tasks without a container, root and the agent's own user are not limited."""
    if not most or about.rootless or account.uid in (ROOT, os.geteuid()):
        return {}
    return {"Ulimits": [{"Name": "nproc", "Soft": most, "Hard": most}]}


def log_config(about: About) -> dict[str, Any]:
    """The engine's copy of the output, for an agent that was away. Docker's `local` keeps bytes as they are;
    it is not to begin anew before that much, since whoever reads meanwhile would lose the thread."""
    if about.kind == "podman":
        return {"Type": "k8s-file", "Config": {"max-size": str(COPY_BYTES)}}
    return {"Type": "local", "Config": {"max-size": str(COPY_BYTES), "max-file": "2", "compress": "false"}}


def _environment(
    spec: LaunchSpec, account: Account, mounts: Sequence[Mount], secrets: Mapping[str, str]
) -> dict[str, str]:
    home = account.home if covers(mounts, account.home) else _WRITABLE
    usual = {"HOME": home, "USER": account.name, "LOGNAME": account.name}
    return {**usual, **spec.env, **secrets, **gpus.variables(spec.gpus)}


def _numbers(spec: LaunchSpec) -> dict[str, str]:
    """What has to be known of it when another agent finds it."""
    found = {name: getattr(spec, name) for name in _NUMBERS}
    found |= {"memory_mib": spec.limits.memory_mib, "memory_limit_mib": spec.limits.memory_limit_mib}
    return {f"{LABEL}/{name}": str(value) for name, value in found.items()}


def _hostfile(spec: LaunchSpec) -> list[Bound]:
    """One of this node's own, so it need not be below what users may mount."""
    return [Bound(spec.hostfile, HOSTFILE, read_only=True)] if spec.hostfile else []


def _checkpoints(spec: LaunchSpec, bounds: Sequence[Bound]) -> list[Bound]:
    """Likewise. What is above it is root's, so its name cannot come to mean something else."""
    folder = spec.checkpoint_dir
    if not folder or any(one.target == folder for one in bounds):
        return []
    return [Bound(folder, folder, read_only=False)]


def _mount(one: Bound) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": one.source,
        "Target": one.target,
        "ReadOnly": one.read_only,
        "BindOptions": {"Propagation": "rprivate"},
    }
