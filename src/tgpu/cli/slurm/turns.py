"""Steps of a job take turns: each has its CPUs and GPUs for itself, and waits until there are enough.

A name in Linux's abstract namespace can be taken by one process, and is free again when that has ended,
however it ended: nothing is left behind, and nobody has to keep a book.
"""

from __future__ import annotations

import errno
import os
import resource
import socket
import time

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeVar

    W = TypeVar("W", bound="Wish")
    Named = Mapping[int, tuple[int, Sequence[str]]]
    """How many on which of the job's nodes, and of which."""

_PAUSE_S = 0.2
_MOMENT_S = 0.01
_MOST_STEPS = 65_536
_OTHER_FILES = 256


class Wish:
    """CPUs and GPUs that a step would have for itself: how many on which of the job's nodes."""

    def __init__(self, cpus: Mapping[int, int], gpus: Named) -> None:
        self.cpus, self.named = cpus, gpus


class Turn:
    """Held until this process ends."""

    def __init__(self, job: str, inside: str = "") -> None:
        """`inside`: the step around this one that has GPUs for itself: those are shared out anew."""
        self._job = f"tgpu-step/{os.getuid()}/{job}"
        self._inside = f"in/{inside}/" if inside else ""
        self._held: list[socket.socket] = []

    def number(self) -> int:
        """The smallest that no step of the job has now."""
        for number in range(_MOST_STEPS):
            if self._take(f"id/{number}"):
                return number
        raise OSError("too many steps at once")

    def wait_for(self, wishes: Iterable[W], each: int) -> tuple[W, dict[int, list[str]]]:
        """The first of the `wishes` that can be had, and which GPUs, by node. `each`: how many CPUs a node
        has. All of it or nothing, so that two that wait for each other cannot be."""
        known: list[W] = []
        for wish in wishes:  # mostly the first is had, and no other has to be thought of
            if (found := self._all_of(wish, each)) is not None:
                return wish, found
            known.append(wish)
        while True:
            time.sleep(_PAUSE_S)
            for wish in known:
                if (found := self._all_of(wish, each)) is not None:
                    return wish, found

    def keep_through_exec(self) -> None:
        """For the program that takes the place of this one."""
        for one in self._held:
            one.set_inheritable(True)

    def _all_of(self, wish: Wish, each: int) -> dict[int, list[str]] | None:
        """Its GPUs by node. One step chooses at a time: of two that want everything, one gets it."""
        wanted: dict[str, tuple[int, Sequence[str]]] = {
            f"cpu/{node}": (min(count, each), _numbers(each)) for node, count in wish.cpus.items()
        }
        wanted |= {f"gpu/{node}": some for node, some in wish.named.items()}
        _allow_files(sum(count for count, _ in wanted.values()))
        while (alone := self._bound("choosing")) is None:
            time.sleep(_MOMENT_S)
        with alone:
            base, found = len(self._held), {}
            for kind, (count, names) in wanted.items():
                found[kind] = self._some(kind, names, count)
                if len(found[kind]) < count:
                    break
            else:
                return {node: found[f"gpu/{node}"] for node in wish.named}
            for one in self._held[base:]:
                one.close()
            del self._held[base:]
            return None

    def _some(self, kind: str, names: Iterable[str], count: int) -> list[str]:
        found: list[str] = []
        for name in names:
            if len(found) == count:
                break
            if self._take(f"{self._inside}{kind}/{name}"):
                found.append(name)
        return found

    def _take(self, name: str) -> bool:
        one = self._bound(name)
        if one is not None:
            self._held.append(one)
        return one is not None

    def _bound(self, name: str) -> socket.socket | None:
        """None: another one has it."""
        one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            one.bind(f"\0{self._job}/{name}")
        except OSError as error:
            one.close()
            if error.errno != errno.EADDRINUSE:
                raise
            return None
        return one


def _allow_files(count: int) -> None:
    """A name is an open file, and a step on some large nodes has more CPUs than a process usually has files.
    Its tasks find their limit as it was."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + _OTHER_FILES and soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]
