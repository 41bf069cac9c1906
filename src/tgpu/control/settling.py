"""After a store was put back from a copy: who runs what it does not know of, and when that is over.

The copy may say that a task waits which meanwhile runs somewhere. So nothing is started before every node
that it knows has said what it has, or has been silent for the whole loss time, as with any lost node; and not
before what the store knows nothing of has ended there, for its room is not counted.
"""

from collections.abc import Iterable

from tgpu.control.hub import Hub
from tgpu.core.picture import Picture
from tgpu.domain.lifecycle import NodeState
from tgpu.observe.logs import logger
from tgpu.protocol.messages import Hello, Phase

ASK_AGAIN_S = 2.0
"""An attempt that a node was told to forget ends without a word: only a new hello shows that it is gone."""


class Settling:
    def __init__(self, nodes: Iterable[str], until: float) -> None:
        """`until`: when whoever was not heard by then counts as lost."""
        self._unheard = set(nodes)
        self._until = until
        self._strange: dict[str, list[str]] = {}
        """By node: attempts that live there, and that the store knows nothing of."""
        self._asked: dict[str, float] = {}
        self._log = logger("settling")

    def heard(self, hello: Hello, forgotten: Iterable[tuple[str, str]]) -> None:
        """`forgotten`: (node, attempt) that the server has no use for."""
        self._unheard.discard(hello.node_id)
        live = {report.attempt for report in hello.attempts if report.phase is not Phase.ENDED}
        strange = [name for node_id, name in forgotten if node_id == hello.node_id and name in live]
        known = self._strange.pop(hello.node_id, [])
        if strange:
            self._strange[hello.node_id] = strange
        if set(strange) - set(known):
            self._log.warning(
                "the store was put back and does not know these attempts: they are stopped",
                node_id=hello.node_id,
                attempts=strange,
            )

    def tend(self, picture: Picture, hub: Hub, now: float) -> str | None:
        """What has to be waited for, in words; None if it is over."""
        if now >= self._until:
            self._unheard.clear()
        for node_id in list(self._strange):
            asked = self._asked.setdefault(node_id, now)
            if self._is_lost(picture, node_id):
                del self._strange[node_id]
            elif now - asked >= ASK_AGAIN_S and hub.session_of(node_id) is not None:
                self._asked[node_id] = now
                hub.drop(node_id)
                picture.set_reachable(node_id, reachable=False)
        return self._words()

    def _is_lost(self, picture: Picture, node_id: str) -> bool:
        place = picture.places.get(node_id)
        return place is None or place.node.state is NodeState.OFFLINE

    def _words(self) -> str | None:
        if self._strange:
            names = ", ".join(name for names in self._strange.values() for name in names[:5])
            what = f"attempts that it does not know have ended ({names})"
        elif self._unheard:
            what = f"all nodes were heard (not yet: {', '.join(sorted(self._unheard)[:5])})"
        else:
            return None
        return f"the store was put back from a backup: nothing starts before {what}"
