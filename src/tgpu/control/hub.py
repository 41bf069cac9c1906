"""The agents' streams: who is connected, what they say, and how to reach them."""

import asyncio
import math
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from tgpu.control.agent_session import Link, Session
from tgpu.control.alerts import NODES_COPIED, STORE_BEHIND
from tgpu.control.disobeyed import Disobeyed
from tgpu.control.images import Images, WithEngine
from tgpu.control.inbox import Inbox, NodeChanged, NodeDiskChanged, NodeLeft, NodeReported, NodeSaidHello
from tgpu.control.log_questions import LogQuestions, NodeAwayError
from tgpu.control.node_copies import NodeCopies
from tgpu.control.notes import Notes
from tgpu.control.refusals import Refusals
from tgpu.control.shells import ShellRefusedError, Switchboard
from tgpu.control.snapshot_answers import SnapshotAnswers
from tgpu.core import edge
from tgpu.domain.node import Capacity
from tgpu.domain.node_terms import CONTAINERS_LABEL, HOST_LABEL
from tgpu.observe.logs import logger
from tgpu.protocol.job_keys import JobKeys
from tgpu.protocol.messages import (
    LONGEST_SHORTAGE,
    PROTOCOL,
    Elsewhere,
    FromAgent,
    FromServer,
    Greeting,
    Heard,
    Heartbeat,
    Hello,
    ImageResolved,
    KnowsNewer,
    Launch,
    LogChunk,
    NodeUse,
    ReadLog,
    Refused,
    Report,
)
from tgpu.protocol.shells import OpenShell, ShellOpened, ShellOutput, ShellOver, Taken
from tgpu.protocol.snapshots import WantSnapshot

__all__ = ["Hub", "Link", "NodeAwayError", "Session"]


class Hub:
    """Sessions by node; a node's newest session is the one that counts."""

    def __init__(self, inbox: Inbox, licences: Collection[str] = ()) -> None:
        """`licences`: names of the cluster's own resources, which no node may bring."""
        self._inbox = inbox
        self._licences = frozenset(licences)
        self._sessions: dict[str, Session] = {}
        self._newest: dict[str, int] = {}
        """The session in which each node has said hello last."""
        self._nameless: dict[Session, None] = {}
        self._last_number = 0
        self._questions = LogQuestions()
        self._cluster_id = ""
        self._epoch = 0
        self._lease_s = 0.0
        self.leader: str | None = None
        """Where agents are sent, while another server leads."""
        self._servers: tuple[str, ...] = ()
        self._log = logger("hub")
        self.heard: dict[str, float] = {}
        """When each node was last heard, on the loop's clock; the longest ago first."""
        self.listens_to: Callable[[str], bool] = lambda _: True
        """Whether a node is heard at all: not while it is set aside."""
        self.acts_until = math.inf
        """Whoever leads may not know that the lease is over: heartbeats are acknowledged until then."""
        self.use: dict[str, NodeUse] = {}
        self.disk_shortages: dict[str, str] = {}
        """By node, of those that start nothing new: what their agents say of their disks."""
        self.disobeyed = Disobeyed()
        self.copies = NodeCopies()
        self.shells = Switchboard()
        self.images = Images(self._with_engine)
        self.notes = Notes()
        self.refusals = Refusals()
        self.snapshots = SnapshotAnswers()
        self.job_keys: JobKeys | None = None
        """By which tasks speak for themselves; None: none of them does."""

    def lead(
        self, cluster_id: str, epoch: int, lease_s: float = 0.0, sessions: Mapping[str, int] | None = None
    ) -> None:
        """From now on agents are welcome; those who came early are greeted now. `sessions`: the last one of
        each node."""
        self._cluster_id, self._epoch, self.leader = cluster_id, epoch, None
        self._lease_s = lease_s
        self.disobeyed = Disobeyed()
        self.copies.begin_term(sessions or {})
        self._last_number = epoch << 32  # numbers are never used again, across restarts too
        for session in self._nameless:
            self._greet(session)

    def follow(self, leader: str | None, servers: tuple[str, ...]) -> None:
        """Agents are sent to the leader; while nobody knows one, they wait here."""
        self.leader, self._servers = leader, servers
        if leader is not None:
            for session in list(self._nameless):
                self._send_away(session)

    def step_down(self) -> None:
        """From now on this is not the place to be."""
        self._epoch, self.leader = 0, None
        self.copies.end_term()
        for session in (*self._sessions.values(), *self._nameless):
            self._send_away(session)
        self._sessions.clear()
        self.heard.clear()
        self.use.clear()
        self.disk_shortages.clear()

    def _send_away(self, session: Session) -> None:
        self._nameless.pop(session, None)
        session.link.send(Elsewhere(leader=self.leader, servers=self._servers))
        session.link.close()

    def opened(self, link: Link) -> Session:
        session = Session(self, 0, link)
        self._nameless[session] = None
        if self._epoch:
            self._greet(session)
        elif self.leader is not None:
            asyncio.get_running_loop().call_soon(self._send_away, session)
        return session

    def _greet(self, session: Session) -> None:
        self._last_number += 1
        session.number = self._last_number
        session.link.send(
            Greeting(
                protocol=PROTOCOL,
                cluster_id=self._cluster_id,
                epoch=self._epoch,
                session=session.number,
                servers=self._servers,
                lease_s=self._lease_s,
            )
        )

    def received(self, session: Session, message: FromAgent) -> None:
        node_id = session.node_id
        if node_id is not None:
            if self._sessions.get(node_id) is not session:
                return  # it has another one by now, or must come again: all of this is said anew
            self._hears(node_id)
        match message:
            case Report() if node_id is not None:
                self._heard_of_disk(node_id, message.disk_shortage)
                self.notes.heard(node_id, message.attempts)
                self._inbox.put(NodeReported(session.number, node_id, message))
            case Heartbeat() if node_id is not None:
                self._beat(session, node_id, message)
            case LogChunk() | ImageResolved():
                self._answered(session, message)
            case WantSnapshot() if node_id is not None:
                self.snapshots.asked(session.link, node_id, message, session.serves)
            case ShellOpened() | ShellOutput() | Taken() | ShellOver():
                self.shells.heard(session.link, message)
            case Hello():
                self._hello(session, message)
            case KnowsNewer():
                self.disobeyed.heard(message.node_id, message.epoch, asyncio.get_running_loop().time())
                session.link.close()
            case _:
                self._log.warning("unexpected", message=type(message).__name__)

    def _beat(self, session: Session, node_id: str, beat: Heartbeat) -> None:
        self.use[node_id] = beat.use
        session.unanswered = beat.sent
        self._answer(session)
        self._heard_of_disk(node_id, beat.disk_shortage)
        if beat.capacity is not None and not self._acceptable(session, node_id, beat.capacity):
            return
        if beat.labels is not None:
            session.labels = beat.labels
        if beat.capacity is not None or beat.labels is not None:
            self._inbox.put(NodeChanged(node_id, beat.capacity, beat.labels))

    def _heard_of_disk(self, node_id: str, shortage: str | None) -> None:
        known = self.disk_shortages.get(node_id, "")
        if shortage is not None and shortage[:LONGEST_SHORTAGE] != known:
            self._note_disk(node_id, shortage)
            self._inbox.put(NodeDiskChanged(node_id, shortage[:LONGEST_SHORTAGE]))

    def _note_disk(self, node_id: str, shortage: str) -> None:
        self.disk_shortages.pop(node_id, None)
        if shortage:
            self.disk_shortages[node_id] = shortage[:LONGEST_SHORTAGE]

    def _with_engine(self) -> list[WithEngine]:
        return [
            WithEngine(session.labels.get(HOST_LABEL, ""), session.link)
            for session in self._sessions.values()
            if CONTAINERS_LABEL in session.labels
        ]

    def _answered(self, session: Session, answer: LogChunk | ImageResolved) -> None:
        """Whoever asked hears it only from the node that was asked."""
        if session.node_id is not None and self.copies.incumbent_answered(session.node_id, answer.request):
            return
        if isinstance(answer, LogChunk):
            self._questions.heard(session.link, answer)
        else:
            self.images.heard(session.link, answer)

    def _hears(self, node_id: str) -> None:
        self.heard.pop(node_id, None)  # so that the order is that of the times
        self.heard[node_id] = asyncio.get_running_loop().time()

    def _answer(self, session: Session) -> None:
        """A node's tasks that live at most once go on by this: nobody may say it who does not lead, and
        nobody hears it whose lost attempts have not been judged yet."""
        sent, leads = session.unanswered, asyncio.get_running_loop().time() < self.acts_until
        if sent is not None and session.settled and leads:
            session.unanswered = None
            session.link.send(Heard(sent=sent))

    def settle(self, node_id: str, number: int) -> None:
        """What this session's hello has brought about is committed, and was said."""
        session = self._sessions.get(node_id)
        if session is not None and session.number == number:
            session.settled = True
            if session.keeps_record:
                self.copies.committed(node_id, number)
            self._answer(session)

    def is_settled(self, node_id: str) -> bool:
        session = self._sessions.get(node_id)
        return session is not None and session.settled

    def drop(self, node_id: str) -> None:
        """The node has been silent for too long: it is listened to again once it has said hello again."""
        session = self._sessions.pop(node_id, None)
        if session is not None:
            session.link.close()

    def alerts(self, now: float) -> dict[str, str | None]:
        return {STORE_BEHIND: self.disobeyed.complaint(now), NODES_COPIED: self.copies.complaint(now)}

    def forget(self, node_id: str) -> None:
        """It is no node of this cluster any more: whoever was let in by its key a moment ago is sent away."""
        self.drop(node_id)
        self.heard.pop(node_id, None)
        self.use.pop(node_id, None)
        self.notes.left(node_id)
        self.refusals.forget(node_id)
        self.disk_shortages.pop(node_id, None)
        self.disobeyed.obeys(node_id)
        self.copies.forget(node_id)

    def _acceptable(self, session: Session, node_id: str, capacity: Capacity) -> bool:
        """A node whose description cannot be true is sent away, with the reason."""
        try:
            edge.check_capacity(node_id, capacity, self._licences)
        except edge.BadPictureError as error:
            session.link.send(Refused(why=str(error)))
            session.link.close()
            return False
        return True

    def _hello(self, session: Session, hello: Hello) -> None:
        if hello.protocol != PROTOCOL:
            why = f"this server speaks protocol {PROTOCOL}, the agent {hello.protocol}: install one version"
            session.link.send(Refused(why=why))
            session.link.close()
            return
        if not self._acceptable(session, hello.node_id, hello.capacity):
            return
        if not self.listens_to(hello.node_id):
            session.link.close()
            return
        older = self._sessions.get(hello.node_id)
        if self.copies.is_behind(hello):
            self.copies.refuse(session.link, hello)
        elif older is None or older is session or (hello.instance and hello.instance == older.instance):
            self._admit(session, hello)
        else:
            self.copies.challenge(
                hello, session.link, older, self._questions.number, lambda: self._hello(session, hello)
            )

    def _admit(self, session: Session, hello: Hello) -> None:
        if session.number < self._newest.get(hello.node_id, 0):
            session.link.close()  # it was under way for so long that the agent has come again since
            return
        self._newest[hello.node_id] = session.number
        self.disobeyed.obeys(hello.node_id)
        older = self._sessions.get(hello.node_id)
        session.node_id, session.instance = hello.node_id, hello.instance
        session.keeps_record = hello.last_sessions is not None
        session.knows_shells, session.knows_gangs = hello.shells, hello.gangs
        session.knows_snapshots, session.serves = hello.snapshots, hello.serves
        session.labels, session.wants_keys = hello.labels, hello.keys
        session.knows_shared_tmp = hello.shared_tmp
        self.notes.left(hello.node_id)
        self.notes.heard(hello.node_id, hello.attempts)
        self._note_disk(hello.node_id, hello.disk_shortage)
        self._nameless.pop(session, None)
        self._sessions[hello.node_id] = session
        self._hears(hello.node_id)
        if older is not None and older is not session:
            older.link.close()
        self._inbox.put(NodeSaidHello(session.number, hello))

    def refused(self, session: Session, why: str) -> None:
        self.refusals.add(session.node_id, why)
        session.link.close()

    def closed(self, session: Session) -> None:
        self.shells.left(session.link)
        self._questions.left(session.link)
        self._nameless.pop(session, None)
        self.copies.newcomer_left(session.link)
        if session.node_id is not None and self._sessions.get(session.node_id) is session:
            del self._sessions[session.node_id]
            self._inbox.put(NodeLeft(session.node_id))
            self.copies.incumbent_left(session.node_id)

    def hang_up(self) -> None:
        """Every agent comes again and says everything anew."""
        for node_id in list(self._sessions):
            self.drop(node_id)

    def is_connected(self, node_id: str) -> bool:
        return node_id in self._sessions

    def session_of(self, node_id: str) -> int | None:
        session = self._sessions.get(node_id)
        return session.number if session is not None else None

    def send(self, node_id: str, message: FromServer) -> None:
        """To the node's present session; a node that is away hears it all when it comes back."""
        session = self._sessions.get(node_id)
        if session is not None:
            session.link.send(message)

    def missing_for(self, launch: Launch, node_id: str) -> str:
        """What this launch needs that the node's agent does not know; empty: nothing."""
        session = self._sessions.get(node_id)
        if session is None:
            return ""
        if launch.gang is not None and not session.knows_gangs:  # it would start them at once
            return "gangs"
        if (launch.snapshot is not None or launch.files is not None) and not session.knows_snapshots:
            return "snapshots and output files"
        return "shared_tmp" if launch.shared_tmp and not session.knows_shared_tmp else ""

    def keyed(self, node_id: str, launches: Sequence[Launch]) -> Sequence[Launch]:
        """With keys, if the node's tasks need any: made on their way out, and kept nowhere."""
        session, keys = self._sessions.get(node_id), self.job_keys
        if keys is None or session is None or not session.wants_keys:
            return launches
        return [replace(launch, key=keys.of(launch.attempt)) for launch in launches]

    async def open_shell(self, node_id: str, order: OpenShell) -> int:
        """Its number at the switchboard. Raises NodeAwayError and ShellRefusedError."""
        session = self._sessions.get(node_id)
        if session is None:
            raise NodeAwayError(f"{node_id}, where it runs, is not connected: try again shortly")
        if not session.knows_shells:
            raise ShellRefusedError(f"the agent of {node_id} knows no shells yet: update it")
        return await self.shells.open(session.link, order)

    async def read(  # noqa: PLR0917  a question has these parts
        self, node_id: str, attempt: str, stream: str, offset: int, max_bytes: int, wait_s: float
    ) -> LogChunk:
        """A stretch of a task's output from the node that has it."""
        session = self._sessions.get(node_id)
        if session is None:
            raise NodeAwayError(f"{node_id}, which has the output, is not connected: try again shortly")
        question = ReadLog(
            request=0, attempt=attempt, stream=stream, offset=offset, max_bytes=max_bytes, wait_s=wait_s
        )
        return await self._questions.ask(session.link, node_id, question)
