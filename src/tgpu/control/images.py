"""What images' names mean: the nodes' engines are asked, since they reach the registries and have images."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tgpu.domain.container import ImageMeaning, repository
from tgpu.protocol.messages import ImageResolved, ResolveImage

ANSWER_S = 7.0
"""For one that asks the registry…"""
LOCAL_S = 2.0
"""…and for those that only look at what they have."""
MOST_ASKED = 64


class Asked(Protocol):
    """A node's stream."""

    def send(self, message: ResolveImage) -> None: ...


@dataclass(frozen=True, slots=True)
class WithEngine:
    """A node that can run containers."""

    host: str
    link: Asked


class Images:
    def __init__(self, nodes: Callable[[], Sequence[WithEngine]]) -> None:
        """`nodes`: those that are connected now."""
        self._nodes = nodes
        self._last = 0
        self._open: dict[int, tuple[Asked, asyncio.Future[ImageResolved]]] = {}

    def heard(self, link: Asked, answer: ImageResolved) -> None:
        """`link`: on which it came; only the node that was asked can answer."""
        asked, waiting = self._open.get(answer.request, (None, None))
        if waiting is not None and asked is link and not waiting.done():
            waiting.set_result(answer)

    async def meaning(self, image: str, *, local: bool) -> ImageMeaning:
        """`local`: registries are not asked, only nodes for what they have."""
        nodes = self._nodes()[:MOST_ASKED]
        if not nodes:
            return ImageMeaning()
        first = await self._ask(nodes[0], image, local=local, within_s=ANSWER_S)
        if first is not None and first.pinned and not local:
            return ImageMeaning(digest=first.pinned)
        others = await asyncio.gather(
            *(self._ask(node, image, local=True, within_s=LOCAL_S) for node in nodes[1:])
        )
        has = {
            node.host: answer.here
            for node, answer in zip(nodes, (first, *others), strict=True)
            if answer is not None and answer.here
        }
        if has:
            found = next(iter(has.values()))
            hosts = tuple(sorted(host for host, here in has.items() if here == found))
            return ImageMeaning(digest=found, hosts=hosts)
        if local and None not in (first, *others):
            return ImageMeaning(refusal=f"no node has the image {image}, and it says: --pull never")
        return ImageMeaning(refusal="" if first is None else first.missing)

    async def _ask(
        self, node: WithEngine, image: str, *, local: bool, within_s: float
    ) -> ImageResolved | None:
        self._last += 1
        number = self._last
        answer: asyncio.Future[ImageResolved] = asyncio.get_running_loop().create_future()
        self._open[number] = (node.link, answer)
        node.link.send(ResolveImage(request=number, image=image, local=local))
        try:
            found = await asyncio.wait_for(answer, within_s)
        except TimeoutError:
            return None
        finally:
            self._open.pop(number, None)
        other = found.pinned and not found.pinned.startswith(f"{repository(image)}@")
        return None if other else found  # no node may give a name the meaning of another image
