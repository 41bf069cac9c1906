"""What the API asks of whoever keeps snapshots."""

from typing import Protocol


class SnapshotDesk(Protocol):
    """Each user's own, by what is in them."""

    async def has(self, user: str, digest: str) -> bool:
        """Whether any server of the cluster has it; from now on it is in use."""
        ...

    async def put(self, user: str, digest: str, offset: int, total: int, data: bytes) -> int:
        """How much of it is here now. Raises NotThereYetError and ShelfRefusedError."""
        ...

    async def read(self, user: str, digest: str, offset: int, most: int) -> tuple[bytes, int] | None:
        """So much of it from there, and how much it is in all; None if no server has it."""
        ...


class NoSnapshots:
    """Of a server that keeps none."""

    async def has(self, user: str, digest: str) -> bool:  # noqa: ARG002  named by the port
        return False

    async def put(self, user: str, digest: str, offset: int, total: int, data: bytes) -> int:  # noqa: ARG002  named by the port
        return offset

    async def read(self, user: str, digest: str, offset: int, most: int) -> tuple[bytes, int] | None:  # noqa: ARG002  named by the port
        return None
