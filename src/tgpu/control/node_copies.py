"""Copies of nodes: agents that come with a node's identity and are not that node, refused and reported."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tgpu.control.agent_session import Link, Session
from tgpu.domain.node_terms import HOST_LABEL
from tgpu.observe.logs import logger
from tgpu.protocol.messages import Hello, ReadLog, Refused

PING_S = 5.0
"""How long a connected agent may take to show that it is there, before another one takes its place."""
REPORTED_S = 900.0
"""A copy that has not come again for so long is not reported any more."""
_MOST_NAMED = 5
_WHY = (
    "another agent is connected as node {node}, or was after this one: the home of this agent is a copy of "
    "that node's, or was put back from an older one. If this machine is another node, remove "
    "agent/identity.json and agent/node.json in its TGPU_HOME, and join with a new token and a --name of its "
    "own. If it is to be {node} from now on, stop the other agent and join again as {node} with a new token "
    "(`tgpu nodes join-token`)"
)
_log = logger("hub")


@dataclass(slots=True)
class _Refusal:
    last: float
    count: int
    host: str


@dataclass(slots=True)
class _Challenge:
    request: int
    """What the incumbent was asked."""
    incumbent: Session
    timer: asyncio.TimerHandle
    newcomer: Link | None = None
    hello: Hello | None = None
    admit: Callable[[], None] = lambda: None


class NodeCopies:
    """Knows each node's last committed session, which agents are in question, and which were refused."""

    def __init__(self) -> None:
        self._sessions: dict[str, int] = {}
        self._refusals: dict[str, _Refusal] = {}
        self._challenges: dict[str, _Challenge] = {}

    def begin_term(self, sessions: Mapping[str, int]) -> None:
        """`sessions`: the last one of each node that the store knows."""
        self._sessions = dict(sessions)

    def end_term(self) -> None:
        for challenge in self._challenges.values():
            challenge.timer.cancel()
        self._challenges.clear()
        self._refusals.clear()

    def committed(self, node_id: str, session: int) -> None:
        self._sessions[node_id] = session

    def forget(self, node_id: str) -> None:
        self._sessions.pop(node_id, None)
        self._refusals.pop(node_id, None)

    # Which agent is the node

    def is_behind(self, hello: Hello) -> bool:
        """Whether the node has had a session of which this agent knows nothing. An agent without a record is
        an older one, or new on its machine. One that knows later sessions has met a store that was put back
        from a copy since."""
        last, known = self._sessions.get(hello.node_id, 0), hello.last_sessions
        if not last or not known or not known[0]:
            return False
        return last not in known and known[0] < last

    def challenge(
        self,
        hello: Hello,
        newcomer: Link,
        incumbent: Session,
        number: Callable[[], int],
        admit: Callable[[], None],
    ) -> None:
        """Two agents say that they are one node. The stream of the incumbent may have died unnoticed: it is
        asked for output that no node has, which every version of the agent answers. If it answers, the
        newcomer is refused; if it does not, or leaves, the newcomer is admitted."""
        challenge = self._challenges.get(hello.node_id)
        if challenge is None:
            timer = asyncio.get_running_loop().call_later(PING_S, self._depose, hello.node_id)
            challenge = self._challenges[hello.node_id] = _Challenge(number(), incumbent, timer)
            incumbent.link.send(
                ReadLog(request=challenge.request, attempt="0.0.0", stream="stdout", offset=0, max_bytes=1)
            )
        elif challenge.newcomer is not None:
            newcomer.close()  # another one came before it; it may come again
            return
        challenge.newcomer, challenge.hello, challenge.admit = newcomer, hello, admit

    def incumbent_answered(self, node_id: str, request: int) -> bool:
        """Whether that was what it was asked for here."""
        challenge = self._challenges.get(node_id)
        if challenge is None or challenge.request != request:
            return False
        self._end(node_id)
        if challenge.newcomer is not None and challenge.hello is not None:
            self.refuse(challenge.newcomer, challenge.hello)
        return True

    def _depose(self, node_id: str) -> None:
        """Also if the newcomer did not wait so long: it comes again."""
        incumbent = self._challenges[node_id].incumbent
        incumbent.link.close()
        incumbent.closed()
        self.incumbent_left(node_id)

    def incumbent_left(self, node_id: str) -> None:
        challenge = self._challenges.get(node_id)
        if challenge is not None:
            self._end(node_id)
            if challenge.newcomer is not None:
                challenge.admit()

    def newcomer_left(self, newcomer: Link) -> None:
        for challenge in self._challenges.values():
            if challenge.newcomer is newcomer:
                challenge.newcomer = None

    def _end(self, node_id: str) -> None:
        self._challenges.pop(node_id).timer.cancel()

    # What is said of it

    def refuse(self, newcomer: Link, hello: Hello) -> None:
        node_id, host = hello.node_id, hello.labels.get(HOST_LABEL, "an unknown host")
        before, now = self._refusals.get(node_id), asyncio.get_running_loop().time()
        self._refusals[node_id] = _Refusal(now, 1 if before is None else before.count + 1, host)
        _log.warning("a copy of a node was refused", node_id=node_id, host=host, boot_id=hello.boot_id)
        newcomer.send(Refused(why=_WHY.format(node=node_id)))
        newcomer.close()

    def told_of(self, node_id: str, now: float) -> str:
        """For the node's row; empty: no copy came lately."""
        refusal = self._refusals.get(node_id)
        if refusal is None or now - refusal.last > REPORTED_S:
            return ""
        times = "once" if refusal.count == 1 else f"{refusal.count} times"
        return f"a copy of it on {refusal.host} was refused {times}: stop that agent, or join it again"

    def complaint(self, now: float) -> str | None:
        for node_id, refusal in list(self._refusals.items()):
            if now - refusal.last > REPORTED_S:
                del self._refusals[node_id]
        if not self._refusals:
            return None
        names = sorted(self._refusals)
        named = [f"{name} (refused on {self._refusals[name].host})" for name in names[:_MOST_NAMED]]
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return (
            f"two agents have the identity of one node: {', '.join(named)}{more}. The home of the node was "
            "copied: stop the agent that is the copy, remove agent/identity.json and agent/node.json in its "
            "TGPU_HOME, and join it with a new token and a --name of its own"
        )
