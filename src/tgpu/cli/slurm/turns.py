"""Steps of a job take turns: each has its CPUs and GPUs for itself, and waits until there are enough.

A name in Linux's abstract namespace can be taken by one process, and is free again when that has ended,
however it ended: nothing is left behind, and nobody has to keep a book.
"""

from __future__ import annotations

import os
import socket
import time

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Named = Mapping[int, tuple[int, Sequence[str]]]
    """How many on which of the job's nodes, and of which."""

_PAUSE_S = 0.2
_MOMENT_S = 0.01
_MOST_STEPS = 65_536


class Turn:
    """Held until this process ends."""

    def __init__(self, job: str) -> None:
        self._job = f"tgpu-step/{os.getuid()}/{job}"
        self._held: list[socket.socket] = []

    def number(self) -> int:
        """The smallest that no step of the job has now."""
        for number in range(_MOST_STEPS):
            if self._take(f"id/{number}"):
                return number
        raise OSError("too many steps at once")

    def wait_for(self, cpus: Mapping[int, int], each: int, gpus: Named | None = None) -> dict[int, list[str]]:
        """`cpus`: how many on which of the job's nodes, which have `each`. Which GPUs it got, by node. All of
        it or nothing, so that two that wait for each other cannot be."""
        wanted: dict[str, tuple[int, Sequence[str]]] = {
            f"cpu/{node}": (min(count, each), _numbers(each)) for node, count in cpus.items()
        }
        wanted |= {f"gpu/{node}": some for node, some in (gpus or {}).items()}
        while (found := self._all_of(wanted)) is None:
            time.sleep(_PAUSE_S)
        return {node: found[f"gpu/{node}"] for node in gpus or {}}

    def keep_through_exec(self) -> None:
        """For the program that takes the place of this one."""
        for one in self._held:
            one.set_inheritable(True)

    def _all_of(self, wanted: Mapping[str, tuple[int, Sequence[str]]]) -> dict[str, list[str]] | None:
        """One step chooses at a time: of two that want everything, one gets it."""
        while (alone := self._bound("choosing")) is None:
            time.sleep(_MOMENT_S)
        with alone:
            base, found = len(self._held), {}
            for kind, (count, names) in wanted.items():
                found[kind] = self._some(kind, names, count)
                if len(found[kind]) < count:
                    break
            else:
                return found
            for one in self._held[base:]:
                one.close()
            del self._held[base:]
            return None

    def _some(self, kind: str, names: Iterable[str], count: int) -> list[str]:
        found: list[str] = []
        for name in names:
            if len(found) == count:
                break
            if self._take(f"{kind}/{name}"):
                found.append(name)
        return found

    def _take(self, name: str) -> bool:
        one = self._bound(name)
        if one is not None:
            self._held.append(one)
        return one is not None

    def _bound(self, name: str) -> socket.socket | None:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            one.bind(f"\0{self._job}/{name}")
        except OSError:
            one.close()
            return None
        return one


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]
