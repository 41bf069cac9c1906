"""What is left on a node: exact amounts, and each device by name."""

from dataclasses import dataclass

from tgpu.domain.job import Request
from tgpu.domain.node import Capacity

WHOLE_GPU = 1000


@dataclass(slots=True)
class Room:
    """Free amounts of one node; `gpu_free` is in thousandths, by position in the node's device list."""

    cpu_milli: int
    memory_mib: int
    disk_mib: int
    gpu_free: list[int]
    tasks: int = 0
    exclusive: bool = False

    @classmethod
    def whole(cls, capacity: Capacity) -> "Room":
        return cls(
            cpu_milli=capacity.cpu_milli,
            memory_mib=capacity.memory_mib,
            disk_mib=capacity.disk_mib,
            gpu_free=[WHOLE_GPU] * len(capacity.devices),
        )

    def copy(self) -> "Room":
        return Room(
            self.cpu_milli, self.memory_mib, self.disk_mib, self.gpu_free.copy(), self.tasks, self.exclusive
        )

    def take(self, request: Request, positions: tuple[int, ...]) -> None:
        self._move(request, positions, -1)
        self.tasks += 1
        self.exclusive = self.exclusive or request.exclusive

    def give_back(self, request: Request, positions: tuple[int, ...]) -> None:
        self._move(request, positions, 1)
        self.tasks -= 1
        self.exclusive = self.exclusive and not request.exclusive

    def _move(self, request: Request, positions: tuple[int, ...], sign: int) -> None:
        self.cpu_milli += sign * request.cpu_milli
        self.memory_mib += sign * request.memory_mib
        self.disk_mib += sign * request.disk_mib
        share = min(request.gpu_milli, WHOLE_GPU)
        for position in positions:
            self.gpu_free[position] += sign * share
