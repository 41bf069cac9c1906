"""What this node can hold a task to, and why not, where it cannot: for `tgpu doctor`."""

import os
from typing import NamedTuple

from tgpu.runner.cgroups.detect import Detected

_BY_CGROUP = {
    "cpu limit": "cpu",
    "memory limit": "memory",
    "processes": "pids",
    "freezer": "freezer",
    "devices": "devices",
    "cpu pinning": "cpuset",
}
UNIFIED_DEVICES = (
    "the kernel takes no program of ours that keeps tasks from devices ({}): start the agent as root and "
    "not in a container; till then CUDA_VISIBLE_DEVICES says which GPUs a task is to use"
)
BY_AFFINITY = "by affinity, which a task can change; "


class Ability(NamedTuple):
    name: str
    why_not: str = ""
    """Empty: it is enforced. Else it is only counted, or asked for."""


def abilities(detected: Detected, why_no_tmp: str, why_no_cgroups: str = "") -> list[Ability]:
    """`why_no_cgroups`: a setting forbids them."""
    found = [
        Ability(name, _why_not(controller, detected, why_no_cgroups))
        for name, controller in _BY_CGROUP.items()
    ]
    return [*found, Ability("private tmp", why_no_tmp)]


def _why_not(controller: str, detected: Detected, why_no_cgroups: str) -> str:
    cgroups = detected.cgroups
    if cgroups is not None and (
        controller in cgroups.bases or (controller == "freezer" and cgroups.version > 1)
    ):
        return ""
    if cgroups is not None and cgroups.version > 1 and controller == "devices":
        return UNIFIED_DEVICES.format(detected.no_fence)
    why = why_no_cgroups or detected.why or f"the kernel has no controller {controller} for us"
    return f"{BY_AFFINITY}{why}" if controller == "cpuset" else why


def why_no_tmp(*, wanted: bool) -> str:
    if not wanted:
        return "the setting private_tmp is off"
    return "" if os.geteuid() == 0 else "the agent is not root"
