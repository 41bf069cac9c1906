# ruff: noqa: PTH103, PTH106, PTH123  as the rest of this package
"""Which cgroups of this machine are ours to use, and what they can do.

Version 1 where it has controllers; else version 2. There, controllers can be given to the tasks' groups only
in a part of the tree that is ours alone (delegated), and in which the agent itself stands in a leaf: a group
with processes of its own can give its children nothing.
"""

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tgpu.runner.cgroups import fence, files
from tgpu.runner.cgroups.bounds import SHARES_OF_A_CPU, WEIGHT_OF_A_CPU
from tgpu.runner.cgroups.groups import Cgroups
from tgpu.runner.cgroups.scope import Scope

LEGACY = ("freezer", "cpu", "cpuacct", "memory", "pids", "devices", "cpuset")
UNIFIED = ("cpu", "memory", "pids", "cpuset")
LEAF = "tgpu-agent"
"""Where the agent itself is, in version 2; the units that tgpu writes start it there (DelegateSubgroup)."""
DELEGATED = ("trusted.delegate", "user.delegate")
NOT_DELEGATED = (
    "this part of the cgroup tree belongs to systemd: start the agent as a service of systemd 254 or newer, "
    "or with `systemd-run --scope -p Delegate=yes tgpu …`"
)
NO_SCOPE = "; it gives us no scope: {}"
OLD_SYSTEMD = (
    "systemd is older than 254 and would not restart an agent whose group has children with controllers: "
    "start it with `systemd-run --scope -p Delegate=yes tgpu …`"
)
NOT_WRITABLE = "its cgroups are not ours to write: start the agent as root, or in a delegated group"


class Detected(NamedTuple):
    """`cgroups` is None where there is none to use at all; `why` says what stands in the way, if anything."""

    cgroups: Cgroups | None
    why: str = ""
    no_fence: str = ""
    """Why version 2 keeps tasks from no device."""


class Mount(NamedTuple):
    folder: str
    kind: str
    options: list[str]


def detect(cluster_id: str, proc: str = "/proc/self", *, scope: Scope | None = None) -> Detected:
    """Makes the folder of this cluster's tasks in each hierarchy, and gives it what there is to give.

    `scope`: what to ask systemd for, and to move to, where what we are in belongs to it.
    """
    own, mounts = groups_of(f"{proc}/cgroup"), list(mounts_of(f"{proc}/mounts"))
    legacy = _legacy(cluster_id, own, mounts)
    if legacy.cgroups is not None:
        return legacy
    unified = [mount.folder for mount in mounts if mount.kind == "cgroup2"]
    if not unified:
        return legacy if legacy.why else Detected(None, "no cgroups are mounted here")
    return _unified(cluster_id, lambda: f"{unified[0]}{own_group(proc)}".rstrip("/"), unified[0], scope)


def _legacy(cluster_id: str, own: dict[str, str], mounts: list[Mount]) -> Detected:
    bases: dict[str, str] = {}
    homes: dict[str, str] = {}
    why = ""
    for mount in mounts:
        for name in LEGACY if mount.kind == "cgroup" else ():
            if name not in mount.options or name not in own:
                continue
            home = f"{mount.folder}{own[name]}".rstrip("/")
            base = f"{home}/tgpu-{cluster_id}"
            try:
                os.makedirs(base, exist_ok=True)
            except OSError:
                why = NOT_WRITABLE
                continue
            if os.access(f"{base}/tasks", os.W_OK):
                bases[name], homes[name] = base, home
    if not bases:
        return Detected(None, why)
    _furnish(bases, homes)
    return Detected(Cgroups(1, bases, homes), why)


def _furnish(bases: dict[str, str], homes: dict[str, str]) -> None:
    """All tasks together weigh as much as the machine has CPUs, and may use what their agent may."""
    if "cpu" in bases:
        files.write(f"{bases['cpu']}/cpu.shares", str(SHARES_OF_A_CPU * (os.cpu_count() or 1)))
    for name in ("cpuset.mems", "cpuset.cpus") if "cpuset" in bases else ():
        if not files.read(f"{bases['cpuset']}/{name}").strip():
            files.write(f"{bases['cpuset']}/{name}", files.read(f"{homes['cpuset']}/{name}").strip())


def _unified(cluster_id: str, stand: Callable[[], str], mount: str, scope: Scope | None) -> Detected:
    """`stand`: finds out where we are."""
    why = _why_not_ours(stand(), mount)
    if why == NOT_DELEGATED and scope is not None:
        refused = scope.join(LEAF, lambda: stand().removeprefix(mount))
        why = why + NO_SCOPE.format(refused) if refused else ""
    own = stand()
    is_leaf = _is_leaf(own)
    top = own.rpartition("/")[0] if is_leaf else own
    base = f"{top}/tgpu-{cluster_id}"
    try:
        os.makedirs(base, exist_ok=True)
    except OSError:
        return Detected(None, why or NOT_WRITABLE)
    if not os.access(f"{base}/cgroup.procs", os.W_OK):
        os.rmdir(base)
        return Detected(None, why or NOT_WRITABLE)
    if not why and not is_leaf:
        _move_to_leaf(top)
    given = [] if why else _give_controllers(top, base)
    if "cpu" in given:
        files.write(f"{base}/cpu.weight", str(min(10_000, WEIGHT_OF_A_CPU * (os.cpu_count() or 1))))
    no_fence = fence.why_not(base)
    held = given if no_fence else [*given, "devices"]
    return Detected(Cgroups(2, {"": base, **dict.fromkeys(held, base)}, {"": own}), why, no_fence)


def _is_leaf(own: str) -> bool:
    return own.endswith(f"/{LEAF}")


def _why_not_ours(own: str, mount: str) -> str:
    """Empty if nobody else tends this part of the tree: a container's root, or what was delegated."""
    if own == mount or _is_leaf(own):
        return ""
    name = own.rpartition("/")[2]
    if name.endswith(".service"):
        return OLD_SYSTEMD
    if name.endswith((".scope", ".slice")) and not _is_delegated(own):
        return NOT_DELEGATED
    return ""


def _is_delegated(folder: str) -> bool:
    for name in DELEGATED:
        try:
            if os.getxattr(folder, name) == b"1":
                return True
        except OSError:
            continue
    return False


def _move_to_leaf(top: str) -> None:
    leaf = f"{top}/{LEAF}"
    try:
        os.makedirs(leaf, exist_ok=True)
    except OSError:
        return
    for pid in files.members(top):
        files.write(f"{leaf}/cgroup.procs", str(pid))


def _give_controllers(top: str, base: str) -> list[str]:
    """Those that the tasks' groups have in the end: given by the top to the base, and by that to them."""
    given = []
    for name in UNIFIED:
        if name not in files.read(f"{top}/cgroup.controllers").split():
            continue
        if files.write(f"{top}/cgroup.subtree_control", f"+{name}") and files.write(
            f"{base}/cgroup.subtree_control", f"+{name}"
        ):
            given.append(name)
    return given


def groups_of(path: str) -> dict[str, str]:
    """Where this process is, by controller; the empty name is version 2."""
    groups: dict[str, str] = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            _, names, place = line.rstrip("\n").split(":", 2)
            groups.update(dict.fromkeys(names.split(","), place))
    return groups


def own_group(proc: str) -> str:
    """Of version 2."""
    return groups_of(f"{proc}/cgroup").get("", "/")


def mounts_of(path: str) -> Iterator[Mount]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            yield Mount(words[1], words[2], words[3].split(","))
