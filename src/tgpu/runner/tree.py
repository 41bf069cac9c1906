# ruff: noqa: PTH208  pathlib is too heavy for a supervisor
"""Descendants of a process, however they forked, and how to end them.

A supervisor is the subreaper of its task: a process that loses its parent becomes the supervisor's own child.
So no process leaves the tree, and the tree is empty exactly when the supervisor has no child left.
"""

import os

from tgpu.runner import process_signals
from tgpu.runner.cgroups import files
from tgpu.runner.light import signal

Members = dict[int, int]
"""By number of process, when it was born: both together name one process and no later one."""
Family = dict[int, Members]
"""Children by parent."""

_PARENT, _BIRTH = 1, 19
"""In /proc/PID/stat behind the name."""
FREEZE_ROUNDS = 50  # a fork bomb may outrun one pass; the caller comes again


def families() -> Family | None:
    """For several calls of `descendants`; None where the kernel tells each process's children."""
    return None if _has_children_files() else _families()


def descendants(root: int, family: Family | None = None) -> list[int]:
    """To be looked at. Parents before children; what forks meanwhile may be missing."""
    found: list[int] = []
    waiting = [root]
    family = families() if family is None else family
    while waiting:
        pid = waiting.pop()
        children = _children(pid) if family is None else list(family.get(pid, ()))
        found += children
        waiting += children
    return found


def members(root: int) -> Members:
    """The same, to be sent signals. A number that is another process's by now is not among them."""
    found: Members = {}
    born = _parent_and_birth(root)
    waiting = {} if born is None else {root: born[1]}
    family = families()
    while waiting:
        pid, birth = waiting.popitem()
        children = _known_children(pid) if family is None else family.get(pid, {})
        if family is None and (_parent_and_birth(pid) or (0, 0))[1] != birth:
            continue  # it is gone, and these may be the children of the next of its number
        own = {child: when for child, when in children.items() if when >= birth and child not in found}
        found |= own
        waiting |= own
    return found


def terminate(root: int, *, wake: bool, number: int = signal.SIGTERM) -> None:
    """A signal to every descendant. `wake`: and SIGCONT, so that one that was stopped can obey."""
    for pid, birth in members(root).items():
        _send(pid, birth, number)
        if wake:
            _send(pid, birth, signal.SIGCONT)


def warn(warned: Members, number: int) -> None:
    """A signal to those of them that do something about it: of the others, most would die of it, such as the
    shell around a program that saves its work."""
    for pid, birth in warned.items():
        if _heeds(pid, number):
            _send(pid, birth, number)


def is_waiting_shell(pid: int) -> bool:
    """Whether it is a shell that waits to be typed to, which takes no notice of SIGTERM. Not if something
    runs in it, to which it would pass SIGHUP on: that may be saving its work."""
    ignores = _is_in(files.read(f"/proc/{pid}/status"), "SigIgn:", signal.SIGTERM)
    return ignores and not descendants(pid)


def hang_up(root: int, pid: int) -> None:
    """SIGHUP to one of the tree."""
    birth = members(root).get(pid)
    if birth is not None:
        _send(pid, birth, signal.SIGHUP)


def stop(root: int) -> None:
    """SIGSTOP to every descendant: what is stopped cannot fork, so each round finds only the newly born."""
    stopped: Members = {}
    for _ in range(FREEZE_ROUNDS):
        fresh = {pid: birth for pid, birth in members(root).items() if stopped.get(pid) != birth}
        if not fresh:
            break
        for pid, birth in fresh.items():
            _send(pid, birth, signal.SIGSTOP)
        stopped |= fresh


def go_on(root: int) -> None:
    for pid, birth in members(root).items():
        _send(pid, birth, signal.SIGCONT)


def kill(root: int) -> bool:
    """One pass of SIGKILL, when all are stopped; False if this process may not kill one of them."""
    stop(root)
    killed = [_send(pid, birth, signal.SIGKILL) for pid, birth in members(root).items()]
    return all(killed)


def _send(pid: int, birth: int, number: int) -> bool:
    return process_signals.send(pid, number, lambda pid: (_parent_and_birth(pid) or (0, 0))[1] == birth)


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


def _known_children(parent: int) -> Members:
    """Those that are its children still."""
    found: Members = {}
    for pid in _children(parent):
        about = _parent_and_birth(pid)
        if about is not None and about[0] == parent:
            found[pid] = about[1]
    return found


def _families() -> Family:
    """From one walk over all processes: for kernels without `children` files."""
    families: Family = {}
    for name in os.listdir("/proc"):
        about = _parent_and_birth(int(name)) if name.isdigit() else None
        if about is not None:
            families.setdefault(about[0], {})[int(name)] = about[1]
    return families


def _parent_and_birth(pid: int) -> tuple[int, int] | None:
    """Also of one whose first thread has ended: the others may go on. None: it is gone."""
    text = files.read(f"/proc/{pid}/stat")
    after_name = text[text.rfind(")") + 2 :].split(None, _BIRTH + 1)
    return (int(after_name[_PARENT]), int(after_name[_BIRTH])) if len(after_name) > _BIRTH else None
