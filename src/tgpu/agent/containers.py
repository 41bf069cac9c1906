"""What an agent has to say of containers: whether its node can run them, and what images' names mean."""

from collections.abc import Mapping
from typing import Protocol

from tgpu.protocol.messages import ImageResolved, ResolveImage


class Containers(Protocol):
    def labels(self) -> Mapping[str, str]:
        """What the node is labelled with because of its engine, now."""
        ...

    async def resolve(self, question: ResolveImage) -> ImageResolved: ...


class NoContainers:
    """Of an agent that runs none."""

    def labels(self) -> Mapping[str, str]:
        return {}

    async def resolve(self, question: ResolveImage) -> ImageResolved:
        return ImageResolved(request=question.request)
