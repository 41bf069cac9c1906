# ruff: noqa: PTH123, PTH208  pathlib is too heavy for a supervisor
"""Everything that descends from a process, however it forked, and how to end it.

A supervisor is the subreaper of its task: whoever loses its parent becomes the supervisor's own child.
So nobody leaves the tree, and the tree is empty exactly when the supervisor has no child left.
"""

import os

from tgpu.runner.cgroups import files
from tgpu.runner.light import signal

FREEZE_ROUNDS = 50  # a fork bomb may outrun one pass; the caller comes again


def families() -> dict[int, list[int]] | None:
    """For several calls of `descendants`; None where the kernel tells each process's children."""
    return None if _has_children_files() else _families()


def descendants(root: int, family: dict[int, list[int]] | None = None) -> list[int]:
    """Parents before children; what forks meanwhile may be missing."""
    found: list[int] = []
    waiting = [root]
    family = families() if family is None else family
    while waiting:
        pid = waiting.pop()
        children = _children(pid) if family is None else family.get(pid, [])
        found += children
        waiting += children
    return found


def terminate(root: int, *, wake: bool, number: int = signal.SIGTERM) -> None:
    """A signal to every descendant. `wake`: and SIGCONT, so that one that was stopped can obey."""
    for pid in descendants(root):
        _send(pid, number)
        if wake:
            _send(pid, signal.SIGCONT)


def warn(pids: list[int], number: int) -> None:
    """A signal to those of them that do something about it: of the others, most would die of it, such as the
    shell around a program that saves its work."""
    for pid in pids:
        if _heeds(pid, number):
            _send(pid, number)


def hang_up(pid: int) -> None:
    """SIGHUP to a shell that waits to be typed to, which takes no notice of SIGTERM. Not while something runs
    in it, to which it would pass SIGHUP on: that may be saving its work."""
    ignores = pid > 0 and _is_in(files.read(f"/proc/{pid}/status"), "SigIgn:", signal.SIGTERM)
    if ignores and not descendants(pid):
        _send(pid, signal.SIGHUP)


def stop(root: int) -> None:
    """SIGSTOP to every descendant: what is stopped cannot fork, so each round finds only the newly born."""
    stopped: set[int] = set()
    for _ in range(FREEZE_ROUNDS):
        fresh = [pid for pid in descendants(root) if pid not in stopped]
        if not fresh:
            break
        for pid in fresh:
            _send(pid, signal.SIGSTOP)
        stopped.update(fresh)


def go_on(root: int) -> None:
    for pid in descendants(root):
        _send(pid, signal.SIGCONT)


def kill(root: int) -> bool:
    """One pass of SIGKILL, when all are stopped; False if there is somebody whom we may not kill."""
    stop(root)
    killed = [_send(pid, signal.SIGKILL) for pid in descendants(root)]
    return all(killed)


def _send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def _heeds(pid: int, number: int) -> bool:
    """Whether it catches the signal, or holds it back to be waited for; while a process waits for signals (as
    `tini` does, to pass them on), they do not count as held back."""
    status, waits_in = files.read(f"/proc/{pid}/status"), files.read(f"/proc/{pid}/wchan")
    handled = _is_in(status, ("SigCgt:", "SigBlk:"), number)
    return handled or waits_in.startswith("do_sigtimedwait")


def _is_in(status: str, masks: str | tuple[str, ...], number: int) -> bool:
    lines = [line for line in status.splitlines() if line.startswith(masks)]
    return any(int(line.split()[1], 16) >> (number - 1) & 1 for line in lines)


def _has_children_files() -> bool:
    me = os.getpid()
    return os.access(f"/proc/{me}/task/{me}/children", os.R_OK)


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:  # it is gone, and its children are somebody else's by now
        return children
    for thread in threads:
        children += map(int, files.read(f"/proc/{pid}/task/{thread}/children").split())
    return children


def _families() -> dict[int, list[int]]:
    """Children by parent, from one walk over all processes: for kernels without `children` files."""
    families: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                text = file.read()
        except OSError:
            continue
        parent = int(text[text.rindex(b")") + 2 :].split(None, 2)[1])
        families.setdefault(parent, []).append(int(name))
    return families
